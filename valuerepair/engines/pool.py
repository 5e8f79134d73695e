"""Many one-thread engines behind one queue, each restarted when it crashes or hangs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from valuerepair.engines.process import EngineFailure
from valuerepair.engines.uci import EngineSetup, SearchReport, UciEngine
from valuerepair.errors import UsageError, ValueRepairError

log = logging.getLogger(__name__)

MOST_ENGINES = 1_024  # each has a process, and a thread here
ATTEMPTS = 3
_RESTART_PAUSES = (0.0, 0.2, 1.0)  # seconds
PROBE_SECONDS = 60.0


T = TypeVar("T")


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
    ) -> None:
        """Starts the first engine; with `probe`, a line like ``go nodes 1``, it searches the initial position.

        An engine that searches for more than `seconds` counts as hung. Raises EngineFailure if the engine does not
        start or does not answer, BadOption if it refuses an option, and UsageError for more than `MOST_ENGINES`.
        """
        if workers > MOST_ENGINES:
            raise UsageError(f"--jobs {workers:,}: is more than {MOST_ENGINES:,}; give one for each core")
        self.workers, self.counts = workers, PoolCounts()
        self._setup, self._seconds = setup, seconds
        self._lock, self._given_up = threading.Lock(), threading.Event()
        self._own = threading.local()  # `engine`: that of each thread
        self._engines = set[UciEngine]()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="engine")
        try:
            engine = self._threads.submit(self._first, probe).result()
        except BaseException:
            self.close(cancel=True)
            raise
        self.name, self.offered, self.settings = engine.name, engine.offered, engine.settings

    def submit(
        self,
        position: str,
        go: str,
        outcome: Callable[[SearchReport], T],
        fail: Callable[[str, int], T],
        fen: str = "",
    ) -> Future[T]:
        """Queues a search by two UCI lines, ``position ...`` and ``go ...``, in an empty hash table.

        The future has what `outcome` makes of the report. It may raise BadAnswer, which counts as a failed attempt.
        After three failures the future has the result of `fail`, called with the last reason and the number of
        attempts. The future can be cancelled until its search begins. `fen` names the position in messages. `outcome`,
        `fail` and callbacks run in the engine's thread: keep them short. Raises RuntimeError after `close`.
        """
        return self._threads.submit(self._search, position, go, outcome, fail, fen)

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

    def _first(self, probe: str | None) -> UciEngine:
        """The first engine, after its probe. Raises EngineFailure."""
        engine = self._start()
        if probe is not None:
            engine.probe(probe, self._setup.start_seconds or PROBE_SECONDS)
            engine.clear()  # so that the first position is not searched with the probe's hash tables
        return engine

    def _search(
        self,
        position: str,
        go: str,
        outcome: Callable[[SearchReport], T],
        fail: Callable[[str, int], T],
        fen: str,
    ) -> T:
        reason = ""
        for attempt in range(1, ATTEMPTS + 1):
            engine: UciEngine = getattr(self._own, "engine", None) or started_again(
                self._start, self._given_up, self._setup.path
            )
            try:
                report = engine.search(position, go, self._seconds * (1 << (attempt - 1)))
                with self._lock:
                    self.counts.searched += 1
                    self.counts.nodes += report.nodes
                result = outcome(report)
                # Now, so that the engine clears its hash while the outcome is handled.
                engine.clear()
            except EngineFailure as error:
                reason = str(error)
                self._drop(engine)
                if self._given_up.is_set():
                    raise CancelledError from None
                self._count_restart(reason, fen)
            else:
                return result
        with self._lock:
            self.counts.failed += 1
        return fail(reason, ATTEMPTS)

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
