"""Who can play: a search configuration or an engine, asked for one move after another in many games at once."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from valuerepair.chess.positions import Position
from valuerepair.play.record import Thought


class Fault(Exception):
    """A player lost a game by its own doing: `ending` is one of `record.LOSSES`, the text says more."""

    def __init__(self, ending: str, detail: str) -> None:
        super().__init__(detail)
        self.ending = ending


@dataclass(frozen=True, slots=True)
class Clock:
    """Milliseconds left and increment a move, of White and of Black."""

    white: int
    black: int
    white_increment: int = 0
    black_increment: int = 0


class Player(Protocol):
    """Plays one side, or both, of many games. Its own threads do the work; calls come from one thread."""

    @property
    def name(self) -> str:
        """For PGN headers and tables."""
        ...

    def think(self, game: int, position: Position, seed: int, clock: Clock | None = None) -> Future[Thought]:
        """Queues the search of a move. `game` numbers the game (one thought of it at a time), `seed` is its own.

        `position` has the game's whole history and a legal move. `clock` is given in games that are played by the
        clock; otherwise the player's own limit (nodes, time a move) holds. The future raises Fault where the player
        loses the game by it (crash, time, illegal move), and ValueRepairError where nothing more can be played.
        """
        ...

    def forget(self, game: int) -> None:
        """The game is over: what was kept for it (a tree, an engine) is free."""
        ...

    def close(self, *, cancel: bool = False) -> None:
        """Ends all it has; with `cancel` the searches in flight are abandoned."""
        ...
