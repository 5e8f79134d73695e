"""What is in a store, in figures and in lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair import values
from valuerepair.progress import format_duration, format_rate
from valuerepair.store import recall, schema
from valuerepair.store.connect import cell_errors
from valuerepair.store.phases import PHASES
from valuerepair.store.queries import QFrom, check_threshold, load_json, table
from valuerepair.store.rates import Rate, weighted
from valuerepair.store.rows import NET

if TYPE_CHECKING:
    from valuerepair.store.store import Store

# By way of the oracles the table's key is of use.
ANY_SCORED = """
SELECT EXISTS (SELECT 1 FROM oracles o CROSS JOIN deep_values v ON v.oracle_id = o.id AND v.stage = 'full')
"""
_COLUMNS = ("position_id", "disagreement", "weight", "phase_code", "side_code", "nodes", "time_ms")
THRESHOLDS = (0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)


def stats(
    store: Store,
    net: str | None,
    oracle: str | None,
    alpha: float | None,
    q_from: QFrom,
    threshold: float,
    thresholds: Sequence[float] | None = None,
) -> dict[str, Any]:
    """Figures of a store, JSON-able.

    Keys: store, schema, positions, games, sources, nets, oracles, runs; `scored` is None while nothing is scored by the
    net and oracle asked for, else it holds what `_scored` gives. Rates are fractions with Wilson's 95 % interval.
    """
    check_threshold(threshold)
    for each in thresholds or ():
        check_threshold(each)
    connection = store.connection
    (positions, games, sources) = connection.execute(
        "SELECT (SELECT count(*) FROM positions), (SELECT count(*) FROM games), "
        "(SELECT count(DISTINCT source) FROM games)"
    ).fetchone()
    any_scored = connection.execute(ANY_SCORED).fetchone()[0]
    scored = None
    if any_scored or net or oracle:
        scored = _scored(store, net, oracle, alpha, q_from, threshold, thresholds or sorted({*THRESHOLDS, threshold}))
    return {
        "store": store.path,
        "schema": schema.SCHEMA_VERSION,
        "positions": positions,
        "games": games,
        "sources": sources,
        "nets": store.nets().to_dict("records"),
        "oracles": store.oracles().to_dict("records"),
        "runs": _runs(store),
        "scored": scored,
    }


def _runs(store: Store) -> list[dict[str, Any]]:
    query = "SELECT id, command, seed, started, finished, state, counts FROM runs ORDER BY id"
    names = ("id", "command", "seed", "started", "finished", "state")
    return [
        {**dict(zip(names, row[:6], strict=True)), "counts": load_json(row[6])}
        for row in store.connection.execute(query)
    ]


def _scored(
    store: Store,
    net: str | None,
    oracle: str | None,
    alpha: float | None,
    q_from: QFrom,
    threshold: float,
    thresholds: Sequence[float],
) -> dict[str, Any]:
    """Rates of candidates among the positions scored by one net and oracle, and what the search cost.

    Positions without a Q of the kind `q_from` asks for are counted in `without_q` and in nothing else.
    """
    with cell_errors(store.path):
        found, attrs = table(store.connection, store.path, net, oracle, alpha, q_from, _COLUMNS)
    positions, known = len(found["position_id"]), np.flatnonzero(~np.isnan(found["disagreement"]))
    usable = found if len(known) == positions else {name: column[known] for name, column in found.items()}
    off, weight = usable["disagreement"], usable["weight"]
    size = np.abs(off)
    net_id, oracle_id = store.pick(attrs["net"]["sha256"], attrs["oracle"]["digest"])
    seconds, nodes = float(found["time_ms"].sum()) / 1000, int(found["nodes"].sum())
    return {
        **attrs,
        "positions": positions,
        "without_q": positions - len(known),
        "failed": _failures(store, net_id, oracle_id, attrs["net"]["sha256"]),
        "threshold": threshold,
        "by_threshold": [{"threshold": each, **_rate(size >= each, weight)} for each in thresholds],
        "by_phase": _by("phase", PHASES, usable["phase_code"], size >= threshold, weight),
        "by_side": _by("side", ("w", "b"), usable["side_code"], size >= threshold, weight),
        "by_sign": [
            {"sign": "optimistic", **_rate(off >= threshold, weight)},
            {"sign": "pessimistic", **_rate(off <= -threshold, weight)},
        ],
        "mean_abs_disagreement": float(size @ weight / weight.sum()) if len(known) else None,
        "screening": recall.figures(store, net_id, oracle_id, found, threshold),
        "nodes": nodes,
        "search_seconds": seconds,
        "nodes_per_second": nodes / seconds if seconds else None,
    }


def _failures(store: Store, net_id: int, oracle_id: int, net_key: str) -> int:
    """Positions that this oracle failed on, and those that this net did, whatever they were mined with."""
    of_oracle = "SELECT count(*) FROM failures WHERE oracle_id = ? AND stage = 'full'"
    of_net = """
        SELECT f.position_id FROM oracles o CROSS JOIN failures f ON f.oracle_id = o.id AND f.stage = ?
        WHERE NOT EXISTS (SELECT 1 FROM net_values n WHERE n.net_id = ? AND n.position_id = f.position_id)
    """
    (count,) = store.connection.execute(of_oracle, (oracle_id,)).fetchone()
    return int(count) + len(set(store.connection.execute(of_net, (NET + net_key, net_id))))


def _by(
    column: str, groups: Sequence[str], codes: NDArray[np.int8], hits: NDArray[np.bool_], weight: NDArray[np.float64]
) -> list[dict[str, Any]]:
    members = [np.flatnonzero(codes == code) for code, _ in enumerate(groups)]
    return [{column: group, **_rate(hits[of], weight[of])} for group, of in zip(groups, members, strict=True)]


def _rate(hits: NDArray[np.bool_], weight: NDArray[np.float64]) -> dict[str, Any]:
    """Weighted, so that a ladder's cuts bend nothing; `candidates` and `scored` count rows."""
    found = weighted(hits, weight)
    return {
        "candidates": found.count,
        "scored": found.total,
        "rate": None if isnan(found.rate) else found.rate,
        "low": None if isnan(found.low) else found.low,
        "high": None if isnan(found.high) else found.high,
    }


# -- lines ------------------------------------------------------------------------------------------------------------


def lines(figures: dict[str, Any]) -> list[str]:
    """The figures as text for a terminal."""
    shown = [
        f"{figures['store']}: {figures['positions']:,} positions from {figures['games']:,} games; "
        f"files: {figures['sources']:,}, runs: {len(figures['runs'])}"
    ]
    shown += [
        f"  net     {net['name']}  {net['sha256'][:12]}  {net['evaluated']:,} evaluated" for net in figures["nets"]
    ]
    for oracle in figures["oracles"]:
        failed = f", {oracle['failed']:,} failed" if oracle["failed"] else ""
        shown.append(f"  oracle  {oracle['label']}  {oracle['digest'][:12]}  {oracle['scored']:,} scored{failed}")
    scored = figures["scored"]
    if scored is None:
        return [*shown, "Nothing is scored yet. Next: vr mine ARCHIVE"]
    return [*shown, "", *_scored_lines(scored)]


def _scored_lines(scored: dict[str, Any]) -> list[str]:
    source = values.Alpha(**scored["alpha"]).source(scored["q_from"])
    speed = f", {format_rate(scored['nodes_per_second'])} an engine" if scored["nodes_per_second"] else ""
    nodes = scored["nodes"]
    searched = f"{nodes / 1e6:,.1f} Mnodes" if nodes >= 1e6 else f"{nodes:,} nodes"
    shown = [
        f"{scored['net']['name']} against {scored['oracle']['label']}, {source}",
        f"{scored['positions']:,} positions scored in full; {searched} in "
        f"{format_duration(scored['search_seconds'])} of searching{speed}",
    ]
    if scored["without_q"]:
        shown.append(f"{scored['without_q']:,} of them have no Q of the kind asked for and are left out below")
    shown += _table("threshold", scored["by_threshold"], lambda row: f"{row['threshold']:g}")
    at = f"at {scored['threshold']:g}"
    sides = {"w": "White to move", "b": "Black to move"}
    shown += _table(f"phase {at}", scored["by_phase"], lambda row: str(row["phase"]))
    shown += _table(f"side {at}", scored["by_side"], lambda row: sides[row["side"]])
    shown += _table(f"sign {at}", scored["by_sign"], lambda row: str(row["sign"]))
    if scored["screening"] is not None:
        shown += recall.lines(scored["screening"])
    return shown


def _table(title: str, rows: list[dict[str, Any]], name: Callable[[dict[str, Any]], str]) -> list[str]:
    lines = ["", title]
    for row in rows:
        rate = Rate(
            row["candidates"],
            row["scored"],
            *(float("nan") if row[k] is None else row[k] for k in ("rate", "low", "high")),
        )
        lines.append(f"  {name(row):<14}{rate}")
    return lines
