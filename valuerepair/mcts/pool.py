"""Many positions searched at once: each stream of the net has a thread with a forest; all take from one queue."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from valuerepair.chess.positions import Position
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.result import SearchResult

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _TreeJob(Generic[T]):
    position: Position
    nodes: int
    on_result: Callable[[SearchResult, float], T]
    on_failure: Callable[[str], T]
    future: Future[T]
    seed: int
    begun_at: float = 0.0


class ForestPool:
    """Feeds positions to forests, each in its own thread; a finished tree makes room for the next position.

    Threads share the positions evenly, so that a few of them keep all threads busy, too. A tree's result does not
    depend on its forest, nor on the other trees there.
    """

    def __init__(self, forests: Sequence[Forest]) -> None:
        self._forests = forests
        self._wake = threading.Condition()
        self._waiting: deque[_TreeJob[Any]] = deque()
        self._running = 0
        self._closed = self._abandoned = False
        self._broken: ValueRepairError | None = None
        self._threads = [
            threading.Thread(target=self._work, args=(forest,), name=f"forest-{i}", daemon=True)
            for i, forest in enumerate(forests)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        position: Position,
        nodes: int,
        on_result: Callable[[SearchResult, float], T],
        on_failure: Callable[[str], T],
        *,
        seed: int = 0,
    ) -> Future[T]:
        """Queues a search. The future holds what `on_result` returns for the result and the seconds it cost.

        A round's time is shared among its trees, so that the seconds of all searches add up to those of the threads.
        For a position that cannot be searched (illegal, game over) it holds what `on_failure` returns for the reason.
        The future can be cancelled until the search begins. It raises ValueRepairError when the net or the search
        as a whole broke, and any error that `on_result` or `on_failure` raised. `seed` is as in `Forest.add`.
        `on_result`, `on_failure` and callbacks run in a forest's thread: keep them short.
        """
        job = _TreeJob(position, nodes, on_result, on_failure, Future(), seed)
        with self._wake:
            if self._broken is not None:
                job.future.set_exception(self._broken)
                return job.future
            if self._closed:
                raise RuntimeError("the search is closed")
            self._waiting.append(job)
            self._wake.notify_all()
        return job.future

    def close(self, *, cancel: bool = False) -> None:
        """Cancels the searches that have not begun, and finishes those in flight, or with `cancel` abandons them.

        The futures of abandoned searches raise CancelledError, after about one round.
        """
        with self._wake:
            self._closed = True
            self._abandoned |= cancel
            dropped = list(self._waiting)
            self._waiting.clear()
            self._wake.notify_all()
        for job in dropped:
            job.future.cancel()
            job.future.set_running_or_notify_cancel()
        for thread in self._threads:
            thread.join()

    # -- a forest's thread --------------------------------------------------------------------------------------------

    def _work(self, forest: Forest) -> None:
        growing = set[_TreeJob[Any]]()
        clock = 0.0  # seconds, each round's divided by the number of its trees
        try:
            while (jobs := self._next_jobs(forest)) is not None:
                self._plant(forest, jobs, growing, clock)
                if not growing:
                    continue
                started, trees = time.perf_counter(), len(growing)
                finished = forest.step()
                clock += (time.perf_counter() - started) / trees
                for job, result in finished:
                    assert isinstance(job, _TreeJob)
                    self._finish(job, partial(job.on_result, result, clock - job.begun_at), growing)
        except BaseException as error:  # any error goes to those who wait for results
            self._break(error)
        # Jobs remain only after an error, or when searches were abandoned.
        for job in growing:
            job.future.set_exception(self._broken or CancelledError())

    def _next_jobs(self, forest: Forest) -> list[_TreeJob[Any]] | None:
        """The jobs that this forest begins now; None when the pool ends.

        Blocks while the forest and the queue are empty.
        """
        with self._wake:
            while True:
                if self._abandoned or self._broken is not None:
                    return None
                share = -(-(self._running + len(self._waiting)) // len(self._forests))
                count = min(len(self._waiting), forest.free, max(0, share - forest.busy))
                if count or forest.busy:
                    self._running += count
                    return [self._waiting.popleft() for _ in range(count)]
                if self._closed:
                    return None
                self._wake.wait()

    def _plant(self, forest: Forest, jobs: list[_TreeJob[Any]], growing: set[_TreeJob[Any]], clock: float) -> None:
        started_jobs = [job for job in jobs if job.future.set_running_or_notify_cancel()]
        growing.update(started_jobs)
        self._count_ended(len(jobs) - len(started_jobs))
        for job in started_jobs:
            job.begun_at = clock
            try:
                forest.add(job.position, job.nodes, job, seed=job.seed)
            except ValueRepairError as error:
                self._finish(job, partial(job.on_failure, str(error)), growing)

    def _finish(self, job: _TreeJob[Any], answer: Callable[[], Any], growing: set[_TreeJob[Any]]) -> None:
        growing.discard(job)
        self._count_ended()
        try:
            outcome = answer()
        except Exception as error:
            job.future.set_exception(error)
        else:
            job.future.set_result(outcome)

    def _count_ended(self, jobs: int = 1) -> None:
        with self._wake:
            self._running -= jobs

    def _break(self, error: BaseException) -> None:
        """The net or a forest failed: every waiting job gets the reason."""
        with self._wake:
            self._broken = self._broken or search_broke(error)
            dropped = list(self._waiting)
            self._waiting.clear()
            self._wake.notify_all()
        for job in dropped:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(self._broken)


def search_broke(error: BaseException) -> ValueRepairError:
    """The error for those who wait for a search that broke."""
    if isinstance(error, ValueRepairError):
        return error
    reason = str(error).strip().splitlines() or [""]
    failure = ValueRepairError(f"the search broke: {type(error).__name__}: {reason[0]}".rstrip(": "))
    failure.__cause__ = error
    return failure
