"""The time left for pieces of unequal work, games and searches, by their sizes. (For equal pieces: `RecentRate`.)

Time by count is wrong for games that run side by side: short games end first, the progress of the others is not
counted, and at the end workers are idle. So the running games count, too: each is at least as long as it has been so
far.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MOST_ENDED = 500  # only the latest ended games count: play may get slower or faster, and memory is limited
_SHARE_ENDED = 0.1
# Lengths of games before many are known: deciles of a lognormal distribution (sigma 0.5). They weigh two games.
_TYPICAL = np.array([0.388, 0.525, 0.629, 0.727, 0.828, 0.940, 1.070, 1.236, 1.484, 2.008])
_TYPICAL /= _TYPICAL.mean()
_TYPICAL_WEIGHTS = np.full(10, 0.2)
_SCALINGS = 5
# How much games slow each other down whose nets one device runs (`games_remaining`). A GPU also takes its time for
# batches that are not full.
ON_CPU, ON_GPU = 0.95, 0.5


class PieceSizes:
    """The sizes of pieces of work: `sizes` [n], measured or assumed, with `weights`; the progress of those `under_way`.

    A piece under way adds 1 to the weights of the larger sizes, which share it in proportion (the estimate of Kaplan
    and Meier in the form of Efron, "The two sample problem with censored data", 1967). No piece is larger than the
    largest size.
    """

    def __init__(self, sizes: Floats, weights: Floats, under_way: Floats) -> None:
        order = sizes.argsort()
        self._sizes, weights = sizes[order], weights[order]
        progress, counts = np.unique(under_way, return_counts=True)
        larger = self._sizes.searchsorted(progress, "right")
        for begin, count in zip(larger[::-1].tolist(), counts[::-1].tolist(), strict=True):
            if begin < len(weights):
                weights[begin:] *= 1 + count / weights[begin:].sum()
        # For each size: the mean of it and all larger sizes; 0 beyond the largest.
        weight, sums = (w[::-1].cumsum()[::-1] for w in (weights, weights * self._sizes))
        self._means = np.append(sums / weight, 0)
        self.mean = float(self._means[0])

    def remaining(self, so_far: Floats) -> Floats:
        """[n] the mean remaining work of pieces with this progress."""
        return np.maximum(self._means[self._sizes.searchsorted(so_far, "right")] - so_far, 0.0)


class Turns:
    """Games that begin in their order, one for each worker at once; `share` as in `games_remaining`."""

    def __init__(self, jobs: int, now: Callable[[], float] = time.monotonic, *, share: float = 0.0) -> None:
        self._jobs, self._now, self._share = jobs, now, share
        self._began: dict[int, float] = {}  # the first `jobs` run, the others wait
        self._ended: deque[float] = deque(maxlen=_MOST_ENDED)

    def add(self, number: int) -> None:
        """Adds the game with this number: it begins now, or waits for its turn."""
        self._began[number] = self._now()

    def ended(self, number: int) -> None:
        """Records the end of a game. A game that never had its turn does not count."""
        now, had_its_turn = self._now(), number in islice(self._began, self._jobs)
        began = self._began.pop(number)
        if had_its_turn:
            self._ended.append(now - began)
            for following in islice(self._began, self._jobs - 1, self._jobs):
                self._began[following] = now

    @property
    def running(self) -> int:
        """The number of games that have begun and are not over."""
        return min(len(self._began), self._jobs)

    def remaining(self, games_left: int) -> float | None:
        """The seconds until `games_left` games are over; None as in `games_remaining`."""
        running = [self._now() - began for began in islice(self._began.values(), self._jobs)]
        return games_remaining(self._jobs, self._ended, games_left, running, self._share)


def games_remaining(
    jobs: int, ended: Sequence[float], games_left: int, running: Sequence[float], share: float = 0.0
) -> float | None:
    """The seconds until `games_left` games are over, including the running ones; `jobs` run at once.

    `ended` are the seconds of ended games, `running` those of each running game so far. `share` is 0 if each game has a
    worker of its own, and 1 if all share one core: then n games take n / `jobs` of the time that they take while `jobs`
    run. None until a game has ended, and while fewer games have ended than a tenth of the running ones: of hundreds
    that began together, the first few to end show how early a game may be over, and nothing about the others.
    """
    if games_left <= 0:
        return 0.0
    if not ended or len(ended) < _SHARE_ENDED * len(running):
        return None
    ages = np.sort(np.maximum(running, 0.0))[::-1][:games_left]
    sizes = _game_sizes(np.maximum(ended, 1e-6), ages)
    remaining = sizes.remaining(ages)
    work = float(remaining.sum()) + (games_left - len(ages)) * sizes.mean
    busy = min(jobs, games_left)
    # The last worker ends half a game after the mean of all.
    on_workers = max(work / busy + (1 - 1 / busy) * sizes.mean / 2, float(remaining.max(initial=0.0)))
    return (1 - share) * on_workers + share * work / jobs


def _game_sizes(ended: Floats, under_way: Floats) -> PieceSizes:
    """Lengths of games; the typical ones are scaled by the mean, which changes with them."""
    mean = float(ended.mean())
    weights = np.concatenate([np.ones(len(ended)), _TYPICAL_WEIGHTS, [1e-9]])
    for _ in range(_SCALINGS):
        longest = 1.5 * max(ended.max(), under_way.max(initial=0.0), mean * _TYPICAL[-1])
        sizes = PieceSizes(np.concatenate([ended, mean * _TYPICAL, [longest]]), weights, under_way)
        mean = sizes.mean
    return sizes
