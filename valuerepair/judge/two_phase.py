"""Values of a deeper judge for some positions, drawn with known probabilities, in place of the first judge's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from valuerepair.arrays import Flags, Floats
from valuerepair.intervals import Interval, Rate


@dataclass(frozen=True, slots=True, eq=False)
class DeeperValues:
    """`deep_q` [n] is from the side to move, and arbitrary where it is not known; `inverse` [n] is the inverse chance
    of being drawn, and 0 there."""

    deep_q: Floats
    inverse: Floats

    def corrected(self, first: Floats, second: Floats) -> Floats:
        """[n] numbers whose weighted mean estimates that of `second`, known of the drawn positions, over all positions.

        `first` is the same by the first judge, known of all: the difference estimator, ``first + (second - first) /
        chance`` where drawn (C.-E. Särndal, B. Swensson, J. Wretman, Model Assisted Survey Sampling, 1992, section
        9.6). Whatever the first judge says, its mean is right on average over draws, and the more alike both judges
        are, the less it varies.
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
