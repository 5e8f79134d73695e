"""lichess's evaluation dump: one JSON object a line, a position with one or more evaluations.

``{"fen": "... w - -", "evals": [{"pvs": [{"cp": 311, "line": "g2e4 f7f5"}], "knodes": 206765, "depth": 36}]}``

Scores (`cp`, or `mate` in moves) are White's, lines are UCI with castling as king takes rook, FENs have four fields.
The evaluations of a position differ in depth and number of lines; the deepest one is used, or among equally deep ones
the one with the most nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.epd import LineBlock, bare_sieve, rejected_line
from valuerepair.archives.headers import header_reject, int_of_json
from valuerepair.archives.options import DUMP, NONE_RECORDED, OTHER_KIND, RecordedOptions, SampleOptions
from valuerepair.archives.rows import Rows, Sieve
from valuerepair.archives.select import line_keys
from valuerepair.arrays import Bytes, Moves
from valuerepair.chess import board
from valuerepair.chess.bits import ONE, popcount
from valuerepair.chess.board import read_fens
from valuerepair.chess.fen import BAD_CASTLING, REASONS, SPACE, skip
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move, make
from valuerepair.chess.movegen import MAX_MOVES, is_legal
from valuerepair.chess.origins import Recorded
from valuerepair.chess.positions import cuts_of, decode_moves, encode_moves
from valuerepair.chess.rows import FLIP, KINGS, RIGHTS, ROW, STATE, STRAIGHT, US, Boards

_FIRST_LINE = re.compile(rb'\{[^\n]*"fen"\s*:')
_CHESS960 = "Chess960"
_MOST_KNODES = 10**15
_PREFIX, _BACKSLASH = b'{"fen":"', 92


class DumpBlock(LineBlock):
    """Lines of an evaluation dump, with their numbers and byte offsets in it."""

    def parse(self, options: SampleOptions) -> Rows:
        """The positions drawn from the block, what was left out, and why; called in any thread."""
        rows = Rows(self.source)
        entries = _entries(self, rows, header_reject(b"", options))
        boards, legal = _boards(entries.fens, rows)
        rows.parsed = rows.looked_at = len(legal)
        if len(legal) < len(entries.fens):
            rows.numbers, rows.offsets = [rows.numbers[i] for i in legal], [rows.offsets[i] for i in legal]
        rows.headers, rows.results = [{}] * len(legal), [None] * len(legal)
        if legal:
            _fill(rows, boards, entries.take(legal), options)
        return rows


def looks_like_dump(head: bytes) -> bool:
    """Whether the first non-empty line begins a JSON object with a FEN."""
    return _FIRST_LINE.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()) is not None


@dataclass(slots=True)
class _Entries:
    """Lines with a FEN, as bytes: decoding the JSON of all of them would take ten times as long as reading them.

    `scored` [n] says whether each line has an evaluation.
    """

    lines: list[bytes] = field(default_factory=list)
    fens: list[bytes] = field(default_factory=list)
    scored: list[bool] = field(default_factory=list)

    def take(self, rows: Sequence[int]) -> _Entries:
        if len(rows) == len(self.lines):
            return self
        return _Entries([self.lines[i] for i in rows], [self.fens[i] for i in rows], [self.scored[i] for i in rows])


def _entries(block: LineBlock, rows: Rows, reject_all: str | None) -> _Entries:
    """The lines with a FEN; adds their numbers and offsets to `rows`, and counts the other lines.

    `reject_all` is the reason to reject every line, if there is one.
    """
    entries = _Entries()
    for i, line in enumerate(block.lines):
        fen, scored = line[8 : line.find(b'"', 8)], True
        # Lines as lichess writes them are not decoded; the JSON of other lines is.
        is_usual = line.startswith(_PREFIX) and line.endswith(b"}]}") and (b'"cp":' in line or b'"mate":' in line)
        if not is_usual or _BACKSLASH in fen:
            entry = _object(line)
            fen, scored = str(entry.get("fen", "")).encode("ascii", "replace"), bool(_scored(entry))
        reason = reject_all or (None if fen else "not a position")
        if reason is None:
            entries.lines.append(line)
            entries.fens.append(fen)
            entries.scored.append(scored)
            rows.numbers.append(block.numbers[i])
            rows.offsets.append(block.offsets[i])
        else:
            rows.rejected.append(rejected_line(reason, block.offsets[i], block.numbers[i]))
    return entries


def _object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line; empty if the line is not one."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _boards(fens: list[bytes], rows: Rows) -> tuple[Boards, list[int]]:
    """The boards of the legal FENs of standard chess, and their indices; counts the others by reason."""
    text = np.frombuffer(bytearray(b"".join(fens)) or bytearray(1), np.uint8)
    offsets = cuts_of([len(fen) for fen in fens])
    boards = np.empty((len(fens), ROW), np.uint64)
    reasons: dict[int, tuple[str, str]] = {}
    begin = 0
    while begin < len(fens):
        bad, wrong = read_fens(text, offsets[begin:], boards[begin:])
        if bad < 0:
            break
        reasons[begin + bad] = (_CHESS960, "") if wrong == BAD_CASTLING else ("illegal position", REASONS[wrong])
        begin += bad + 1
    standard = np.empty(len(fens), np.bool_)
    standard_castling(text, offsets, boards, standard)
    for i in np.flatnonzero(~standard).tolist():
        reasons.setdefault(i, (_CHESS960, ""))
    for i, (reason, detail) in sorted(reasons.items()):
        rows.rejected.append(rejected_line(reason, rows.offsets[i], rows.numbers[i], detail))
    legal = [i for i in range(len(fens)) if i not in reasons]
    return boards[legal], legal


def _fill(rows: Rows, boards: Boards, entries: _Entries, options: SampleOptions) -> None:
    """Filters the positions and fills the rows."""
    sieve = bare_sieve(boards, options, rows)
    if options.recorded is not None:
        _keep_recorded(entries, sieve, options.recorded)
    chosen = sieve.rows
    rows.boards, keys = boards[chosen], board.keys(boards)
    rows.keys, rows.game_keys = keys[chosen], line_keys(keys)
    rows.ply = (~board.white_to_move(rows.boards)).astype(np.int32)
    rows.game = chosen
    rows.begin = rows.end = np.zeros(len(chosen), np.int64)
    rows.recorded = _DumpValues(entries.take(chosen.tolist()), rows.boards, options.recorded or RecordedOptions(DUMP))


def _keep_recorded(entries: _Entries, sieve: Sieve, wanted: RecordedOptions) -> None:
    if wanted.kind != DUMP:
        sieve.keep(np.zeros(len(sieve.rows), np.bool_), OTHER_KIND)
        return
    sieve.keep(np.array(entries.scored)[sieve.rows], NONE_RECORDED)
    if wanted.min_depth is not None or wanted.min_nodes is not None:
        evaluations = (_best(_object(entries.lines[i])) for i in sieve.rows.tolist())
        sieve.keep_unless(wanted.reject(_extent(evaluation)) for evaluation in evaluations)


def _extent(evaluation: dict[str, Any]) -> Recorded:
    """A record with only the depth and the nodes of an evaluation."""
    depth, knodes = _depth_and_knodes(evaluation)
    return Recorded(DUMP, depth=depth, nodes=1000 * knodes)


def _depth_and_knodes(evaluation: dict[str, Any]) -> tuple[int, int]:
    """(depth, thousands of nodes); 0 for a number that is missing or too large for any engine."""
    depth, knodes = (int_of_json(evaluation.get(name)) or 0 for name in ("depth", "knodes"))
    return depth, knodes if abs(knodes) < _MOST_KNODES else 0


def _score(evaluation: object) -> tuple[int | None, int | None]:
    """(centipawns, moves to mate) of the first line of an evaluation, as written."""
    try:
        first = evaluation["pvs"][0]  # type: ignore[index]  # any JSON value: one without an index has no score
        return int_of_json(first.get("cp")), int_of_json(first.get("mate"))
    except (KeyError, IndexError, TypeError, AttributeError):
        return None, None


def _scored(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The evaluations of a position that have a score."""
    evaluations = entry.get("evals")
    if not isinstance(evaluations, list):
        return []
    return [evaluation for evaluation in evaluations if _score(evaluation) != (None, None)]


def _best(entry: dict[str, Any]) -> dict[str, Any]:
    """The deepest evaluation of a position, with the most nodes among equally deep ones; empty if it has none."""
    return max(_scored(entry), key=_depth_and_knodes, default={})


class _DumpValues(Sequence[Recorded | None]):
    """The evaluations of rows, decoded on access: most rows are never accessed."""

    def __init__(self, entries: _Entries, boards: Boards, wanted: RecordedOptions) -> None:
        self._lines, self._boards, self._wanted = entries.lines, boards, wanted

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, i: int) -> Recorded | None: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Recorded | None]: ...
    def __getitem__(self, i: int | slice) -> Recorded | Sequence[Recorded | None] | None:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        evaluation = _best(_object(self._lines[i]))
        if not evaluation:
            return None
        sign = self._wanted.sign(bool(board.white_to_move(self._boards[i : i + 1])[0]))
        cp, mate = _score(evaluation)
        line = _line(self._boards[i], str(evaluation["pvs"][0].get("line", "")))
        return replace(
            _extent(evaluation),
            cp=None if cp is None else sign * cp,
            mate=None if mate is None else sign * mate,
            best_move=line[0] if line else None,
            pv=line,
        )


def _line(row: NDArray[np.uint64], text: str) -> tuple[str, ...]:
    """The legal moves at the beginning of a line, with castling as the king's move."""
    try:
        moves = encode_moves(text.split())
    except ValueError:
        return ()
    return decode_moves(moves[: play_line(row[None].copy(), moves)])


@kernel
def standard_castling(text: Bytes, offsets: NDArray[np.int64], rows: Boards, standard: NDArray[np.bool_]) -> None:
    """Writes whether the FEN text[offsets[i]:offsets[i + 1]] has exactly the castling rights of row i, read from it.

    Reading drops rights without king and rook at home. Chess960 positions have such rights, or other letters.
    """
    for i in range(len(rows)):
        at, end = offsets[i], offsets[i + 1]
        for _ in range(2):
            at = skip(text, skip(text, at, end, False), end, True)
        letters, usual = 0, True
        while at < end and text[at] != SPACE:
            letter = text[at] & 0xDF
            if text[at] != 45:
                letters += 1
                usual = usual and (letter == 75 or letter == 81)  # K, Q
            at += 1
        standard[i] = usual and letters == popcount(rows[i, STATE] & RIGHTS)


@allocating_kernel
def play_line(rows: Boards, moves: Moves) -> int:
    """Plays a line in absolute squares on row 0, which it changes; returns the number of legal moves.

    The dump writes castling as king takes own rook; such moves are rewritten in `moves` as the king's own.
    """
    buffer = np.empty(MAX_MOVES, np.uint16)
    for i in range(len(moves)):
        turn = FLIP * black_to_move(rows, 0)
        move = np.int64(moves[i]) ^ turn
        origin, goal = move & 63, move >> 6 & 63
        own_rook = rows[0, US] >> np.uint64(goal) & rows[0, STRAIGHT] >> np.uint64(goal) & ONE
        if own_rook and rows[0, KINGS] >> np.uint64(origin) & ONE:
            move = origin | (6 if goal > origin else 2) << 6
        if not is_legal(rows, 0, move, buffer):
            return i
        moves[i] = move ^ turn
        make(rows, 0, 0, move)
    return len(moves)
