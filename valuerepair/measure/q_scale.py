"""How steep one net's Q is compared with another's: the `q_scale` at which a search treats both nets alike.

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
    """The factor that makes the Q of one net as steep as another's, with its 95 % interval.

    `games` is the number of games (or openings) that the interval is over; for fewer than 3 its bounds are NaN.
    """

    value: float
    low: float
    high: float
    games: int

    @property
    def differs(self) -> bool:
        """Whether all of the interval is outside `SAME`: a match without a `q_scale` is then not at equal breadth."""
        return self.high < SAME[0] or self.low > SAME[1]

    @property
    def inverse(self) -> QScale:
        """The factor for the other net: how many times as steep the first net's Q is."""
        return QScale(1 / self.value, 1 / self.high, 1 / self.low, self.games)

    def __str__(self) -> str:
        interval = "" if math.isnan(self.low) else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f}{interval}"


def for_both(value: float) -> tuple[float, float]:
    """The factors for both nets, from the factor for the first: below 1 for the steeper net and 1 for the other,
    because a search clips a Q beyond 1."""
    return min(value, 1.0), min(1 / value, 1.0)


def q_scale_of(q: ArrayLike, like: ArrayLike, game: ArrayLike, weight: ArrayLike | None = None) -> QScale:
    """The factor that makes the Q of a net, `q` [n], as steep as the Q of another, `like` [n].

    Both are of the same positions, from the side to move; `game` [n] numbers their games, `weight` [n] are the weights
    of the positions. It is the ratio of the root mean squares, ``sqrt(sum w like^2 / sum w q^2)``: the slope of the
    line through 0 that treats both nets alike (reduced major axis), so that exchanged nets give the inverse. A slope of
    regression would be lower in both directions, because the nets do not fully agree. Raises ValueRepairError if there
    is no position, or if a net's Q is 0 in all of them.
    """
    values = np.stack([np.asarray(net_q, np.float64) for net_q in (q, like)])
    mass = np.ones(values.shape[1]) if weight is None else np.asarray(weight, np.float64)
    games, game_of_row = np.unique(np.asarray(game), return_inverse=True)
    return q_scale_of_sums(*(np.bincount(game_of_row, row, len(games)).astype(np.float64) for row in mass * values**2))


def q_scale_of_sums(squares: NDArray[np.float64], like: NDArray[np.float64]) -> QScale:
    """`q_scale_of` by the sums of squares of each game [games]; the nets may have different positions of a game.

    The interval is the jackknife's over games, of the logarithm (B. Efron, The Jackknife, the Bootstrap and Other
    Resampling Plans, 1982), with Student's t at (games - 1) degrees of freedom. Raises ValueRepairError as
    `q_scale_of`.
    """
    from scipy.special import stdtrit

    total, like_total = float(squares.sum()), float(like.sum())
    if not total or not like_total:
        raise ValueRepairError("the scale of Q cannot be determined: no position, or a net's Q is 0 in all of them")
    value, used = math.sqrt(like_total / total), (squares > 0) & (like > 0)
    games = int(used.sum())
    if games < 3:
        return QScale(value, math.nan, math.nan, games)
    without = np.log((like_total - like[used]) / (total - squares[used])) / 2
    deviation = math.sqrt((games - 1) / games * float(((without - without.mean()) ** 2).sum()))
    ratio = math.exp(float(stdtrit(games - 1, 0.975)) * deviation)
    return QScale(value, value / ratio, value * ratio, games)
