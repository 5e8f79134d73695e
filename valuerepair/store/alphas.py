"""Which alpha turns the centipawns of an oracle into Q, for a net."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

import numpy as np

from valuerepair import values
from valuerepair.archives.recorded_options import CHUNKS
from valuerepair.errors import UsageError
from valuerepair.store.columns import columns, facts

# Every further row would sharpen alpha by less than its time is worth.
_AUTO_FIT_ROWS = 100_000


def gives_q(kind: str, options: Mapping[str, Any]) -> bool:
    """Whether an oracle gives Q itself, so that no alpha plays a role: searches with a net, and training chunks."""
    return kind in ("mcts", "lc0") or (kind == "recorded" and options.get("kind") == CHUNKS)


def alpha(connection: sqlite3.Connection, net_id: int, oracle_id: int, requested: float | None = None) -> values.Alpha:
    """The alpha to use, and where it comes from; see `Store.alpha`."""
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
    if stored is not None:
        return values.Alpha(stored[0], f"stored fit of {stored[3][:10]} on {stored[2]:,} positions ({stored[1]})")
    known = facts(connection, net_id, oracle_id)
    if "alpha" not in known:
        known["alpha"] = _fitted(connection, net_id, oracle_id)
    fitted: values.Alpha = known["alpha"]
    return fitted


def _fitted(connection: sqlite3.Connection, net_id: int, oracle_id: int) -> values.Alpha:
    """Alpha by what is scored, or the default."""
    found = columns(connection, net_id, oracle_id, ("net_q", "cp", "weight"))
    rows = np.flatnonzero(~np.isnan(found["cp"]))
    default = f"default {values.DEFAULT_ALPHA:g}"
    if len(rows) < values.AUTO_MIN_POSITIONS:
        reason = f"fewer than {values.AUTO_MIN_POSITIONS} scores in centipawns, {len(rows)} so far"
        return values.Alpha(values.DEFAULT_ALPHA, f"{default}: {reason}")
    every = rows[:: -(-len(rows) // _AUTO_FIT_ROWS)]
    net_q, cp, weights = (found[name][every] for name in ("net_q", "cp", "weight"))
    if np.count_nonzero(cp) < 2:
        return values.Alpha(values.DEFAULT_ALPHA, f"{default}: nearly all scores are 0")
    fit = values.fit_alpha(net_q, cp, weights, bootstrap=0)
    if fit.at_bound:
        return values.Alpha(values.DEFAULT_ALPHA, f"{default}: the {fit.n:,} scored positions determine no alpha")
    of_all = "" if fit.n == len(rows) else f" of {len(rows):,}"
    return values.Alpha(fit.alpha, f"fitted on {fit.n:,}{of_all} positions ({fit.norm})")
