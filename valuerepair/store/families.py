"""Families: the positions that were reached from one sampled candidate, as columns of all, and one family by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.store.columns import read_cells
from valuerepair.store.connect import store_errors
from valuerepair.store.rows import INFERRED, is_value

if TYPE_CHECKING:
    from valuerepair.store.store import Store

Floats = NDArray[np.float64]
# How a position was reached, in the order in which they are told.
STEPS = ("line", "parent", "child", "game")
ANY_REACHED = "SELECT EXISTS (SELECT 1 FROM expanded WHERE net_id = ? AND oracle_id = ?)"
_SCORE = ("cp", "mate", "w", "d", "l", "q")
_SEARCHED = is_value("searched", "e.position_id", "s")
# A search that another net's run made counts with its nodes: somebody spent them.
REACHED = f"""
SELECT e.position_id, e.root_id, {" ".join(f"CASE e.step WHEN '{step}' THEN {i} ELSE" for i, step in enumerate(STEPS))}
NULL {"END " * len(STEPS)}, e.distance, e.round, e.drawn, e.cut_at, e.probability,
CASE WHEN e.nodes > 0 THEN e.nodes ELSE coalesce(s.nodes, 0) END, n.q,
s.position_id IS NOT NULL, {", ".join(f"s.{name}" for name in _SCORE)},
i.position_id IS NOT NULL, {", ".join(f"i.{name}" for name in _SCORE)}
FROM expanded e
LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = e.position_id
LEFT JOIN deep_values s ON {_SEARCHED} AND s.position_id = e.position_id
LEFT JOIN deep_values i ON i.oracle_id = :oracle AND i.stage = '{INFERRED}' AND i.position_id = e.position_id
WHERE e.net_id = :net AND e.oracle_id = :oracle ORDER BY e.position_id
"""
_NAMES = ("position_id", "root_id", "step", "distance", "round", "drawn", "cut_at", "probability", "nodes", "net_q")


def any_reached(store: Store, net_id: int, oracle_id: int) -> bool:
    """Whether any position was reached from a candidate, for this net and oracle."""
    with store_errors(store.path):
        return bool(store.connection.execute(ANY_REACHED, (net_id, oracle_id)).fetchone()[0])


def reached(store: Store, net_id: int, oracle_id: int) -> dict[str, NDArray[Any]]:
    """All positions that were reached from candidates, by position, as columns [n].

    position_id, root_id, `step` (an index into `STEPS`), distance, round, `drawn` (bool), `cut_at` (NaN: nowhere),
    probability, nodes, `net_q`; `searched` and `inferred` (bool): which values there are, and these as `search_` and
    `line_` with cp, mate, w, d, l, q; NaN where there is nothing.
    """
    width = len(_NAMES) + 2 * (1 + len(_SCORE))
    with store_errors(store.path):
        cells = read_cells(store.connection, REACHED, {"net": net_id, "oracle": oracle_id}, width)
    names = [*_NAMES, "searched", *(f"search_{n}" for n in _SCORE), "inferred", *(f"line_{n}" for n in _SCORE)]
    found: dict[str, NDArray[Any]] = dict(zip(names, cells, strict=True))
    for name in ("position_id", "root_id", "step", "distance", "round", "nodes"):
        found[name] = found[name].astype(np.int64)
    for name in ("drawn", "searched", "inferred"):
        found[name] = found[name] != 0
    return found
