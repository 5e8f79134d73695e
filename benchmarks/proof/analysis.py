"""What nets are worth on positions that no training saw: measures, and intervals of drawn games and drawn seeds.

Arrays in, numbers out. All values are from the side to move. A net's Q counts as it is (``raw``) and through the curve
that its values on the validation games draw (``recalibrated``), never on the positions that are measured.

An interval answers for three things that chance had a hand in: the games that are measured, the games that drew the
curves, and the seeds of training. All are drawn with replacement, and together (A. C. Davison, D. V. Hinkley, Bootstrap
Methods and their Application, 1997, sections 3.8 and 2.3; positions of one game are alike and are drawn together). Both
arms of a difference are measured on the same drawn games. A draw is the mean over the seeds on the drawn games, and
what drawn seeds add to it: as a product of both, what seeds disagree on position by position would count three times
(A. B. Owen, Annals of Applied Statistics 1, 386, 2007), this way twice, which is on the safe side.

Two corrections matter with as few as three seeds: means of n drawn ones vary too little by n / (n - 1), and a few seeds
know their own spread badly, so that the interval is widened as Student's t is against the normal, with Satterthwaite's
degrees of freedom (Biometrics Bulletin 2, 110, 1946). Without them an interval would hold the truth in some 77 of 100
cases where seeds differ much.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair import calibration
from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.calibration import read_curve
from valuerepair.intervals import Z95, Interval

PRIMARY_THRESHOLD = 0.3
THRESHOLDS = (PRIMARY_THRESHOLD, 0.55)
DRAWS = 2000
# Curves of drawn validation games; each is met by DRAWS / CURVES draws of the games measured.
CURVES = 200


class Column(NamedTuple):
    """A measure. `threshold` is NaN where it has none; `scale` is raw, recalibrated, or policy."""

    measure: str
    scale: str
    threshold: float


def _of_values(scale: str) -> list[Column]:
    kinds = [Column(name, scale, threshold) for threshold in THRESHOLDS for name in ("rate", "still", "newly")]
    return [*kinds, Column("mean_dq", scale, np.nan)]


# rate: share of candidates. still: of the old net's candidates those that are candidates still. newly: share of all
# positions that are candidates now and were none. mean_dq: mean |Q - deep Q|. top_1: share of positions whose first
# move is the old one. kl: KL(old policy || new) in nats.
COLUMNS = (
    *_of_values("raw"),
    *_of_values("recalibrated"),
    Column("top_1", "policy", np.nan),
    Column("kl", "policy", np.nan),
)
_VALUES = len(_of_values("raw"))
_STILL = [i for i, column in enumerate(_of_values("raw")) if column.measure == "still"]


def primary(threshold: float = PRIMARY_THRESHOLD) -> int:
    """The place of the primary measure, the rate recalibrated, at one of `THRESHOLDS`."""
    return COLUMNS.index(Column("rate", "recalibrated", threshold))


# -- curves -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Curves:
    """A net's scale: the deep Q to be expected given its Q, [points], and [draws, points] by drawn validation games."""

    whole: Floats
    drawn: Floats


def fit_curves(q: Floats, deep_q: Floats, weight: Floats, game: Ids, *, seed: int = 0, draws: int = CURVES) -> Curves:
    """The curves of a net with `q` [n] on the validation positions. All nets meet the same drawn games.

    Raises calibration.TooFewPositions.
    """
    fitted = calibration.fit(q, deep_q, weight, game, resamples=0)
    _, drawn = calibration.resampled_curves(q, deep_q, weight, game, fitted.method, resamples=draws, seed=seed)
    return Curves(fitted.curve, drawn)


def by_curves(q: Floats, curves: Curves) -> Floats:
    """[1 + curves, n] recalibrated Q: by the whole curve, then by each that drawn validation games made."""
    return np.stack([read_curve(curve, q) for curve in (curves.whole, *curves.drawn)])


def validation_rate(
    q: Floats, deep_q: Floats, weight: Floats, game: Ids, threshold: float = PRIMARY_THRESHOLD
) -> float:
    """Share of candidates of a net on the validation positions, each judged by the curve of other games; all [n]."""
    expected = calibration.fit(q, deep_q, weight, game, resamples=0).expected(q, calibration.fold_of(game))
    return float(np.average(np.abs(expected - deep_q) >= threshold, weights=weight))


# -- sums by game -----------------------------------------------------------------------------------------------------


class HeldOut:
    """Positions that are measured: `deep_q`, `weight` [n] and the games [n] as whole numbers.

    `order` [n] sorts the rows by game; what is given of a net is in the order of the rows as they came.
    """

    def __init__(self, deep_q: Floats, weight: Floats, game: Ids) -> None:
        self.order = np.argsort(game, kind="stable")
        self.deep_q, self._weight = deep_q[self.order], weight[self.order]
        _, self._starts = np.unique(game[self.order], return_index=True)

    @property
    def positions(self) -> int:
        return len(self.deep_q)

    @property
    def games(self) -> int:
        return len(self._starts)

    def by_game(self, numbers: NDArray[Any]) -> Floats:
        """[k, games] weighted sums of [k, n], whose rows are in `order`."""
        return np.add.reduceat(numbers * self._weight, self._starts, axis=1)


@dataclass(frozen=True, slots=True)
class Judged:
    """A net on held-out positions: Q, whether its first move is the old net's, KL to the old policy (nats), all [n].

    `old` is the place of the net that training began with in the list of nets, its own for such a net.
    """

    q: Floats
    kept: Flags
    kl: Floats
    curves: Curves
    old: int


def _value_sums(off: Floats, old: Floats, held: HeldOut) -> Floats:
    """[columns, games] what is over the bar of the measures of `_of_values`, then under that of each `still`."""
    over, under = list[Floats | Flags](), []
    for threshold in THRESHOLDS:
        wrong, was = np.abs(off) >= threshold, np.abs(old) >= threshold
        over += (wrong, wrong & was, wrong & ~was)
        under.append(was)
    return held.by_game(np.stack([*over, np.abs(off), *under]))


@dataclass(frozen=True, slots=True)
class Measured:
    """`COLUMNS` of each net: [nets, columns], and [draws, nets, columns] on drawn games."""

    values: Floats
    drawn: Floats


def measure(nets: Sequence[Judged], held: HeldOut, *, seed: int = 0, draws: int = DRAWS) -> Measured:
    """The measures of all nets on the same positions, and on the same drawn games with the same drawn curves.

    As many draws are made as the curves' number divides. NaN where a measure has nothing to be of.
    """
    q = [net.q[held.order] for net in nets]
    over = np.empty((len(nets), len(COLUMNS), held.games))
    under = np.broadcast_to(held.by_game(np.ones((1, held.positions))), over.shape).copy()

    def fill(off: Sequence[Floats], first: int) -> None:
        """The measures of one scale, from column `first` on."""
        for i, net in enumerate(nets):
            sums = _value_sums(off[i], off[net.old], held)
            over[i, first : first + _VALUES] = sums[:_VALUES]
            under[i, [first + at for at in _STILL]] = sums[_VALUES:]

    def recalibrate(curves: Iterable[Floats]) -> None:
        fill([read_curve(curve, net_q) - held.deep_q for curve, net_q in zip(curves, q, strict=True)], _VALUES)

    fill([net_q - held.deep_q for net_q in q], 0)
    for i, net in enumerate(nets):
        over[i, 2 * _VALUES :] = held.by_game(np.stack([net.kept[held.order], net.kl[held.order]]))
    recalibrate(net.curves.whole for net in nets)
    values = _ratio(over.sum(-1), under.sum(-1))
    rng, count, curves = np.random.default_rng(seed), held.games, len(nets[0].curves.drawn)
    drawn = []
    for k in range(curves):
        recalibrate(net.curves.drawn[k] for net in nets)
        times = rng.multinomial(count, np.full(count, 1 / count), max(1, draws // curves)).astype(np.float64).T
        drawn.append(_ratio(np.moveaxis(over @ times, -1, 0), np.moveaxis(under @ times, -1, 0)))
    return Measured(values, np.concatenate(drawn))


def _ratio(over: Floats, under: Floats) -> Floats:
    return np.divide(over, under, out=np.full_like(over, np.nan), where=under > 0)


# -- arms -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arm:
    """One measure of the nets of an arm: [seeds], [draws, seeds] on drawn games, and [draws, seeds] how much more than
    its share each seed counts where seeds are drawn (`drawn_seeds`)."""

    values: Floats
    drawn: Floats
    more: Floats

    @property
    def seeds(self) -> int:
        return len(self.values)

    @property
    def by_seeds(self) -> Floats:
        """[draws] what drawn seeds add to the mean."""
        return self.more @ self.values


def drawn_seeds(name: str, seeds: int, draws: int, seed: int = 0) -> Floats:
    """[draws, seeds] by how much each seed's weight exceeds 1 / seeds where as many are drawn with replacement.

    Larger by sqrt(n / (n - 1)) than drawn, so that means vary as those of n seeds do. Arms of different names are drawn
    independently. 0 of a single seed.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    drawn = rng.multinomial(seeds, np.full(seeds, 1 / seeds), draws) / seeds
    more: Floats = (drawn - 1 / seeds) * np.sqrt(seeds / max(seeds - 1, 1))
    return more


class Drawn:
    """Positions of drawn games: [draws, n] how often each counts."""

    def __init__(self, game: Ids, *, draws: int = DRAWS, seed: int = 0) -> None:
        names, place = np.unique(game, return_inverse=True)
        count = len(names)
        times = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), draws)
        self.times: Floats = times[:, place].astype(np.float64)

    def mean(self, numbers: Floats) -> Floats:
        """[draws] means of [n]."""
        means: Floats = (self.times @ numbers) / self.times.sum(1)
        return means

    def arm(self, name: str, values: Any) -> Arm:
        """The means of an arm's numbers or truths: [seeds, n], or [seeds, 1 + curves, n] (`by_curves`)."""
        numbers = values.astype(np.float64).reshape(len(values), -1, values.shape[-1])
        by_curve = numbers[:, 1:] if numbers.shape[1] > 1 else numbers
        times = self.times.reshape(by_curve.shape[1], -1, numbers.shape[2])
        by_draw = (times @ by_curve.transpose(1, 2, 0) / times.sum(2, keepdims=True)).reshape(-1, len(numbers))
        return Arm(numbers[:, 0].mean(1), by_draw, drawn_seeds(name, len(numbers), len(by_draw)))

    def median(self, numbers: Floats) -> Floats:
        """[draws] medians of [n]: the least value that half of the positions do not exceed."""
        order = np.argsort(numbers, kind="stable")
        below = np.cumsum(self.times[:, order], 1)
        medians: Floats = numbers[order][(below >= below[:, -1:] / 2).argmax(1)]
        return medians


def median(numbers: Floats) -> float:
    """As `Drawn.median`, of all."""
    return float(np.sort(numbers)[(len(numbers) - 1) // 2])


def same(value: Floats) -> Floats:
    """Of a single arm: its mean."""
    return value


def difference(arm: Floats, other: Floats) -> Floats:
    """An arm less another."""
    return arm - other


def relative(arm: Floats, other: Floats) -> Floats:
    """An arm less another, as a part of the other; NaN where that has nothing."""
    return np.divide(arm - other, other, out=np.full_like(arm, np.nan), where=other != 0)


def estimate(of: Callable[..., Floats], *arms: Arm) -> Interval:
    """What `of` makes of the arms' means over their seeds, with its 95 % interval; see the head of this file."""
    means = [np.atleast_1d(arm.values.mean()) for arm in arms]
    value = float(of(*means)[0])
    drawn = of(*(arm.drawn.mean(1) + arm.by_seeds for arm in arms))
    drawn = drawn[~np.isnan(drawn)]
    if np.isnan(value) or len(drawn) < 2:
        return Interval(value, np.nan, np.nan)
    low, high = np.percentile(drawn, [2.5, 97.5])
    wider = _wider(of, arms, means, float(drawn.var()))
    return Interval(value, value + wider * (float(low) - value), value + wider * (float(high) - value))


def _wider(of: Callable[..., Floats], arms: Sequence[Arm], means: Sequence[Floats], variance: float) -> float:
    """Student's t against the normal quantile, by how much of the variance is that of few seeds."""
    from scipy.stats import t

    unsure = 0.0
    for i, arm in enumerate(arms):
        if arm.seeds > 1:
            of_seeds = means[i] + arm.by_seeds
            others = [of_seeds if j == i else np.broadcast_to(mean, of_seeds.shape) for j, mean in enumerate(means)]
            unsure += float(np.nanvar(of(*others))) ** 2 / (arm.seeds - 1)
    return float(t.ppf(0.975, variance**2 / unsure)) / Z95 if unsure > 0 else 1.0
