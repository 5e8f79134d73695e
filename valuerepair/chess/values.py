"""Every conversion to Q, the expected result in [-1, 1], and the fit of alpha.

All scores and all Q here are from the side to move of the same position: +1 is a win for the side to move, 0 a draw,
-1 a loss. Functions take scalars or arrays of any one shape and return float64 arrays of that shape (0-d for scalars);
NaN stands for a missing score and stays NaN.

The logistic is ``Q = 2 / (1 + exp(-cp / alpha)) - 1``, which is ``tanh(cp / (2 alpha))``: twice the expected score
of the Elo formula, less one. alpha is in centipawns; 170 is close to the Elo formula's 400 / ln 10 = 173.7 with one
centipawn for one Elo point. Centipawns of different engines, and of different versions of one, are different
units, so alpha belongs to a pair of net and oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuerepair.arrays import Floats

DEFAULT_ALPHA = 170.0
AUTO_MIN_POSITIONS = 300
ALPHA_BOUNDS = (10.0, 10_000.0)
# The largest Q a centipawn score can have: the last float below 1, so that a mate is beyond any centipawn score.
MAX_CP_Q = float(np.nextafter(1.0, 0.0))

# Origins of an alpha that has no effect, because Q does not come from centipawns.
OWN_Q = "the search's own Q"
OF_WDL = "the engine's WDL"

# The target of a fit of alpha: the slope of deep Q given net Q, or the results of games.
FitTo = Literal["slope", "results"]

_GRID_POINTS = 97
_CELL_POINTS = 17  # of each grid over the best cell of the previous one
_LOG_STEP = 1e-6  # of the last grid: the relative precision of alpha
_NORMAL = 1.959964  # the normal distribution's quantile of a 95 % interval


@dataclass(frozen=True, slots=True)
class Alpha:
    """An alpha and its origin in words for the user: ``fitted on 2,310 positions (slope)``, ``given``.

    With the origin `OWN_Q` or `OF_WDL`, Q does not come from centipawns, and `value` has no effect.
    """

    value: float
    origin: str

    def is_of_centipawns(self, q_from: str) -> bool:
        """Whether deep Q comes from centipawns, by `value`."""
        return q_from == "cp" and self.origin not in (OWN_Q, OF_WDL)

    def source(self, q_from: str = "cp") -> str:
        """The source of deep Q in words: an oracle's own Q takes precedence over W/D/L, and W/D/L over centipawns."""
        if self.origin == OWN_Q:
            return OWN_Q
        return OF_WDL if q_from == "wdl" or self.origin == OF_WDL else f"alpha {self.shown} ({self.origin})"

    @property
    def shown(self) -> str:
        """The value for a terminal, in three digits or more."""
        return f"{self.value:.0f}" if self.value >= 100 else f"{self.value:.3g}"


@dataclass(frozen=True, slots=True)
class AlphaFit:
    """A fitted alpha (centipawns).

    `low` and `high` are the bounds of the 95 % interval, which treats each game as one observation; NaN if there is no
    interval. `n` is the number of rows with a centipawn score. `residual` is the weighted root mean square difference
    between Q and the target of the fit, net Q or results.
    """

    alpha: float
    low: float
    high: float
    norm: FitTo
    n: int
    residual: float

    @property
    def at_bound(self) -> bool:
        """Whether the minimum lies at an end of `ALPHA_BOUNDS`: the scores do not determine an alpha."""
        low, high = ALPHA_BOUNDS
        return not low * 1.01 < self.alpha < high / 1.01


def cp_to_q(cp: ArrayLike, alpha: float) -> Floats:
    """Q of a centipawn score: ``tanh(cp / (2 alpha))``, odd and monotone, within ±`MAX_CP_Q`."""
    q = np.tanh(np.asarray(cp, np.float64) / (2 * _checked(alpha)))
    return np.clip(q, -MAX_CP_Q, MAX_CP_Q)


def q_to_cp(q: ArrayLike, alpha: float) -> Floats:
    """The centipawn score with this Q, the inverse of `cp_to_q`: ``2 alpha artanh(q)``; ±inf for ±1, NaN outside."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(2 * _checked(alpha) * np.arctanh(np.asarray(q, np.float64)))


def mate_to_q(mate: ArrayLike) -> Floats:
    """±1 for a forced mate, whatever its distance.

    `mate` is in moves as UCI writes it: positive when the side to move mates, negative when it is mated, 0 when it
    is mated already.
    """
    moves = np.asarray(mate, np.float64)
    return np.where(np.isnan(moves), np.nan, np.where(moves > 0, 1.0, -1.0))


def wdl_to_q(wdl: ArrayLike) -> Floats:
    """``(win - loss) / (win + draw + loss)`` of rows [..., 3] in any unit (UCI: per mille); NaN where the sum is 0."""
    w, d, loss = np.moveaxis(np.asarray(wdl, np.float64), -1, 0)
    total = w + d + loss
    return np.asarray((w - loss) / np.where(total > 0, total, np.nan))


def deep_q(scores: ArrayLike, alpha: float, q_from: Literal["cp", "wdl"] = "cp") -> Floats:
    """Q [...] of deep searches from their raw `scores` [..., 6]: cp, mate, W, D, L and own Q, as the store has them.

    NaN (or None) stands for a score that the engine did not give. A mate is ±1. An engine's own Q is used unchanged.
    Other rows come from `cp` by the logistic or from `wdl`, as `q_from` says; a row without that score is NaN: the
    other score is on another scale and never replaces it.
    Raises ValueError for another `q_from`.
    """
    if q_from not in ("cp", "wdl"):
        raise ValueError(f"q_from is 'cp' or 'wdl', not {q_from!r}")
    cells = np.asarray(scores, np.float64)
    own, mates = cells[..., 5], mate_to_q(cells[..., 1])
    result = cp_to_q(cells[..., 0], alpha) if q_from == "cp" else wdl_to_q(cells[..., 2:5])
    result = np.where(np.isnan(own), result, own)
    return np.where(np.isnan(mates), result, mates)


class Slope(NamedTuple):
    """The slope of deep Q given net Q, with its 95 % interval."""

    value: float
    low: float
    high: float


def slope_of(net_q: Floats, deep_q: Floats, weights: Floats, game: NDArray[np.int64]) -> Slope:
    """The slope of the expected deep Q as a function of net Q; NaN if every net Q is 0.

    By weighted least squares through 0, because values are from the side to move: +Q for one side is -Q for the other.
    A net that learns these deep Q multiplies its old Q by this slope on average. The interval is the normal one, from
    the sums of each game's residuals (Liang and Zeger, Biometrika 73, 13, 1986). All arguments are [n]; rows with NaN
    are skipped.
    """
    usable = ~(np.isnan(net_q) | np.isnan(deep_q)) & (weights > 0)
    x, y, w = net_q[usable], deep_q[usable], weights[usable]
    square = float(w @ (x * x))
    if not square > 0:
        return Slope(np.nan, np.nan, np.nan)
    value = float(w @ (x * y)) / square
    half = _NORMAL * _root_of_squares(w * x * (y - value * x), game[usable]) / square
    return Slope(value, value - half, value + half)


def fit_alpha(
    net_q: ArrayLike,
    cp: ArrayLike,
    mate: ArrayLike,
    weights: ArrayLike | None = None,
    game: ArrayLike | None = None,
) -> AlphaFit:
    """The alpha at which the slope of deep Q given net Q (`slope_of`) is 1.

    A net that learns these deep Q then keeps its scale.

    Mates count (`mate` in moves), because a net learns them, too. Centipawns are not capped: the logistic saturates, so
    a tablebase score of 15,000 weighs no more than any other row. All arguments are [n], with NaN for a missing score.
    By default all `weights` are 1, and each row is a game by itself. The interval is the normal one in log alpha, from
    sums by `game`. The fit is `at_bound` if no alpha within `ALPHA_BOUNDS` has this slope.
    """
    x, centipawns, moves = (np.asarray(column, np.float64) for column in (net_q, cp, mate))
    w = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
    games = np.arange(len(x)) if game is None else np.asarray(game)
    usable = ~np.isnan(x) & ~(np.isnan(centipawns) & np.isnan(moves)) & (w > 0)
    x, w, games = x[usable], w[usable], games[usable]
    # A mate is beyond all centipawns: its Q is 1 for every alpha.
    score = np.where(np.isnan(moves), centipawns, mate_to_q(moves) * np.inf)[usable]
    # Engines give whole centipawns, and most values occur often.
    scores, which = np.unique(score, return_inverse=True)
    mass, target = np.bincount(which, w * x, len(scores)), float(w @ (x * x))

    def excess(log_alpha: float) -> float:
        return float(mass @ np.tanh(scores / (2 * np.exp(log_alpha)))) - target

    def moments(log_alpha: float) -> Floats:
        return np.asarray(w * x * (np.tanh(score / (2 * np.exp(log_alpha))) - x))

    low, high = (float(bound) for bound in np.log(ALPHA_BOUNDS))
    if excess(low) < 0 or excess(high) > 0:
        high = low = low if excess(low) < 0 else high
    while high - low > _LOG_STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    residual = _residual(x, score, w, low)
    return AlphaFit(*_interval(moments, low, games), "slope", int(np.isfinite(score).sum()), residual)


def fit_alpha_to_results(result: Floats, cp: Floats, weights: Floats, game: NDArray[np.int64]) -> AlphaFit:
    """The alpha with the least mean squared difference of deep Q and the results of games; Q is then the expected
    result.

    `result` [n] is 1, 0 or -1 from the side to move, NaN if unknown. Rows with NaN in `cp` [n] are skipped, including
    mates: their Q does not depend on alpha. The interval is the normal one in log alpha, with sums by `game` [n]. The
    fit is `at_bound` if no alpha within `ALPHA_BOUNDS` is better than one of the bounds.
    """
    usable = ~(np.isnan(result) | np.isnan(cp)) & (weights > 0)
    z, score, w = result[usable], cp[usable], weights[usable]

    def moments(log_alpha: float) -> Floats:
        """Half the rate at which the squared error falls with log alpha, by row."""
        scaled = score / (2 * np.exp(log_alpha))
        q = np.tanh(scaled)
        return np.asarray(w * (q - z) * scaled * (1 - q * q))

    low, high = np.log(ALPHA_BOUNDS)
    # The error may have several minima.
    grid, step = np.linspace(low, high, _GRID_POINTS, retstep=True)
    while True:
        best = min(grid.tolist(), key=lambda point: _residual(z, score, w, point))
        if step <= _LOG_STEP:
            break
        grid, step = np.linspace(max(best - step, low), min(best + step, high), _CELL_POINTS, retstep=True)
    return AlphaFit(*_interval(moments, best, game[usable]), "results", len(z), _residual(z, score, w, best))


def _residual(x: Floats, score: Floats, weights: Floats, log_alpha: float) -> float:
    """The root of the weighted mean square of x - Q of the scores."""
    q = np.tanh(score / (2 * np.exp(log_alpha)))
    return float((weights @ (x - q) ** 2 / max(weights.sum(), 1e-300)) ** 0.5)


def _interval(
    moments: Callable[[float], Floats], log_alpha: float, game: NDArray[np.int64]
) -> tuple[float, float, float]:
    """alpha and its 95 % interval. The sum of `moments` [n] falls with log alpha, and is 0 at `log_alpha`.

    The interval is normal in log alpha, by the games' sums of moments; NaN if the sum does not fall, and if it is wider
    than `ALPHA_BOUNDS`.
    """
    step = 1e-3
    fall = float(moments(log_alpha - step).sum() - moments(log_alpha + step).sum()) / (2 * step)
    half = _NORMAL * _root_of_squares(moments(log_alpha), game) / fall if fall > 0 else np.nan
    if not half < np.log(ALPHA_BOUNDS[1] / ALPHA_BOUNDS[0]):
        half = np.nan
    low, high = (float(np.exp(log_alpha + sign * half)) for sign in (-1, 1))
    return float(np.exp(log_alpha)), low, high


def _root_of_squares(rows: Floats, game: NDArray[np.int64]) -> float:
    """The root of the sum of squares of the games' sums of `rows` [n]."""
    sums = np.bincount(np.unique(game, return_inverse=True)[1], rows)
    return float(np.sqrt(sums @ sums))


def _checked(alpha: float) -> float:
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be a positive number of centipawns, not {alpha!r}")
    return float(alpha)


def auto_alpha(net_q: Floats, cp: Floats, mate: Floats, weights: Floats, game: NDArray[np.int64]) -> Alpha:
    """Alpha by `fit_alpha` of these rows [n]; the default if fewer than `AUTO_MIN_POSITIONS` have centipawns, or if the
    fit is `at_bound`."""
    default = f"default {DEFAULT_ALPHA:g}"
    scored = int((~np.isnan(net_q + cp)).sum())
    if scored < AUTO_MIN_POSITIONS:
        return Alpha(DEFAULT_ALPHA, f"{default}: fewer than {AUTO_MIN_POSITIONS} scores in centipawns, {scored} so far")
    fit = fit_alpha(net_q, cp, mate, weights, game)
    if fit.at_bound:
        return Alpha(DEFAULT_ALPHA, f"{default}: the {fit.n:,} scored positions determine no alpha")
    return Alpha(fit.alpha, f"fitted on {fit.n:,} positions ({fit.norm})")
