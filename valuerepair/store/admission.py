"""Positions on their way into a store: which of them it has already, under which numbers, with which history."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.origins import Game
from valuerepair.positions import PositionBatch
from valuerepair.store.rows import Admission, game_row, position_rows, signed

_INSERT = f"""
INSERT INTO positions (id, key, fen, start_fen, moves, history_known, ply, side, phase, pieces, game_id, played,
eval_cp, eval_mate, run_id) VALUES ({", ".join("?" * 15)})
"""
_HISTORIES = """
SELECT id, fen, start_fen, moves, ply, history_known FROM positions
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
"""


def admit(
    connection: sqlite3.Connection, batch: PositionBatch, run_id: int, game_id: Callable[[tuple[Any, ...]], int]
) -> Admission:
    """Records positions that are new, in the order of the batch; `game_id` numbers a `game_row`."""
    (newest,) = connection.execute("SELECT coalesce(max(id), 0) FROM positions").fetchone()
    ids, rows = _numbered(connection, batch.key, newest)
    games = _games(batch, game_id)
    connection.executemany(
        _INSERT, position_rows(batch.take(rows), ids[rows].tolist(), [games[i] for i in rows.tolist()], run_id)
    )
    fresh = ids > newest
    return Admission(ids, _with_stored_history(connection, batch, ids, fresh), fresh)


def _numbered(
    connection: sqlite3.Connection, keys: NDArray[np.uint64], newest: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of positions with these board keys, those that are there and those to come, and the rows to add."""
    query = "SELECT key, id FROM positions WHERE key IN (SELECT value FROM json_each(?))"
    known: dict[int, int] = dict(connection.execute(query, (json.dumps(signed(keys)),)))
    ids, rows = [], []
    for i, key in enumerate(signed(keys)):
        number = known.get(key)
        if number is None:
            newest += 1
            number = known[key] = newest
            rows.append(i)
        ids.append(number)
    return np.array(ids, np.int64), np.array(rows, np.int64)


def _games(batch: PositionBatch, game_id: Callable[[tuple[Any, ...]], int]) -> list[int]:
    """The numbers of the games of all rows; those of one game lie together."""
    numbers: list[int] = []
    last: Game | None = None
    row: tuple[Any, ...] = ()
    for game in batch.origins.game:
        if game is not last:
            last, before, row = game, row, game_row(game)
            number = numbers[-1] if row == before else game_id(row)
        numbers.append(number)
    return numbers


def _with_stored_history(
    connection: sqlite3.Connection, batch: PositionBatch, ids: NDArray[np.int64], fresh: NDArray[np.bool_]
) -> PositionBatch:
    """`batch` with the store's own history in the rows that were there before."""
    old = np.flatnonzero(~fresh)
    if not len(old):
        return batch
    numbers, place = np.unique(ids[old], return_inverse=True)
    stored = connection.execute(_HISTORIES, (json.dumps(numbers.tolist()),)).fetchall()
    fen, start_fen = list(batch.fen), list(batch.start_fen)
    ply, known = batch.ply.copy(), batch.history_known.copy()
    pieces = [batch.moves[a:b] for a, b in pairwise(batch.offsets.tolist())]
    for i, at in zip(old.tolist(), place.tolist(), strict=True):
        _, fen[i], start_fen[i], moves, ply[i], known[i] = stored[at]
        pieces[i] = np.frombuffer(moves, "<u2").astype(np.uint16)
    offsets = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    return replace(
        batch,
        fen=fen,
        start_fen=start_fen,
        moves=np.concatenate(pieces),
        offsets=offsets,
        ply=ply,
        history_known=known,
    )
