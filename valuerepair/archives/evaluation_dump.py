"""lichess's evaluation dump: one JSON object a line, a position with one or more evaluations.

``{"fen": "... w - -", "evals": [{"pvs": [{"cp": 311, "line": "g2e4 f7f5"}], "knodes": 206765, "depth": 36}]}``

Scores (`cp`, or `mate` in moves) are White's, lines are UCI with castling as king takes rook, FENs have four fields.
The evaluations of a position differ in depth and number of lines; the deepest counts, and of equally deep ones that of
most nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from valuerepair import board
from valuerepair.archives.dump_lines import play_line
from valuerepair.archives.epd import LineBlock
from valuerepair.archives.headers import header_reject
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.recorded_options import DUMP, NONE_RECORDED, OTHER_KIND, RecordedOptions
from valuerepair.archives.rows import Rejected, Rows
from valuerepair.board.batch import read_fens
from valuerepair.board.fen import REASONS
from valuerepair.board.rows import RIGHTS, STATE
from valuerepair.positions import Recorded, decode_moves, encode_moves

_FIRST_LINE = re.compile(rb'\{[^\n]*"fen"\s*:')
_RIGHTS_LETTERS = np.array([bin(rights).count("1") for rights in range(16)])


class DumpBlock(LineBlock):
    """Lines of an evaluation dump, with their numbers and byte offsets in it."""


def looks_like_dump(head: bytes) -> bool:
    """The first line that is not empty begins a JSON object with a FEN."""
    return _FIRST_LINE.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()) is not None


def parse_dump(block: LineBlock, options: SampleOptions) -> Rows:
    """The legal positions of a block that pass the filters. `min_ply` and `max_ply` say nothing about bare positions.

    A header filter (a rating, a player) rejects all lines: they have no headers.
    """
    rows = Rows(block.source)
    reason = header_reject(b"", options) if options.filters_headers else None
    entries = _entries(block, rows, reason)
    boards, kept = _boards([entry["fen"] for entry in entries], rows)
    rows.parsed = rows.looked_at = len(kept)
    rows.numbers, rows.offsets = [rows.numbers[i] for i in kept], [rows.offsets[i] for i in kept]
    rows.headers, rows.results = [{} for _ in kept], [None] * len(kept)
    if kept:
        _fill(rows, boards, [entries[i] for i in kept], options)
    return rows


def _entries(block: LineBlock, rows: Rows, reason: str | None) -> list[dict[str, Any]]:
    """The objects of the lines, with number and offset of each in the rows; counts lines that are none."""
    try:
        read: list[Any] = list(map(orjson.loads, block.lines))
    except orjson.JSONDecodeError:
        read = [_object(line) for line in block.lines]
    good = [isinstance(entry, dict) and isinstance(entry.get("fen"), str) for entry in read]
    if reason is None and all(good):
        rows.numbers, rows.offsets = block.numbers, block.offsets
        return read
    for i, fine in enumerate(good):
        why = reason if fine else "not a position"
        if why is None:
            rows.numbers.append(block.numbers[i])
            rows.offsets.append(block.offsets[i])
        else:
            rows.rejected.append(Rejected(why, block.offsets[i], f"line {block.numbers[i]}"))
    return [entry for entry, fine in zip(read, good, strict=True) if fine and reason is None]


def _object(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _boards(fens: list[str], rows: Rows) -> tuple[board.Boards, list[int]]:
    """The boards of the legal ones among these FENs and which these are; counts the others, and Chess960."""
    text = "".join(fens).encode("ascii", "replace")
    offsets = np.zeros(len(fens) + 1, np.int64)
    np.cumsum([len(fen) for fen in fens], out=offsets[1:])
    boards = np.empty((len(fens), board.ROW), np.uint64)
    letters = np.frombuffer(bytearray(text) or bytearray(1), np.uint8)
    reasons = [""] * len(fens)
    begin = 0
    while begin < len(fens):
        bad, wrong = read_fens(letters, offsets[begin:], boards[begin:])
        if bad < 0:
            break
        begin += bad
        reasons[begin] = f"illegal position: {REASONS[wrong]}"
        boards[begin] = 0
        begin += 1
    # Rights without king and rook at home are dropped on reading: such a position is one of Chess960.
    rights = _RIGHTS_LETTERS[(boards[:, STATE] & RIGHTS).astype(np.int64)].tolist()
    for i, (fen, count) in enumerate(zip(fens, rights, strict=True)):
        castling = fen.split(" ", 3)[2] if not reasons[i] else "-"
        if castling != "-" and (len(castling) != count or not set(castling) <= set("KQkq")):
            reasons[i] = "Chess960"
    kept = [i for i, reason in enumerate(reasons) if not reason]
    for i, reason in enumerate(reasons):
        if reason:
            name, _, detail = reason.partition(": ")
            line = f"line {rows.numbers[i]}"
            rows.rejected.append(Rejected(name, rows.offsets[i], f"{line}: {detail}" if detail else line))
    return (boards if len(kept) == len(fens) else boards[kept]), kept


def _fill(rows: Rows, boards: board.Boards, entries: list[dict[str, Any]], options: SampleOptions) -> None:
    """Filters the positions and fills the rows."""
    fits = np.ones(len(entries), np.bool_)

    def keep(passing: NDArray[np.bool_], reason: str) -> None:
        nonlocal fits
        rejected = int((fits & ~passing).sum())
        if rejected:
            rows.rejected_positions[reason] += rejected
            fits = fits & passing

    keep(board.has_legal_move(boards), "no legal move")
    if options.min_pieces is not None:
        keep(board.piece_counts(boards) >= options.min_pieces, f"fewer than {options.min_pieces} pieces")
    if options.max_pieces is not None:
        keep(board.piece_counts(boards) <= options.max_pieces, f"more than {options.max_pieces} pieces")
    if options.quiet or options.no_check:
        keep(~board.in_check(boards), "in check")
    if options.recorded is not None:
        _keep_recorded(entries, keep, options.recorded)
    chosen = np.flatnonzero(fits)
    rows.boards = boards[chosen]
    rows.keys = board.keys(rows.boards)
    rows.ply = np.array([entries[i]["fen"].split(" ", 2)[1] == "b" for i in chosen.tolist()], np.int32)
    rows.game = chosen
    rows.begin = rows.end = np.zeros(len(chosen), np.int64)
    sign = options.recorded.sign if options.recorded is not None else RecordedOptions(DUMP).sign
    rows.recorded = _Evaluations([entries[i] for i in chosen.tolist()], rows.boards, sign)


def _keep_recorded(
    entries: list[dict[str, Any]], keep: Callable[[NDArray[np.bool_], str], None], wanted: RecordedOptions
) -> None:
    if wanted.kind != DUMP:
        keep(np.zeros(len(entries), np.bool_), OTHER_KIND)
        return
    keep(np.array([_has_score(entry) for entry in entries], np.bool_), NONE_RECORDED)
    if wanted.min_depth is not None:
        enough = [_best(entry).get("depth", 0) >= wanted.min_depth for entry in entries]
        keep(np.array(enough, np.bool_), f"evaluation of less than depth {wanted.min_depth}")
    if wanted.min_nodes is not None:
        enough = [1000 * _best(entry).get("knodes", 0) >= wanted.min_nodes for entry in entries]
        keep(np.array(enough, np.bool_), f"evaluation of fewer than {wanted.min_nodes:,} nodes")


def _has_score(entry: dict[str, Any]) -> bool:
    try:
        first = entry["evals"][0]["pvs"][0]
        return "cp" in first or "mate" in first
    except (KeyError, IndexError, TypeError):
        return False


def _best(entry: dict[str, Any]) -> dict[str, Any]:
    """The deepest evaluation of a position, of equally deep ones that of most nodes; empty when there is none."""
    evaluations: list[dict[str, Any]] = entry["evals"] if _has_score(entry) else [{}]
    if len(evaluations) == 1:
        return evaluations[0]
    return max(evaluations, key=lambda one: (one.get("depth", 0), one.get("knodes", 0)))


class _Evaluations(Sequence[Recorded | None]):
    """The evaluations of rows, made when they are asked for: those of most rows never are."""

    def __init__(self, entries: list[dict[str, Any]], boards: board.Boards, sign: Callable[[bool], int]) -> None:
        self._entries, self._boards, self._sign = entries, boards, sign

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, i: int) -> Recorded | None: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Recorded | None]: ...
    def __getitem__(self, i: int | slice) -> Recorded | Sequence[Recorded | None] | None:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        found = _best(self._entries[i])
        if not found:
            return None
        first = found["pvs"][0]
        sign = self._sign(self._entries[i]["fen"].split(" ", 2)[1] == "w")
        line = _line(self._boards[i], first.get("line", ""))
        return Recorded(
            DUMP,
            cp=None if first.get("cp") is None else sign * int(first["cp"]),
            mate=None if first.get("mate") is None else sign * int(first["mate"]),
            depth=int(found.get("depth", 0)),
            nodes=1000 * int(found.get("knodes", 0)),
            best_move=line[0] if line else None,
            pv=line,
        )


def _line(row: NDArray[np.uint64], text: str) -> tuple[str, ...]:
    """The legal beginning of a line, castling as the king's move."""
    try:
        moves = encode_moves(text.split())
    except ValueError:
        return ()
    return decode_moves(moves[: play_line(row[None].copy(), 0, moves)])
