"""One statistic for a rate and one for a difference; both allow for positions of one game being alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import hypot, inf, isnan, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.text import finite, formatted, table_lines

# The 97.5 % quantile of the normal distribution: two-sided 95 %.
Z95 = 1.959963984540054
# A rate that differs from count / total by more than this is a weighted one; less is rounding.
_ROUNDING = 1e-9
# The correlation that is assumed between positions of one game; it counts as much as one candidate.
_ALIKE = 0.1
# Groups with numbers above this many times the rows are renumbered, which takes a sort.
_SPARSE = 8
# A smaller share of a sum of squares is lost in its rounding.
_LOST = 1e-14
# With fewer games a comparison has no interval.
FEWEST_GAMES = 16
_TOO_FEW = "too few games for an interval"


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `total` rows; `rate` with its 95 % interval `low` to `high`, fractions, NaN when `total` is 0.

    `few_drawn`: the number of audited rows, if they are the reason that the upper end is more than twice as far from
    the rate as the lower one; otherwise 0.
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
        """`rate`, `low` and `high` for JSON, None where they are NaN; first `count` and `total` under these names."""
        numbers = dict(zip(counts, (self.count, self.total), strict=False))
        return {**numbers, "rate": finite(self.rate), "low": finite(self.low), "high": finite(self.high)}

    @staticmethod
    def of_figures(row: Mapping[str, Any], count: str = "count", total: str = "total") -> Rate:
        """The rate in a JSON row that `figures` made, with the names of its `count` and `total`."""
        rate, low, high = (nan if row[name] is None else row[name] for name in ("rate", "low", "high"))
        return Rate(row[count], row[total], rate, low, high)


def rate_lines(title: str, rates: Iterable[tuple[str, Rate]]) -> list[str]:
    """An empty line, the title, and a line for each rate: its name and the rate."""
    return ["", title, *table_lines(":<12 | :<", rates, "  ")]


def wilson(count: int, total: int) -> Rate:
    """The rate with Wilson's 95 % score interval (E. B. Wilson, JASA 22, 1927), which holds for rare candidates too."""
    if total == 0:
        return Rate(0, 0, nan, nan, nan)
    return Rate(count, total, count / total, *wilson_bounds(count / total, total))


def wilson_bounds(p: float, total: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate `p` found among `total`, which may be an effective number, or none."""
    if total < _ROUNDING:
        return 0.0, 1.0
    scale = 1 + Z95**2 / total
    centre = (p + Z95**2 / (2 * total)) / scale
    half = Z95 / scale * sqrt(p * (1 - p) / total + Z95**2 / (4 * total**2))
    # At the ends the bounds are exactly 0 and 1; rounding must not move them past the rate.
    return (0.0 if p == 0 else min(centre - half, p), 1.0 if p == 1 else max(centre + half, p))


def weighted(hits: Flags, weights: Floats, groups: Ids | None = None) -> Rate:
    """The rate of `hits` [n] among rows of `weights` [n], whose `groups` [n] are their games (None: each its own).

    Rows of weight 1 are one stratum; the others, audits that stand for more rows, are another. In each the rate has
    Wilson's interval of an effective number of rows: Kish's, ``sum(w)^2 / sum(w^2)``, divided by the design effect of
    the games (L. Kish, Survey Sampling, 1965), which is how many times the variance by games is that by rows.
    With few candidates it is drawn towards 1 + (m - 1) / 10 for m rows in a game, and it is at least 1; few games take
    Student's t in place of the normal distribution (E. L. Korn, B. I. Graubard, Survey Methodology 24, 1998). The ends
    of both strata are combined by squares (MOVER: G. Y. Zou & A. Donner, Statistics in Medicine 27, 2008), so that few
    audits widen only the side that they leave open.
    """
    present = weights > 0
    mass, hit = weights[present], hits[present]
    if not len(mass):
        return Rate(0, len(hits), nan, nan, nan)
    mass = mass / mass.sum()
    strata, expected = list[tuple[float, float, float, int]](), np.zeros(len(mass))
    for rows in (is_single := weights[present] == 1, ~is_single):
        if rows.any():
            share = float(mass[rows].sum())
            rate = float(hit[rows][0]) if hit[rows].all() == hit[rows].any() else float(mass[rows] @ hit[rows]) / share
            expected[rows] = rate
            strata.append((share, rate, share**2 / float(mass[rows] @ mass[rows]), int(rows.sum())))
    rate = sum(share * rate for share, rate, *_ in strata)
    of_games = None if groups is None else _numbered(groups[present])
    lost = _rows_lost(mass * (hit - rate), mass * (hit - expected), mass, min(hit.sum(), (~hit).sum()), of_games)
    below = above = last = 0.0
    for share, own, effective, _ in strata:
        low, high = wilson_bounds(own, effective / lost)
        last = (share * (high - own)) ** 2
        below, above = below + (share * (own - low)) ** 2, above + last
    few = strata[-1][-1] if not is_single.all() and 4 * below < above < 2 * last else 0
    low, high = max(rate - sqrt(below), 0.0), min(rate + sqrt(above), 1.0)
    return Rate(int(hits.sum()), len(hits), min(max(rate, low), high), low, high, few)


def _rows_lost(off: Floats, off_stratum: Floats, mass: Floats, rarer: int, groups: Ids | None) -> float:
    """How many rows count as one because those of a game are alike; infinity if one game is all there is.

    `off` and `off_stratum` [n] are the weighted residuals from the rate of all and of the row's stratum: how many rows
    of each stratum a game has varies, too.
    """
    of_games = mass if groups is None else np.bincount(groups, mass)
    rows, games = 1 / float(mass @ mass), 1 / float(of_games @ of_games)
    if groups is None or games > rows * (1 - _ROUNDING):
        return 1.0
    if games < 1 + _ROUNDING:
        return inf
    of_rows, sums = float(off_stratum @ off_stratum), np.bincount(groups, off)
    beyond = float(sums @ sums) * games / (games - 1) - float(off @ off)
    ratio = 1 + beyond / of_rows if of_rows > _LOST * float(mass @ mass) else 0.0
    effect = max((rarer * ratio + 1 + (rows / games - 1) * _ALIKE) / (rarer + 1), 1.0)
    return effect * (_t95(games) / Z95) ** 2


def _numbered(groups: Ids) -> Ids:
    """The groups by numbers that are low enough for counting."""
    is_low = len(groups) and groups.min() >= 0 and groups.max() < _SPARSE * len(groups)
    return groups if is_low else np.unique(groups, return_inverse=True)[1]


def _t95(groups: float) -> float:
    """The 97.5 % quantile of Student's t for a variance between so many groups."""
    from scipy.special import stdtrit  # imported here: rates of single positions need no scipy

    return float(stdtrit(groups - 1, 0.975))


# -- means and differences --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean or a paired difference, second minus first, with its 95 % interval; NaN without data."""

    difference: float
    low: float
    high: float

    @staticmethod
    def of_figures(row: Mapping[str, Any]) -> Interval:
        """The interval from its JSON, where None is NaN."""
        return Interval(*(nan if row[name] is None else row[name] for name in ("difference", "low", "high")))

    def __str__(self) -> str:
        bounds = _TOO_FEW if isnan(self.low) else f"{self.low:+.4f} to {self.high:+.4f}"
        return f"{formatted(self.difference, '+.4f')} ({bounds})"

    @property
    def for_brackets(self) -> str:
        """As `str`, without brackets."""
        return str(self).replace(" (", ", " if isnan(self.low) else ", 95 %: ").removesuffix(")")

    @property
    def points(self) -> str:
        """A difference of shares in percentage points, with its interval in brackets."""
        difference = formatted(100 * self.difference, "+.2f")
        bounds = _TOO_FEW if isnan(self.low) else f"{100 * self.low:+.2f} to {100 * self.high:+.2f}"
        return f"{difference} points ({bounds})"


def mean(values: Floats, weights: Floats, groups: Ids) -> Interval:
    """The weighted mean of `values` [n], such as changes from one net to another on the same rows.

    The interval is by the sandwich: the variance of the sums of the games' (`groups` [n]) weighted residuals, times
    G / (G - 1), with Student's t of G games. NaN for fewer than two games.
    """
    total = float(weights.sum())
    if not total > 0:
        return Interval(nan, nan, nan)
    middle = float(weights @ values) / total
    numbers = _numbered(groups)
    sums = np.bincount(numbers, weights * (values - middle))[np.bincount(numbers, weights) > 0]
    if len(sums) < 2:
        return Interval(middle, nan, nan)
    half = _t95(len(sums)) * sqrt(float(sums @ sums) * len(sums) / (len(sums) - 1)) / total
    return Interval(middle, middle - half, middle + half)


def rate_change(changes: NDArray[np.floating[Any]], weights: Floats, groups: Ids) -> Interval:
    """The change of a rate, by the `changes` [n] of its rows, which are -1, 0 or 1.

    Rows of weight 1 have the interval of `mean`; if none changed, Wilson's bound of a rate of 0, because an interval
    without width would claim certainty. Audits, too few for that, have the intervals of two rates, of rows that became
    hits and of rows that are hits no more. The ends are combined by squares, as in `weighted`.
    """
    drawn, total = (weights != 1) & (weights > 0), float(weights.sum())
    single = mean(np.where(drawn, 0.0, changes), weights, groups)
    if isnan(single.low):
        return single
    below = above = single.high - single.difference
    difference = single.difference
    if (single.low, single.high) == (0, 0):
        none = weighted(np.zeros(len(changes), np.bool_)[~drawn], weights[~drawn], groups[~drawn])
        below = above = 0.0 if isnan(none.high) else none.high * float(weights[~drawn].sum()) / total
    if drawn.any():
        share = float(weights[drawn].sum()) / total
        newly, gone = (weighted(changes[drawn] == sign, weights[drawn], groups[drawn]) for sign in (1, -1))
        difference += share * (newly.rate - gone.rate)
        below = hypot(below, share * (newly.rate - newly.low), share * (gone.high - gone.rate))
        above = hypot(above, share * (newly.high - newly.rate), share * (gone.rate - gone.low))
    return Interval(difference, difference - below, difference + above)
