"""What drawing by the label does to a net that learns: the amplitude of its correction, and the candidates left.

Two numbers: a net's error, which a net can learn, is normal with the deviation `error` over kinds of positions; what
the judge says of a position scatters around its kind's by the normal `spread`, which no net can learn. A candidate is
off by the threshold. A net that is fed with more candidates than there are learns the mean label of what it is fed, and
so corrects its error by more than its error.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from benchmarks.proof.analysis import PRIMARY_THRESHOLD

_NORMAL = NormalDist()


class Learned(NamedTuple):
    """How many times a net corrects its error, and the rate of candidates that it leaves."""

    amplitude: float
    rate: float


def numbers_of(before: float, after: float, threshold: float = PRIMARY_THRESHOLD) -> tuple[float, float]:
    """Error and spread by the rate of candidates of a net, and by that of the net that learned them as they come."""
    both, spread = (threshold / -_NORMAL.inv_cdf(rate / 2) for rate in (before, after))
    return sqrt(both**2 - spread**2), spread


def learned(error: float, spread: float, share: float | None, threshold: float = PRIMARY_THRESHOLD) -> Learned:
    """What a net learns where candidates are this `share` of what is drawn; None: as many as there are."""
    from scipy.stats import norm

    nodes, weights = np.polynomial.hermite_e.hermegauss(81)
    weights, mean = weights / weights.sum(), error * nodes  # over kinds: the mean label of each
    low, high = (-threshold - mean) / spread, (threshold - mean) / spread
    inside = norm.cdf(high) - norm.cdf(low)
    sum_inside = mean * inside - spread * (norm.pdf(high) - norm.pdf(low))
    rate = float(weights @ (1 - inside))
    drawn = rate if share is None else share
    often = drawn / rate, (1 - drawn) / (1 - rate)  # candidates, others
    fed = often[0] * (mean - sum_inside) + often[1] * sum_inside
    correction = fed / (often[0] * (1 - inside) + often[1] * inside)
    left = mean - correction
    wrong = norm.sf((threshold - left) / spread) + norm.cdf((-threshold - left) / spread)
    return Learned(float(weights @ (correction * mean) / (weights @ mean**2)), float(weights @ wrong))
