"""The scale of Q for readers of a store: which alpha and which calibration judge a net and an oracle.

The calibration is the stored one, or a fit to the scored positions. For the alpha, and what training by one does to the
scale of a net's Q, see docs/methods/scale.md, "Alpha".
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np

from valuerepair.arrays import Floats, Ids
from valuerepair.calibration import Calibration, fit, fold_of
from valuerepair.chess import values
from valuerepair.engines.kinds import kind_of
from valuerepair.errors import UsageError
from valuerepair.question import Expanded, QFrom
from valuerepair.store.columns import GAME_KEY, both_q, columns, facts, games_of
from valuerepair.store.connection import StoreConnection
from valuerepair.store.rows import now
from valuerepair.text import positions_of_games

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


class UsedCalibration(NamedTuple):
    """A calibration in use, and its origin in words."""

    calibration: Calibration
    origin: str

    def figures(self) -> dict[str, Any]:
        """The origin and the figures of the calibration, JSON-able."""
        return {"origin": self.origin, **self.calibration.figures()}


def used_calibration(
    connection: StoreConnection, net_id: int, oracle_id: int, alpha: values.Alpha, q_from: QFrom
) -> UsedCalibration:
    """The stored calibration if it was fitted to this alpha and `q_from`, else a fit to the scored positions.

    Raises TooFewPositions if no calibration is stored and the data are too few to fit one.
    """
    cache = facts(connection, net_id, oracle_id)
    name = f"calibration {alpha.value!r} {q_from}"
    if name not in cache:
        chosen = stored_calibration(
            connection, net_id, oracle_id, alpha.value, q_from, own_q=alpha.origin == values.OWN_Q
        )
        if chosen is None:
            row = _row(connection, net_id, oracle_id)
            reason = f", for the stored one is of {values.Alpha(row[0], row[3][:10]).source(row[1])}" if row else ""
            chosen = _with_origin(fitted_calibration(connection, net_id, oracle_id, alpha, q_from), "fitted", reason)
        cache[name] = chosen
    calibration: UsedCalibration = cache[name]
    return calibration


def stored_calibration(
    connection: StoreConnection, net_id: int, oracle_id: int, alpha: float, q_from: QFrom, *, own_q: bool
) -> UsedCalibration | None:
    """The stored calibration, if it is of this `q_from` and alpha; with `own_q` alpha has no effect."""
    row = _row(connection, net_id, oracle_id)
    if row is None or row[1] != q_from or (row[0] != alpha and q_from == "cp" and not own_q):
        return None
    return _with_origin(Calibration.from_json(row[2]), f"stored fit of {row[3][:10]}")


def _row(connection: StoreConnection, net_id: int, oracle_id: int) -> tuple[Any, ...] | None:
    query = "SELECT alpha, q_from, curve, fitted FROM calibrations WHERE net_id = ? AND oracle_id = ?"
    row: tuple[Any, ...] | None = connection.execute(query, (net_id, oracle_id)).fetchone()
    return row


def fitted_calibration(
    connection: StoreConnection, net_id: int, oracle_id: int, alpha: values.Alpha, q_from: QFrom
) -> Calibration:
    """A fit to all sampled positions that both have scored. Raises TooFewPositions if these are too few."""
    scored = columns(connection, net_id, oracle_id, ("weight", GAME_KEY))
    net_q, deep_q = both_q(connection, net_id, oracle_id, alpha.value, q_from)
    return fit(net_q, deep_q, scored["weight"], scored[GAME_KEY], alpha=alpha.value, q_from=q_from)


def calibrated_q(
    connection: StoreConnection,
    net_id: int,
    oracle_id: int,
    calibration: Calibration,
    expanded: Expanded,
    cut: bool,
) -> Floats:
    """[n] the expected deep Q of each row of `columns`, by the curve that was fitted without its game."""
    scored = columns(connection, net_id, oracle_id, ("net_q", GAME_KEY), expanded, cut)
    return calibration.expected(scored["net_q"], fold_of(scored[GAME_KEY]))


def calibrated_of(
    connection: StoreConnection, calibration: Calibration, ids: Ids | Sequence[int], net_q: Floats | Sequence[float]
) -> Floats:
    """[n] the expected deep Q of a few positions with these net values, `net_q` [n], as in `calibrated_q`."""
    return calibration.expected(net_q, fold_of(games_of(connection, ids)))


def store_calibration(connection: StoreConnection, net_id: int, oracle_id: int, calibration: Calibration) -> None:
    """Stores a calibration for this net and oracle; it replaces an earlier one."""
    scale = (calibration.alpha, calibration.q_from)
    row = (net_id, oracle_id, *scale, calibration.as_json(), calibration.positions, calibration.games, now())
    connection.execute("INSERT OR REPLACE INTO calibrations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def _with_origin(calibration: Calibration, how: str, reason: str = "") -> UsedCalibration:
    data = positions_of_games(calibration.positions, calibration.games)
    return UsedCalibration(calibration, f"{how} on {data} ({calibration.method}){reason}")
