"""Positions drawn from a block of games or lines, as arrays, and reports on what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.open import Source
from valuerepair.archives.options import SampleOptions
from valuerepair.chess import board
from valuerepair.chess.origins import OriginGame, Origins, QColumns, Recorded, take_rows
from valuerepair.chess.positions import STARTPOS_FEN, PositionBatch, cut_out, decode_move
from valuerepair.chess.rows import ROW, Boards, Index


@dataclass(frozen=True, slots=True)
class Rejected:
    """A game that was left out: the reason, and the byte where it begins. `source` is None for the block's source."""

    reason: str
    offset: int
    detail: str = ""
    source: Source | None = None


@dataclass(slots=True)
class Rows:
    """n positions of one block, and counts of what was left out.

    Per position: `boards`, `keys`, `ply`, `game` (an index into the lists of games), `played` (None for bare
    positions), the moves that lead to it, ``moves[begin:end]``, its `recorded` evaluation, and `history_known` (None:
    all are known, unless they are `bare`). Per game: `numbers`, `offsets`, `headers`, `results`, `game_keys`, hashes
    of start and moves, or of the board of a line, and `sources` if there are several archives. With
    `games_once` no position is drawn from a copy of a game. `batch` makes
    records of the rows that are new.
    """

    source: Source
    parsed: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    looked_at: int = 0
    rejected_positions: Counter[str] = field(default_factory=Counter)
    not_drawn: int = 0
    boards: Boards = field(default_factory=lambda: np.empty((0, ROW), np.uint64))
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    ply: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    game: Index = field(default_factory=lambda: np.empty(0, np.int64))
    played: NDArray[np.uint16] | None = None
    moves: NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))
    begin: Index = field(default_factory=lambda: np.empty(0, np.int64))
    end: Index = field(default_factory=lambda: np.empty(0, np.int64))
    sources: list[Source] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    results: list[str | None] = field(default_factory=list)
    game_keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    games_once: bool = False
    starts: dict[int, str] = field(default_factory=dict)  # game -> FEN, unless it is the initial position
    recorded: Sequence[Recorded | None] | None = None
    final: dict[int, Recorded] = field(default_factory=dict)  # game -> evaluation of its last board; whole games only
    history_known: NDArray[np.bool_] | None = None
    truncated: list[tuple[str, str]] = field(default_factory=list)  # as in the report

    @property
    def bare(self) -> bool:
        """Whether the positions have no game and no known history."""
        return self.played is None and not len(self.moves)

    def count(self, report: ReadReport) -> None:
        """Adds the parsed and rejected games and positions to the report; the caller counts the rows that it uses."""
        report.parsed += self.parsed
        for game in self.rejected:
            report.reject(game.reason, (game.source or self.source).path, game.offset, game.detail)
        report.looked_at += self.looked_at
        report.rejected_positions += self.rejected_positions
        report.not_drawn += self.not_drawn
        report.truncated += self.truncated

    def batch(self, chosen: NDArray[np.bool_]) -> PositionBatch:
        """The chosen rows as records."""
        index = np.flatnonzero(chosen)
        fens = board.fens(self.boards[index])
        games = self.game[index].tolist()
        starts = fens if self.bare else [self.starts.get(g, STARTPOS_FEN) for g in games]
        return PositionBatch(
            fens,
            list(starts),
            *cut_out(self.moves, self.begin[index], self.end[index]),
            self.ply[index],
            self.keys[index],
            np.full(len(index), not self.bare) if self.history_known is None else self.history_known[index],
            self._origins(index, games),
        )

    def _origins(self, index: Index, games: list[int]) -> Origins:
        origins = {g: self.origin_of(g) for g in dict.fromkeys(games)}
        played: list[str | None] = [None] * len(index)
        if self.played is not None:
            played = [decode_move(m) for m in self.played[index].tolist()]
        recorded = self.recorded
        if recorded is not None:
            recorded = recorded.take(index) if isinstance(recorded, QColumns) else take_rows(recorded, index)
        return Origins([origins[g] for g in games], played, recorded)

    def origin_of(self, g: int) -> OriginGame:
        """The origin of game `g`."""
        source = self.sources[g] if self.sources else self.source
        key = int(self.game_keys[g])
        return OriginGame(source.path, self.numbers[g], self.offsets[g], self.headers[g], self.results[g], key)


EXAMPLES_PER_REASON = 3
TRUNCATED_SHOWN = 10


@dataclass(slots=True)
class ReadReport:
    """Counts of one run; for EPD and FEN files every line is a "game".

    Always ``games == parsed + sum(rejected.values()) + not_sampled``, and
    ``looked_at == sum(rejected_positions.values()) + not_drawn + duplicates + positions``.
    """

    bytes_read: int = 0  # decompressed
    games: int = 0  # found by the splitter
    not_sampled: int = 0  # games outside `game_share`, not parsed
    parsed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)  # games, by reason
    looked_at: int = 0  # positions of parsed games in which a move was played
    rejected_positions: Counter[str] = field(default_factory=Counter)  # by filter
    not_drawn: int = 0  # eligible positions beyond `per_game` or `positions`
    duplicates: int = 0
    positions: int = 0  # sampled
    without_history: int = 0  # of these: bare positions
    examples: list[tuple[str, int, str]] = field(default_factory=list)  # (source, byte offset, reason)
    truncated: list[tuple[str, str]] = field(default_factory=list)  # (source, where and why it broke off)
    empty: list[str] = field(default_factory=list)  # sources of 0 bytes

    def reject(self, reason: str, source: str, offset: int, detail: str = "") -> None:
        """Counts a rejected game; the first few of each reason become examples."""
        self.rejected[reason] += 1
        if self.rejected[reason] <= EXAMPLES_PER_REASON:
            self.examples.append((source, offset, f"{reason}: {detail}" if detail else reason))

    @property
    def adds_up(self) -> bool:
        """Whether every game and every position is counted once (true at the end of a run)."""
        games = self.parsed + sum(self.rejected.values()) + self.not_sampled
        positions = sum(self.rejected_positions.values()) + self.not_drawn + self.duplicates + self.positions
        return self.games == games and self.looked_at == positions

    @property
    def expected(self) -> float | None:
        """The positions to expect from the games found so far, judged by the parsed ones; None before the first."""
        waiting = self.games - self.not_sampled - self.parsed - sum(self.rejected.values())
        return self.positions * (1 + waiting / self.parsed) if self.parsed else None

    def lines(self) -> list[str]:
        """The report for printing."""
        lines = [f"games: {self.games:,} found, {self.parsed:,} parsed"]
        if self.not_sampled:
            lines[0] += f", {self.not_sampled:,} not sampled"
        rejected = sum(self.rejected.values())
        if rejected:
            lines[0] += f", {rejected:,} rejected"
            lines += [f"  {count:,} {reason}" for reason, count in self.rejected.most_common()]
            lines += [f"    {source} at byte {offset:,}: {reason}" for source, offset, reason in self.examples]
        lines.append(f"positions: {self.positions:,} sampled of {self.looked_at:,}")
        counts = [(count, reason) for reason, count in self.rejected_positions.most_common()]
        counts += [(self.duplicates, "seen before"), (self.not_drawn, "eligible, but not drawn")]
        lines += [f"  {count:,} {reason}" for count, reason in counts if count]
        if self.without_history:
            lines.append(f"known by their board alone, without moves before it: {self.without_history:,}")
        lines += [f"empty: {source}" for source in self.empty]
        lines += [f"broken off: {source}: {message}" for source, message in self.truncated[:TRUNCATED_SHOWN]]
        if len(self.truncated) > TRUNCATED_SHOWN:
            lines.append(f"broken off: {len(self.truncated) - TRUNCATED_SHOWN:,} more")
        return lines


class Sieve:
    """Filters rows: `rows` [n] have passed all filters so far; the next filter has one entry for each of them."""

    def __init__(self, rows: Index, rejected: Counter[str]) -> None:
        self.rows, self._rejected = rows, rejected

    def keep(self, fits: NDArray[np.bool_], reason: str) -> None:
        """Keeps the rows that fit, and counts the others under the reason."""
        rejected = len(fits) - int(np.count_nonzero(fits))
        if rejected:
            self._rejected[reason] += rejected
            self.rows = self.rows[fits]

    def keep_unless(self, reasons: Iterable[str | None]) -> None:
        """Keeps the rows whose reason to reject is None, and counts the others by reason."""
        remaining = np.array([reason or "" for reason in reasons], np.str_)
        for reason in sorted(set(remaining.tolist()) - {""}):
            fits = remaining != reason
            self.keep(fits, reason)
            remaining = remaining[fits]

    def keep_pieces(self, count: Callable[[Index], NDArray[np.integer]], options: SampleOptions) -> None:
        """Keeps the rows whose number of men, from `count`, is within the bounds of the options."""
        least, most = options.min_pieces, options.max_pieces
        if least is not None:
            self.keep(count(self.rows) >= least, f"fewer than {least} pieces")
        if most is not None:
            self.keep(count(self.rows) <= most, f"more than {most} pieces")
