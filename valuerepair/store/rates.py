"""Rates with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

# The 97.5 % quantile of the normal distribution: two-sided 95 %.
_Z = 1.959963984540054
# A rate that differs more from count / total is a weighted one; less is rounding.
_UNEQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `total`; `rate`, `low` and `high` are fractions, NaN when `total` is 0.

    Of rows that a screening ladder weighted, `rate` is that of all positions, those it cut included.
    """

    count: int
    total: int
    rate: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.total == 0:
            return "0 of 0"
        # A weighted rate is not that of the rows: without a word 9 of 88 with 4.5 % would read as an error.
        among = ", weighted" if abs(self.rate - self.count / self.total) > _UNEQUAL else ","
        return (
            f"{self.count:,} of {self.total:,}{among} {100 * self.rate:.2f} % "
            f"(95 %: {100 * self.low:.2f} to {100 * self.high:.2f})"
        )


def wilson(count: int, total: int) -> Rate:
    """The rate with Wilson's 95 % score interval (E. B. Wilson, JASA 22, 1927), which holds for rare candidates too."""
    if total == 0:
        return Rate(0, 0, float("nan"), float("nan"), float("nan"))
    return Rate(count, total, count / total, *wilson_bounds(count / total, total))


def weighted(hits: NDArray[np.bool_], weights: NDArray[np.float64]) -> Rate:
    """The rate of `hits` [n] among rows of inverse-probability `weights` [n], as Hajek's ratio of weighted sums.

    `count` and `total` are of the rows themselves; see `WeightedCount.rate`. Equal weights give `wilson`.
    """
    return WeightedCount().plus(hits, weights).rate()


@dataclass(frozen=True, slots=True)
class _Stratum:
    """The sums that the rate of some rows is made of."""

    count: int = 0
    total: int = 0
    mass: float = 0.0
    squares: float = 0.0
    hit_mass: float = 0.0

    def plus(self, hits: NDArray[np.bool_], weights: NDArray[np.float64]) -> _Stratum:
        return _Stratum(
            self.count + int(hits.sum()),
            self.total + len(hits),
            self.mass + float(weights.sum()),
            self.squares + float((weights**2).sum()),
            self.hit_mass + float(weights[hits].sum()),
        )

    def plus_single(self, count: int, total: int) -> _Stratum:
        """`plus` of rows of weight 1."""
        return _Stratum(
            self.count + count, self.total + total, self.mass + total, self.squares + total, self.hit_mass + count
        )

    def bounds(self) -> tuple[float, float, float]:
        """The rate, and Wilson's interval with Kish's effective sample size for the number of rows."""
        # Of all or of none is exact, whatever rounding the sums have.
        rate = float(self.count == self.total) if self.count in (0, self.total) else self.hit_mass / self.mass
        return rate, *wilson_bounds(rate, self.mass**2 / self.squares)


@dataclass(frozen=True, slots=True)
class WeightedCount:
    """The sums that a `weighted` rate is made of; rows can be added.

    Rows that stand for themselves only (weight 1) and those drawn to stand for more are strata of their own.
    """

    single: _Stratum = _Stratum()
    drawn: _Stratum = _Stratum()

    def plus(self, hits: NDArray[np.bool_], weights: NDArray[np.float64]) -> WeightedCount:
        """With rows added: `hits` [n] and their `weights` [n]."""
        drawn = np.flatnonzero(weights != 1)
        others = hits[drawn]
        alone, among = len(hits) - len(drawn), int(np.count_nonzero(hits)) - int(np.count_nonzero(others))
        return WeightedCount(self.single.plus_single(among, alone), self.drawn.plus(others, weights[drawn]))

    def rate(self, drawn_of: int | None = None) -> Rate:
        """The rate of what was added. `drawn_of`: how many all drawn rows together stand for, where that is known.

        Each stratum has Wilson's 95 % interval with Kish's effective sample size, ``sum(w)^2 / sum(w^2)`` (L. Kish,
        Survey Sampling, 1965); that of both is recovered from theirs (MOVER: G. Y. Zou & A. Donner, Statistics in
        Medicine 27, 2008), so what few drawn rows leave open widens only the side that they leave open.
        """
        total = self.single.total + self.drawn.total
        count = self.single.count + self.drawn.count
        sizes = [self.single.mass, self.drawn.mass]
        if drawn_of is not None and self.drawn.mass > 0:
            sizes[1] = drawn_of
        if not sum(sizes) > 0:
            return wilson(0, 0)
        rate = below = above = 0.0
        for stratum, size in zip((self.single, self.drawn), sizes, strict=True):
            if size > 0:
                share = size / sum(sizes)
                p, low, high = stratum.bounds()
                rate += share * p
                below, above = below + (share * (p - low)) ** 2, above + (share * (high - p)) ** 2
        if count == total:
            rate = 1.0
        return Rate(count, total, rate, max(rate - sqrt(below), 0.0), min(rate + sqrt(above), 1.0))


def wilson_bounds(p: float, total: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate `p` found among `total`, which may be an effective number."""
    scale = 1 + _Z**2 / total
    centre = (p + _Z**2 / (2 * total)) / scale
    half = _Z / scale * sqrt(p * (1 - p) / total + _Z**2 / (4 * total**2))
    # At the ends the bounds are 0 and 1 exactly; rounding must not put them beside the rate.
    return (0.0 if p == 0 else centre - half, 1.0 if p == 1 else centre + half)
