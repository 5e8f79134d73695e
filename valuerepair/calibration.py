"""Calibration: the deep Q expected given a net's Q, which separates blindness from a difference of scale.

The curve is odd, since all values are from the side to move and both sides have the same curve, and it never falls. It
is fitted by weighted least squares of deep Q on net Q, and cross-fitted: the curve that judges a position is fitted,
and its method chosen, without the position's game. See docs/methods/scale.md, "Calibration".
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from functools import cache
from math import atanh, inf, isnan, nan, pi
from types import EllipsisType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuerepair.arrays import Floats, Ids
from valuerepair.chess.values import AUTO_MIN_POSITIONS
from valuerepair.errors import ValueRepairError
from valuerepair.intervals import Rate, of_variance, percentile_bounds
from valuerepair.question import is_candidate
from valuerepair.text import finite, json_fields, positions_of_games, table_lines

FOLDS = 8
FEWEST_POSITIONS = AUTO_MIN_POSITIONS
FEWEST_GAMES = 2 * FOLDS
RESAMPLES = 400
# The deep Q expected at this net Q describes the curve in one number.
MIDDLE = 0.5
# If less than this is expected, and perhaps 0, deep Q hardly rises with net Q: the two have no scale in common.
_HARDLY_RISING = 0.05
# A curve is stored as its values at the net Q of `POINTS`, from 0 to 1 in equal steps of arcsin(Q): these are close
# together near 1, where a steep net's values crowd. Rows are counted in the steps between them.
_STEPS = 128
POINTS: Floats = np.sin(np.linspace(0, pi / 2, _STEPS + 1))
_STEPS_PER_ANGLE = _STEPS / (pi / 2)
# The share of candidates beyond scale is resampled with this many at most: more would barely narrow its interval.
_MOST_ROWS = 20_000
# A hash divides the games into this number of parts: sums by part make every resample cheap.
PARTS = 128 * FOLDS
_DIGITS = 6
# Pieces of the spline. With fewer pieces most curves fit better, but some are biased, which the interval does not show.
_PIECES = 12
_Method = Literal["spline", "isotonic"]
_METHODS: tuple[_Method, ...] = ("spline", "isotonic")


class TooFewPositions(ValueRepairError):
    """Too few positions or games to fit a calibration."""


class Worth(NamedTuple):
    """What a net Q is worth, with its 95 % interval; NaN where it is unknown."""

    q: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Calibration:
    """The expected deep Q given net Q, and the data that it was fitted to.

    `curve` [points] is fitted to all games, each row of `by_fold` [folds, points] to the games outside the fold; the
    values are those at the net Q of `POINTS`. `low` and `high` [points] bound the 95 % interval of `curve` (NaN without
    resamples). `method`: ``isotonic`` or ``spline``. It was fitted to `positions` of `games`, none with a larger
    |net Q| than `reach`; beyond it the curves are constant. Deep Q was computed by `alpha` and `q_from`.
    """

    curve: Floats
    by_fold: Floats
    low: Floats
    high: Floats
    method: _Method
    positions: int
    games: int
    reach: float
    alpha: float
    q_from: str

    def expected(self, net_q: ArrayLike, fold: ArrayLike) -> Floats:
        """[n] deep Q expected of positions with `net_q` [n], whose games are in `fold` [n] (see `fold_of`)."""
        return _Places.of(net_q).read(self.by_fold, np.asarray(fold, np.int64))

    def worth(self, net_q: float = MIDDLE) -> Worth:
        """What a net Q is worth by the curve of all games."""
        if abs(net_q) > self.reach:
            return Worth(nan, nan, nan)
        value, low, high = (float(read_curve(curve, net_q)) for curve in (self.curve, self.low, self.high))
        return Worth(value, low, high) if net_q >= 0 else Worth(value, high, low)

    @property
    def steepness(self) -> Worth:
        """k in ``net Q = tanh(k artanh(deep Q))``, computed from the `worth` of 0.5.

        1 is the same scale; with 2 the net's Q is twice as steep as the oracle's in log odds, with 0.5 half as steep.
        """
        worth = self.worth()
        return Worth(_steepness(worth.q), _steepness(worth.high), _steepness(worth.low))

    @property
    def bend(self) -> str:
        """``flatter`` or ``steeper``: the net's Q compared with the oracle's; empty if neither is shown."""
        worth = self.worth()
        return "flatter" if worth.low > MIDDLE else "steeper" if worth.high < MIDDLE else ""

    def words(self) -> str:
        """Which way the curve bends, for a terminal."""
        worth = self.worth()
        if isnan(worth.q):
            return f"no net Q is as far from 0 as {MIDDLE:.2f}, so its scale is unknown"
        has_interval = not isnan(worth.low)
        interval = f" (95 %: {worth.low:.2f} to {worth.high:.2f})" if has_interval else ""
        text = f"a net's {MIDDLE:.2f} is worth {worth.q:.2f}{interval}"
        if worth.q < _HARDLY_RISING and not worth.low > 0:
            return f"{text}: deep Q hardly rises with net Q"
        if self.bend:
            return f"{text}: there its Q is {self.bend} than the oracle's"
        return f"{text}: there no difference from the oracle's scale is shown" if has_interval else text

    def figures(self) -> dict[str, Any]:
        """Its data, how it bends, and the worth of net Q in steps of 0.1, JSON-able."""
        tenths = [tenth / 10 for tenth in range(1, 11) if tenth / 10 <= self.reach]
        return {
            "method": self.method,
            "positions": self.positions,
            "games": self.games,
            "worth": {"net_q": MIDDLE, **_named("deep_q", self.worth())},
            "steepness": _named("k", self.steepness),
            "bend": self.bend,
            "words": self.words(),
            "curve": [{"net_q": q, **_named("deep_q", self.worth(q))} for q in tenths],
        }

    def lines(self) -> list[str]:
        """The curve as a table for a terminal."""
        rows = []
        for row in self.figures()["curve"]:
            interval = "" if row["low"] is None else f"{row['low']:+.3f} to {row['high']:+.3f}"
            rows.append((f"{row['net_q']:+.1f}", f"{row['deep_q']:+.3f}", interval))
        return table_lines("net Q:>7 | worth:>7 | 95 % interval:<", rows)

    def as_json(self) -> str:
        """The calibration as text, which `from_json` reads."""
        return json.dumps(asdict(self), default=lambda array: json_fields(array.tolist()))

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """The calibration that `as_json` wrote. Raises ValueRepairError for anything else."""
        try:
            values: dict[str, Any] = json.loads(text)
            for name, shape in _SHAPES.items():
                values[name] = np.array(values[name], np.float64)
                if values[name].shape != shape:
                    raise ValueError(name)
            return cls(**{field.name: values[field.name] for field in fields(cls)})
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__} {error}"
            raise ValueRepairError(
                f"not a calibration: {reason}; vr stats --save-calibration stores a new one"
            ) from None


_SHAPES = {
    "curve": (_STEPS + 1,), "by_fold": (FOLDS, _STEPS + 1), "low": (_STEPS + 1,), "high": (_STEPS + 1,),
}  # fmt: skip


def _named(name: str, worth: Worth) -> dict[str, float | None]:
    return dict(zip((name, "low", "high"), map(finite, worth), strict=True))


def _steepness(worth: float) -> float:
    if isnan(worth):
        return nan
    return inf if worth <= 0 else 0.0 if worth >= 1 else atanh(MIDDLE) / atanh(worth)


def part_of(game: ArrayLike) -> Ids:
    """[n] parts, below `PARTS`, of games identified by whole numbers [n]; a game's part depends on its number alone."""
    # The finaliser of MurmurHash3 scatters neighbouring numbers, and numbers that differ in few bits.
    x = np.array(game, np.int64, copy=True, ndmin=1).view(np.uint64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x ^= x >> np.uint64(33)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(33)
    parts: Ids = (x % np.uint64(PARTS)).astype(np.int64)
    return parts


def fold_of(game: ArrayLike) -> Ids:
    """[n] folds of games identified by whole numbers [n]: a game stays in its fold when other games are added."""
    return part_of(game) % FOLDS


class _Places(NamedTuple):
    """The places of net Q [n] on a curve: its sign (NaN for NaN), its step, and how far into the step."""

    sign: Floats
    step: Ids
    fraction: Floats

    @classmethod
    def of(cls, net_q: ArrayLike) -> _Places:
        q = np.asarray(net_q, np.float64)
        angle = np.arcsin(np.clip(np.nan_to_num(np.abs(q)), 0, 1)) * _STEPS_PER_ANGLE
        step = np.minimum(angle.astype(np.int64), _STEPS - 1)
        return cls(np.sign(q), step, angle - step)

    def read(self, curve: Floats, fold: Ids | EllipsisType = ...) -> Floats:
        """[n] values of the curve [points], or of curves [folds, points] where the `fold` [n] is given."""
        below, above = curve[fold, self.step], curve[fold, self.step + 1]
        values: Floats = self.sign * (below + self.fraction * (above - below))
        return values


def read_curve(curve: Floats, net_q: ArrayLike) -> Floats:
    """[n] deep Q that a curve [points] predicts for positions with `net_q` [n], of games that it was not fitted to."""
    return _Places.of(net_q).read(curve)


class _StepSums(NamedTuple):
    """Sums of weights and of weighted deep Q in each step of net Q, with signs that make net Q non-negative."""

    weight: Floats
    deep: Floats

    @classmethod
    def by(cls, group: Ids, groups: int, places: _Places, deep_q: Floats, weight: Floats) -> _StepSums:
        """The sums of rows [n] by their `group` [n] of games, [groups, steps]."""
        cell = group * _STEPS + places.step
        # A net Q of 0 is both +0 and -0: its deep Q counts as 0.
        columns = (np.bincount(cell, x, groups * _STEPS) for x in (weight, weight * (deep_q * places.sign)))
        return cls(*(sums.reshape(groups, _STEPS).astype(np.float64) for sums in columns))

    def total(self, groups: Any = slice(None)) -> _StepSums:
        return _StepSums(self.weight[groups].sum(0), self.deep[groups].sum(0))

    def error(self, curve: Floats) -> float:
        """The weighted sum of squares of deep Q minus the curve, up to a constant."""
        middles = (curve[1:] + curve[:-1]) / 2
        return float((middles * (middles * self.weight - 2 * self.deep)).sum())


def fit(
    net_q: ArrayLike,
    deep_q: ArrayLike,
    weight: ArrayLike,
    game: ArrayLike,
    *,
    alpha: float = nan,
    q_from: str = "cp",
    resamples: int = RESAMPLES,
    seed: int = 0,
    fewest: int = FEWEST_POSITIONS,
) -> Calibration:
    """The calibration of positions with these values and weights, of games identified by whole numbers; all are [n].

    Rows with a missing value or the weight 0 are skipped. The curve is a monotone spline or an isotonic regression,
    whichever predicts held-out games better, by weighted squares; for the curve of a fold, only games outside the fold
    decide which. The interval is the percentile interval of `resamples` draws of games from `seed`; 0 gives none.
    Neither the order of the rows nor the unit of the weights matters.

    Raises TooFewPositions for fewer than `fewest` positions or `FEWEST_GAMES` games.
    """
    x, y, w = (np.asarray(values, np.float64).ravel() for values in (net_q, deep_q, weight))
    games = np.asarray(game, np.int64).ravel()
    usable = ~(np.isnan(x) | np.isnan(y)) & (w > 0)
    if not usable.all():
        x, y, w, games = x[usable], y[usable], w[usable], games[usable]
    count = len(np.unique(games))
    if len(x) < fewest or count < FEWEST_GAMES:
        raise TooFewPositions(
            f"no calibration can be fitted: net and oracle have both scored {positions_of_games(len(x), count)}, "
            f"and {fewest} of at least {FEWEST_GAMES} games are needed; mine more, or ask without calibration"
        )
    cross = CrossFit(x, y, w, games)
    folds = cross.sums(w)
    method = _best_method(folds, np.arange(FOLDS))
    low = high = np.full(_STEPS + 1, nan)
    if resamples:
        _, curves = resampled_curves(x, y, w, games, method, resamples=resamples, seed=seed)
        low, high = np.round(percentile_bounds(curves), _DIGITS)
    return Calibration(
        curve=_fitted_curve(method, folds.total()),
        by_fold=cross.curves(w),
        low=low,
        high=high,
        method=method,
        positions=len(x),
        games=count,
        reach=float(np.abs(x).max()),
        alpha=alpha,
        q_from=q_from,
    )


def resampled_curves(
    net_q: Floats, deep_q: Floats, weight: Floats, game: Ids, method: _Method, *, resamples: int, seed: int = 0
) -> tuple[Floats, Floats]:
    """[resamples, parts] how often each part of the games is drawn, and [resamples, points] curves fitted to each draw.

    Rows [n] as in `fit`, without NaN. The same games and seed give the same draws for every net Q, so that curves of
    two nets can be compared.
    """
    parts = _StepSums.by(part_of(game), PARTS, _Places.of(net_q), deep_q, weight)
    filled = np.flatnonzero(parts.weight.any(axis=1))
    count = len(filled)
    draws = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), resamples).astype(np.float64)
    sums = zip(draws @ parts.weight[filled], draws @ parts.deep[filled], strict=True)
    times = np.zeros((resamples, PARTS))
    times[:, filled] = draws
    return times, np.stack([_fitted_curve(method, _StepSums(*sums_of_draw)) for sums_of_draw in sums])


class CrossFit:
    """Fits the curves of all folds again with other weights of the games, as resampling does.

    Each fold keeps the method that the first weights chose. The curves have no intervals, and there is no minimum
    number of positions. Arrays are [n] as in `fit`, without NaN.
    """

    def __init__(self, net_q: Floats, deep_q: Floats, weight: Floats, game: Ids) -> None:
        self._fold, self._places, self._deep = fold_of(game), _Places.of(net_q), deep_q
        self._others = [np.delete(np.arange(FOLDS), fold) for fold in range(FOLDS)]
        folds = self.sums(weight)
        self._methods = [_best_method(folds, others) for others in self._others]

    def sums(self, weight: Floats) -> _StepSums:
        """The sums by fold, [folds, steps]."""
        return _StepSums.by(self._fold, FOLDS, self._places, self._deep, weight)

    def curves(self, weight: Floats) -> Floats:
        """[folds, points] curves that are fitted with these weights, each to the other folds."""
        folds, methods = self.sums(weight), zip(self._methods, self._others, strict=True)
        return np.stack([_fitted_curve(method, folds.total(others)) for method, others in methods])

    def expected(self, weight: Floats) -> Floats:
        """[n] deep Q expected of each position by curves that are fitted with these weights."""
        return self._places.read(self.curves(weight), self._fold)


def _best_method(folds: _StepSums, folds_used: NDArray[np.intp]) -> _Method:
    """The method with the smallest error when it predicts each of `folds_used` from the others among them."""
    errors = dict.fromkeys(_METHODS, 0.0)
    for held_out in folds_used.tolist():
        training, tested = folds.total(folds_used[folds_used != held_out]), folds.total([held_out])
        if tested.weight.any() and training.weight.any():
            for method in _METHODS:
                errors[method] += tested.error(_fitted_curve(method, training))
    return min(errors, key=errors.__getitem__)


# -- candidates beyond scale -------------------------------------------------------------------------------------------


class Beyond(NamedTuple):
    """`remaining`: the share of the candidates by net Q that are still candidates by calibrated Q; `new`: the number of
    candidates by calibrated Q alone."""

    remaining: Rate
    new: int


def beyond_scale(
    calibration: Calibration,
    net_q: Floats,
    deep_q: Floats,
    weight: Floats,
    game: Ids,
    threshold: float,
    *,
    resamples: int = 200,
    seed: int = 0,
) -> Beyond:
    """Which candidates among these rows [n] remain once net Q is on the oracle's scale.

    The interval is by games: its variance is that of the share over `resamples` draws of games from `seed`, and for
    each draw a new curve is fitted.
    """
    expected = calibration.expected(net_q, fold_of(game))
    by_net_q, by_expected = (is_candidate(q - deep_q, threshold) for q in (net_q, expected))
    new = int(np.count_nonzero(by_expected & ~by_net_q))
    rows = np.flatnonzero(by_net_q & (weight > 0))
    shares = []
    if len(rows):
        usable = ~(np.isnan(net_q) | np.isnan(deep_q)) & (weight > 0)
        columns = net_q[usable], deep_q[usable], weight[usable], game[usable]
        draws = resampled_curves(*columns, calibration.method, resamples=resamples, seed=seed)
        thinned = rows[:: -(-len(rows) // _MOST_ROWS)]
        part, places = part_of(game[thinned]), _Places.of(net_q[thinned])
        for times, curve in zip(*draws, strict=True):
            mass = weight[thinned] * times[part]
            remains = is_candidate(places.read(curve) - deep_q[thinned], threshold)
            if mass.any():
                shares.append(mass[remains].sum() / mass.sum())
    variance = float(np.var(shares)) if shares else 0.0
    return Beyond(of_variance(by_expected[rows], weight[rows], game[rows], variance), new)


# -- curves -----------------------------------------------------------------------------------------------------------


def _fitted_curve(method: _Method, sums: _StepSums) -> Floats:
    """[points] the curve of least squares: 0 at 0, never falling, at most 1."""
    filled = np.flatnonzero(sums.weight)
    if not len(filled):
        raise TooFewPositions("no calibration can be fitted: all games are in one fold; mine more")
    # Rounded, but finer than any measurement, because least squares may never end with subnormal numbers.
    weight, mean = sums.weight[filled], np.round(sums.deep[filled] / sums.weight[filled], 2 * _DIGITS)
    curve = (_spline if method == "spline" else _isotonic)(filled, weight, mean)
    return np.asarray(np.round(np.clip(curve, 0, 1), _DIGITS), np.float64)


def _isotonic(filled: NDArray[np.intp], weight: Floats, mean: Floats) -> Floats:
    """Isotonic regression: straight lines between the middles of the steps, from 0 at 0, constant after the last."""
    from scipy.optimize import isotonic_regression

    levels = isotonic_regression(mean, weights=weight).x
    curve: Floats = np.interp(np.arange(_STEPS + 1), np.append(0.0, filled + 0.5), np.append(0.0, levels))
    return curve


def _spline(filled: NDArray[np.intp], weight: Floats, mean: Floats) -> Floats:
    """A sum of rising cubic splines with non-negative coefficients."""
    from scipy.optimize import nnls

    at_points, at_middles = _rising()
    root = np.sqrt(weight)
    coefficients, _ = nnls(root[:, None] * at_middles[filled], root * mean)
    curve: Floats = at_points @ coefficients
    # Beyond the last rows nothing constrains the curve.
    curve[filled[-1] + 1 :] = curve[filled[-1] + 1]
    return curve


@cache
def _rising() -> tuple[Floats, Floats]:
    """[points, m] and [steps, m]: m cubic splines of arcsin(net Q), each rising from 0 to 1.

    Integrals of quadratic B-splines with equidistant knots (J. O. Ramsay, Statistical Science 3, 425, 1988).
    """
    from scipy.interpolate import BSpline

    knots = np.r_[[0.0] * 2, np.linspace(0, _STEPS, _PIECES + 1), [_STEPS] * 2]
    rising = BSpline(knots, np.eye(_PIECES + 2), 2).antiderivative()
    end = rising(float(_STEPS))
    points = np.arange(_STEPS + 1.0)
    return rising(points) / end, rising(points[:-1] + 0.5) / end
