"""Centipawns and WDL of a value as lc0 shows them (search/classic/search.cc, SendUciInfo and WDLRescale).

All values are from the side to move: `wl` = win - loss in [-1, 1], `d` the probability of a draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from valuerepair.mcts.result import RootMove, SearchResult

_LEAST_SHARE = 1e-4  # below it a win, draw or loss is too rare for the random-walk model
_DECIDED = 0.996
Real = Callable[[float], float]


class Score(NamedTuple):
    """What `info` says of a move: centipawns or moves to mate (the other is None), and W, D, L per mille."""

    cp: int | None
    mate: int | None
    wdl: tuple[int, int, int]

    @property
    def text(self) -> str:
        """As UCI writes it: ``cp 35`` or ``mate -3``."""
        return f"mate {self.mate}" if self.mate is not None else f"cp {self.cp}"


def score_of(move: RootMove, result: SearchResult, *, has_wdl: bool = True, lc0_floats: bool = False) -> Score:
    """The score of a root move, of one without visits by the root's own value, as in lc0.

    `has_wdl`: the net has a WDL head. `lc0_floats`: with lc0's approximate logarithm and exponential, to the digit;
    they move its WDL by up to 3 %. Otherwise both are exact.
    """
    _, wl, d, _ = result.value_of(move)
    log, logistic = (fast_log, _fast_logistic) if lc0_floats else (math.log, _logistic)
    mu, wl, d = _random_walk(wl, d, log, logistic)
    wdl = per_mille(wl, d)
    if move.mate is not None:
        return Score(None, move.mate, wdl)
    return Score(_centipawns(mu if has_wdl else 0.0, wl, d), None, wdl)


def _random_walk(wl: float, d: float, log: Real, logistic: Real) -> tuple[float, float, float]:
    """(mu, wl, d): the mean of the logistic cut by -1 and 1 into L, D and W, and W - L and D back from mean and spread.

    These come out as they went in, but for the errors of lc0's approximations. lc0's bound on the spread acts only
    with contempt.
    """
    win, loss = (1 + wl - d) / 2, (1 - wl - d) / 2
    if not all(_LEAST_SHARE < share < 1 - _LEAST_SHARE for share in (win, d, loss)):
        return 0.0, wl, d
    a, b = log(1 / loss - 1), log(1 / win - 1)
    spread, mu = 2 / (a + b), (a - b) / (a + b)
    win, loss = logistic((mu - 1) / spread), logistic((-mu - 1) / spread)
    return mu, win - loss, max(0.0, 1 - win - loss)


def _centipawns(mu: float, wl: float, d: float) -> int:
    """lc0's score type WDL_mu: mu where the model holds, otherwise a tangent of W - L. Cut to a whole number."""
    tangent = 45 * math.tan(1.56728071628 * wl)
    model = mu != 0 and abs(wl) + d < _DECIDED and (abs(mu) < 1 or abs(tangent) < abs(100 * mu))
    return int(100 * mu if model else tangent)


def per_mille(wl: float, d: float) -> tuple[int, int, int]:
    """W, D and L per mille, adding up to 1000."""
    win, loss = (max(0, math.floor(500 * (1 + sign * wl - d) + 0.5)) for sign in (1, -1))
    draw = 1000 - win - loss
    if draw < 0:
        win = min(1000, max(0, win + int(draw / 2)))
        return win, 0, 1000 - win
    return win, draw, loss


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


# lc0's approximations in float32 (utils/fastmath.h).


def fast_log(x: float) -> float:
    """The natural logarithm as lc0 approximates it."""
    fraction, exponent = np.frexp(np.float32(x))
    f = np.float32(2) * fraction - np.float32(1)
    # In lc0's order: + -127 comes before the biased exponent, which rounds differently.
    log2 = f * (np.float32(1.3465552) - np.float32(0.34655523) * f) - np.float32(127) + np.float32(exponent + 126)
    return float(np.float32(0.6931471805599453) * np.float32(log2))


def _fast_logistic(x: float) -> float:
    if abs(x) > 20:
        return float(x > 0)
    a = np.float32(1.442695040) * np.float32(-x)
    whole = int(a - np.float32(1)) if a < 0 else int(a)
    f = a - np.float32(whole)
    power = np.ldexp(np.float32(1) + f * (np.float32(0.6602339) + np.float32(0.33976606) * f), whole)
    return float(np.float32(1) / (np.float32(1) + power))
