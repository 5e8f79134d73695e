"""Positions on their way from archives through the net to the judge."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from queue import Empty, Full, Queue, SimpleQueue
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from valuerepair.archives.off_game import NetLines
from valuerepair.archives.open import total_bytes
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.arrays import Ids
from valuerepair.chess.positions import PositionBatch
from valuerepair.mining.screening import AUDITED, Screening, is_audited, settle_doubtful
from valuerepair.mining.search import Task
from valuerepair.nets.net import Evaluator, NetValues
from valuerepair.oracles.recorded import RecordedSource, net_values
from valuerepair.progress import Progress
from valuerepair.store.rows import Run, unsigned
from valuerepair.store.store import Store

# Positions that go through the net together: few at first, so that the engines start at once, then as many as suit the
# net. The sizes are the same in every run, so that a resumed run has the batches, and the rounding, of an uncut one.
FIRST_CHUNK_ROWS, CHUNK_ROWS = 32, 256
_FEW_TASKS = 64  # with fewer, the next positions are prepared
_TICK_S = 0.5


class _Stopped(Exception):
    """Ends the reading when its results are no longer needed."""


class Reader(threading.Thread):
    """Samples archives within its context, a few batches ahead; each batch puts None into `events`."""

    def __init__(
        self,
        paths: Sequence[str],
        options: SampleOptions,
        events: SimpleQueue[Any],
        *,
        uncut: bool = False,
        lines: NetLines | None = None,
    ) -> None:
        """With `uncut` the batches of the sample stay whole, for runs without a net. `lines` is for `sample`."""
        super().__init__(name="reader", daemon=True)
        self.report, self.bytes_read, self.bytes = ReadReport(), 0, total_bytes(paths)
        self._paths, self._options, self._events, self._uncut, self._lines = paths, options, events, uncut, lines
        self._batches: Queue[PositionBatch] = Queue(2)
        self._left, self._ended = threading.Event(), threading.Event()
        self._error: Exception | None = None

    def take(self) -> PositionBatch | None:
        """The next batch; None if none is ready. Raises the error of reading after the last batch."""
        ended = self._ended.is_set()  # before looking: nothing comes after it
        try:
            return self._batches.get_nowait()
        except Empty:
            if ended and self._error is not None:
                raise self._error from None
            return None

    @property
    def is_over(self) -> bool:
        """Whether all batches were taken."""
        return self._ended.is_set() and self._batches.empty()

    @property
    def expected(self) -> float | None:
        """The number of positions to expect in all, by the bytes read so far; None while unknown."""
        if self._ended.is_set():
            return self.report.positions
        so_far = self.report.expected
        return so_far * max(self.bytes / self.bytes_read, 1) if so_far and self.bytes and self.bytes_read else None

    def __enter__(self) -> Reader:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._left.set()

    def run(self) -> None:
        try:
            self._read()
        except _Stopped:
            return
        except Exception as error:
            self._error = error
        self._ended.set()
        self._events.put(None)

    def _read(self) -> None:
        # `sample` is a generator, typed as the iterator it is; closed, it ends its own threads.
        batches = sample(self._paths, self._options, self.report, on_bytes=self._count, net=self._lines)
        size = FIRST_CHUNK_ROWS
        with closing(cast("Any", batches)):
            for batch in batches:
                begin = 0
                while begin < len(batch):
                    end = len(batch) if self._uncut else min(begin + size, len(batch))
                    self._put(batch.take(np.arange(begin, end)))
                    begin, size = end, min(2 * size, CHUNK_ROWS)

    def _count(self, amount: int) -> None:
        if self._left.is_set():
            raise _Stopped
        self.bytes_read += amount

    def _put(self, batch: PositionBatch) -> None:
        while not self._left.is_set():
            try:
                self._batches.put(batch, timeout=0.2)
                self._events.put(None)
                return
            except Full:
                continue
        raise _Stopped


@runtime_checkable
class RemoteNet(Protocol):
    """A net that runs on other machines (a cluster), on many chunks at once."""

    @property
    def at_once(self) -> int:
        """The number of chunks that should be submitted at a time; it may change at any moment."""

    def answer(self, batch: PositionBatch) -> Future[NetValues]:
        """Queues a chunk."""


@dataclass(slots=True)
class _InNet:
    """Positions of one batch; those of `fresh` are at the net, if it is asked."""

    ids: Ids
    fresh: Ids
    values: Future[NetValues] | None


class Feed(Iterator["Task | None"]):
    """The tasks of a run that mines archives: positions that have the net's value, and no value of the judge.

    It gives None while archive and net are busy, and ends when all positions have gone through. Everything that the
    store has is only counted: `sampled` positions, `earlier` ones that had a value of the judge, or were left out by
    screening; `seen` has the ids of all, batch by batch. Use it as a context manager, in the thread of the store.
    """

    def __init__(
        self,
        reader: Reader,
        store: Store,
        run: Run,
        net: Evaluator | None,
        net_id: int,
        judge_id: int,
        events: SimpleQueue[Any],
        progress: Progress,
        *,
        screening: Screening | None = None,
        recorded: RecordedSource | None = None,
        limit: int | None = None,
    ) -> None:
        """With `recorded` the judge's values are those of the archives, and without a `net` the net's, too."""
        self._reader, self._store, self._run, self._net = reader, store, run, net
        self._net_id, self._judge_id, self._screening, self._recorded = net_id, judge_id, screening, recorded
        self._events, self._progress, self._left = events, progress, limit
        self._tasks: deque[Task] = deque()
        self._in_net: deque[_InNet] = deque()
        self._pool = ThreadPoolExecutor(1, "net")
        self._shown = 0.0
        self.seen: list[Ids] = []
        self.sampled = self.earlier = self.imported = self.without_evaluation = 0
        self.limited = self._is_cut = False

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __next__(self) -> Task | None:
        if len(self._tasks) < _FEW_TASKS:
            self._prepare()
        if self._tasks and self._left != 0:
            self._left = None if self._left is None else self._left - 1
            return self._tasks.popleft()
        if self._recorded is not None and self._in_net:
            return None  # a limit of evaluations is reached before the net has valued their positions
        self.limited = self._left == 0 and (self._is_cut or not self._is_drained)
        if self.limited or self._is_drained:
            raise StopIteration
        return None

    @property
    def _is_enough(self) -> bool:
        """Whether the positions at hand reach the limit, so that the net needs no others."""
        return self._left is not None and len(self._tasks) + sum(len(e.ids) for e in self._in_net) >= self._left

    @property
    def _is_drained(self) -> bool:
        return not self._tasks and not self._in_net and self._reader.is_over

    def _prepare(self) -> None:
        while self._in_net and ((values := self._in_net[0].values) is None or values.done()):
            self._finish(self._in_net.popleft())
        at_once, begun = self._net.at_once if isinstance(self._net, RemoteNet) else 2, time.monotonic()
        while not self._is_enough and len(self._in_net) < at_once and (batch := self._reader.take()) is not None:
            self._add(batch)
            if self._in_net[0].values is None:
                self._finish(self._in_net.popleft())
                if len(self._tasks) >= _FEW_TASKS:
                    break
                if time.monotonic() - begun >= _TICK_S:  # an archive of what needs no search could go on for minutes
                    self._events.put(None)
                    break
        self._show()

    def _add(self, batch: PositionBatch) -> None:
        """Adds a batch to the store, and has the net evaluate the positions that it does not know."""
        ids = self._store.add_positions(batch, self._run)
        self.seen.append(ids)
        self.sampled += len(ids)
        if self._recorded is not None:
            self._import(self._recorded, ids, batch)
        fresh = self._store.without_net_value(self._net_id, ids)
        values: Future[NetValues] | None = None
        if fresh.any() and self._net is None:
            self._store.add_net_values(ids[fresh], self._net_id, net_values(batch.take(np.flatnonzero(fresh))))
        elif fresh.any() and self._net is not None:
            known = self._store.positions(ids[fresh])  # with the history that the store has
            if isinstance(self._net, RemoteNet):
                values = self._net.answer(known)
            else:
                values = self._pool.submit(self._net.evaluate, known)
            values.add_done_callback(lambda _: self._events.put(None))
        self._in_net.append(_InNet(ids, ids[fresh], values))

    def _import(self, recorded: RecordedSource, ids: Ids, batch: PositionBatch) -> None:
        """Takes the recorded evaluations as the judge's values."""
        wanted = np.flatnonzero(self._store.without_value(self._judge_id, ids))
        self.earlier += len(ids) - len(wanted)
        if self._left is not None:
            self._is_cut = len(wanted) > self._left
            wanted = wanted[: self._left]
            self._left -= len(wanted)
        rows, columns = recorded.deep_values(batch.take(wanted))
        self._store.add_deep_columns(ids[wanted][rows], self._judge_id, columns, self._run)
        self.imported += len(rows)
        missing = np.delete(ids[wanted], rows)
        self.without_evaluation += len(missing)
        for number in missing.tolist():
            self._store.add_failure(number, self._judge_id, "no recorded evaluation", self._run)
        self._progress.advance(len(wanted))

    def _finish(self, entry: _InNet) -> None:
        """Stores the net's values of a batch, and makes the tasks of the positions that the judge must search."""
        if entry.values is not None:
            self._store.add_net_values(entry.fresh, self._net_id, entry.values.result())
        if self._recorded is None:
            tasks = self._tasks_of(entry.ids)
            positions = self._store.positions([task[0] for task in tasks])
            self._tasks += [
                Task(number, positions[i], net_q, short, weight)
                for i, (number, net_q, short, weight) in enumerate(tasks)
            ]

    def _tasks_of(self, ids: Ids) -> list[tuple[int, float, bool, float]]:
        """Which of the positions need a search: id, net Q, whether the short search comes first, and the weight."""
        screening = self._screening
        numbers = {"net": self._net_id, "full": self._judge_id, "short": screening.judge_id if screening else None}
        rows = self._store.connection.execute(_KNOWN, {**numbers, "ids": json.dumps(ids.tolist())}).fetchall()
        self.earlier += len(rows)
        if screening is None:
            settle_doubtful(self._store, self._judge_id, [row[0] for row in rows if (row[3] or 0) > 1])
            tasks = [(row[0], row[2], False, 1.0) for row in rows if row[3] is None]
            self.earlier -= len(tasks)
            return tasks
        net_q, short = (np.array([row[2] for row in rows], np.float64), np.array([row[5:] for row in rows], np.float64))
        doubtful = screening.is_doubtful(net_q, short.reshape(-1, 6)).tolist()
        audited = is_audited(unsigned([row[1] for row in rows])).tolist()
        tasks = []
        for i, (number, _, q, weight, has_short, *_) in enumerate(rows):
            if weight is None and not has_short:
                tasks.append((number, q, True, 1.0))
            elif weight is None and (doubtful[i] or audited[i]):
                tasks.append((number, q, False, 1.0 if doubtful[i] else 1 / AUDITED))
        self.earlier -= len(tasks)
        settle_doubtful(
            self._store,
            self._judge_id,
            [row[0] for i, row in enumerate(rows) if (row[3] or 0) > 1 and row[4] and doubtful[i]],
        )
        return tasks

    def _show(self) -> None:
        if time.monotonic() - self._shown < _TICK_S:
            return
        self._shown = time.monotonic()
        expected = self._reader.expected
        if expected is not None:
            self._progress.set_total(max(round(expected) - self.earlier, 0) or None)


# id, key, net Q, weight of the full search, whether there is a short one, and its scores.
_KNOWN = """
SELECT p.id, p.key, n.q, f.weight, s.position_id IS NOT NULL, s.cp, s.mate, s.w, s.d, s.l, s.q
FROM json_each(:ids) j JOIN positions p ON p.id = j.value
JOIN net_values n ON n.net_id = :net AND n.position_id = p.id
LEFT JOIN deep_values f ON f.judge_id = :full AND f.position_id = p.id AND f.failed IS NULL
LEFT JOIN deep_values s ON s.judge_id = :short AND s.position_id = p.id AND s.failed IS NULL
ORDER BY j.key
"""
