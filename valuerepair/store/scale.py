"""The scale of Q for readers of a store: which alpha judges a net and an oracle, and what training by it does.

See docs/methods.md, "Alpha".
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from valuerepair.chess import values
from valuerepair.engines.kinds import kind_of
from valuerepair.errors import UsageError
from valuerepair.question import QFrom
from valuerepair.store.columns import both_q, columns, facts
from valuerepair.store.connection import StoreConnection

# Alphas whose logarithms differ by at most a tenth count as the same scale.
_ALIKE = 0.1
# A slope that differs from 1 by less leaves the scale as it is.
_SLOPE_ALIKE = 0.05
# The fits that count. Version 0.1.0 also stored fits to net Q by distance, which flatten what a net learns.
FITS = get_args(values.FitTo)
# The columns that `values.fit_alpha` takes, in its order.
_TO_FIT = ("net_q", "cp", "mate", "weight", "game_id")


def alpha(connection: StoreConnection, net_id: int, oracle_id: int, requested: float | None = None) -> values.Alpha:
    """The alpha and its origin; see `Store.alpha`."""
    chosen = chosen_alpha(connection, net_id, oracle_id, requested)
    if chosen is not None:
        return chosen
    cache = facts(connection, net_id, oracle_id)
    if "alpha" not in cache:
        scored = columns(connection, net_id, oracle_id, _TO_FIT)
        cache["alpha"] = values.auto_alpha(*(scored[name] for name in _TO_FIT))
    fitted: values.Alpha = cache["alpha"]
    return fitted


def chosen_alpha(
    connection: StoreConnection, net_id: int, oracle_id: int, requested: float | None = None
) -> values.Alpha | None:
    """The requested alpha, else the stored fit, else None. For an oracle that gives Q itself, alpha has no effect."""
    if requested is not None and not 0 < requested < float("inf"):
        raise UsageError(f"alpha must be a positive number of centipawns, not {requested:g}")
    kind, options = connection.execute("SELECT kind, options FROM oracles WHERE id = ?", (oracle_id,)).fetchone()
    if kind_of(kind).gives_q(json.loads(options)):
        return values.Alpha(float(requested or values.DEFAULT_ALPHA), values.OWN_Q)
    if requested is not None:
        return values.Alpha(float(requested), "given")
    query = f"SELECT alpha, norm, n, fitted FROM alpha_fits WHERE net_id = ? AND oracle_id = ? AND norm IN {FITS}"
    stored = connection.execute(query, (net_id, oracle_id)).fetchone()
    if stored is None:
        return None
    value, norm, n, fitted = stored
    return values.Alpha(value, f"stored fit of {fitted[:10]} on {n:,} positions ({norm})")


def are_alike(alpha: float, other_alpha: float) -> bool:
    """Whether two alphas are practically the same scale."""
    return abs(math.log(alpha / other_alpha)) <= _ALIKE


@dataclass(frozen=True, slots=True)
class TrainingScale:
    """What training on deep Q does to the scale of a net's Q.

    `slope`: how many times as steep the net's Q becomes (`values.slope_of`), by `alpha`. `level` is the alpha that
    would leave it as it is; None if Q is not computed from centipawns, or no alpha does.
    """

    alpha: values.Alpha
    q_from: QFrom
    slope: values.Slope
    level: float | None

    def figures(self) -> dict[str, Any]:
        """The fields and the sentence of `line`, JSON-able."""
        return {
            "alpha": self.alpha.value,
            "origin": self.alpha.origin,
            "steeper": self.slope._asdict(),
            "level": self.level,
            "words": self.line(),
        }

    def line(self) -> str:
        """The scale as a sentence for the user."""
        of_centipawns = self.alpha.is_of_centipawns(self.q_from)
        source = f"alpha {self.alpha.shown}" if of_centipawns else self.alpha.source(self.q_from)
        if self.slope.value <= 0:
            return f"by {source} the scale of the net's Q cannot be determined: deep Q does not rise with net Q"
        steep = f"{self.slope.value:.2f} times as steep (95 %: {self.slope.low:.2f} to {self.slope.high:.2f})"
        if abs(self.slope.value - 1) < _SLOPE_ALIKE:
            return f"by {source} the net's Q would keep its scale: {steep}"
        level = (
            "" if self.level is None else f"; alpha {values.Alpha(self.level, '').shown} would leave its scale alone"
        )
        return f"by {source} the net's Q would become {steep}{level}"


def training_scale(
    connection: StoreConnection, net_id: int, oracle_id: int, trained_by: values.Alpha, q_from: QFrom
) -> TrainingScale | None:
    """What training by this alpha does to the scale of the net's Q, by the sampled positions; None if fewer than
    `values.AUTO_MIN_POSITIONS` of them have both values."""
    scored = columns(connection, net_id, oracle_id, _TO_FIT)
    net_q, deep_q = both_q(connection, net_id, oracle_id, trained_by.value, q_from)
    if int((~np.isnan(net_q + deep_q)).sum()) < values.AUTO_MIN_POSITIONS:
        return None
    slope = values.slope_of(net_q, deep_q, scored["weight"], scored["game_id"])
    if math.isnan(slope.value):
        return None
    level = None
    if trained_by.is_of_centipawns(q_from):
        keeping = values.fit_alpha(*(scored[name] for name in _TO_FIT))
        level = None if keeping.at_bound else keeping.alpha
    return TrainingScale(trained_by, q_from, slope, level)
