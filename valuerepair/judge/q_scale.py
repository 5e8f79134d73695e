"""How steep one net's Q is beside another's: the `q_scale` with which a search takes one for the other.

First-play urgency and U are in units of Q, so a net whose Q is s times as steep is searched more narrowly by the same
settings. With ``q_scale`` 1 / s its search is as broad as the other net's; see `mcts.params.SearchParams`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuerepair.errors import ValueRepairError

SAME = 0.95, 1.05  # ratios between these are not worth a setting


@dataclass(frozen=True, slots=True)
class QScale:
    """What the Q of one net is to be multiplied by to be as steep as another's, with its 95 % interval.

    `games` is the number of games (or openings) that the interval is over; of fewer than 3 its bounds are NaN.
    """

    value: float
    low: float
    high: float
    games: int

    @property
    def differs(self) -> bool:
        """The whole interval lies outside of `SAME`, so a match without a `q_scale` is not one at equal breadth."""
        return self.high < SAME[0] or self.low > SAME[1]

    @property
    def inverse(self) -> QScale:
        """The same the other way round: how many times as steep the first net's Q is."""
        return QScale(1 / self.value, 1 / self.high, 1 / self.low, self.games)

    def __str__(self) -> str:
        interval = "" if math.isnan(self.low) else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f}{interval}"


def for_both(value: float) -> tuple[float, float]:
    """The same for two nets, as what either one's Q is to be multiplied by: that of the steeper one below 1, that of
    the other 1, because a search cuts off what is larger than 1."""
    return min(value, 1.0), min(1 / value, 1.0)


def q_scale_of(q: ArrayLike, like: ArrayLike, game: ArrayLike, weight: ArrayLike | None = None) -> QScale:
    """What the Q of a net, `q` [n], is to be multiplied by to be as steep as the Q of another, `like` [n].

    Both are of the same positions, from the side to move; `game` [n] numbers their games, `weight` [n] is what a
    position counts. It is the ratio of the root mean squares, ``sqrt(sum w like^2 / sum w q^2)``: the line through 0 on
    which neither net is the one that errs (reduced major axis), so that the other way round it is one over it. A slope
    of one on the other would be lower both ways round, by what the nets do not agree in. Raises ValueRepairError where
    there is no position or a net's Q is 0 in all.
    """
    values = np.stack([np.asarray(each, np.float64) for each in (q, like)])
    mass = np.ones(values.shape[1]) if weight is None else np.asarray(weight, np.float64)
    games, which = np.unique(np.asarray(game), return_inverse=True)
    return q_scale_of_sums(*(np.bincount(which, row, len(games)).astype(np.float64) for row in mass * values**2))


def q_scale_of_sums(squares: NDArray[np.float64], like: NDArray[np.float64]) -> QScale:
    """`q_scale_of` by the sums of squares of each game [games]; both nets' positions may be others of the same games.

    The interval is the jackknife's over games, of the logarithm (B. Efron, The Jackknife, the Bootstrap and Other
    Resampling Plans, 1982), with Student's t of one degree of freedom less than there are games. Raises
    ValueRepairError as `q_scale_of`.
    """
    from scipy.special import stdtrit

    total, other = float(squares.sum()), float(like.sum())
    if not total or not other:
        raise ValueRepairError("the scale of Q cannot be determined: no position, or a net's Q is 0 in all of them")
    value, used = math.sqrt(other / total), (squares > 0) & (like > 0)
    games = int(used.sum())
    if games < 3:
        return QScale(value, math.nan, math.nan, games)
    without = np.log((other - like[used]) / (total - squares[used])) / 2
    deviation = math.sqrt((games - 1) / games * float(((without - without.mean()) ** 2).sum()))
    far = math.exp(float(stdtrit(games - 1, 0.975)) * deviation)
    return QScale(value, value / far, value * far, games)
