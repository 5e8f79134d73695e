"""EPD and FEN files: one position on each line, without history.

`chess.position_text` reads a line. Its `id` becomes a header. `ce` (centipawns; beyond ±32,000 a mate), `dm` and
``bm #N`` (moves to mate) become the recorded evaluation, with the first move of `bm`, `acd` (depth in plies), `acn`
(nodes) and `acs` (seconds). Scores are from the view of the side to move, as in the EPD standard.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from valuerepair.archives.headers import header_reject, int_of_text, is_plausible
from valuerepair.archives.open import Source, read_text
from valuerepair.archives.options import EPD, OTHER_KIND, RecordedOptions, SampleOptions
from valuerepair.archives.rows import Rejected, Rows, Sieve
from valuerepair.archives.select import line_keys
from valuerepair.chess import board
from valuerepair.chess.origins import Recorded
from valuerepair.chess.position_text import MATE_IN, PLACEMENT_AND_SIDE, EpdLine, WrongLine, read_epd
from valuerepair.chess.positions import joined, ply_of
from valuerepair.chess.rows import Boards
from valuerepair.errors import one_line

_POSITION = re.compile(PLACEMENT_AND_SIDE.encode())
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # also within a file that was joined from several
_HASH = ord("#")
MAX_LINE = 1 << 20  # bytes; a longer line is not a position
OVERLONG = b"(a line of more than a mebibyte)"  # takes the place of a longer line
# In the EPD standard, a `ce` of ±(32,767 - plies) is a mate in this many plies; up to ±32,000 it is centipawns.
CE_MATE, CE_MOST = 32_767, 32_000


def rejected_line(reason: str, offset: int, number: int, detail: str = "") -> Rejected:
    """The entry for a rejected line; `number` is that of the line."""
    return Rejected(reason, offset, f"line {number}: {one_line(detail)}" if detail else f"line {number}")


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
        lines: list[EpdLine] = []
        reject_all = header_reject(b"", options)
        for number, offset, raw in zip(self.numbers, self.offsets, self.lines, strict=True):
            try:
                line = read_epd(read_text(raw))
                if reject_all:
                    raise WrongLine(reject_all, "")
            except WrongLine as error:
                rows.rejected.append(rejected_line(error.kind, offset, number, str(error)))
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
            return _POSITION.match(stripped) is not None
    return False


class LineSplitter:
    """Cuts the pieces of a stream into lines; drops empty lines and ``#`` comments."""

    def __init__(self, source: Source, block: type[LineBlock] = LineBlock) -> None:
        self._source, self._block = source, block
        self._partial, self._offset = b"", 0  # the last line, whose end is missing so far, and where it begins
        self._lines = 0  # finished lines
        self._dropped = 0  # bytes dropped from an unfinished line that is too long

    @property
    def unfinished(self) -> int | None:
        """The offset of the unfinished line, if there is one."""
        return self._offset if self._dropped or self._partial.strip() else None

    def feed(self, data: bytes, *, last: bool) -> LineBlock:
        """The lines that these bytes complete, and with `last` the unfinished line, too. All lines are numbered, from
        1."""
        lines = (self._partial + data).split(b"\n")
        lengths = [len(line) for line in lines]
        lengths[0] += self._dropped
        starts = list(accumulate((length + 1 for length in lengths), initial=self._offset))
        if max(lengths) > MAX_LINE:
            lines = [OVERLONG if length > MAX_LINE else line for length, line in zip(lengths, lines, strict=True)]
        self._partial, self._dropped = b"", 0
        if not last:
            self._partial = lines.pop()
            if lengths[-1] > MAX_LINE:
                self._partial, self._dropped = b"", lengths[-1]
            starts.pop()
        texts = [line.strip() for line in lines]
        if _BYTE_ORDER_MARK in data:
            texts = [line.removeprefix(_BYTE_ORDER_MARK).strip() for line in lines]
        filled = [i for i, text in enumerate(texts) if text and text[0] != _HASH]
        numbers = range(self._lines + 1, self._lines + 1 + len(lines))
        self._offset, self._lines = starts[-1], self._lines + len(lines)
        block = self._block(self._source, texts, list(numbers), starts[:-1])
        return block if len(filled) == len(lines) else block.take(filled)


def _recorded(line: EpdLine) -> Recorded | None:
    """The evaluation in the operations, from the view in which it is written; None if there is no score."""
    operand = line.operations.get
    mate_in_bm = MATE_IN.search(operand("bm", ""))
    mate = int_of_text(mate_in_bm[1] if mate_in_bm else operand("dm", ""))
    cp = int_of_text(operand("ce", ""))
    if cp is None and mate is None:
        return None
    if cp is not None and mate is None and CE_MOST < abs(cp) < CE_MATE:
        mate = (CE_MATE - cp + 1) // 2 if cp > 0 else -((CE_MATE + cp) // 2)
        cp = None
    depth, nodes, seconds = (int_of_text(operand(name, "")) or 0 for name in ("acd", "acn", "acs"))
    best = line.best[0] if line.best and mate_in_bm is None else None
    recorded = Recorded(EPD, cp, mate, depth=depth, nodes=nodes, time_ms=1000 * seconds, best_move=best)
    return recorded if is_plausible(recorded) else None


def bare_sieve(boards: Boards, options: SampleOptions, rows: Rows) -> Sieve:
    """A sieve of positions without a game, after the filters that need only a board."""
    sieve = Sieve(np.arange(len(boards)), rows.rejected_positions)
    sieve.keep(board.has_legal_move(boards), "no legal move")
    sieve.keep_pieces(lambda passed: board.piece_counts(boards[passed]), options)
    if options.quiet or options.no_check:
        sieve.keep(~board.in_check(boards[sieve.rows]), "in check")
    return sieve


def _fill(rows: Rows, lines: list[EpdLine], options: SampleOptions) -> None:
    """Fills `rows` with the positions that pass all filters."""
    boards = board.parse_fens([line.fen for line in lines])
    sieve = bare_sieve(boards, options, rows)
    recorded = [_recorded(line) for line in lines]
    if (wanted := options.recorded) is not None:
        recorded = [_for_side_to_move(line, score, wanted) for line, score in zip(lines, recorded, strict=True)]
        scores = (recorded[i] for i in sieve.rows.tolist())
        if wanted.kind == EPD:
            sieve.keep_unless(map(wanted.reject, scores))
        else:
            sieve.keep_unless(OTHER_KIND if score else wanted.reject(None) for score in scores)
    passed = sieve.rows.tolist()
    rows.boards, keys = boards[passed], board.keys(boards)
    rows.keys, rows.game_keys = keys[passed], line_keys(keys)
    rows.ply = np.array([ply_of(lines[i].fen) for i in passed], np.int32)
    rows.game = sieve.rows
    rows.moves, cuts = joined([np.empty(0, np.uint16)] * len(passed))
    rows.begin, rows.end = cuts[:-1], cuts[1:]
    rows.history_known = rows.end > rows.begin
    rows.starts = {i: lines[i].fen for i in passed}
    rows.headers = [{"id": name} if (name := line.operations.get("id")) else {} for line in lines]
    rows.results = [None] * len(lines)
    rows.recorded = [recorded[i] for i in passed]


def _for_side_to_move(line: EpdLine, recorded: Recorded | None, options: RecordedOptions) -> Recorded | None:
    """The line's evaluation for the side to move; the options say from whose view the file has it."""
    if recorded is None or options.sign(line.fen.split()[1] == "w") > 0:
        return recorded
    cp, mate = (None if score is None else -score for score in (recorded.cp, recorded.mate))
    return replace(recorded, cp=cp, mate=mate)
