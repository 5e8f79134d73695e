"""The threads that work for the writer: one reads archives, one runs the net. They send events to the writer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.off_game import NetLines
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import PositionBatch
from valuerepair.nets.net import Evaluator, NetValues

# Positions that go through the net together: few at first, so that the engines start at once, then as many as suit the
# net. The sizes are the same in every run, so that a resumed run has the batches, and the rounding, of an uncut one.
FIRST_CHUNK_ROWS = 32
CHUNK_ROWS = 256
_POLL_S = 0.2


@dataclass(frozen=True)
class Sampled:
    """A chunk of positions came from the archives."""

    batch: PositionBatch


@dataclass(frozen=True)
class ReadingEnded:
    """All archives are read, or reading ended with `error`."""

    error: Exception | None = None


@dataclass(frozen=True)
class Evaluated:
    """The net has evaluated the positions `ids`."""

    ids: NDArray[np.int64]
    values: NetValues


@dataclass(frozen=True)
class NetBroke:
    """The net as a whole failed."""

    error: Exception


Event: TypeAlias = Sampled | ReadingEnded | Evaluated | NetBroke
Events: TypeAlias = "SimpleQueue[Any]"  # these events, and those that the loop itself adds


class _Stopped(Exception):
    """Raised to end reading at once when its results are no longer needed."""


class ArchiveReader(threading.Thread):
    """Samples archives within its context, and puts one chunk into `events` for each call of `request_chunk`."""

    def __init__(
        self,
        paths: Sequence[str],
        options: SampleOptions,
        *,
        uncut: bool = False,
        net: NetLines | None = None,
    ) -> None:
        """With `uncut` the batches of the sample are the chunks, for runs without a net, which needs small ones.
        `net` is for `sample`."""
        super().__init__(name="mine-reader", daemon=True)
        self.paths, self._uncut, self._net = paths, uncut, net
        self.events: Events = SimpleQueue()
        self.report = ReadReport()
        self.bytes_read = 0  # of the packed files, up to where their games have been found
        self._options = options
        self._requests = threading.Semaphore(0)
        self._stopped = threading.Event()

    def request_chunk(self) -> None:
        """Allows one more chunk."""
        self._requests.release()

    def __enter__(self) -> ArchiveReader:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the reading soon; no further event comes."""
        self._stopped.set()

    def run(self) -> None:
        try:
            # `sample` is a generator, typed as the iterator it is; closed, it ends its own threads.
            batches = cast(
                "Generator[PositionBatch, None, None]",
                sample(
                    self.paths,
                    self._options,
                    self.report,
                    on_bytes=self._count,
                    net=self._net,
                ),
            )
            with closing(batches):
                size = FIRST_CHUNK_ROWS
                for batch in batches:
                    if self._uncut:
                        size = len(batch)
                    begin = 0
                    while begin < len(batch):
                        if not self._wait():
                            return
                        rows = np.arange(begin, min(begin + size, len(batch)))
                        self.events.put(Sampled(batch.take(rows)))
                        begin += len(rows)
                        size = min(2 * size, CHUNK_ROWS)
        except _Stopped:
            return
        except Exception as error:
            self.events.put(ReadingEnded(error))
        else:
            self.events.put(ReadingEnded())

    def _count(self, amount: int) -> None:
        """Counts bytes, and ends the reading even before the first batch, which may come only at the archive's end."""
        if self._stopped.is_set():
            raise _Stopped
        self.bytes_read += amount

    def _wait(self) -> bool:
        """Waits until a chunk is requested; False if the reading must end."""
        while not self._stopped.is_set():
            if self._requests.acquire(timeout=_POLL_S):
                return True
        return False


@runtime_checkable
class RemoteNet(Protocol):
    """A net that runs on other machines (a cluster), on many chunks at once."""

    @property
    def at_once(self) -> int:
        """The number of chunks that should be submitted at a time; it may change at any moment."""

    def answer(self, batch: PositionBatch) -> Future[NetValues]:
        """Queues a chunk."""


# Takes positions from the writer, within its context; answers each call with one event, in order.
NetLine: TypeAlias = "NetThread | RemoteNetLine"


def net_line(net: Evaluator, events: Events) -> NetLine:
    """The line to a net, on this machine or on others."""
    if isinstance(net, RemoteNet):
        return RemoteNetLine(net, events)
    return NetThread(net, events)


class NetThread(threading.Thread):
    """Runs the net on the positions that it gets, in order, within its context."""

    at_once = 2  # the chunk in progress and the next, so that a slow net never waits

    def __init__(self, net: Evaluator, events: Events) -> None:
        super().__init__(name="mine-net", daemon=True)
        self._net, self._events = net, events
        self._jobs: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()

    def submit(self, ids: NDArray[np.int64], batch: PositionBatch) -> None:
        """Queues positions; an `Evaluated` event answers. The writer limits their number."""
        self.submit_work(lambda: Evaluated(ids, self._net.evaluate(batch)))

    def submit_work(self, work: Callable[[], Any]) -> None:
        """Queues any work with the net; its result becomes an event."""
        self._jobs.put(work)

    def __enter__(self) -> NetThread:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the thread: an idle one at once, a busy one after its current batch."""
        self._jobs.put(None)

    def run(self) -> None:
        while (work := self._jobs.get()) is not None:
            try:
                answer = work()
            except Exception as error:
                self._events.put(NetBroke(error))
                return
            self._events.put(answer)


class RemoteNetLine:
    """Passes chunks to a net on other machines. Events come in the order of the chunks, whichever is answered first."""

    def __init__(self, net: RemoteNet, events: Events) -> None:
        self._net, self._events = net, events
        self._open: deque[tuple[NDArray[np.int64], Future[NetValues]]] = deque()
        self._lock = threading.Lock()

    @property
    def at_once(self) -> int:
        return self._net.at_once

    def submit(self, ids: NDArray[np.int64], batch: PositionBatch) -> None:
        """Sends positions; an `Evaluated` event answers. The writer limits their number."""
        future = self._net.answer(batch)
        with self._lock:
            self._open.append((ids, future))
        future.add_done_callback(self._deliver)

    def _deliver(self, _: Future[NetValues]) -> None:
        with self._lock:
            while self._open and self._open[0][1].done():
                ids, future = self._open.popleft()
                if future.cancelled():
                    continue
                error = future.exception()
                if isinstance(error, Exception):
                    self._events.put(NetBroke(error))
                else:
                    self._events.put(Evaluated(ids, future.result()))

    def __enter__(self) -> RemoteNetLine:
        return self

    def __exit__(self, *error: object) -> None:
        """Sends no more events."""
        with self._lock:
            self._open.clear()
