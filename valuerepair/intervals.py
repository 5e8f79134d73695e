"""Rates, differences and counts with their intervals; every formula with its source."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, isnan, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.text import finite, formatted, table_lines

# The 97.5 % quantile of the normal distribution: two-sided 95 %.
Z95 = 1.959963984540054
# A rate that differs from count / total by more than this is a weighted one; less is rounding.
_ROUNDING = 1e-9
# A smaller share of a sum of squares is lost in its rounding, as with weights 1e7 times as large as others.
_LOST = 1e-14
# The correlation that is assumed between positions of one game if there are too few candidates to measure it.
ALIKE = 0.1
# The assumption counts as much as this number of candidates (or of other positions, if those are fewer).
_BELIEF = 1
# With fewer games a comparison has no interval. A fit that judges a game is made of the games of the other folds.
FOLDS = 8
FEWEST_GAMES = 2 * FOLDS
# Groups with numbers above this many times the rows are renumbered, which takes a sort, before they are counted.
_SPARSE = 8
RESAMPLES = 2000
FEWEST_RESAMPLES = 200
# The most groups drawn in all resamples together; this many take a second or two. With many groups few resamples are
# enough, because their mean is close to normal.
_DRAWS = 200_000_000
_BLOCK = 4_000_000


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `total`; `rate`, `low` and `high` are fractions, NaN when `total` is 0.

    For rows with `audit_weights`, `rate` is the rate of all positions, cut ones included. `few_drawn`: the number of
    audited rows, if they are the reason that the upper end is more than twice as far from the rate as the lower one;
    otherwise 0.
    """

    count: int
    total: int
    rate: float
    low: float
    high: float
    few_drawn: int = 0

    def __str__(self) -> str:
        if self.total == 0:
            return "0 of 0"
        # A weighted rate is not the rate of the rows: without the word, "9 of 88, 4.5 %" would look like an error.
        among = ", weighted" if abs(self.rate - self.count / self.total) > _ROUNDING else ","
        return f"{self.count:,} of {self.total:,}{among} {self.percent}"

    @property
    def percent(self) -> str:
        """The rate and its interval in per cent."""
        return f"{100 * self.rate:.2f} % (95 %: {100 * self.low:.2f} to {100 * self.high:.2f})"

    def figures(self, *counts: str) -> dict[str, float | None]:
        """`rate`, `low` and `high` for JSON, None where they are NaN.

        With names in `counts`, `count` and `total` come first, under these names.
        """
        numbers = dict(zip(counts, (self.count, self.total), strict=False))
        return {**numbers, "rate": finite(self.rate), "low": finite(self.low), "high": finite(self.high)}

    @staticmethod
    def of_figures(row: Mapping[str, Any], count: str = "count", total: str = "total") -> Rate:
        """The rate in a JSON row that `figures` made, with the names of its `count` and `total`."""
        return Rate(row[count], row[total], *_or_nan(row["rate"], row["low"], row["high"]))


def rate_lines(title: str, rates: Iterable[tuple[str, Rate]], width: int = 12) -> list[str]:
    """An empty line, the title, and a line for each rate: its name, in a column of at least `width`, and the rate."""
    return ["", title, *table_lines(f":<{width} | :<", rates, "  ")]


def _or_nan(middle: float | None, low: float | None, high: float | None) -> tuple[float, float, float]:
    """Three numbers of JSON, with NaN in place of None."""
    middle, low, high = (nan if number is None else number for number in (middle, low, high))
    return middle, low, high


def loose_bound_words(few_drawn: int) -> str:
    """Why the upper bound of a rate is loose (`Rate.few_drawn`), as a clause; empty if it is not."""
    return "the upper bound is loose because few screened-out positions were searched in full" if few_drawn else ""


def wilson(count: int, total: int) -> Rate:
    """The rate with Wilson's 95 % score interval (E. B. Wilson, JASA 22, 1927), which holds for rare candidates too."""
    if total == 0:
        return Rate(0, 0, nan, nan, nan)
    return Rate(count, total, count / total, *wilson_bounds(count / total, total))


def audit_weights(probability: Floats) -> Floats:
    """[n] the weights of positions that the screening ladder cut or would have cut: how many of them each represents.

    This is the only place that defines these weights. A position leaves the ladder where its screen would cut it (the
    column `cut_at`). Then it is *audited* with a known `probability` [n], which means that it is searched in full all
    the same, or else it is *cut*.
    Audited positions represent all that left the ladder, themselves included: in proportion to the inverse of their
    probability, scaled so that their weights sum to n. A cut position has the probability infinity here, and so
    represents none. Positions that did not leave the ladder weigh 1, and are a stratum of their own (`WeightedCount`).
    """
    return np.asarray(len(probability) / (float((1 / probability).sum()) or 1.0) / probability)


def weighted(hits: Flags, weights: Floats, groups: Ids | None = None) -> Rate:
    """The rate of `hits` [n] among rows of `weights` [n], such as `audit_weights`, as Hajek's ratio of weighted sums.

    `count` and `total` are of the rows themselves; see `WeightedCount.rate`. Equal weights give `wilson`, except that
    rows of one of the `groups` [n], such as positions of one game, may be alike, which widens the interval.
    """
    return WeightedCount().plus(hits, weights, groups).rate()


@dataclass(frozen=True, slots=True)
class _SquareSums:
    """Sums over rows or groups: `all` of their mass squared, `hits` of the mass of their hits squared, `both` of the
    product of the two."""

    hits: float = 0.0
    both: float = 0.0
    all: float = 0.0

    @staticmethod
    def of(first: _Masses, second: _Masses) -> _SquareSums:
        both = (first.hits @ second.all + first.all @ second.hits) / 2
        return _SquareSums(float(first.hits @ second.hits), float(both), float(first.all @ second.all))

    def plus(self, others: _SquareSums) -> _SquareSums:
        return _SquareSums(self.hits + others.hits, self.both + others.both, self.all + others.all)

    def about(self, rate: float) -> float:
        """The sum over rows or groups of (hits - rate * mass) squared."""
        return self.hits - 2 * rate * self.both + rate**2 * self.all


class _Masses(NamedTuple):
    """[n] the mass of the hits, and of all rows, in each group."""

    hits: Floats
    all: Floats


@dataclass(frozen=True, slots=True)
class _StratumSums:
    """The sums over the rows of a stratum, from which its rate is computed."""

    count: int = 0
    total: int = 0
    mass: float = 0.0
    hit_mass: float = 0.0
    row_squares: _SquareSums = _SquareSums()
    group_squares: _SquareSums = _SquareSums()

    def plus(self, weights: Floats, hits: Floats, groups: _Masses) -> _StratumSums:
        """The sums with n rows added: their `weights` [n], the weights of the `hits` among them, both by group."""
        hit_squares = float(hits @ hits)
        return _StratumSums(
            self.count + len(hits),
            self.total + len(weights),
            self.mass + float(weights.sum()),
            self.hit_mass + float(hits.sum()),
            self.row_squares.plus(_SquareSums(hit_squares, hit_squares, float(weights @ weights))),
            self.group_squares.plus(_SquareSums.of(groups, groups)),
        )

    @property
    def rate(self) -> float:
        """The rate; exactly 0 or 1 without or with all hits, however the sums are rounded."""
        rate = self.hit_mass / self.mass
        return float(round(rate)) if min(rate, 1 - rate) < _ROUNDING else rate

    def bounds(self) -> tuple[float, float]:
        """The 95 % interval of the rate: Korn and Graubard's, or Wilson's if no two rows have a group in common.

        The variance is that of Hajek's ratio between the groups. See `WeightedCount.rate`.
        """
        rate = self.rate
        rows, groups = (self.mass**2 / squares.all for squares in (self.row_squares, self.group_squares))
        if groups > rows * (1 - _ROUNDING):
            return wilson_bounds(rate, rows)
        if groups < 1 + _ROUNDING:
            return 0.0, 1.0  # a single group does not show how groups differ
        rarer, ratio = min(self.count, self.total - self.count), 0.0
        row_squares = self.row_squares.about(rate)
        if 0 < rate < 1 and row_squares > _LOST * self.row_squares.all:
            ratio = self.group_squares.about(rate) / row_squares * groups / (groups - 1)
        expected = 1 + (rows / groups - 1) * ALIKE
        effect = max((rarer * ratio + _BELIEF * expected) / (rarer + _BELIEF), 1.0)
        return korn_graubard_bounds(rate, rows / effect, groups)


def _numbered(groups: Ids | None, rows: int) -> Ids:
    """Numbers of the groups [n], low enough for counting; numbers of the rows if there are no groups."""
    if groups is None:
        return np.arange(rows)
    if len(groups) and (groups.min() < 0 or groups.max() > _SPARSE * rows):
        return np.unique(groups, return_inverse=True)[1]
    return groups


def _summed(masses: Floats, groups: Ids, count: int = 0) -> Floats:
    """[count] or more: the sums of masses [n] by group."""
    return np.bincount(groups, masses, count).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True)
class WeightedCount:
    """The sums behind a `weighted` rate; rows can be added.

    Rows of weight 1 are one stratum; the others, which were drawn to represent more rows, are another.
    """

    single: _StratumSums = _StratumSums()
    drawn: _StratumSums = _StratumSums()
    across: _SquareSums = _SquareSums()

    def plus(self, hits: Flags, weights: Floats, groups: Ids | None = None) -> WeightedCount:
        """The sums with rows added: `hits`, `weights`, `groups` [n]. No group may have rows in two calls."""
        numbers = _numbered(groups, len(hits))
        count = int(numbers.max(initial=-1)) + 1
        single = weights == 1
        strata, sums = [], []
        for stratum, members in ((self.single, single), (self.drawn, ~single)):
            rows = slice(None) if members.all() else np.flatnonzero(members)  # usually all: a copy would cost more time
            mass, number, hit_rows = weights[rows], numbers[rows], np.flatnonzero(hits[rows])
            sums.append(_Masses(_summed(mass[hit_rows], number[hit_rows], count), _summed(mass, number, count)))
            strata.append(stratum.plus(mass, mass[hit_rows], sums[-1]))
        return WeightedCount(strata[0], strata[1], self.across.plus(_SquareSums.of(*sums)))

    def rate(self, drawn_of: int | None = None) -> Rate:
        """The rate of all added rows. `drawn_of`: the number of rows that all drawn rows represent, if known.

        Each stratum has the 95 % interval of E. L. Korn and B. I. Graubard (Survey Methodology 24, 1998): Clopper and
        Pearson's of an effective number of rows, see `korn_graubard_bounds`. That is Kish's, ``sum(w)^2 / sum(w^2)``,
        divided by the design effect of the groups (L. Kish, Survey Sampling, 1965): how many times the variance of
        Hajek's ratio between groups is that of independent rows, both by Taylor's linearisation (C.-E. Särndal, B.
        Swensson, J. Wretman, Model Assisted Survey Sampling, 1992, section 5.6), times G / (G - 1). G is Kish's
        effective number of groups. With few candidates the measured effect is uncertain. So it is shrunk towards
        1 + (m - 1) ALIKE for m rows in a group, which counts as much as one candidate; it is at least 1. If no two rows
        have a group in common, the interval is Wilson's.

        The interval of both strata is recovered from theirs (MOVER: G. Y. Zou & A. Donner, Statistics in Medicine 27,
        2008), so that few drawn rows widen only the side that they leave open. Groups with many rows in one stratum and
        few in the other widen both sides.
        """
        strata = self.single, self.drawn
        count, total = self.single.count + self.drawn.count, self.single.total + self.drawn.total
        sizes = [self.single.mass, self.drawn.mass]
        if drawn_of is not None and self.drawn.mass > 0:
            sizes[1] = drawn_of
        if not sum(sizes) > 0:
            return wilson(0, 0)
        shares = [(size / sum(sizes), stratum) for stratum, size in zip(strata, sizes, strict=True) if size > 0]
        rate = sum(share * stratum.rate for share, stratum in shares) if count < total else 1.0
        below = above = Z95**2 * self._between(rate, shares)
        drawn_above = 0.0
        for share, stratum in shares:
            low, high = stratum.bounds()
            below, upward = below + (share * (stratum.rate - low)) ** 2, (share * (high - stratum.rate)) ** 2
            above += upward
            drawn_above = upward if stratum is self.drawn else drawn_above
        few_drawn = self.drawn.total if 4 * below < above < 2 * drawn_above else 0
        return Rate(count, total, rate, max(rate - sqrt(below), 0.0), min(rate + sqrt(above), 1.0), few_drawn)

    def _between(self, rate: float, shares: Sequence[tuple[float, _StratumSums]]) -> float:
        """The variance of the rate from groups with rows in both strata; 0 if each group is a single row."""
        if len(shares) < 2:
            return 0.0
        scales = [share / stratum.mass for share, stratum in shares]
        variance = 2 * scales[0] * scales[1] * self.across.about(rate)
        for scale, (_, stratum) in zip(scales, shares, strict=True):
            by_groups, by_rows = (squares.about(rate) - squares.about(stratum.rate)
                                  for squares in (stratum.group_squares, stratum.row_squares))  # fmt: skip
            variance += scale**2 * (by_groups - by_rows)
        return max(variance, 0.0)


def wilson_bounds(p: float, total: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate `p` found among `total`, which may be an effective number."""
    scale = 1 + Z95**2 / total
    centre = (p + Z95**2 / (2 * total)) / scale
    half = Z95 / scale * sqrt(p * (1 - p) / total + Z95**2 / (4 * total**2))
    # At the ends the bounds are exactly 0 and 1; rounding must not move them past the rate.
    return (0.0 if p == 0 else centre - half, 1.0 if p == 1 else centre + half)


def korn_graubard_bounds(p: float, effective: float, groups: float) -> tuple[float, float]:
    """The 95 % interval of a rate `p` of `effective` rows, their variance estimated from `groups`.

    Clopper and Pearson's interval for ``p n`` hits of n; neither need be a whole number. n is `effective` times the
    squared ratio of the 97.5 % quantiles of the normal distribution and of Student's t with ``groups - 1`` degrees of
    freedom (E. L. Korn, B. I. Graubard, Survey Methodology 24, 193, 1998). R's package survey has it as
    ``svyciprop(method="beta")``, with t of all rows in place of the normal distribution.
    """
    # Imported here: the rates of single positions need no scipy.
    from scipy.special import betaincinv, stdtrit

    n = effective * float(Z95 / stdtrit(groups - 1, 0.975)) ** 2
    if not n > 0:
        return 0.0, 1.0
    low = 0.0 if p == 0 else float(betaincinv(p * n, (1 - p) * n + 1, 0.025))
    high = 1.0 if p == 1 else float(betaincinv(p * n + 1, (1 - p) * n, 0.975))
    return min(low, p), max(high, p)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean or a paired difference, second minus first, with its 95 % interval; NaN without data."""

    difference: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    @staticmethod
    def of_figures(row: Mapping[str, Any]) -> Interval:
        """The interval from its JSON, where None is NaN."""
        return Interval(*_or_nan(row["difference"], row["low"], row["high"]))

    def __str__(self) -> str:
        return self._in_brackets("+.4f")

    @property
    def for_brackets(self) -> str:
        """As `str`, without brackets; or the difference, and that there are too few games for an interval."""
        if isnan(self.low):
            return f"{formatted(self.difference, '+.4f')}, too few games for an interval"
        return "{}, 95 %: {} to {}".format(*self._words("+.4f"))

    @property
    def points(self) -> str:
        """A difference of shares in percentage points."""
        return self._in_brackets("+.2f", 100, " points")

    def _in_brackets(self, form: str, times: int = 1, unit: str = "") -> str:
        """The difference, and in brackets the interval, or that there are too few games for one."""
        difference, low, high = self._words(form, times)
        bounds = "too few games for an interval" if isnan(self.low) and isnan(self.high) else f"{low} to {high}"
        return f"{difference}{unit} ({bounds})"

    def _words(self, form: str, times: int = 1) -> Iterator[str]:
        return (formatted(times * number, form) for number in (self.difference, self.low, self.high))


def mean_interval(values: Floats) -> Interval:
    """The mean of `values` [n] with the normal 95 % interval; without bounds for a single value."""
    mean = float(values.mean())
    half = Z95 * float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else nan
    return Interval(mean, mean - half, mean + half)


def bootstrap(differences: Floats, weights: Floats, groups: NDArray[np.int64]) -> list[Interval]:
    """Weighted means of `differences` [n, k] with 95 % intervals from resampled groups, one for each column.

    `groups` [n] are the games: positions of one game are drawn together, because they are alike (A. C. Davison, D. V.
    Hinkley, Bootstrap Methods and their Application, 1997, section 3.8). The intervals are percentiles of 2,000 draws;
    of fewer, but at least 200, for more than 100,000 games. The draws are always the same. NaN for fewer than two
    games.
    """
    if not len(differences):
        return [Interval(nan, nan, nan)] * differences.shape[1]
    means = (weights @ differences) / weights.sum()
    counted = weights > 0  # games of weight 0 would only dilute the draws
    place = np.unique(groups[counted], return_inverse=True)[1]
    differences, weights = differences[counted], weights[counted]
    sums: Floats = np.stack([np.bincount(place, weights * column) for column in differences.T], 1).astype(np.float64)
    return _by_groups(means, sums, np.bincount(place, weights).astype(np.float64))


def rare_changes(rows: Ids, columns: Ids, changes: Floats, count: int, weights: Floats, groups: Ids) -> list[Interval]:
    """`share_change` of `count` columns that are mostly 0.

    The entries other than 0 are `changes` [m], in these `rows` [m] and `columns` [m], each at most once; `weights` and
    `groups` are [n], of all rows.
    """
    from scipy.sparse import csc_array

    if not count:
        return []
    names, place = np.unique(groups, return_inverse=True)
    mass: Floats = np.bincount(place, weights).astype(np.float64)
    counted = mass > 0
    weighted_changes = single_changes(changes, weights[rows]) * weights[rows]
    sums, mass = csc_array((weighted_changes, (place[rows], columns)), (len(names), count))[counted], mass[counted]
    dense = csc_array((changes, (rows, columns)), (len(weights), count))
    return [
        share_change(interval, dense[:, [column]].toarray().ravel(), weights, groups)
        for column, interval in enumerate(_by_groups(sums.sum(0) / mass.sum(), sums, mass))
    ]


def _by_groups(means: Floats, sums: Any, mass: Floats) -> list[Interval]:
    """The weighted `means` [k] with intervals from resampled groups, by the sums of each group: `sums` [groups, k],
    which may be sparse, and `mass` [groups]. NaN for fewer than two groups."""
    bounds: Floats = np.full((2, len(means)), nan)
    if len(mass) > 1:
        resamples = resamples_within(_DRAWS, len(mass))
        bounds = resampled_bounds(lambda times: (times @ sums) / (times @ mass)[:, None], len(mass), resamples)
    return [Interval(*map(float, interval)) for interval in zip(means, *bounds, strict=True)]


def single_changes(changes: NDArray[np.floating[Any]], weights: Floats) -> Floats:
    """[n] the changes of rows that represent only themselves; 0 for rows that were drawn to represent others.

    `share_change` adds the changes of drawn rows: resamples of games cannot show what the draw has missed.
    """
    return np.where(_drawn(weights), 0.0, changes)


def _drawn(weights: Floats) -> Flags:
    """[n] the rows that were drawn to represent others; the two strata are those of `WeightedCount`."""
    return np.asarray((weights != 1) & (weights > 0))


def share_change(single: Interval, changes: NDArray[np.floating[Any]], weights: Floats, groups: Ids) -> Interval:
    """The change of a share: `single`, the `bootstrap` of `single_changes`, and the change among the drawn rows.

    `changes` [n] are -1, 0 or 1 for each row, with its weight and group in `weights` and `groups` [n]. If no single row
    changed, Wilson's bound for no change in these groups replaces the bootstrap (their number is Kish's effective one):
    resamples of unchanged rows have no change either, and an interval without width would claim certainty.

    The change among drawn rows is the difference of two rates: of rows that became hits, and of rows that are hits no
    more. Each has the interval of its stratum (`WeightedCount.rate`), which has a width even without hits. The interval
    of the whole change is recovered from these (MOVER: G. Y. Zou & A. Donner, Statistics in Medicine 27, 2008).
    """
    drawn, mass = _drawn(weights), float(weights.sum())
    if (single.low, single.high) == (0, 0) and mass:
        group_mass = np.bincount(np.unique(groups[~drawn], return_inverse=True)[1], weights[~drawn])
        squares = float((group_mass**2).sum())
        _, most = wilson_bounds(0.0, float(group_mass.sum() ** 2 / squares)) if squares else (0.0, 0.0)
        most *= float(group_mass.sum()) / mass
        single = Interval(single.difference, -most, most)
    if not drawn.any() or isnan(single.low):
        return single
    newly, repaired = (
        WeightedCount().plus(changes[drawn] == sign, weights[drawn], groups[drawn]).drawn for sign in (1, -1)
    )
    share = newly.mass / mass
    fewest_newly, most_newly = (share * bound for bound in newly.bounds())
    fewest_repaired, most_repaired = (share * bound for bound in repaired.bounds())
    newly_rate, repaired_rate = share * newly.rate, share * repaired.rate
    below = hypot(single.difference - single.low, newly_rate - fewest_newly, most_repaired - repaired_rate)
    above = hypot(single.high - single.difference, most_newly - newly_rate, repaired_rate - fewest_repaired)
    difference = single.difference + newly_rate - repaired_rate
    return Interval(difference, difference - below, difference + above)


def resamples_within(draws: int, size: int) -> int:
    """The number of resamples of `size` games that together make at most this number of `draws`; at least
    `FEWEST_RESAMPLES`, and at most `RESAMPLES`."""
    return int(np.clip(draws // size, FEWEST_RESAMPLES, RESAMPLES))


def resampled_bounds(figures: Callable[[Ids], Floats], groups: int, resamples: int) -> Floats:
    """[2, k] the `percentile_bounds` of figures over resampled groups; the draws are always the same.

    The function `figures` gets how often each group is drawn, [rows, groups], and returns the figures [rows, k].
    """
    blocks = resampled(groups, resamples, np.random.default_rng(0))
    return percentile_bounds(np.concatenate([figures(times) for times in blocks]))


def percentile_bounds(drawn: Floats) -> Floats:
    """[2, k] the 95 % bounds of figures with these values [resamples, k]; a resample that lacks a figure has NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a figure that no resample has
        bounds: Floats = np.nanpercentile(drawn, [2.5, 97.5], axis=0)
    return bounds


def resampled(groups: int, resamples: int, rng: np.random.Generator) -> Iterator[Ids]:
    """How often each of `groups` is drawn in `groups` draws with replacement: `resamples` rows, in blocks [rows,
    groups]. The rows do not depend on the size of the blocks.

    Every bootstrap over games draws this way.
    """
    block = max(1, _BLOCK // groups)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        # One bincount for all rows: row r counts its games from r * groups on.
        picked = rng.integers(0, groups, (rows, groups)) + np.arange(rows)[:, None] * groups
        yield np.bincount(picked.ravel(), minlength=rows * groups).reshape(rows, groups)


def fold_of(game: ArrayLike) -> Ids:
    """[n] folds of games identified by whole numbers [n]: a game stays in its fold when other games are added."""
    # The finaliser of MurmurHash3 scatters neighbouring numbers, and numbers that differ in few bits.
    x = np.array(game, np.int64, copy=True, ndmin=1).view(np.uint64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x ^= x >> np.uint64(33)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(33)
    folds: Ids = (x % np.uint64(FOLDS)).astype(np.int64)
    return folds
