"""Positions drawn from a block of games or lines, still as arrays, with what was left out on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from valuerepair import board
from valuerepair.archives.open import Source
from valuerepair.archives.report import ReadReport
from valuerepair.origins import Game, Origins, QColumns, Recorded, picked
from valuerepair.positions import STARTPOS_FEN, PositionBatch, decode_move

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A game that was not used: why, and where it begins. `source` is None where it is that of all."""

    reason: str
    offset: int
    detail: str = ""
    source: Source | None = None


@dataclass(slots=True)
class Rows:
    """n positions of one block. Per row: boards, keys, ply, `game` (an index into the lists per game), `played`
    (empty for bare positions), the moves before it, ``moves[begin:end]``, what is `recorded` of its value, and whether
    its history is known (by default where there is a game). Per game: numbers, offsets, headers, results, and
    the archive where not all are of one. Only rows that are not seen before become records: `batch`."""

    source: Source
    parsed: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    looked_at: int = 0
    rejected_positions: Counter[str] = field(default_factory=Counter)
    not_drawn: int = 0
    boards: board.Boards = field(default_factory=lambda: np.empty((0, board.ROW), np.uint64))
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    ply: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    game: Index = field(default_factory=lambda: np.empty(0, np.int64))
    played: NDArray[np.uint16] | None = None
    moves: NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))
    begin: Index = field(default_factory=lambda: np.empty(0, np.int64))
    end: Index = field(default_factory=lambda: np.empty(0, np.int64))
    sources: list[Source] | None = None
    numbers: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    results: list[str | None] = field(default_factory=list)
    starts: dict[int, str] = field(default_factory=dict)  # game -> FEN, where it is not the initial position
    recorded: Sequence[Recorded | None] | None = None
    history_known: NDArray[np.bool_] | None = None
    truncated: list[tuple[str, str]] = field(default_factory=list)  # as in the report

    @property
    def bare(self) -> bool:
        """Positions without a game: nothing is known of what came before."""
        return self.played is None

    def count(self, report: ReadReport) -> None:
        """Adds what was parsed and left out to the report; the rows themselves are counted where they are used."""
        report.parsed += self.parsed
        for game in self.rejected:
            report.reject(game.reason, (game.source or self.source).name, game.offset, game.detail)
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
        begin, end = self.begin[index], self.end[index]
        pieces = [self.moves[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
        return PositionBatch(
            fens,
            list(starts),
            np.concatenate(pieces) if pieces else np.empty(0, np.uint16),
            cuts_of((end - begin).tolist()),
            self.ply[index],
            self.keys[index],
            np.full(len(index), not self.bare) if self.history_known is None else self.history_known[index],
            self._origins(index, games),
        )

    def _origins(self, index: Index, games: list[int]) -> Origins:
        known = {g: self._game(g) for g in dict.fromkeys(games)}
        played: list[str | None] = [None] * len(index)
        if self.played is not None:
            played = [decode_move(m) for m in self.played[index].tolist()]
        recorded = self.recorded
        if recorded is not None:
            recorded = recorded.take(index) if isinstance(recorded, QColumns) else picked(recorded, index)
        return Origins.found([known[g] for g in games], played, recorded)

    def _game(self, g: int) -> Game:
        source = self.sources[g] if self.sources else self.source
        return Game(source.name, self.numbers[g], self.offsets[g], self.headers[g], self.results[g])


def cuts_of(lengths: Sequence[int]) -> Index:
    """int64[n + 1]: where n pieces of these lengths begin when they lie one behind the other, and where they end."""
    cuts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=cuts[1:])
    return cuts
