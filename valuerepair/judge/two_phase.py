"""Values of a deeper judge for some positions, drawn with known probabilities, in place of the first judge's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from valuerepair.arrays import Flags, Floats
from valuerepair.rates import Interval, Rate


@dataclass(frozen=True, slots=True, eq=False)
class DeeperValues:
    """`deep_q` [n] is from the side to move, `inverse` [n] the inverse chance of being drawn. Positions without a value
    have an `inverse` of 0 and any `deep_q`."""

    deep_q: Floats
    inverse: Floats

    def corrected(self, first: Floats, second: Floats) -> Floats:
        """[n] numbers; their weighted mean estimates the mean of `second` over all positions.

        `second` is known for the drawn positions only, `first`, the same by the first judge, for all. This is the
        difference estimator, ``first + (second - first) / chance`` where drawn (C.-E. Särndal, B. Swensson, J. Wretman,
        Model Assisted Survey Sampling, 1992, section 9.6). Whatever the first judge says, its mean is right on average
        over draws; the more alike both judges are, the less it varies.
        """
        change = np.where(self.inverse > 0, second - first, 0.0)
        numbers: Floats = first + self.inverse * change
        return numbers

    def of(self, rows: Flags) -> DeeperValues:
        """The values of the rows in a mask [n]."""
        return DeeperValues(self.deep_q[rows], self.inverse[rows])


def estimated(mean: Interval, hits: Flags) -> Rate:
    """A rate that is the mean of `DeeperValues.corrected` numbers; `hits` are those among the positions judged again.

    The estimate may lie outside [0, 1]; the rate is clipped.
    """
    rate, low, high = np.clip([mean.difference, mean.low, mean.high], 0.0, 1.0).tolist()
    return Rate(int(hits.sum()), len(hits), rate, low, high)
