"""Rates with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

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
    p = count / total
    scale = 1 + _Z**2 / total
    centre = (p + _Z**2 / (2 * total)) / scale
    half = _Z / scale * sqrt(p * (1 - p) / total + _Z**2 / (4 * total**2))
    # At the ends the bounds are 0 and 1 exactly; rounding must not put them beside the rate.
    return Rate(count, total, p, 0.0 if count == 0 else centre - half, 1.0 if count == total else centre + half)
