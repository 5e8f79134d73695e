"""Rates with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

# The 97.5 % quantile of the normal distribution: two-sided 95 %.
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `total`; `rate`, `low` and `high` are fractions, NaN when `total` is 0."""

    count: int
    total: int
    rate: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.total == 0:
            return "0 of 0"
        return (
            f"{self.count:,} of {self.total:,}, {100 * self.rate:.2f} % "
            f"(95 %: {100 * self.low:.2f} to {100 * self.high:.2f})"
        )


def wilson(count: int, total: int) -> Rate:
    """The rate with Wilson's 95 % score interval (E. B. Wilson, JASA 22, 1927), which holds for rare candidates too."""
    if total == 0:
        return Rate(0, 0, float("nan"), float("nan"), float("nan"))
    return Rate(count, total, count / total, *_interval(count / total, total))


def weighted(hits: NDArray[np.bool_], weights: NDArray[np.float64]) -> Rate:
    """The rate of `hits` [n] among rows of inverse-probability `weights` [n], as Hajek's ratio of weighted sums.

    `count` and `total` are of the rows themselves. The interval is Wilson's with Kish's effective sample size,
    ``sum(w)^2 / sum(w^2)``, for the number of rows (L. Kish, Survey Sampling, 1965); equal weights give `wilson`.
    """
    return WeightedCount().plus(hits, weights).rate()


@dataclass(frozen=True, slots=True)
class WeightedCount:
    """The sums that a `weighted` rate is made of; rows can be added."""

    count: int = 0
    total: int = 0
    mass: float = 0.0
    squares: float = 0.0
    hit_mass: float = 0.0

    def plus(self, hits: NDArray[np.bool_], weights: NDArray[np.float64]) -> WeightedCount:
        """With rows added: `hits` [n] and their `weights` [n]."""
        return WeightedCount(
            self.count + int(hits.sum()),
            self.total + len(hits),
            self.mass + float(weights.sum()),
            self.squares + float((weights**2).sum()),
            self.hit_mass + float(weights[hits].sum()),
        )

    def rate(self) -> Rate:
        """The rate of what was added."""
        if not self.mass > 0:
            return wilson(0, 0)
        # Of all or of none is exact, whatever rounding the sums have.
        rate = float(self.count == self.total) if self.count in (0, self.total) else self.hit_mass / self.mass
        return Rate(self.count, self.total, rate, *_interval(rate, self.mass**2 / self.squares))


def _interval(p: float, total: float) -> tuple[float, float]:
    scale = 1 + _Z**2 / total
    centre = (p + _Z**2 / (2 * total)) / scale
    half = _Z / scale * sqrt(p * (1 - p) / total + _Z**2 / (4 * total**2))
    # At the ends the bounds are 0 and 1 exactly; rounding must not put them beside the rate.
    return (0.0 if p == 0 else centre - half, 1.0 if p == 1 else centre + half)
