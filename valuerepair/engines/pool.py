"""Many one-thread engines behind one queue, each restarted when it crashes or hangs."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from valuerepair import signals
from valuerepair.engines.process import EngineFailure, EngineTimeout
from valuerepair.engines.uci import EngineSetup, SearchReport, UciEngine
from valuerepair.errors import UsageError, ValueRepairError

log = logging.getLogger(__name__)

MOST_ENGINES = 1_024  # each has a process, and a thread here
ATTEMPTS = 3
_INCIDENTS_LOGGED = 10
PROBE_SECONDS = 60.0
_COUNT_NODES, _MOST_COUNT_NODES = 64, 20_000  # of the searches that show what an engine counts


T = TypeVar("T")
# Searches of one position, one after the other in the same hash tables: yields ``go ...`` lines, receives the report
# of each search, and returns the outcome.
Plan: TypeAlias = Generator[str, SearchReport, T]


def one_search(go: str, to_outcome: Callable[[SearchReport], T]) -> Plan[T]:
    """The plan of one search; `to_outcome` turns its report into the outcome."""
    report = yield go
    return to_outcome(report)


class BadAnswer(EngineFailure):
    """Raised by the reader of a report: the engine ended its search, but its answer is impossible."""


@dataclass(slots=True)
class PoolCounts:
    """The work of a pool. `nodes` are those that the engines counted in searches that ended well."""

    searched: int = 0
    nodes: int = 0
    crashes: int = 0
    hangs: int = 0
    bad_answers: int = 0
    failed: int = 0


class TimeLimit:
    """How long a search may take before the engine counts as hung: `timeout` seconds, or without one by its speed.

    By its speed, the limit is `first` seconds until three searches have ended. Then it is ten times what `nodes` take
    at the slowest speed so far (without a limit of nodes, ten times the longest search), but at least a minute, because
    machines get busy; plus `movetime`, the time in seconds that each search gets.
    """

    def __init__(self, *, timeout: float | None, first: float, nodes: int | None = None, movetime: float = 0.0) -> None:
        self._timeout, self._first, self._nodes, self._movetime = timeout, first, nodes, movetime
        self._searches = 0
        self._slowest = 0.0

    def seconds(self, attempt: int) -> float:
        """The limit of the 1-based attempt; each attempt has twice the time of the previous one."""
        if self._timeout is not None:
            limit = self._timeout
        elif self._searches < 3:
            limit = self._first
        else:
            limit = max(60.0, 10 * self._slowest) + self._movetime
        return limit * (1 << (attempt - 1))

    def learn(self, nodes: int, seconds: float) -> None:
        """Records a search that has ended; one that stopped far below its node limit, as at a mate, is left out."""
        if self._nodes is not None:
            if 2 * nodes < self._nodes:
                return
            seconds *= max(1.0, self._nodes / nodes)
        self._searches += 1
        self._slowest = max(self._slowest, seconds)


class Restarts:
    """Starts engines of one setup again during a run, in any thread, with the pauses of the setup between attempts.

    While a host starts no engine, all its engines wait, and one message reports this. `given_up` ends all waiting.
    """

    def __init__(self, setup: EngineSetup) -> None:
        self.given_up = threading.Event()
        self._setup, self._lock, self._waiting = setup, threading.Lock(), 0

    def engine(self, start: Callable[[], UciEngine]) -> UciEngine:
        """A started engine. Raises ValueRepairError after the last attempt, CancelledError after `given_up`."""
        try:
            return start()
        except (EngineFailure, OSError) as error:
            reason = str(error)
        with self._reported_wait(reason):
            until = time.monotonic() + sum(self._setup.restart_pauses)
            for number, pause in enumerate(self._setup.restart_pauses):
                # If engines hang as they start, a few attempts use up a host's time.
                is_too_late = number and self._setup.host and time.monotonic() > until
                if is_too_late or self.given_up.wait(pause):
                    break
                try:
                    return start()
                except (EngineFailure, OSError) as error:
                    reason = str(error)
        if self.given_up.is_set():
            raise CancelledError
        raise ValueRepairError(f"{self._setup.where}: the engine no longer starts: {reason}")

    @contextlib.contextmanager
    def _reported_wait(self, reason: str) -> Iterator[None]:
        """Logs the first of the waits for a host that go on at the same time."""
        with self._lock:
            self._waiting += 1
            is_first = self._waiting == 1
        if is_first and self._setup.host and not self.given_up.is_set():
            minutes = sum(self._setup.restart_pauses) / 60
            log.info(f"{self._setup.host} starts no engine ({reason}): waiting at least {minutes:.0f} minutes for it")
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1


@dataclass(frozen=True, slots=True)
class _EngineJob(Generic[T]):
    position: str
    plan: Callable[[], Plan[T]]
    fail: Callable[[str, int], T]
    fen: str
    future: Future[T]


class EnginePool:
    """`workers` engines, each with its own thread; the first starts at once, the others when there is work for them.

    `counts_tree`: the engine reports the nodes of its whole tree, earlier searches included, as lc0 does; otherwise
    those of the search alone. It is known only with `probe_count`.

    A crash, a hang or a bad answer leads to a restart; a position is tried three times in total. If an engine no longer
    starts, the future of its position raises ValueRepairError. The first ten incidents are logged.
    """

    def __init__(
        self,
        setup: EngineSetup,
        limit: TimeLimit,
        workers: int,
        *,
        probe: str | None = None,
        probe_count: bool = False,
    ) -> None:
        """Starts the first engine; with `probe`, a line like ``go nodes 1``, it searches the initial position.

        Raises EngineFailure if it does not start or does not answer, BadOption if it refuses an option, and UsageError
        for more than `MOST_ENGINES`.
        """
        if workers > MOST_ENGINES:
            raise UsageError(f"--jobs {workers:,}: is more than {MOST_ENGINES:,}; give one for each core")
        self.workers = workers
        self.counts = PoolCounts()
        self._setup, self._limit = setup, limit
        self._probe, self._probe_count, self.counts_tree = probe, probe_count, False
        self._jobs: queue.SimpleQueue[_EngineJob[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed, self._restarts = False, Restarts(setup)
        self._engines: dict[int, UciEngine] = {}
        first: Future[UciEngine] = Future()
        # Each thread makes its engine itself: on Linux an engine is killed when the thread that started it ends.
        self._threads = [
            threading.Thread(target=self._work, args=(i,), name=f"engine-{i}", daemon=True) for i in range(1, workers)
        ]
        self._threads.insert(0, threading.Thread(target=self._lead, args=(first,), name="engine-0", daemon=True))
        self._threads[0].start()
        try:
            engine = signals.result_of(first)
        except BaseException:
            self.close(cancel=True)
            raise
        self.name, self.offered, self.settings = engine.name, engine.offered, engine.settings
        for thread in self._threads[1:]:
            thread.start()

    def submit(
        self, position: str, plan: Callable[[], Plan[T]], fail: Callable[[str, int], T], fen: str = ""
    ) -> Future[T]:
        """Queues the searches of `position`, a UCI line ``position ...``. The future has the outcome of the plan.

        A plan may raise BadAnswer, which counts as a failed attempt; each attempt has a new plan. After three failures
        the future has the result of `fail`, called with the last reason and the number of attempts. The future can be
        cancelled until its search begins. `fen` names the position in messages. `plan`, `fail` and callbacks run in the
        engine's thread: keep them short.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the engine pool is closed")
            self._jobs.put(_EngineJob(position, plan, fail, fen, future))
        return future

    def close(self, *, cancel: bool = False) -> None:
        """Cancels queued searches, waits for the searches in flight, and ends the engines.

        With `cancel` it does not wait for them: their futures raise CancelledError. That takes about a second at most.
        """
        with self._lock:
            was_open = not self._closed
            self._closed = True
        if was_open:
            with contextlib.suppress(queue.Empty):
                while True:
                    job = self._jobs.get_nowait()
                    if job is not None:
                        job.future.cancel()
                        job.future.set_running_or_notify_cancel()
            for _ in self._threads:
                self._jobs.put(None)
        if cancel:
            self._restarts.given_up.set()
            with self._lock:
                engines = list(self._engines.values())
            for engine in engines:
                engine.kill()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _lead(self, first: Future[UciEngine]) -> None:
        """The work of the first engine's thread; `first` gets the engine, or the error if it does not start."""
        try:
            engine = self._start(0)
            if self._probe is not None:
                self._probed(engine, self._probe)
                if self._probe_count:
                    self.counts_tree = self._counts_tree(engine)
                engine.clear()  # so that the first position is not searched with the probe's hash tables
        except BaseException as error:
            self._drop(0)
            first.set_exception(error)
        else:
            first.set_result(engine)
            self._work(0)

    def _probed(self, engine: UciEngine, go: str) -> SearchReport:
        """The report of a search of the initial position. Raises EngineFailure."""
        return engine.probe(go, self._setup.start_seconds or PROBE_SECONDS)

    def _counts_tree(self, engine: UciEngine) -> bool:
        """Whether a second search, limited to half the nodes of the first, reports at least as many nodes as the first.

        Some engines check their limit only every few thousand nodes, so the searches are longer than that. An engine
        that checks it even less often counts as one that reports the nodes of the search alone.
        """
        first = self._probed(engine, f"go nodes {_COUNT_NODES}")
        if first.nodes > _MOST_COUNT_NODES:
            return False
        if first.nodes > 2 * _COUNT_NODES:
            first = self._probed(engine, f"go nodes {3 * first.nodes}")
        return self._probed(engine, f"go nodes {max(first.nodes // 2, 1)}").nodes >= first.nodes

    def _work(self, number: int) -> None:
        while (job := self._jobs.get()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                outcome = self._search(number, job)
            except BaseException as error:  # the caller, who waits for this future, gets every error
                job.future.set_exception(error)
            else:
                job.future.set_result(outcome)
        self._drop(number, grace=1.0)

    def _search(self, number: int, job: _EngineJob[T]) -> T:
        reason = ""
        for attempt in range(1, ATTEMPTS + 1):
            engine = self._engines.get(number) or self._restarts.engine(partial(self._start, number))
            try:
                outcome = self._follow(job, engine, attempt)
                # Now, so that the engine clears its hash while the outcome is handled.
                engine.clear()
            except EngineFailure as error:
                reason = str(error)
                self._drop(number)
                if self._restarts.given_up.is_set():
                    raise CancelledError from None
                self._incident(error, job.fen)
            else:
                return outcome
        with self._lock:
            self.counts.failed += 1
        return job.fail(reason, ATTEMPTS)

    def _follow(self, job: _EngineJob[T], engine: UciEngine, attempt: int) -> T:
        """The outcome of the job's plan, after the searches that it asks for."""
        plan = job.plan()
        go = next(plan)
        while True:
            started = time.monotonic()
            report = engine.search(job.position, go, self._limit.seconds(attempt))
            seconds = time.monotonic() - started
            try:
                go = plan.send(report)
            except StopIteration as end:
                outcome: T = end.value
                return outcome
            finally:
                self._count(report, seconds)

    def _count(self, report: SearchReport, seconds: float) -> None:
        with self._lock:
            self._limit.learn(report.nodes, seconds)
            self.counts.searched += 1
            self.counts.nodes += report.nodes

    def _start(self, number: int) -> UciEngine:
        engine = UciEngine(self._setup)
        with self._lock:
            self._engines[number] = engine  # from here on `close` can kill it
            abandoned = self._restarts.given_up.is_set()
        try:
            if not abandoned:
                engine.start()
        except BaseException:
            self._drop(number)
            raise
        if abandoned:
            self._drop(number)
            raise CancelledError
        return engine

    def _drop(self, number: int, grace: float = 0.0) -> None:
        with self._lock:
            engine = self._engines.pop(number, None)
        if engine is not None:
            engine.close(grace)

    def _incident(self, error: EngineFailure, fen: str) -> None:
        with self._lock:
            if isinstance(error, EngineTimeout):
                self.counts.hangs += 1
            elif isinstance(error, BadAnswer):
                self.counts.bad_answers += 1
            else:
                self.counts.crashes += 1
            incidents = self.counts.crashes + self.counts.hangs + self.counts.bad_answers
        if incidents <= _INCIDENTS_LOGGED:
            more = "; further restarts are only counted" if incidents == _INCIDENTS_LOGGED else ""
            where = f" (position {fen})" if fen else ""
            log.info(f"{self.name} {error}; restarted{where}{more}")
