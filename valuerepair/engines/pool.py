"""Many one-thread engines behind one queue, each restarted when it crashes or hangs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from valuerepair.engines.process import EngineFailure
from valuerepair.engines.uci import EngineSetup, SearchReport, UciEngine
from valuerepair.errors import UsageError, ValueRepairError

log = logging.getLogger(__name__)

MOST_ENGINES = 1_024  # each has a process, and a thread here
ATTEMPTS = 3
_RESTART_PAUSES = (0.0, 0.2, 1.0)  # seconds
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
    """The work of a pool. `nodes` are those that the engines counted in searches that ended well.

    `restarts` are the engines that crashed, hung or gave a bad answer, `failed` the positions given up.
    """

    searched: int = 0
    nodes: int = 0
    restarts: int = 0
    failed: int = 0


def search_seconds(limits: Mapping[str, int], timeout: float | None = None) -> float:
    """How long a search may take before the engine counts as hung.

    Without a `timeout` ten minutes, a second more for each thousand nodes, and the time that the search is given.
    """
    if timeout is not None:
        return timeout
    return 600 + limits.get("nodes", 0) / 1000 + limits.get("movetime", 0) / 1000


def started_again(start: Callable[[], UciEngine], given_up: threading.Event, path: str) -> UciEngine:
    """A started engine, after three attempts at most, as memory may be short for a moment.

    Raises ValueRepairError after the last one, CancelledError after `given_up`.
    """
    reason = ""
    for pause in _RESTART_PAUSES:
        if given_up.wait(pause):
            raise CancelledError
        try:
            return start()
        except (EngineFailure, OSError) as error:
            reason = str(error)
    raise ValueRepairError(f"{path}: the engine no longer starts: {reason}")


class EnginePool:
    """`workers` engines, each with its own thread; the first starts at once, the others when there is work for them.

    `counts_tree`: the engine reports the nodes of its whole tree, earlier searches included, as lc0 does; otherwise
    those of the search alone. It is known only with `probe_count`.

    A crash, a hang or a bad answer leads to a restart; a position is tried three times in total, each time for twice as
    long. If an engine no longer starts, the future of its position raises ValueRepairError. The first restart is
    logged.
    """

    def __init__(
        self,
        setup: EngineSetup,
        seconds: float,
        workers: int,
        *,
        probe: str | None = None,
        probe_count: bool = False,
    ) -> None:
        """Starts the first engine; with `probe`, a line like ``go nodes 1``, it searches the initial position.

        An engine that searches for more than `seconds` counts as hung. Raises EngineFailure if the engine does not
        start or does not answer, BadOption if it refuses an option, and UsageError for more than `MOST_ENGINES`.
        """
        if workers > MOST_ENGINES:
            raise UsageError(f"--jobs {workers:,}: is more than {MOST_ENGINES:,}; give one for each core")
        self.workers, self.counts, self.counts_tree = workers, PoolCounts(), False
        self._setup, self._seconds = setup, seconds
        self._lock, self._given_up = threading.Lock(), threading.Event()
        self._own = threading.local()  # `engine`: that of each thread
        self._engines = set[UciEngine]()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="engine")
        try:
            engine = self._threads.submit(self._first, probe, probe_count).result()
        except BaseException:
            self.close(cancel=True)
            raise
        self.name, self.offered, self.settings = engine.name, engine.offered, engine.settings

    def submit(
        self, position: str, plan: Callable[[], Plan[T]], fail: Callable[[str, int], T], fen: str = ""
    ) -> Future[T]:
        """Queues the searches of `position`, a UCI line ``position ...``. The future has the outcome of the plan.

        A plan may raise BadAnswer, which counts as a failed attempt; each attempt has a new plan. After three failures
        the future has the result of `fail`, called with the last reason and the number of attempts. The future can be
        cancelled until its search begins. `fen` names the position in messages. `plan`, `fail` and callbacks run in the
        engine's thread: keep them short. Raises RuntimeError after `close`.
        """
        return self._threads.submit(self._search, position, plan, fail, fen)

    def close(self, *, cancel: bool = False) -> None:
        """Cancels queued searches, waits for the searches in flight, and ends the engines.

        With `cancel` it does not wait for them: their futures raise CancelledError. That takes about a second at most.
        """
        if cancel:
            self._given_up.set()
            with self._lock:
                engines = list(self._engines)
            for engine in engines:
                engine.kill()
        self._threads.shutdown(cancel_futures=True)
        engines, self._engines = list(self._engines), set()
        if engines:
            with ThreadPoolExecutor(len(engines)) as closing:
                list(closing.map(UciEngine.close, engines))

    def _first(self, probe: str | None, probe_count: bool) -> UciEngine:
        """The first engine, after its probes. Raises EngineFailure."""
        engine = self._start()
        if probe is not None:
            self._probed(engine, probe)
            if probe_count:
                self.counts_tree = self._counts_tree(engine)
            engine.clear()  # so that the first position is not searched with the probe's hash tables
        return engine

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

    def _search(self, position: str, plan: Callable[[], Plan[T]], fail: Callable[[str, int], T], fen: str) -> T:
        reason = ""
        for attempt in range(1, ATTEMPTS + 1):
            engine: UciEngine = getattr(self._own, "engine", None) or started_again(
                self._start, self._given_up, self._setup.path
            )
            try:
                outcome = self._follow(position, plan(), engine, self._seconds * (1 << (attempt - 1)))
                # Now, so that the engine clears its hash while the outcome is handled.
                engine.clear()
            except EngineFailure as error:
                reason = str(error)
                self._drop(engine)
                if self._given_up.is_set():
                    raise CancelledError from None
                self._count_restart(reason, fen)
            else:
                return outcome
        with self._lock:
            self.counts.failed += 1
        return fail(reason, ATTEMPTS)

    def _follow(self, position: str, plan: Plan[T], engine: UciEngine, seconds: float) -> T:
        """The outcome of a plan, after the searches that it asks for."""
        go = next(plan)
        while True:
            report = engine.search(position, go, seconds)
            try:
                go = plan.send(report)
            except StopIteration as end:
                outcome: T = end.value
                return outcome
            finally:
                with self._lock:
                    self.counts.searched += 1
                    self.counts.nodes += report.nodes

    def _start(self) -> UciEngine:
        """The started engine of this thread."""
        engine = UciEngine(self._setup)
        with self._lock:
            self._engines.add(engine)  # from here on `close` can kill it
        try:
            if self._given_up.is_set():
                raise CancelledError
            engine.start()
        except BaseException:
            self._drop(engine)
            raise
        self._own.engine = engine
        return engine

    def _drop(self, engine: UciEngine) -> None:
        self._own.engine = None
        with self._lock:
            self._engines.discard(engine)
        engine.close(0.0)

    def _count_restart(self, reason: str, fen: str) -> None:
        with self._lock:
            self.counts.restarts += 1
            is_first = self.counts.restarts == 1
        if is_first:
            log.info(f"{self.name} {reason}; restarted, as any engine that fails{f' (position {fen})' if fen else ''}")
