"""Estimates the time left for unequal pieces of work, games and searches, from their sizes.

(For equal pieces see `RecentRate`.) The number of ended games alone would give a wrong time if games run side by side:
short games end first, the progress of the others does not count, and at the end workers are idle. So the running games
count, too: each is at least as long as it has been so far.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from valuerepair.arrays import Floats

_MOST_ENDED = 500  # only the latest ended games count: play may get slower or faster, and memory is limited
_SHARE_ENDED = 0.1
# Lengths of games until many have ended: deciles of a lognormal distribution (sigma 0.5). They weigh as two games.
_TYPICAL = np.array([0.388, 0.525, 0.629, 0.727, 0.828, 0.940, 1.070, 1.236, 1.484, 2.008])
_TYPICAL /= _TYPICAL.mean()
_TYPICAL_WEIGHTS = np.full(10, 0.2)
_SCALINGS = 5
# How much games slow each other down if one device runs the nets of all (`share` in `games_remaining`). Less on a GPU,
# where a batch that is not full does not take proportionally less time.
SHARE_ON_CPU, SHARE_ON_GPU = 0.95, 0.5
_SIGMAS = 1.645  # of a 90 % interval
_WIDEST = math.log(100)  # otherwise the bounds of a time near 0 would be infinite


class Remaining(NamedTuple):
    """Seconds to the end, with the bounds of a 90 % interval."""

    seconds: float
    low: float
    high: float


class PieceSizes:
    """The distribution of the sizes of pieces of work: `sizes` [n], measured or assumed, with `weights` [n].

    `under_way` [m] is the progress of unfinished pieces. Each of these adds 1 to the weights of the larger sizes, which
    share it in proportion (the estimate of Kaplan and Meier in the form of Efron, "The two sample problem with censored
    data", 1967). No piece is larger than the largest size.
    """

    def __init__(self, sizes: Floats, weights: Floats, under_way: Floats) -> None:
        order = sizes.argsort()
        self._sizes, weights = sizes[order], weights[order]
        progress, counts = np.unique(under_way, return_counts=True)
        larger = self._sizes.searchsorted(progress, "right")
        for begin, count in zip(larger[::-1].tolist(), counts[::-1].tolist(), strict=True):
            if begin < len(weights):
                weights[begin:] *= 1 + count / weights[begin:].sum()
        # For each size: the weight of it and all larger sizes, and their mean; 0 beyond the largest.
        self._weight, sums = (w[::-1].cumsum()[::-1] for w in (weights, weights * self._sizes))
        self._means = np.append(sums / self._weight, 0)
        self.mean = float(self._means[0])
        self.spread = float(np.sqrt(weights @ (self._sizes / self.mean - 1) ** 2 / weights.sum()))

    def remaining(self, so_far: Floats) -> Floats:
        """[n] the mean remaining work of pieces with this progress."""
        return np.maximum(self._means[self._sizes.searchsorted(so_far, "right")] - so_far, 0.0)

    def overhang(self, workers: int) -> float:
        """How much later than the mean of all workers the last one finishes, once the last piece has begun.

        Each worker is then somewhere in a piece. The probability that the rest of its piece is longer than x is the
        share of all work that is done later than x after the beginning of its piece.
        """
        steps = np.diff(self._sizes, prepend=0.0)
        longer = np.append((steps * self._weight)[::-1].cumsum()[::-1], 0) / (self.mean * self._weight[0])
        beyond_mean = 1 - (1 - longer) ** workers - longer
        return float((beyond_mean[1:] + beyond_mean[:-1]) @ steps / 2)


class Turns:
    """Games that begin in order, at most `jobs` at once; `share` is as in `games_remaining`."""

    def __init__(self, jobs: int, now: Callable[[], float] = time.monotonic, *, share: float = 0.0) -> None:
        self._jobs, self._now, self._share = jobs, now, share
        self._began: dict[int, float] = {}  # the first `jobs` run, the others wait
        self._ended: deque[float] = deque(maxlen=_MOST_ENDED)

    def add(self, number: int) -> None:
        """Adds the game with this number: it begins now, or waits for its turn."""
        self._began[number] = self._now()

    def ended(self, number: int) -> None:
        """Records the end of a game. A game that never began does not count."""
        now, has_begun = self._now(), number in islice(self._began, self._jobs)
        began = self._began.pop(number)
        if has_begun:
            self._ended.append(now - began)
            for following in islice(self._began, self._jobs - 1, self._jobs):
                self._began[following] = now

    @property
    def running(self) -> int:
        """The number of games that have begun and are not over."""
        return min(len(self._began), self._jobs)

    def remaining(self, games_left: int) -> Remaining | None:
        """The time until `games_left` games are over; None as in `games_remaining`."""
        running = [self._now() - began for began in islice(self._began.values(), self._jobs)]
        return games_remaining(self._jobs, self._ended, games_left, running, self._share)


def games_remaining(
    jobs: int, ended: Sequence[float], games_left: int, running: Sequence[float], share: float = 0.0
) -> Remaining | None:
    """The time until `games_left` games are over, including the running ones; `jobs` run at once.

    `ended` are the seconds of ended games, `running` those of each running game so far. `share` is 0 if no game slows
    another down, and 1 if all share one core: then n games take n / `jobs` of the time that they take while `jobs` run.

    Returns None while no game has ended, or fewer than a tenth of the running ones: of hundreds that began together,
    the first few to end show how early a game may be over, and nothing about the others.
    """
    if games_left <= 0:
        return Remaining(0.0, 0.0, 0.0)
    if not ended or len(ended) < _SHARE_ENDED * len(running):
        return None
    ages = np.sort(np.maximum(running, 0.0))[::-1][:games_left]
    sizes = _game_sizes(np.maximum(ended, 1e-6), ages)
    remaining = sizes.remaining(ages)
    work, busy = float(remaining.sum()) + (games_left - len(ages)) * sizes.mean, min(jobs, games_left)
    ends = sorted([*remaining, *[0.0] * (busy - len(ages))])
    for _ in range(min(games_left - len(ages), busy)):  # further games would hardly change how far apart the last end
        heapq.heapreplace(ends, ends[0] + sizes.mean)
    on_workers = max(work / busy + sizes.overhang(busy), float(max(ends)))
    seconds = (1 - share) * on_workers + share * work / jobs
    # The mean of few ended games may be far from the mean of all, and the games left may be long or short.
    variance = sizes.spread**2 * (1 / len(ended) + games_left * (sizes.mean / max(work, 1e-9)) ** 2)
    width = min(_SIGMAS * math.sqrt(variance), _WIDEST)
    return Remaining(seconds, seconds * math.exp(-width), seconds * math.exp(width))


def _game_sizes(ended: Floats, under_way: Floats) -> PieceSizes:
    """The lengths of games. The typical lengths are scaled by the mean, which depends on them: hence the loop."""
    mean = float(ended.mean())
    weights = np.concatenate([np.ones(len(ended)), _TYPICAL_WEIGHTS, [1e-9]])
    for _ in range(_SCALINGS):
        longest = 1.5 * max(ended.max(), under_way.max(initial=0.0), mean * _TYPICAL[-1])
        sizes = PieceSizes(np.concatenate([ended, mean * _TYPICAL, [longest]]), weights, under_way)
        mean = sizes.mean
    return sizes
