"""The time left for pieces of unequal work, games and searches, by their sizes. (For equal pieces: `RecentRate`.)

Time by count is wrong for games that run side by side: short games end first, the progress of the others is not
counted, and at the end workers are idle. So the running games count, too: each is at least as long as it has been so
far.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FUTURES = 128
_MOST_ENDED = 500  # only the latest ended games count: play may get slower or faster, and memory is limited
_ROUNDS_PLACED = 4  # games per worker that are placed one by one; for earlier ones only their total work matters
_SHARE_ENDED = 0.1
# Lengths of games before many are known: deciles of a lognormal distribution (sigma 0.5). They weigh two games.
_TYPICAL = np.array([0.388, 0.525, 0.629, 0.727, 0.828, 0.940, 1.070, 1.236, 1.484, 2.008])
_TYPICAL /= _TYPICAL.mean()
_TYPICAL_WEIGHTS = np.full(10, 0.2)
_SCALINGS = 5
_USUAL_SHARE = 0.75  # on a device that runs nets, whose batches are full, or nearly
_NOISE = 0.05  # the relative difference in time of plies of equal games


class Remaining(NamedTuple):
    """Seconds to the end: the median, and the bounds of its 90 % interval."""

    seconds: float
    low: float
    high: float


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
        # For each size: the weight, and the weighted sum, of it and all larger sizes.
        self._weight, self._sum = (np.append(w[::-1].cumsum()[::-1], 0) for w in (weights, weights * self._sizes))
        self.mean = float(self._sum[0] / self._weight[0])
        self.deviation = float(np.sqrt(weights @ (self._sizes - self.mean) ** 2 / self._weight[0]))

    def remaining(self, so_far: Floats) -> Floats:
        """[n] the mean remaining work of pieces with this progress."""
        larger = self._sizes.searchsorted(so_far, "right")
        within = larger < len(self._sizes)
        larger = np.minimum(larger, len(self._sizes) - 1)
        return np.where(within, self._sum[larger] / self._weight[larger] - so_far, 0.0)

    def drawn(self, so_far: Floats, rng: np.random.Generator) -> Floats:
        """[futures, n] random total sizes of pieces with this progress, which is below the largest size."""
        larger = self._weight[self._sizes.searchsorted(so_far, "right")]
        beyond = larger * rng.random((_FUTURES, len(so_far)))
        # The last size that has, with all larger sizes, more weight than `beyond`.
        index = len(self._sizes) - self._weight[:-1][::-1].searchsorted(beyond, "right") - 1
        return np.asarray(self._sizes[index.clip(0, len(self._sizes) - 1)])


class Turns:
    """Games that begin in their order, one for each worker at once.

    `shared` games share a machine: while n games run, each takes (1 - s) + s n / jobs of the time that it takes while
    all `jobs` run. s is 0 on a device that is never full and 1 on one core; it is the share with which the ended games
    took the same time for each ply. Other games have a worker each (s is 0).
    """

    def __init__(self, jobs: int, now: Callable[[], float] = time.monotonic, *, shared: bool = False) -> None:
        self._jobs, self._now = jobs, now
        self._shares = np.linspace(0, 1, 9) if shared else np.zeros(1)
        # For each share: the time so far of a game that runs from the start, as if all `jobs` had always run.
        self._clocks = np.zeros(len(self._shares))
        self._time = now()
        self._waiting: deque[int] = deque()
        self._began: dict[int, Floats] = {}
        self._ended: deque[Floats] = deque(maxlen=_MOST_ENDED)
        self._plies: deque[int] = deque(maxlen=_MOST_ENDED)

    def add(self, number: int) -> None:
        """Adds the game with this number: it begins now, or waits for its turn."""
        if len(self._began) < self._jobs:
            self._began[number] = self._read_clocks()
        else:
            self._waiting.append(number)

    def ended(self, number: int, plies: int = 0) -> None:
        """Records the end of a game with `plies` searched. A game that never had its turn does not count."""
        now, began = self._read_clocks(), self._began.pop(number, None)
        if began is None:
            self._waiting = deque(waiting for waiting in self._waiting if waiting != number)
            return
        self._ended.append(now - began)
        self._plies.append(plies)
        if self._waiting:
            self._began[self._waiting.popleft()] = now

    @property
    def running(self) -> int:
        """The number of games that have begun and are not over."""
        return len(self._began)

    def remaining(self, games_left: int) -> Remaining | None:
        """The time until `games_left` games are over; None as in `games_remaining`."""
        now, number = self._read_clocks(), self._likeliest_share()
        ended = [seconds[number] for seconds in self._ended]
        running = [(now - began)[number] for began in self._began.values()]
        return games_remaining(self._jobs, ended, games_left, running, float(self._shares[number]))

    def _read_clocks(self) -> Floats:
        now = self._now()
        if self._began:
            pace = 1 - self._shares + self._shares * len(self._began) / self._jobs
            self._clocks = self._clocks + (now - self._time) / pace
        self._time = now
        return self._clocks

    def _likeliest_share(self) -> int:
        """The index of the likeliest share; the usual one while the number of running games was always the same."""
        plies = np.array(self._plies, np.float64)
        searched = plies > 0
        if len(self._shares) == 1 or searched.sum() < 2:
            return int(np.abs(self._shares - _USUAL_SHARE).argmin())
        pace = np.array(self._ended)[searched] / plies[searched, None]
        spread = (pace.std(axis=0) / pace.mean(axis=0)) ** 2 + _NOISE**2
        return int(np.argmin(searched.sum() * np.log(spread) + 10 * (self._shares - _USUAL_SHARE) ** 2))


def games_remaining(
    jobs: int, ended: Sequence[float], games_left: int, running: Sequence[float], share: float = 0.0
) -> Remaining | None:
    """The time until `games_left` games are over, including the running ones; `jobs` run at once.

    `ended` are the seconds of ended games, `running` those of each running game so far, both as if `jobs` games had
    always run: while n run, each takes 1 - `share` + `share` n / `jobs` of that. None until a game has ended, and while
    fewer games have ended than a tenth of the running ones: of hundreds that began together, the first few to end show
    how early a game may be over, and nothing about the others. In each future the waiting games go to the worker that
    is free first.
    """
    if games_left <= 0:
        return Remaining(0.0, 0.0, 0.0)
    if not ended or len(ended) < _SHARE_ENDED * len(running):
        return None
    ages = np.sort(np.maximum(running, 0.0))[::-1][:games_left]
    sizes, rng = _game_sizes(np.maximum(ended, 1e-6), ages), np.random.default_rng(0)
    free = np.zeros((_FUTURES, max(jobs, len(ages))))
    free[:, : len(ages)] = sizes.drawn(ages, rng) - ages
    waiting = games_left - len(ages)
    placed = min(waiting, _ROUNDS_PLACED * free.shape[1])
    unplaced = waiting - placed
    work = unplaced * sizes.mean + math.sqrt(unplaced) * sizes.deviation * rng.standard_normal((_FUTURES, 1))
    free += work / free.shape[1]
    rows = np.arange(_FUTURES)
    for lengths in sizes.drawn(np.zeros(placed), rng).T:
        free[rows, free.argmin(axis=1)] += lengths
    # The mean of a few games may be far from that of all.
    unsure = sizes.deviation / sizes.mean / math.sqrt(len(ended)) * rng.standard_normal(_FUTURES)
    seconds = (1 - share) * free.max(axis=1) + share * free.sum(axis=1) / free.shape[1]
    low, middle, high = np.quantile(seconds * np.exp(unsure), [0.05, 0.5, 0.95])
    return Remaining(float(middle), float(low), float(high))


def _game_sizes(ended: Floats, under_way: Floats) -> PieceSizes:
    """Lengths of games; the typical ones are scaled by the mean, which changes with them."""
    mean = float(ended.mean())
    weights = np.concatenate([np.ones(len(ended)), _TYPICAL_WEIGHTS, [1e-9]])
    for _ in range(_SCALINGS):
        longest = 1.5 * max(ended.max(), under_way.max(initial=0.0), mean * _TYPICAL[-1])
        sizes = PieceSizes(np.concatenate([ended, mean * _TYPICAL, [longest]]), weights, under_way)
        mean = sizes.mean
    return sizes
