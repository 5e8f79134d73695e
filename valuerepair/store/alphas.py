"""Which alpha turns the centipawns of an oracle into Q, for a net."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from valuerepair import values
from valuerepair.archives.recorded_options import CHUNKS
from valuerepair.errors import UsageError
from valuerepair.store.columns import columns, facts


def gives_q(kind: str, options: Mapping[str, Any]) -> bool:
    """Whether an oracle gives Q itself, so that no alpha plays a role: searches with a net, and training chunks."""
    return kind in ("mcts", "lc0") or (kind == "recorded" and options.get("kind") == CHUNKS)


def alpha(connection: sqlite3.Connection, net_id: int, oracle_id: int, requested: float | None = None) -> values.Alpha:
    """The alpha to use, and where it comes from; see `Store.alpha`."""
    chosen = chosen_alpha(connection, net_id, oracle_id, requested)
    if chosen is not None:
        return chosen
    known = facts(connection, net_id, oracle_id)
    if "alpha" not in known:
        found = columns(connection, net_id, oracle_id, ("net_q", "cp", "weight"))
        known["alpha"] = values.auto_alpha(found["net_q"], found["cp"], found["weight"])
    fitted: values.Alpha = known["alpha"]
    return fitted


def chosen_alpha(
    connection: sqlite3.Connection, net_id: int, oracle_id: int, requested: float | None = None
) -> values.Alpha | None:
    """The alpha asked for, else the stored fit, of an oracle that gives Q itself any; None where there is none."""
    if requested is not None and not 0 < requested < float("inf"):
        raise UsageError(f"alpha must be a positive number of centipawns, not {requested:g}")
    kind, options = connection.execute("SELECT kind, options FROM oracles WHERE id = ?", (oracle_id,)).fetchone()
    if gives_q(kind, json.loads(options)):
        return values.Alpha(float(requested or values.DEFAULT_ALPHA), values.OWN_Q)
    if requested is not None:
        return values.Alpha(float(requested), "given")
    stored = connection.execute(
        "SELECT alpha, norm, n, fitted FROM alpha_fits WHERE net_id = ? AND oracle_id = ?", (net_id, oracle_id)
    ).fetchone()
    if stored is None:
        return None
    return values.Alpha(stored[0], f"stored fit of {stored[3][:10]} on {stored[2]:,} positions ({stored[1]})")
