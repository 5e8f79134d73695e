"""Chunks of work: what becomes of them when a worker is lost, and how large the next one is."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

# A chunk is to take so long: long beside the milliseconds that sending it takes, short beside the loss of it.
TARGET_S = 3.0
MOST = 256
# One at work and one to go on with.
IN_FLIGHT = 2


@dataclass(eq=False)
class Job:
    """One position to search, or one batch for the net. `fail` makes of a reason and a count what `future` holds."""

    payload: Any
    future: Future[Any]
    fail: Callable[[str, int], Any]


@dataclass(eq=False)
class Chunk:
    """Jobs that go to a worker together. `losses`: how often a worker was lost with all of them."""

    jobs: list[Job]
    losses: int = 0

    def lost(self, reason: str) -> list[Chunk]:
        """What is to be done again; a job that is alone, and was lost twice, is over: it fails with the reason."""
        if self.losses == 0:
            return [Chunk(self.jobs, 1)]
        if len(self.jobs) > 1:
            half = len(self.jobs) // 2
            return [Chunk(self.jobs[:half], self.losses + 1), Chunk(self.jobs[half:], self.losses + 1)]
        job = self.jobs[0]
        settle(job, reason, self.losses + 1)
        return []


def settle(job: Job, reason: str, attempts: int) -> None:
    """Ends a job that cannot be done."""
    try:
        outcome = job.fail(reason, attempts)
    except Exception as error:
        job.future.set_exception(error)
    else:
        job.future.set_result(outcome)


class Pace:
    """How many jobs make a chunk of `TARGET_S` on one worker, by the time of those that it has done."""

    def __init__(self, at_once: int) -> None:
        """`at_once` jobs are worked on together: fewer in flight would leave engines idle."""
        self._least = max(1, math.ceil(at_once / IN_FLIGHT))
        self.size = self._least
        self._seconds: float | None = None  # a job, all engines of the worker at work

    def learn(self, jobs: int, seconds: float) -> None:
        """Notes a chunk that took so long. It grows to the double at most: the first ones may be easy ones."""
        each = seconds / max(jobs, 1)
        self._seconds = each if self._seconds is None else 0.7 * self._seconds + 0.3 * each
        wanted = TARGET_S / max(self._seconds, 1e-6)
        self.size = max(self._least, min(round(wanted), 2 * self.size, MOST))
