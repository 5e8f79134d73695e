"""Two answers to the same questions: paired differences with intervals.

Each of n positions has an event (to be a candidate) under a first and under a second net. What is reported is always
second less first: below 0, the second has fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The 97.5 % quantile of the normal distribution: two-sided 95 %.
_Z = 1.959963984540054
RESAMPLES = 2000
FEWEST_RESAMPLES = 200
# Draws of groups in all: a second or two. Many groups need few resamples, for their mean is close to normal.
_DRAWS = 200_000_000
_BLOCK = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A paired difference, second less first, with its 95 % interval; NaN where there is nothing to tell."""

    difference: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """True when the interval does not hold 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by event: under `both`, the `first` only, the `second` only, `neither`. Not whole numbers where weighted."""

    both: float
    first: float
    second: float
    neither: float

    @property
    def total(self) -> float:
        return self.both + self.first + self.second + self.neither

    @property
    def shares(self) -> tuple[float, float]:
        """The shares of the event under first and second; NaN when there are no rows."""
        total = self.total or float("nan")
        return (self.both + self.first) / total, (self.both + self.second) / total


def cross(first: Flags, second: Flags, weights: Floats | None = None) -> Table:
    """The table of two events [n]; with weights [n] of the weighted rows, scaled to their effective number.

    The effective number is Kish's, ``sum(w)^2 / sum(w^2)``: with equal weights, n.
    """
    w = np.ones(len(first)) if weights is None else weights
    cells = [float(w[rows].sum()) for rows in (first & second, first & ~second, ~first & second, ~first & ~second)]
    mass = float((w**2).sum())
    scale = sum(cells) / mass if mass else 1.0
    return Table(*(cell * scale for cell in cells))


def newcombe(table: Table) -> Interval:
    """The difference of two paired shares with Newcombe's 95 % interval.

    R. G. Newcombe, Statistics in Medicine 17, 2635 (1998), method 10: Wilson's intervals of both shares, squared and
    added, with the correlation of the two, corrected for continuity.
    """
    n = table.total
    if not n > 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    p1, p2 = table.shares
    (l1, u1), (l2, u2) = _wilson(p1, n), _wilson(p2, n)
    phi = _correlation(table)
    difference = (table.second - table.first) / n
    below = _added(p2 - l2, u1 - p1, phi)
    above = _added(u2 - p2, p1 - l1, phi)
    return Interval(difference, difference - below, difference + above)


def _wilson(p: float, n: float) -> tuple[float, float]:
    """Wilson's score interval of a share of n rows, which need not be a whole number (see `store.rates`)."""
    scale = 1 + _Z**2 / n
    half = _Z * sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    return (p + _Z**2 / (2 * n) - half) / scale, (p + _Z**2 / (2 * n) + half) / scale


def _added(one: float, other: float, phi: float) -> float:
    return sqrt(max(one**2 - 2 * phi * one * other + other**2, 0.0))


def _correlation(table: Table) -> float:
    a, b, c, d = table.both, table.first, table.second, table.neither
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    if margins <= 0:
        return 0.0
    excess = a * d - b * c
    if excess > 0:
        excess = max(excess - table.total / 2, 0.0)
    return float(excess / sqrt(margins))


def mcnemar(first_only: int, second_only: int) -> float:
    """The exact two-sided p of McNemar's test: as many changes one way as the other (Psychometrika 12, 153, 1947).

    Twice the smaller binomial tail at 1/2, at most 1.
    """
    changes = first_only + second_only
    if changes == 0:
        return 1.0
    # Imported here: nothing else of this module needs scipy.
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(first_only, second_only), changes, 0.5)))


def bootstrap(
    differences: Floats, weights: Floats, groups: NDArray[np.int64], resamples: int | None = None, seed: int = 0
) -> list[Interval]:
    """Weighted means of `differences` [n, k] with 95 % intervals from resampled groups, one for each column.

    `groups` [n] are the games: positions of one game are drawn together, because they are alike (A. C. Davison,
    D. V. Hinkley, Bootstrap Methods and their Application, 1997, section 3.8). Percentile intervals of `resamples`
    draws from `seed` (by default 2,000, fewer where there are more than 100,000 games, at least 200). NaN for fewer
    than two games.
    """
    if not len(differences):
        return [Interval(float("nan"), float("nan"), float("nan"))] * differences.shape[1]
    means = (weights @ differences) / weights.sum()
    standing = weights > 0  # games that stand for nothing would only dilute the draws
    names, place = np.unique(groups[standing], return_inverse=True)
    differences, weights = differences[standing], weights[standing]
    count = len(names)
    if count < 2:
        return [Interval(float(mean), float("nan"), float("nan")) for mean in means]
    sums: Floats = np.stack([np.bincount(place, weights * column, count) for column in differences.T], 1).astype(float)
    mass: Floats = np.bincount(place, weights, count).astype(float)
    drawn = _resampled(sums, mass, resamples or int(np.clip(_DRAWS // count, FEWEST_RESAMPLES, RESAMPLES)), seed)
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return [Interval(float(m), float(lo), float(hi)) for m, lo, hi in zip(means, low, high, strict=True)]


def _resampled(sums: Floats, mass: Floats, resamples: int, seed: int) -> Floats:
    """[resamples, k] weighted means over games drawn with replacement."""
    rng, count = np.random.default_rng(seed), len(mass)
    block, parts = max(1, _BLOCK // count), []
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        # One bincount for all rows: row r counts its games from r * count on.
        picked = rng.integers(0, count, (rows, count)) + np.arange(rows)[:, None] * count
        times = np.bincount(picked.ravel(), minlength=rows * count).reshape(rows, count)
        parts.append((times @ sums) / (times @ mass)[:, None])
    return np.concatenate(parts)
