"""Reads the games of a store's positions again, for the moves played after them and for recorded evaluations."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from valuerepair.archives.options import RecordedOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import read_games
from valuerepair.chess.origins import OriginGame
from valuerepair.chess.positions import Moves, PositionBatch, encode_moves
from valuerepair.store.reached import ExpansionSource, games_of
from valuerepair.store.rows import game_row
from valuerepair.store.store import Store

log = logging.getLogger(__name__)

_NAMES_SHOWN = 3


@dataclass(frozen=True)
class KnownGames:
    """Games of a store whose archives are available: by archive, each game's number and its digest in the store."""

    games: dict[str, dict[int, int]]

    @staticmethod
    def of(store: Store, ids: Sequence[int]) -> KnownGames:
        """The games of these positions; logs missing archives and leaves them out."""
        by_archive = games_of(store, ids)
        missing = [name for name in by_archive if not os.path.isfile(name)]
        if missing:
            more = f" and {len(missing) - _NAMES_SHOWN} more" if len(missing) > _NAMES_SHOWN else ""
            count = sum(len(by_archive[name]) for name in missing)
            log.info(
                f"{', '.join(missing[:_NAMES_SHOWN])}{more}: not found, so {count:,} games are known only as far as "
                "the store has them; run vr expand where the archives are, unchanged since mining"
            )
        return KnownGames({name: games for name, games in by_archive.items() if name not in missing})

    def __len__(self) -> int:
        return sum(len(games) for games in self.games.values())

    def positions(self, recorded: RecordedOptions | None = None) -> Iterator[PositionBatch]:
        """All positions of the games in which a move was played, in batches of complete games, in the archives' order.

        With `recorded` only positions that have such an evaluation, with it. Games that have changed since mining are
        left out, and logged.
        """
        changed: dict[str, int] = {}
        for batch in read_games(self.games, recorded, ReadReport()):
            same = np.array([self._is_same(game, changed) for game in batch.origin.game], np.bool_)
            yield batch if same.all() else batch.take(np.flatnonzero(same))
        for name in changed:
            log.info(f"{name} has changed since it was mined: games that have changed are left out")

    def _is_same(self, game: OriginGame, changed: dict[str, int]) -> bool:
        if game_row(game)[2] == self.games[game.source][game.number]:
            return True
        changed[game.source] = game.number
        return False

    def following(self, sources: Sequence[ExpansionSource]) -> list[Moves]:
        """The moves played from each source on; if its archive is missing, only the one move that the store has."""
        return [self._after(source) for source in sources]

    def _after(self, source: ExpansionSource) -> Moves:
        moves = self._moves.get((source.game.source, source.game.number))
        ply = len(source.moves)
        if moves is None or not source.in_game or not np.array_equal(moves[:ply], source.moves):
            return source.following
        return moves[ply:]

    @cached_property
    def _moves(self) -> dict[tuple[str, int], Moves]:
        """All moves of each game, by archive and number."""
        moves: dict[tuple[str, int], Moves] = {}
        for batch in self.positions():
            # The history of the last position in which a move was played has all moves before it.
            for i, game in enumerate(batch.origin.game):
                if i + 1 == len(batch) or batch.origin.game[i + 1] != game:
                    played = batch.origin.played[i]
                    last = encode_moves([played] if played else [])
                    before = batch.moves[batch.offsets[i] : batch.offsets[i + 1]]
                    moves[game.source, game.number] = np.concatenate([before, last])
        return moves
