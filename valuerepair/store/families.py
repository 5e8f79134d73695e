"""Families, the positions that were reached from a sampled candidate: all of them as columns, or one as a list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.positions import decode_moves
from valuerepair.store.rows import EXPANDED, INFERRED, value_condition

if TYPE_CHECKING:
    from valuerepair.store.store import Store

# How a position was reached, in the order of tables and trees.
LINE, PARENT, CHILD, GAME = STEPS = ("line", "parent", "child", "game")
ANY_REACHED = "SELECT EXISTS (SELECT 1 FROM expanded WHERE net_id = ? AND oracle_id = ?)"
_SCORE = ("cp", "mate", "w", "d", "l", "q")
_SEARCHED = value_condition("searched", "e.position_id", "s")
# A search made by a run for another net counts with its nodes here, too.
REACHED = f"""
SELECT e.position_id, e.root_id, {" ".join(f"CASE e.step WHEN '{step}' THEN {i} ELSE" for i, step in enumerate(STEPS))}
NULL {"END " * len(STEPS)}, e.distance, e.round, e.drawn, e.cut_at, e.probability, e.run_id,
CASE WHEN e.nodes > 0 THEN e.nodes ELSE coalesce(s.nodes, 0) END AS "expanded.nodes", n.q,
s.position_id IS NOT NULL, {", ".join(f"s.{name}" for name in _SCORE)},
i.position_id IS NOT NULL, {", ".join(f"i.{name}" for name in _SCORE)}
FROM expanded e
LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = e.position_id
LEFT JOIN deep_values s ON {_SEARCHED} AND s.position_id = e.position_id
LEFT JOIN deep_values i ON i.oracle_id = :oracle AND i.stage = '{INFERRED}' AND i.position_id = e.position_id
WHERE e.net_id = :net AND e.oracle_id = :oracle ORDER BY e.position_id
"""
_NAMES = (
    *("position_id", "root_id", "step", "distance", "round", "drawn"),
    *("cut_at", "probability", "run_id", "nodes", "net_q"),
)


def any_reached(store: Store, net_id: int, oracle_id: int) -> bool:
    """Whether any position was reached from a candidate, for this net and oracle."""
    return bool(store.connection.execute(ANY_REACHED, (net_id, oracle_id)).fetchone()[0])


def reached(store: Store, net_id: int, oracle_id: int) -> dict[str, NDArray[Any]]:
    """All positions that were reached from candidates, by position, as columns [n].

    position_id, root_id, `step` (an index into `STEPS`), distance, round, `drawn` (bool), `cut_at` (NaN: not cut),
    probability, run_id, nodes, `net_q`; `searched` and `inferred` (bool): whether there is a value by a search and one
    inferred from a line. Their scores are the columns searched_cp, searched_mate, and so on with w, d, l and q, and
    inferred_cp, and so on; NaN if missing.
    """
    cells = store.connection.numbers(REACHED, {"net": net_id, "oracle": oracle_id})
    names = [*_NAMES, "searched", *(f"searched_{n}" for n in _SCORE), "inferred", *(f"inferred_{n}" for n in _SCORE)]
    columns: dict[str, NDArray[Any]] = dict(zip(names, cells, strict=True))
    if np.isnan(columns["step"]).any():  # not one of `STEPS`: reading the cell raises an error that names it
        store.connection.execute("SELECT step FROM expanded").fetchall()
    for name in ("position_id", "root_id", "step", "distance", "round", "run_id", "nodes"):
        columns[name] = columns[name].astype(np.int64)
    for name in ("drawn", "searched", "inferred"):
        columns[name] = columns[name] != 0
    return columns


def left_nothing(store: Store, run_ids: Sequence[int]) -> bool:
    """Whether these runs searched everything that they could reach, so that no choice affects their rates."""
    query = """
        SELECT count(*) FROM runs WHERE id IN (SELECT value FROM json_each(?))
        AND state = 'finished' AND json_extract(counts, '$.why') = 'everything'
    """
    (count,) = store.connection.execute(query, (json.dumps([*run_ids]),)).fetchone()
    return int(count) == len(run_ids)


class Member(NamedTuple):
    """A position of a family; parent, step, distance and round are None for the root itself.

    `moves` lead from `start_fen` to `fen`. `stage` is the stage of its deep value (`store.rows.value_condition`), None
    without one; `deep` has the value's cp, mate, w, d, l, q. `failure` is the reason why its search failed.
    """

    position_id: int
    parent_id: int | None
    step: str | None
    distance: int | None
    round: int | None
    cut_at: int | None
    fen: str
    start_fen: str
    moves: tuple[str, ...]
    net_q: float | None
    stage: str | None
    failure: str | None
    deep: tuple[float | None, ...]


_MEMBERS = f"""
SELECT m.root_id, p.id, e.parent_id, e.step, e.distance, e.round, CASE WHEN NOT e.searched THEN e.cut_at END,
p.fen, p.start_fen, p.moves, n.q, v.stage, f.reason, {", ".join(f"v.{name}" for name in _SCORE)}
FROM (SELECT value root_id, value id FROM json_each(:roots)
      UNION ALL SELECT r.root_id, r.position_id FROM json_each(:roots) j
      CROSS JOIN expanded r ON r.root_id = j.value WHERE r.net_id = :net AND r.oracle_id = :oracle) m
CROSS JOIN positions p ON p.id = m.id
LEFT JOIN expanded e ON e.net_id = :net AND e.oracle_id = :oracle AND e.position_id = m.id AND m.id <> m.root_id
LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = m.id
LEFT JOIN deep_values v ON {value_condition("all", "m.id")} AND v.position_id = m.id
LEFT JOIN failures f ON f.oracle_id = :oracle AND f.stage = '{EXPANDED}' AND f.position_id = m.id
"""
_ROOTS_OF = """
SELECT j.value, coalesce(
    (SELECT root_id FROM expanded WHERE root_id = j.value AND net_id = :net AND oracle_id = :oracle),
    (SELECT root_id FROM expanded WHERE net_id = :net AND oracle_id = :oracle AND position_id = j.value)) found
FROM json_each(:ids) j WHERE found NOT NULL
"""


def roots_of(store: Store, net_id: int, oracle_id: int, ids: Sequence[int]) -> dict[int, int]:
    """The root of each position's family, by position, in the order of `ids`; positions without a family are left out.

    A position that others were reached from is its own root.
    """
    parameters = {"net": net_id, "oracle": oracle_id, "ids": json.dumps([*ids])}
    return dict(store.connection.execute(_ROOTS_OF, parameters).fetchall())


def members(store: Store, net_id: int, oracle_id: int, roots: Sequence[int]) -> dict[int, list[Member]]:
    """The families of `roots`, by root; the root comes first, the others follow by position_id."""
    parameters = {"net": net_id, "oracle": oracle_id, "roots": json.dumps([*roots])}
    by_root: dict[int, list[Member]] = {root: [] for root in roots}
    for row in store.connection.execute(_MEMBERS, parameters):
        moves = decode_moves(np.frombuffer(row[9], "<u2"))
        by_root[row[0]].append(Member(*(*row[1:9], moves, *row[10:13], tuple(row[13:]))))
    for root, family in by_root.items():
        family.sort(key=lambda member: (member.position_id != root, member.position_id))
    return by_root
