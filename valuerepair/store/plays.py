"""Games that were played from book positions: what a store keeps of them, and their results by position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valuerepair.store.rows import Run, signed

if TYPE_CHECKING:
    from valuerepair.store.store import Store


@dataclass(frozen=True, slots=True)
class Play:
    """A game of a run: `number` and `opening` (the line of the book) count from 0, `key` and `fen` are the position at
    the line's end, `z` is the result for the side to move there (None: undecided), `plies` the length after the book.
    """

    number: int
    opening: int
    key: int
    fen: str
    white: str
    black: str
    result: str
    z: float | None
    plies: int
    ending: str


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Decided games by position of the store: `ids` [n], ascending; `games` [n], their number; `z` [n], their mean
    result for the side to move.
    """

    ids: NDArray[np.int64]
    games: NDArray[np.int64]
    z: NDArray[np.float64]


def add_plays(store: Store, run: Run, plays: Iterable[Play]) -> None:
    """Adds the games that the store does not have, in the open transaction."""
    rows = [(run.id, *astuple(replace(play, key=signed(np.array([play.key], np.uint64))[0]))) for play in plays]
    with store.writing() as connection:
        connection.executemany("INSERT OR IGNORE INTO plays VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def outcomes(store: Store) -> Outcomes:
    """The results of all runs' decided games whose position is in the store."""
    query = """
        SELECT p.id, count(*), avg(g.z)
        FROM plays g CROSS JOIN positions p ON p.key = g.key WHERE g.z IS NOT NULL GROUP BY p.id ORDER BY p.id
    """
    rows = store.connection.execute(query).fetchall()
    ids, games, z = zip(*rows, strict=True) if rows else ((), (), ())
    return Outcomes(np.array(ids, np.int64), np.array(games, np.int64), np.array(z, np.float64))
