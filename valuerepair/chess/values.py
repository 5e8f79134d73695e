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

from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.intervals import resampled

DEFAULT_ALPHA = 170.0
AUTO_MIN_POSITIONS = 300
# More rows would cost time and barely improve an automatic alpha.
_AUTO_FIT_ROWS = 100_000
ALPHA_BOUNDS = (10.0, 10_000.0)
# The largest Q a centipawn score can have: the last float below 1, so that a mate is beyond any centipawn score.
MAX_CP_Q = float(np.nextafter(1.0, 0.0))

# Origins of an alpha that plays no role.
OWN_Q = "the search's own Q"
OF_WDL = "the engine's WDL"

Norm = Literal["l1", "l2"]
# The target of a fit of alpha: the net's Q by one of the norms or by its slope, or the results of games.
FitTo = Literal["l1", "l2", "results", "slope"]
Floats = NDArray[np.float64]

_GRID_POINTS = 97
_BOOTSTRAP_ROWS = 50_000
_CELL_POINTS = 17  # of each grid over the best cell of the previous one
_LOG_STEP = 1e-6  # of the last grid: the relative precision of alpha
_NORMAL = 1.959964  # the normal distribution's quantile of a 95 % interval


@dataclass(frozen=True, slots=True)
class Alpha:
    """An alpha and its origin in words for the user: ``fitted on 2,310 positions (l1)``, ``given``.

    With the origin `OWN_Q` or `OF_WDL`, Q does not come from centipawns, and `value` plays no role.
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

    `low` and `high` bound the 95 % bootstrap interval (NaN without bootstrap). `n` counts the rows used. `residual`
    is the mean weighted ``|net_q - Q|`` for l1 and the root of the mean weighted square for the others.
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
    """Q [...] of deep searches by their raw `scores` [..., 6]: cp, mate, W, D, L and own Q, as the store has them.

    NaN (or None) is a value that the engine did not give.

    A mate is ±1. An engine's own Q is used unchanged. Other rows come from `cp` by the logistic or from `wdl`, as
    `q_from` says; a row without that score is NaN: the other score is on another scale and never replaces it.
    Raises ValueError for another `q_from`.
    """
    if q_from not in ("cp", "wdl"):
        raise ValueError(f"q_from is 'cp' or 'wdl', not {q_from!r}")
    cells = np.asarray(scores, np.float64)
    own, mates = cells[..., 5], mate_to_q(cells[..., 1])
    result = cp_to_q(cells[..., 0], alpha) if q_from == "cp" else wdl_to_q(cells[..., 2:5])
    result = np.where(np.isnan(own), result, own)
    return np.where(np.isnan(mates), result, mates)


def fit_alpha(
    net_q: ArrayLike,
    cp: ArrayLike,
    weights: ArrayLike | None = None,
    norm: Norm = "l1",
    bootstrap: int = 200,
    seed: int = 0,
    game: ArrayLike | None = None,
) -> AlphaFit:
    """The alpha for which the deep Q, ``tanh(cp / (2 alpha))``, is nearest to the net's Q.

    Minimises the weighted mean of ``|net_q - Q|`` (l1) or of its square (l2) over log alpha within `ALPHA_BOUNDS`: on a
    grid, because l1 may have several minima, and then on ever finer grids over its best cell. `net_q`, `cp` and
    `weights` (default 1) are [n]. Rows whose cp is NaN (mates among them, whose Q does not depend on alpha) or whose
    net_q is NaN are skipped. Centipawns are not capped: the logistic saturates, so a tablebase score of 15,000 weighs
    no more than any other row.

    The interval is the 2.5 % to 97.5 % percentile interval of `bootstrap` resamples of the rows, or of the games if
    `game` [n] numbers them, drawn from `seed`; above 50,000 rows it is made from 50,000 of them, or from games with at
    most 50,000 rows, and narrowed in log alpha by the root of the ratio. With `bootstrap` 0, or if fewer than two games
    fit into 50,000 rows, it is NaN.

    Raises ValueRepairError if fewer than two rows with a score other than 0 are left.
    """
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm is 'l1' or 'l2', not {norm!r}")
    x = np.asarray(net_q, np.float64).ravel()
    y = np.asarray(cp, np.float64).ravel()
    w = np.ones_like(x) if weights is None else np.asarray(weights, np.float64).ravel()
    usable = ~(np.isnan(x) | np.isnan(y)) & (w > 0)
    x, y, w = x[usable], y[usable], w[usable]
    games = None if game is None else np.unique(np.asarray(game)[usable], return_inverse=True)[1]
    if np.count_nonzero(y) < 2:
        raise ValueRepairError(
            f"no alpha can be fitted: {len(y)} scored positions have a centipawn score, and "
            f"{np.count_nonzero(y)} of them is not 0; mine more positions, or give --alpha"
        )
    alpha, loss = _minimise(x, y, w, norm)
    residual = loss if norm == "l1" else loss**0.5
    low, high = (np.nan, np.nan) if bootstrap < 1 else _interval(x, y, w, norm, alpha, bootstrap, seed, games)
    return AlphaFit(alpha, low, high, norm, len(x), residual)


def fit_alpha_to_results(
    result: ArrayLike, cp: ArrayLike, weights: ArrayLike, game: ArrayLike, bootstrap: int = 200, seed: int = 0
) -> AlphaFit:
    """The alpha for which deep Q is nearest to the results of games in the mean square: Q is then the expected result.

    `result` [n] is 1, 0 or -1 from the side to move, NaN if unknown; `game` [n] numbers the games, which are resampled
    as a whole. Otherwise as `fit_alpha`.
    """
    return replace(fit_alpha(result, cp, weights, "l2", bootstrap, seed, game), norm="results")


class Slope(NamedTuple):
    """The slope of deep Q given net Q, with its 95 % interval."""

    value: float
    low: float
    high: float


def slope_of(net_q: Floats, deep_q: Floats, weights: Floats, game: NDArray[np.int64]) -> Slope:
    """The slope of the expected deep Q as a function of net Q; NaN if every net Q is 0.

    By weighted least squares through 0, because values are from the side to move: +Q for one side is -Q for the other.
    A net that learns these deep Q multiplies its old Q, on the whole, by this slope. The interval is the normal one,
    from the sums of each game's residuals (Liang and Zeger, Biometrika 73, 13, 1986). All arguments are [n]; rows with
    NaN are skipped.
    """
    usable = ~(np.isnan(net_q) | np.isnan(deep_q)) & (weights > 0)
    x, y, w = net_q[usable], deep_q[usable], weights[usable]
    square = float(w @ (x * x))
    if not square > 0:
        return Slope(np.nan, np.nan, np.nan)
    value = float(w @ (x * y)) / square
    half = _NORMAL * _root_of_squares(w * x * (y - value * x), game[usable]) / square
    return Slope(value, value - half, value + half)


def fit_alpha_to_slope(net_q: Floats, cp: Floats, mate: Floats, weights: Floats, game: NDArray[np.int64]) -> AlphaFit:
    """The alpha at which the slope of deep Q given net Q (`slope_of`) is 1, so that a net which learns these deep Q
    keeps its scale.

    Unlike in `fit_alpha`, mates count (`mate` in moves), because a net learns them, too. All are [n], NaN for a missing
    score. The interval is the normal one in log alpha, with sums by `game`. The fit is `at_bound` if no alpha within
    `ALPHA_BOUNDS` has this slope.
    """
    usable = ~np.isnan(net_q) & ~(np.isnan(cp) & np.isnan(mate)) & (weights > 0)
    x, w, games = net_q[usable], weights[usable], game[usable]
    # A mate is beyond all centipawns: its Q is 1 for every alpha.
    score = np.where(np.isnan(mate[usable]), cp[usable], mate_to_q(mate[usable]) * np.inf)
    scores, which = np.unique(score, return_inverse=True)
    mass, target = np.bincount(which, w * x, len(scores)), float(w @ (x * x))

    def excess(log_alpha: float) -> float:
        return float(mass @ np.tanh(scores / (2 * np.exp(log_alpha)))) - target

    low, high = (float(bound) for bound in np.log(ALPHA_BOUNDS))
    if excess(low) < 0 or excess(high) > 0:
        high = low = low if excess(low) < 0 else high
    while high - low > _LOG_STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    alpha = float(np.exp(low))
    q = np.tanh(score / (2 * alpha))
    residual = float((w @ (x - q) ** 2 / max(w.sum(), 1e-300)) ** 0.5)
    step = 1e-3
    steepness = (excess(low - step) - excess(low + step)) / (2 * step)
    half = _NORMAL * _root_of_squares(w * x * (q - x), games) / steepness if steepness > 0 else np.nan
    low, high = (alpha * float(np.exp(sign * half)) for sign in (-1, 1))
    return AlphaFit(alpha, low, high, "slope", int(np.isfinite(score).sum()), residual)


def _root_of_squares(rows: Floats, game: NDArray[np.int64]) -> float:
    """The root of the sum of squares of the games' sums of `rows` [n]."""
    sums = np.bincount(np.unique(game, return_inverse=True)[1], rows)
    return float(np.sqrt(sums @ sums))


def _minimise(x: Floats, y: Floats, w: Floats, norm: Norm) -> tuple[float, float]:
    """(alpha, weighted mean loss) at the minimum."""
    total = w.sum()
    # Engines give whole centipawns, and most values occur often.
    scores, which = np.unique(y, return_inverse=True)
    error = np.empty_like(x)

    def loss(log_alpha: float) -> float:
        np.take(np.tanh(scores / (2 * np.exp(log_alpha))), which, out=error, mode="clip")  # faster, and all are valid
        np.subtract(x, error, out=error)
        np.abs(error, out=error) if norm == "l1" else np.multiply(error, error, out=error)
        return float(w @ error / total)

    grid = np.log(np.geomspace(*ALPHA_BOUNDS, _GRID_POINTS))
    while True:
        losses = [loss(point) for point in grid.tolist()]
        best = int(np.argmin(losses))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        if high - low <= 2 * _LOG_STEP:
            return float(np.exp(grid[best])), losses[best]
        grid = np.linspace(low, high, _CELL_POINTS)


def _loss(x: Floats, y: Floats, alpha: float, norm: Norm) -> Floats:
    """[n] losses of the rows."""
    error = x - np.tanh(y / (2 * alpha))
    return np.abs(error) if norm == "l1" else error * error


def _interval(
    x: Floats, y: Floats, w: Floats, norm: Norm, alpha: float, resamples: int, seed: int, game: NDArray[np.int64] | None
) -> tuple[float, float]:
    """The 95 % percentile interval of alpha over resampled rows, or games [n].

    The losses of all rows are computed once on a grid of alphas and weighted by how often each resample holds the row;
    the grid is then narrowed to where the resamples have their minima, until its step is small against their spread.
    """
    rng = np.random.default_rng(seed)
    unit = np.arange(len(x)) if game is None else game  # to resample
    part = 1.0
    if len(x) > _BOOTSTRAP_ROWS:
        sizes = np.bincount(unit)
        order = rng.permutation(len(sizes))
        chosen = order[: np.searchsorted(np.cumsum(sizes[order]), _BOOTSTRAP_ROWS, "right")]
        if len(chosen) < 2:
            return float("nan"), float("nan")
        part = len(chosen) / len(sizes)
        rows = np.isin(unit, chosen)
        x, y, w, unit = x[rows], y[rows], w[rows], np.unique(unit[rows], return_inverse=True)[1]
    count = int(unit.max()) + 1
    drawn = np.empty((resamples + 1, len(x)), np.float32)
    drawn[-1] = w
    for row, times in zip(drawn[:-1], chain.from_iterable(resampled(count, resamples, rng)), strict=True):
        row[:] = w * times[unit]
    low, high = np.log(ALPHA_BOUNDS)
    for _ in range(4):
        grid = np.linspace(low, high, _GRID_POINTS)
        losses = np.stack([_loss(x, y, a, norm).astype(np.float32) for a in np.exp(grid)])
        minima = _grid_minima(grid, drawn @ losses.T)
        step = grid[1] - grid[0]
        if np.ptp(minima) > 20 * step:
            break
        low, high = minima.min() - 2 * step, minima.max() + 2 * step
    # Relative to the minimum for the same rows, which may differ from that of all rows.
    spread = np.percentile(minima[:-1], [2.5, 97.5]) - minima[-1]
    low, high = alpha * np.exp(spread * part**0.5)
    return float(low), float(high)


def _grid_minima(grid: Floats, losses: NDArray[np.float32]) -> Floats:
    """[resamples] where the `losses` [resamples, points] are lowest, each by a parabola through three points."""
    best = np.clip(losses.argmin(axis=1), 1, len(grid) - 2)
    row = np.arange(len(losses))
    left, middle, right = (losses[row, best + i].astype(np.float64) for i in (-1, 0, 1))
    bend = left - 2 * middle + right
    shift = np.where(bend > 0, 0.5 * (left - right) / np.where(bend > 0, bend, 1.0), 0.0)
    return np.asarray(grid[best] + np.clip(shift, -1, 1) * (grid[1] - grid[0]))


def _checked(alpha: float) -> float:
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be a positive number of centipawns, not {alpha!r}")
    return float(alpha)


def auto_alpha(net_q: Floats, cp: Floats, weights: Floats) -> Alpha:
    """Alpha fitted to these rows [n] (see `fit_alpha`; NaN: no centipawns) if they are enough, else the default."""
    rows = np.flatnonzero(~np.isnan(cp))
    default = f"default {DEFAULT_ALPHA:g}"
    if len(rows) < AUTO_MIN_POSITIONS:
        reason = f"fewer than {AUTO_MIN_POSITIONS} scores in centipawns, {len(rows)} so far"
        return Alpha(DEFAULT_ALPHA, f"{default}: {reason}")
    every = rows[:: -(-len(rows) // _AUTO_FIT_ROWS)]
    if np.count_nonzero(cp[every]) < 2:
        return Alpha(DEFAULT_ALPHA, f"{default}: nearly all scores are 0")
    fit = fit_alpha(net_q[every], cp[every], weights[every], bootstrap=0)
    if fit.at_bound:
        return Alpha(DEFAULT_ALPHA, f"{default}: the {fit.n:,} scored positions determine no alpha")
    of_all = "" if fit.n == len(rows) else f" of {len(rows):,}"
    return Alpha(fit.alpha, f"fitted on {fit.n:,}{of_all} positions ({fit.norm})")
