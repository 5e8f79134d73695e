"""EPD and FEN files: one position per line, nearly always without history.

A line has four FEN fields, sometimes two counters, and then EPD operations (``bm Nf3; id "x";``). Without counters,
`hmvc` and `fmvn` take their place. `id` becomes a header. `ce` (centipawns; beyond ±32,000 a mate), `dm` and ``bm #N``
(moves to mate) become the recorded evaluation, with the first move of `bm`, `acd` (depth in plies), `acn` (nodes) and
`acs` (seconds). Scores are from the view of the side to move, as in the EPD standard. The comment
``c3 "history startpos: e2e4 e7e5";``, which `vr export --format epd` writes, is the history of the position.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile

import numpy as np

from valuerepair.archives.headers import fits, header_reject, whole
from valuerepair.archives.open import Source, read_text
from valuerepair.archives.options import EPD, OTHER_KIND, RecordedOptions, SampleOptions
from valuerepair.archives.rows import Rejected, Rows, Sieve
from valuerepair.chess import board
from valuerepair.chess.origins import Recorded
from valuerepair.chess.positions import Moves, commented_history, encode_moves, joined, ply_of
from valuerepair.chess.rows import Boards

_PLACEMENT_AND_SIDE = r"[pnbrqkPNBRQK1-8]+(?:/[pnbrqkPNBRQK1-8]+){7}\s+[wb](?:\s|$)"
_POSITION = re.compile(_PLACEMENT_AND_SIDE)
_POSITION_BYTES = re.compile(_PLACEMENT_AND_SIDE.encode())
_COUNTER = re.compile(r"\d+")
# The first alternative skips quoted text, so that an opcode inside it is not read.
_OPCODE = re.compile(r'"[^"]*"|\b(id|ce|dm|bm|acd|acn|acs|hmvc|fmvn)\s+("[^"]*"|[^;]*)')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # also within a file that was joined from several
_HASH = ord("#")
MAX_LINE = 1 << 20  # bytes; a longer line is no position
OVERLONG = b"(a line of more than a mebibyte)"  # takes the place of a longer line
_MATE = re.compile(r"#\s*([+-]?\d+)")
# In the EPD standard, a `ce` of ±(32,767 - plies) is a mate in this many plies; up to ±32,000 it is centipawns.
CE_MATE, CE_MOST = 32_767, 32_000


def rejected_line(reason: str, offset: int, number: int) -> Rejected:
    """The entry for a rejected line; `reason` may have a detail after a colon, `number` is that of the line."""
    name, _, detail = reason.partition(": ")
    return Rejected(name, offset, f"line {number}: {detail}" if detail else f"line {number}")


@dataclass(slots=True)
class LineBlock:
    """Lines of one EPD or FEN file, with their numbers and byte offsets in it."""

    source: Source
    lines: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    def take(self, rows: Sequence[int]) -> LineBlock:
        """The lines with these indices, in this order."""
        lines, numbers, offsets = self.lines, self.numbers, self.offsets
        return type(self)(self.source, [lines[i] for i in rows], [numbers[i] for i in rows], [offsets[i] for i in rows])

    def parse(self, options: SampleOptions) -> Rows:
        """The positions of the block, and the rejected lines and positions with reasons; any thread may call it.

        `min_ply` and `max_ply` do not apply to bare positions. A filter by headers (a rating, a player) rejects every
        line, because lines have no headers.
        """
        rows = Rows(self.source)
        lines: list[_Line] = []
        for number, offset, raw in zip(self.numbers, self.offsets, self.lines, strict=True):
            line, reason = _read_line(read_text(raw))
            if line is not None and options.filters_headers:
                reason = header_reject(b"", options) or ""
            if line is None or reason:
                rows.rejected.append(rejected_line(reason, offset, number))
                continue
            rows.numbers.append(number)
            rows.offsets.append(offset)
            lines.append(line)
        rows.parsed = rows.looked_at = len(lines)
        if lines:
            _fill(rows, lines, options)
        return rows


def looks_like_epd(head: bytes) -> bool:
    """Whether the first line that is neither empty nor a ``#`` comment begins like a FEN."""
    for line in head.removeprefix(_BYTE_ORDER_MARK).splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith(b"#"):
            return _POSITION_BYTES.match(stripped) is not None
    return False


class LineSplitter:
    """Cuts the pieces of a stream into lines; drops empty lines and ``#`` comments."""

    def __init__(self, source: Source, block: type[LineBlock] = LineBlock) -> None:
        self._source, self._block = source, block
        self._rest, self._offset = b"", 0  # the last line so far without its end, and where it begins
        self._lines = 0  # finished lines
        self._dropped = 0  # bytes dropped from an unfinished line that is too long

    @property
    def unfinished(self) -> int | None:
        """The offset of the unfinished line, if there is one."""
        return self._offset if self._dropped or self._rest.strip() else None

    def feed(self, data: bytes, *, last: bool) -> LineBlock:
        """The lines that these bytes complete, and with `last` the unfinished one. Numbers count all lines, from 1."""
        lines = (self._rest + data).split(b"\n")
        lengths = [len(line) for line in lines]
        lengths[0] += self._dropped
        starts = list(accumulate((length + 1 for length in lengths), initial=self._offset))
        if max(lengths) > MAX_LINE:
            lines = [OVERLONG if length > MAX_LINE else line for length, line in zip(lengths, lines, strict=True)]
        self._rest, self._dropped = b"", 0
        if not last:
            self._rest = lines.pop()
            if lengths[-1] > MAX_LINE:
                self._rest, self._dropped = b"", lengths[-1]
            starts.pop()
        texts = [line.strip() for line in lines]
        if _BYTE_ORDER_MARK in data:
            texts = [line.removeprefix(_BYTE_ORDER_MARK).strip() for line in lines]
        filled = [i for i, text in enumerate(texts) if text and text[0] != _HASH]
        numbers = range(self._lines + 1, self._lines + 1 + len(lines))
        self._offset, self._lines = starts[-1], self._lines + len(lines)
        block = self._block(self._source, texts, list(numbers), starts[:-1])
        return block if len(filled) == len(lines) else block.take(filled)


@dataclass(slots=True)
class _Line:
    """A position, its evaluation if there is one, and the moves to it from `start_fen` (none without a history)."""

    fen: str
    headers: dict[str, str]
    recorded: Recorded | None
    start_fen: str
    moves: Moves


def _read_line(text: str) -> tuple[_Line | None, str]:
    """The line's position, or None and the reason to reject the line."""
    if not _POSITION.match(text):
        return None, "not a position"
    words = text.replace(";", " ; ").split()
    fen_fields = list(takewhile(lambda word: word != ";", words[:4]))
    counters = [word for word in words[len(fen_fields) : len(fen_fields) + 2] if _COUNTER.fullmatch(word)]
    fen_fields += ["-"] * (4 - len(fen_fields))
    opcodes = {name: value.strip().strip('"') for name, value in _OPCODE.findall(text) if name}
    if len(counters) != 2:
        counters = [opcodes.get("hmvc") or "0", opcodes.get("fmvn") or "1"]
    fen = " ".join(fen_fields + counters)
    if fen_fields[2] != "-" and set(fen_fields[2].upper()) & set("ABCDEFGH"):
        return None, "Chess960"
    reason = board.status_error(fen)
    if reason:
        return None, f"illegal position: {reason}"
    try:
        board.parse_fens([fen])
    except ValueError as error:  # python-chess accepts counters above 65,535, boards do not
        return None, f"illegal position: {str(error).split(': ')[1]}"
    headers = {"id": opcodes["id"]} if opcodes.get("id") else {}
    try:
        played_fen, start_fen, moves = _history(fen, text)
    except ValueError as error:
        return None, f"wrong history: {error}"
    return _Line(played_fen, headers, _recorded(fen, opcodes), start_fen, moves), ""


def _history(fen: str, text: str) -> tuple[str, str, Moves]:
    """The position's FEN, and the FEN and the moves that it was reached by, as the comment with the history has them.

    With a history the position's FEN is the one after its moves; without one both are `fen`, and there are no moves.
    Raises ValueError for a text that is no history, and if the moves lead to another position.
    """
    history = commented_history(text)
    if history is None:
        return fen, fen, np.empty(0, np.uint16)
    start_fen, moves = history[0], encode_moves(history[1])
    if reason := board.status_error(start_fen):
        raise ValueError(reason)
    reached = board.replay(board.parse_fens([start_fen]), moves, np.array([0, len(moves)], np.int64))
    if board.keys(reached)[0] != board.keys(board.parse_fens([fen]))[0]:
        raise ValueError("its moves lead to another position")
    return board.fens(reached)[0], start_fen, moves


def _recorded(fen: str, opcodes: dict[str, str]) -> Recorded | None:
    """The evaluation that the operations record, as it is written; None without a score."""
    mate_in_bm = _MATE.search(opcodes.get("bm", ""))
    mate = whole(mate_in_bm[1] if mate_in_bm else opcodes.get("dm", ""))
    cp = whole(opcodes.get("ce", ""))
    if cp is None and mate is None:
        return None
    if cp is not None and mate is None and CE_MOST < abs(cp) < CE_MATE:
        mate = (CE_MATE - cp + 1) // 2 if cp > 0 else -((CE_MATE + cp) // 2)
        cp = None
    depth, nodes, seconds = (whole(opcodes.get(name, "")) or 0 for name in ("acd", "acn", "acs"))
    recorded = Recorded(EPD, cp, mate, depth=depth, nodes=nodes, time_ms=1000 * seconds)
    if not fits(recorded):
        return None
    if "bm" in opcodes and mate_in_bm is None:
        return replace(recorded, best_move=_best_move(fen, opcodes["bm"]))
    return recorded


def _best_move(fen: str, sans: str) -> str | None:
    """The first of these SAN moves, in UCI. None if there are no moves, or if the first is not legal."""
    import chess

    try:
        move = chess.Board(fen).parse_san(sans.split()[0])
    except (ValueError, IndexError):
        return None
    return move.uci() if move else None  # python-chess reads -- as a null move


def bare_sieve(boards: Boards, options: SampleOptions, rows: Rows) -> Sieve:
    """The rows of positions without a game, after the filters that need only a board."""
    sieve = Sieve(np.arange(len(boards)), rows.rejected_positions)
    sieve.keep(board.has_legal_move(boards), "no legal move")
    sieve.keep_pieces(lambda at: board.piece_counts(boards[at]), options)
    if options.quiet or options.no_check:
        sieve.keep(~board.in_check(boards[sieve.at]), "in check")
    return sieve


def _fill(rows: Rows, lines: list[_Line], options: SampleOptions) -> None:
    """Fills `rows` with the positions that pass all filters."""
    boards = board.parse_fens([line.fen for line in lines])
    sieve = bare_sieve(boards, options, rows)
    if (recorded_options := options.recorded) is not None:
        for line in lines:
            line.recorded = _for_side_to_move(line, recorded_options)
        recorded = (lines[i].recorded for i in sieve.at.tolist())
        if recorded_options.kind == EPD:
            sieve.keep_unless(map(recorded_options.reject, recorded))
        else:
            sieve.keep_unless(OTHER_KIND if evaluation else recorded_options.reject(None) for evaluation in recorded)
    passed = sieve.at
    passed_lines = [lines[i] for i in passed.tolist()]
    rows.boards = boards[passed]
    rows.keys = board.keys(rows.boards)
    rows.ply = np.array([ply_of(line.fen) for line in passed_lines], np.int32)
    rows.game = passed
    rows.moves, cuts = joined([line.moves for line in passed_lines])
    rows.begin, rows.end = cuts[:-1], cuts[1:]
    rows.history_known = rows.end > rows.begin
    rows.starts = {i: line.start_fen for i, line in zip(passed.tolist(), passed_lines, strict=True)}
    rows.headers = [line.headers for line in lines]
    rows.results = [None] * len(lines)
    rows.recorded = [line.recorded for line in passed_lines]


def _for_side_to_move(line: _Line, options: RecordedOptions) -> Recorded | None:
    """The line's evaluation for the side to move; the options say from whose view the file has it."""
    recorded = line.recorded
    if recorded is None or options.sign(line.fen.split()[1] == "w") > 0:
        return recorded
    cp, mate = (None if score is None else -score for score in (recorded.cp, recorded.mate))
    return replace(recorded, cp=cp, mate=mate)
