"""The net's policy in the store: the priors of single moves of positions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from valuerepair.chess.positions import Position, decode_move, encode_move
from valuerepair.store.rows import POSITION_CELLS, position_batch, value_condition

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store


class Prior(NamedTuple):
    """The prior of one move (UCI) of a position: `p` among the legal moves, `rank` 1 for the net's first choice."""

    position_id: int
    move: str
    p: float
    rank: int


class MovesOfInterest(NamedTuple):
    """Which moves of a position are of interest: the one played and the oracle's best; None if unknown."""

    position_id: int
    position: Position
    played: str | None
    deep_best: str | None


def record_priors(store: Store, net_id: int, rows: Iterable[Prior]) -> None:
    """Records priors; they replace those of the same net, position and move. The caller commits."""
    with store.writing() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO priors (net_id, position_id, move, p, rank) VALUES (?, ?, ?, ?, ?)",
            [(net_id, row.position_id, encode_move(row.move), row.p, row.rank) for row in rows],
        )


def read_priors(store: Store, net_id: int, position_ids: Sequence[int]) -> pd.DataFrame:
    """The stored priors of these positions: columns position_id, move (UCI), p, rank; by position and rank."""
    import pandas as pd

    query = (
        "SELECT position_id, move, p, rank FROM priors "
        "WHERE net_id = ? AND position_id IN (SELECT value FROM json_each(?)) ORDER BY position_id, rank, move"
    )
    rows = store.connection.execute(query, (net_id, _listed(position_ids))).fetchall()
    columns = {
        "position_id": np.array([row[0] for row in rows], np.int64),
        "move": [decode_move(row[1]) for row in rows],
        "p": np.array([row[2] for row in rows], np.float64),
        "rank": np.array([row[3] for row in rows], np.int64),
    }
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


def moves_of_interest(store: Store, oracle_id: int, position_ids: Sequence[int]) -> list[MovesOfInterest]:
    """These positions, with the history the store keeps, and their moves of interest; in the order of their numbers."""
    query = f"""
        SELECT p.id, p.played, v.best_move, {POSITION_CELLS}
        FROM positions p
        LEFT JOIN deep_values v ON {value_condition("all", "p.id")} AND v.position_id = p.id
        WHERE p.id IN (SELECT value FROM json_each(:ids)) ORDER BY p.id
    """
    parameters = {"oracle": oracle_id, "ids": _listed(position_ids)}
    rows = store.connection.execute(query, parameters).fetchall()
    positions = position_batch([row[3:] for row in rows]) if rows else ()
    return [
        MovesOfInterest(number, position, played, best)
        for (number, played, best, *_), position in zip(rows, positions, strict=True)
    ]


def _listed(numbers: Sequence[int]) -> str:
    return json.dumps([int(number) for number in numbers])
