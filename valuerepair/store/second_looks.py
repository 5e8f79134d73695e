"""Second looks in the store: which oracles searched which positions again, and their raw results, without verdicts.

A second look is a row of deep_values with the stage SECOND and the oracle that took it. A search after a move is a row
with the stage AFTER and the move; its position_id is that of the position before the move, and its values are from the
side to move after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats
from valuerepair.chess.positions import decode_move
from valuerepair.store.connection import StoreConnection
from valuerepair.store.rows import AFTER, EXPANDED, FULL, SECOND, value_condition

# Every stage of a search after a move lies between these two: ";" follows ":".
_AFTER_STAGES = (AFTER, AFTER[:-1] + ";")


@dataclass(frozen=True, slots=True)
class StoredOracle:
    """An oracle as the store describes it; `id` is its number there, the other fields are as in `OracleIdentity`."""

    id: int
    label: str
    digest: str
    kind: str
    engine: str
    sha256: str
    limits: Mapping[str, Any]
    options: Mapping[str, Any]


class Looks(NamedTuple):
    """The n second looks of one oracle, by position: `ids` [n], ascending, and the raw `scores` [n, 6] of
    `chess.values.deep_q`.

    `nodes` are the nodes searched, `best` the move that the second look prefers (UCI), `net_best` and `deep_best` the
    moves of the net and of the first look; None if there is no move.
    """

    ids: NDArray[np.int64]
    scores: Floats
    nodes: NDArray[np.int64]
    best: list[str | None]
    net_best: list[str | None]
    deep_best: list[str | None]


class SearchesAfterMoves(NamedTuple):
    """m searches after moves: position `ids` [m], `moves` (UCI), and `scores` [m, 6] from the side that moves next."""

    ids: NDArray[np.int64]
    moves: list[str]
    scores: Floats


_ORACLE = "id, label, digest, kind, engine, sha256, limits, options"


def oracle_of(connection: StoreConnection, digest: str) -> StoredOracle:
    """The oracle with this digest, which must be in the store."""
    return _oracle(connection.row(f"SELECT {_ORACLE} FROM oracles WHERE digest = ?", (digest,)))


def second_oracles(connection: StoreConnection) -> list[StoredOracle]:
    """The oracles that took second looks, in the order of their numbers."""
    query = f"""
        SELECT {_ORACLE} FROM oracles o
        WHERE EXISTS (SELECT 1 FROM deep_values v WHERE v.oracle_id = o.id AND v.stage = ?) ORDER BY id
    """
    return [_oracle(row) for row in connection.execute(query, (SECOND,))]


def _oracle(row: tuple[Any, ...]) -> StoredOracle:
    number, label, digest, kind, engine, sha256, limits, options = row
    return StoredOracle(number, label, digest, kind, engine, sha256, json.loads(limits), json.loads(options))


def net_number(connection: StoreConnection, sha256: str, history_fill: str) -> int:
    """The number of the net that a frame's attrs name."""
    query = "SELECT id FROM nets WHERE sha256 = ? AND history_fill = ?"
    return int(connection.row(query, (sha256, history_fill))[0])


def looked_at(connection: StoreConnection, second_id: int) -> NDArray[np.int64]:
    """[n] the ids of the positions that this oracle took a second look at, ascending."""
    query = "SELECT position_id FROM deep_values WHERE oracle_id = ? AND stage = ? ORDER BY position_id"
    return np.array([row[0] for row in connection.execute(query, (second_id, SECOND))], np.int64)


def looks(connection: StoreConnection, net_id: int, first_id: int, second_id: int) -> Looks:
    """All second looks of an oracle, with the moves that the net and the first look preferred."""
    query = f"""
        SELECT s.cp, s.mate, s.w, s.d, s.l, s.q, s.position_id, s.nodes, s.best_move, n.best_move, v.best_move
        FROM deep_values s
        LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = s.position_id
        LEFT JOIN deep_values v ON {value_condition("all", "s.position_id")} AND v.position_id = s.position_id
        WHERE s.oracle_id = :second AND s.stage = :stage ORDER BY s.position_id
    """
    parameters = {"net": net_id, "oracle": first_id, "second": second_id, "stage": SECOND}
    rows = connection.execute(query, parameters).fetchall()
    return Looks(
        np.array([row[6] for row in rows], np.int64),
        _scores(rows),
        np.array([row[7] for row in rows], np.int64),
        [row[8] for row in rows],
        [decode_move(row[9]) if row[9] else None for row in rows],
        [row[10] for row in rows],
    )


def searches_after_moves(connection: StoreConnection, second_id: int) -> SearchesAfterMoves:
    """All searches of an oracle after moves."""
    query = """
        SELECT cp, mate, w, d, l, q, position_id, stage FROM deep_values
        WHERE oracle_id = ? AND stage >= ? AND stage < ?
    """
    rows = connection.execute(query, (second_id, *_AFTER_STAGES)).fetchall()
    return SearchesAfterMoves(
        np.array([row[6] for row in rows], np.int64), [row[7].removeprefix(AFTER) for row in rows], _scores(rows)
    )


def _scores(rows: list[tuple[Any, ...]]) -> Floats:
    """[n, 6] the first six columns of the rows: cp, mate, w, d, l, q."""
    return np.array([row[:6] for row in rows], np.float64).reshape(-1, 6)


def finished(connection: StoreConnection, second_id: int, ids: Iterable[int]) -> dict[int, dict[str, str | None]]:
    """The looks that an oracle has taken at these positions: position -> stage -> preferred move."""
    query = """
        SELECT position_id, stage, best_move FROM deep_values
        WHERE oracle_id = ? AND (stage = ? OR stage >= ? AND stage < ?)
        AND position_id IN (SELECT value FROM json_each(?))
    """
    by_position: dict[int, dict[str, str | None]] = {}
    parameters = (second_id, SECOND, *_AFTER_STAGES, json.dumps(list(ids)))
    for position_id, stage, best in connection.execute(query, parameters):
        by_position.setdefault(position_id, {})[stage] = best
    return by_position


def failed(connection: StoreConnection, oracle_id: int) -> dict[tuple[int, str], str]:
    """The searches that an oracle failed on: (position, stage) -> reason."""
    rows = connection.execute("SELECT position_id, stage, reason FROM failures WHERE oracle_id = ?", (oracle_id,))
    return {(position_id, stage): reason for position_id, stage, reason in rows}


def searches_made(connection: StoreConnection, run_id: int) -> int:
    """The number of searches that a run of second looks has made so far, without moves that end a game."""
    query = (
        "SELECT count(*) FROM deep_values WHERE run_id = ? AND (stage = ? OR stage >= ? AND stage < ?) AND nodes > 0"
    )
    return int(connection.execute(query, (run_id, SECOND, *_AFTER_STAGES)).fetchone()[0])


def take_over(connection: StoreConnection, second_id: int, ids: Iterable[int], run_id: int) -> None:
    """Copies this oracle's full searches of these positions as second looks.

    The same engine searched the same nodes (in rungs, if a ladder did), so these searches need not be repeated. For use
    within `Store.writing`.
    """
    query = """
        INSERT OR IGNORE INTO deep_values
        SELECT oracle_id, ?, position_id, cp, mate, w, d, l, q, depth, seldepth, nodes, time_ms, best_move, pv, ?
        FROM deep_values WHERE oracle_id = ? AND stage IN (?, ?) AND position_id IN (SELECT value FROM json_each(?))
    """
    parameters = (SECOND, run_id, second_id, FULL, EXPANDED, json.dumps(list(ids)))
    connection.execute(query, parameters)
