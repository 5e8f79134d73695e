"""Chunks of work: what becomes of them when a worker is lost, and how large the next one is."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

# A chunk is to take so long: long beside the milliseconds that sending it takes, short beside the loss of it.
TARGET_S = 3.0
MOST = 256
# One at work and one to go on with.
IN_FLIGHT = 2


class Seam(NamedTuple):
    """How work of several positions comes apart: `cut` gives the halves of a payload, or None where it is one position;
    `join` makes of the outcomes of two halves that of the whole."""

    cut: Callable[[Any], tuple[Any, Any] | None]
    join: Callable[[Any, Any], Any]


@dataclass(eq=False)
class Job:
    """One position to search, or one batch for the net. `fail` makes of a reason and a count what `future` holds."""

    payload: Any
    future: Future[Any]
    fail: Callable[[str, int], Any]
    seam: Seam | None = None

    def halves(self) -> list[Job]:
        """Two jobs that end this one when both have ended; none where it is of one position."""
        cut = self.seam.cut(self.payload) if self.seam else None
        if self.seam is None or cut is None:
            return []
        join = self.seam.join
        first, second = (Job(payload, Future(), self.fail, self.seam) for payload in cut)

        def end(_: Future[Any]) -> None:
            if first.future.done() and second.future.done() and not self.future.done():
                try:
                    self.future.set_result(join(first.future.result(), second.future.result()))
                except Exception as error:  # the first half's, or the second's
                    self.future.set_exception(error)

        first.future.add_done_callback(end)
        second.future.add_done_callback(end)
        return [first, second]


@dataclass(eq=False)
class Chunk:
    """Jobs that go to a worker together. `losses`: how often a worker was lost with all of them."""

    jobs: list[Job]
    losses: int = 0

    def lost(self, reason: str) -> list[Chunk]:
        """What is to be done again; a position that is alone, and was lost twice, is over: it fails with the reason."""
        if self.losses == 0:
            return [Chunk(self.jobs, 1)]
        jobs = self.jobs if len(self.jobs) > 1 else self.jobs[0].halves()
        if jobs:
            half = len(jobs) // 2
            return [Chunk(jobs[:half], self.losses + 1), Chunk(jobs[half:], self.losses + 1)]
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


def end(jobs: Iterable[Job], error: Exception) -> None:
    """Ends those of the jobs that are not done with an error."""
    for job in jobs:
        if not job.future.done():
            job.future.set_exception(error)


def take(pending: deque[Job], count: int) -> Chunk:
    """The next jobs of the queue, without those that were cancelled."""
    jobs: list[Job] = []
    while pending and len(jobs) < count:
        job = pending.popleft()
        if job.future.running() or job.future.set_running_or_notify_cancel():
            jobs.append(job)
    return Chunk(jobs)


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
