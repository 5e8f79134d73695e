"""Everything that a store has about one position: the row that `vr show` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from valuerepair.chess.positions import decode_move, decode_moves
from valuerepair.store.queries import CELLS_OF_FRAME, COLUMNS
from valuerepair.store.rows import EXPANDED, FULL, NET, value_condition
from valuerepair.store.selection import selection_weights

if TYPE_CHECKING:
    from valuerepair.store.store import Store

# Name (as in `Store.frame`, if a frame has the column) -> SQL.
_COLUMNS = {
    "position_id": "p.id", **{name: CELLS_OF_FRAME[name] for name in COLUMNS if name in CELLS_OF_FRAME},
    "net_best_p": "n.best_p", "deep_own_q": "v.q",
    "stage": "v.stage", "failure": 'coalesce(f.reason, x.reason) AS "failures.reason"',
    "net_failure": "(SELECT y.reason FROM nets m CROSS JOIN oracles o CROSS JOIN failures y ON y.oracle_id = o.id "
    f"AND y.stage = '{NET}' || m.sha256 AND y.position_id = p.id WHERE m.id = :net LIMIT 1) AS \"failures.reason\"",
    "cut_at": "CASE WHEN NOT coalesce(c.searched, e.searched) THEN coalesce(c.cut_at, e.cut_at) END "
    'AS "screened.cut_at"',
    "chance": 'coalesce(c.chance, e.chance) AS "screened.chance"',
    "root_id": "e.root_id", "parent_id": "e.parent_id", "step": "e.step", "distance": "e.distance",
}  # fmt: skip


class PlayedFrom(NamedTuple):
    """A game that was played from a position; `z` is its result for the side to move there, None: undecided."""

    white: str
    black: str
    z: float | None


def one_position(store: Store, position_id: int, net_id: int, oracle_id: int) -> dict[str, Any]:
    """A position of the store with the values of a net and an oracle (0: none): `_COLUMNS` and `weight`.

    Values are as in `Store.frame`, None if missing. `moves` and `pv` are lists of UCI moves. `stage` is that of the
    deep value (`store.rows`). `failure` and `net_failure`: why oracle and net have no value. `cut_at` and `chance`:
    where the screening ladder cut the position, and the probability of a candidate there. `root_id`, `parent_id`,
    `step` and `distance` say how `vr expand` reached the position.
    """
    query = f"""
        SELECT {", ".join(_COLUMNS.values())} FROM positions p JOIN games g ON g.id = p.game_id
        LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = p.id
        LEFT JOIN deep_values v ON {value_condition("all", "p.id")} AND v.position_id = p.id
        LEFT JOIN failures f ON f.oracle_id = :oracle AND f.stage = '{FULL}' AND f.position_id = p.id
        LEFT JOIN failures x ON x.oracle_id = :oracle AND x.stage = '{EXPANDED}' AND x.position_id = p.id
        LEFT JOIN expanded e ON e.net_id = :net AND e.oracle_id = :oracle AND e.position_id = p.id
        LEFT JOIN screened c ON c.net_id = :net AND c.oracle_id = :oracle AND c.position_id = p.id
        WHERE p.id = :id
    """
    cells = store.connection.row(query, {"net": net_id, "oracle": oracle_id, "id": position_id})
    row: dict[str, Any] = dict(zip(_COLUMNS, cells, strict=True))
    (weight,) = selection_weights(store.connection, np.array([position_id]), oracle_id, net_id).tolist()
    row["moves"] = list(decode_moves(np.frombuffer(row["moves"], "<u2")))
    row["pv"] = (row["pv"] or "").split()
    row["net_best"] = decode_move(row["net_best"]) if row["net_best"] else None
    row["history_known"] = bool(row["history_known"])
    return row | {"weight": weight}


def played_from(store: Store, position_id: int) -> list[PlayedFrom]:
    """The games that began at a position of the store, in the order of runs and games."""
    query = """
        SELECT g.white, g.black, g.z FROM plays g JOIN positions p ON p.key = g.key
        WHERE p.id = ? ORDER BY g.run_id, g.number
    """
    return [PlayedFrom(*row) for row in store.connection.execute(query, (position_id,))]
