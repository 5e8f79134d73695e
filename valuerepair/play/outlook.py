"""How long a match still takes: a model of games that run side by side, not time so far over games so far.

Time by count is wrong where it matters, early on: the games that finish first are the short ones, what is spent on the
running ones is not counted, and at the end workers stand idle. Here games are random durations on `jobs` workers.
What is known of durations are those of finished games, and that each running game lasts longer than it has lasted
(censored observations). The rest of the match is drawn many times: durations of the running games given their age,
then those of the games to come, from the finished and the drawn ones (a Bayesian bootstrap: multiple imputation of a
Kaplan-Meier estimate) and, for a few games' worth, from a Weibull distribution fitted to all. Early, the Weibull shape
says what is beyond the longest game seen; later, the games themselves do, whatever their distribution.
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

_DRAWS = 128
# How many games the Weibull distribution weighs as much as.
_MODEL_GAMES = 3.0
# Shapes of the Weibull distribution and how likely they are beforehand: 2 is a spread of half the mean.
_SHAPES = np.geomspace(0.5, 30, 41)
_SHAPE_PRIOR = -0.5 * (np.log(_SHAPES / 2) / 0.8) ** 2
# The latest finished games that count: play may get slower or faster, and memory has an end.
_MOST_FINISHED = 500
# So many games are drawn to know what more of them take together.
_MOST_SUMMED = 300
# Games that are placed on workers one by one, for each worker; of those before them only the whole work matters.
_ROUNDS_PLACED = 4
_SHARE_OF_RUNNING = 0.1


class Remaining(NamedTuple):
    """Seconds to the end of the match: the median, and the bounds that hold it with nine chances in ten."""

    seconds: float
    low: float
    high: float


class MatchOutlook:
    """What is known of the durations of a match's games, which `jobs` workers play, at least one."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._finished: list[float] = []

    def finished(self, seconds: float) -> None:
        """A game has ended that lasted so long."""
        self._finished.append(max(seconds, 1e-6))
        del self._finished[:-_MOST_FINISHED]

    def remaining(self, games_left: int, running: Sequence[float]) -> Remaining | None:
        """How long until all of `games_left` games, the running ones among them, are over.

        `running` are the seconds that each of these has lasted so far. None before a game has ended, and while fewer
        have than a tenth of those that run: of hundreds that began together, the first few to end say how early a game
        may be over, and nothing of the others.
        """
        if games_left <= 0:
            return Remaining(0.0, 0.0, 0.0)
        if not self._finished or len(self._finished) < _SHARE_OF_RUNNING * len(running):
            return None
        ages = np.sort(np.maximum(np.asarray(running, np.float64), 0.0))[::-1][:games_left]
        rng = np.random.default_rng((0, len(self._finished), games_left))
        durations = _Durations(np.asarray(self._finished), ages, rng)
        ends = _last_end(durations, ages, games_left - len(ages), self._jobs)
        low, middle, high = np.quantile(ends, [0.05, 0.5, 0.95])
        return Remaining(float(middle), float(low), float(high))


class Turns:
    """The `MatchOutlook` of games that begin in their order, as many at once as there are workers; it keeps the time.

    That order is all that is needed, also where the games are handed over at once and begin elsewhere: the next one
    begins when one has ended.
    """

    def __init__(self, jobs: int, now: Callable[[], float] = time.monotonic) -> None:
        self._outlook, self._jobs, self._now = MatchOutlook(jobs), jobs, now
        self._waiting: deque[int] = deque()
        self._began: dict[int, float] = {}

    def comes(self, number: int) -> None:
        """The game with this number is next: it begins now, or waits for its turn."""
        if len(self._began) < self._jobs:
            self._began[number] = self._now()
        else:
            self._waiting.append(number)

    def ended(self, number: int) -> None:
        """A game is over. One that did not have its turn says nothing of durations."""
        now, began = self._now(), self._began.pop(number, None)
        if began is None:
            self._waiting = deque(each for each in self._waiting if each != number)
            return
        self._outlook.finished(now - began)
        if self._waiting:
            self._began[self._waiting.popleft()] = now

    @property
    def running(self) -> int:
        """Games that have begun and are not over."""
        return len(self._began)

    def remaining(self, games_left: int) -> Remaining | None:
        """As `MatchOutlook.remaining`."""
        now = self._now()
        return self._outlook.remaining(games_left, [now - began for began in self._began.values()])


class _Durations:
    """Durations drawn for [draws] futures of the match, each with parameters and weights of its own."""

    def __init__(self, finished: Floats, ages: Floats, rng: np.random.Generator) -> None:
        self._rng = rng
        self._shape, self._scale = _weibull_draws(finished, ages, rng)
        # One row a draw: finished games, then the running ones as they are drawn, and the weight of each.
        self._pool = np.zeros((_DRAWS, len(finished) + len(ages)))
        self._pool[:, : len(finished)] = finished
        self._known = len(finished)
        # Exponential weights would spread a mean as its variance over n + 1; of few games that is too little, as it is
        # their own variance, and they may have missed the long ones.
        self._weights = rng.standard_gamma(max((len(finished) - 3) / (len(finished) + 1), 0.3), self._pool.shape)

    def running(self, ages: Floats) -> Floats:
        """[draws, running] whole durations of the running games, the oldest first, each longer than its age."""
        drawn = np.empty((_DRAWS, len(ages)))
        for i, age in enumerate(ages):
            drawn[:, i] = self._pool[:, self._known] = self._longer_than(age)
            self._known += 1
        return drawn

    def new(self, games: int) -> Floats:
        """[draws, games] durations of games to come; the running ones are drawn before them."""
        of_model = self._weibull(0.0, games)
        cumulative = self._weights.cumsum(axis=1)
        cumulative /= cumulative[:, -1:]
        rows = np.arange(_DRAWS)[:, None]
        tosses = self._rng.random((_DRAWS, games))
        # One search for all rows: each row's numbers lie in a range of their own.
        places = np.searchsorted((cumulative + rows).ravel(), (tosses + rows).ravel(), side="right")
        picked = (places.reshape(_DRAWS, games) - rows * cumulative.shape[1]).clip(0, cumulative.shape[1] - 1)
        model_share = _MODEL_GAMES / (_MODEL_GAMES + self._pool.shape[1])
        return np.where(self._rng.random((_DRAWS, games)) < model_share, of_model, self._pool[rows, picked])

    def work(self, games: int) -> Floats:
        """[draws] seconds of so many new games together: the first of them drawn, the others by the normal law."""
        drawn = self.new(min(games, _MOST_SUMMED))
        others = games - drawn.shape[1]
        spread = drawn.std(axis=1) * math.sqrt(others) * self._rng.standard_normal(_DRAWS)
        return np.asarray(drawn.sum(axis=1) + np.maximum(others * drawn.mean(axis=1) + spread, 0.0))

    def _longer_than(self, age: float) -> Floats:
        """[draws] durations given that they are longer than `age`."""
        pool = self._pool[:, : self._known]
        weights = np.where(pool > age, self._weights[:, : self._known], 0.0).cumsum(axis=1)
        of_model = self._weibull(age, 1)[:, 0]
        model_weight = _MODEL_GAMES * np.exp(-((age / self._scale) ** self._shape))
        tosses = self._rng.random(_DRAWS) * (weights[:, -1] + model_weight)
        picked = (weights <= tosses[:, None]).sum(axis=1)
        known = tosses < weights[:, -1]
        return np.where(known, pool[np.arange(_DRAWS), np.where(known, picked, 0)], of_model)

    def _weibull(self, age: float, games: int) -> Floats:
        """[draws, games] of the Weibull distribution, beyond `age`."""
        shape, scale = self._shape[:, None], self._scale[:, None]
        beyond = (age / scale) ** shape + self._rng.standard_exponential((_DRAWS, games))
        return np.asarray(scale * beyond ** (1 / shape))


def _weibull_draws(finished: Floats, ages: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """[draws] shapes and scales from their posterior, given finished durations and the ages of running games.

    With ``theta = scale^shape`` and the prior 1/theta, theta given the shape is inverse gamma with as many degrees as
    games finished and the sum of all times to the power of the shape, running ones included; what is left for the
    shape is ``shape^n prod(t)^(shape - 1) / sum^n``.
    """
    n, unit = len(finished), float(finished.mean())
    times, logs = np.concatenate([finished, ages]) / unit, np.log(finished / unit)
    sums = (times[:, None] ** _SHAPES).sum(axis=0)
    log_weights = _SHAPE_PRIOR + n * np.log(_SHAPES) + (_SHAPES - 1) * logs.sum() - n * np.log(sums)
    weights = np.exp(log_weights - log_weights.max())
    picked = rng.choice(len(_SHAPES), _DRAWS, p=weights / weights.sum())
    theta = sums[picked] / rng.standard_gamma(n, _DRAWS).clip(1e-3)
    return _SHAPES[picked], unit * theta ** (1 / _SHAPES[picked])


def _last_end(durations: _Durations, ages: Floats, waiting: int, jobs: int) -> Floats:
    """[draws] seconds until the last game ends, each waiting game being begun by the worker that is free first."""
    left = durations.running(ages) - ages
    workers = max(jobs, len(ages))
    free = np.zeros((_DRAWS, workers))
    free[:, : len(ages)] = left
    placed = min(waiting, _ROUNDS_PLACED * workers)
    if waiting > placed:
        # So many games keep all workers busy: their work is shared, and how the workers differ stays as it is.
        free += durations.work(waiting - placed)[:, None] / workers
    rows = np.arange(_DRAWS)
    for duration in durations.new(placed).T:
        free[rows, free.argmin(axis=1)] += duration
    return np.asarray(free.max(axis=1))
