"""The loop of all long work on a store: one thread writes; archives, the net and the judge have their own."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from valuerepair import stop
from valuerepair.chess.positions import Position
from valuerepair.errors import ValueRepairError
from valuerepair.mining.screening import Screening
from valuerepair.oracles.oracle import DeepFailure, Judge
from valuerepair.progress import Progress
from valuerepair.store.rows import Run
from valuerepair.store.store import Store
from valuerepair.text import format_duration, format_rate, quantity

log = logging.getLogger(__name__)

HOPELESS = 10  # failures after which a judge that has never succeeded counts as broken
_TICK_S = 0.5


class Task(NamedTuple):
    """A position to search. `net_q` is the net's Q of it, which screening needs. With `short` the short search comes
    first; a full search is stored with the `weight`."""

    position_id: int
    position: Position
    net_q: float = float("nan")
    short: bool = False
    weight: float = 1.0


@dataclass(slots=True)
class SearchCounts:
    """What a loop did: full searches that ended well, failures, nodes of all searches, seconds; and whether it was
    stopped by a signal."""

    searched: int = 0
    failed: int = 0
    nodes: int = 0
    seconds: float = 0.0
    stopped: bool = False
    last_failure: str = field(default="", repr=False)

    def line(self, workers: int) -> str:
        """The counts in words; `workers` searches ran at a time."""
        speed = f", {format_rate(self.nodes / self.seconds)}" if self.nodes and self.seconds else ""
        at_once = f"{workers} at once, {self.failed:,} failed"
        return f"{quantity(self.searched, 'position')}, {at_once}; {format_duration(self.seconds)}{speed}"


def search(
    store: Store,
    run: Run,
    judge: Judge,
    judge_id: int,
    tasks: Iterator[Task | None],
    progress: Progress,
    *,
    screening: Screening | None = None,
    events: SimpleQueue[Any] | None = None,
) -> SearchCounts:
    """Has the judge search positions, and stores each value as it comes; commits once a second.

    `tasks` gives None when no task is ready yet; whoever makes one ready puts None into `events`. With `screening` a
    task that is `short` is searched in full only if its short search says so. A failure is stored with its reason.
    After a signal (`stop.asked`) it returns at once; the searches in flight are abandoned when the judge is closed.
    Raises ValueRepairError if the judge has never succeeded, and what `tasks` raises.
    """
    done = SearchCounts()
    events = events or SimpleQueue()
    pending: dict[Future[Any], Task] = {}
    started = time.monotonic()
    capacity, ended = 0, False
    progress.jobs = judge.workers

    def works() -> bool:
        query = "SELECT EXISTS (SELECT 1 FROM deep_values WHERE judge_id = ? AND failed IS NULL)"
        ids = [judge_id] if screening is None else [judge_id, screening.judge_id]
        return any(store.connection.execute(query, (number,)).fetchone()[0] for number in ids)

    def begin(task: Task) -> None:
        chosen = screening.judge if screening is not None and task.short else judge
        future = chosen.submit(task.position)
        pending[future] = task
        future.add_done_callback(events.put)

    def take(future: Future[Any]) -> None:
        task, outcome = pending.pop(future), future.result()
        number = screening.judge_id if screening is not None and task.short else judge_id
        if isinstance(outcome, DeepFailure):
            done.failed += 1
            done.last_failure = outcome.reason
            store.add_failure(task.position_id, number, outcome.reason, run)
            if done.failed == HOPELESS and not works():
                raise hopeless(judge, done)
            progress.advance()
            return
        done.nodes += outcome.nodes
        store.add_deep(task.position_id, number, outcome, run, 1.0 if task.short else task.weight)
        if task.short:
            assert screening is not None
            weight = screening.weight(task, outcome)
            if weight:
                begin(task._replace(short=False, weight=weight))
                return
        else:
            done.searched += 1
        progress.advance()

    while not stop.asked():
        capacity = judge.capacity
        while not ended and len(pending) < capacity and not stop.asked():
            try:
                task = next(tasks)
            except StopIteration:
                ended = True
                break
            if task is None:
                break
            begin(task)
        if ended and not pending:
            break
        with suppress(Empty):
            event = events.get(timeout=_TICK_S)
            while True:
                if event is not None:
                    take(event)
                event = events.get_nowait()
        store.commit_if_due()
        if done.nodes:
            progress.note(format_rate(done.nodes / (time.monotonic() - started)))
    store.commit()
    done.stopped, done.seconds = stop.asked(), time.monotonic() - started
    if done.failed and not done.stopped and not works():
        raise hopeless(judge, done)
    return done


def hopeless(judge: Judge, done: SearchCounts) -> ValueRepairError:
    """The error of a judge that fails on everything."""
    return ValueRepairError(
        f"the deep search ({judge.identity.label}) failed on each of the {done.failed} positions it was given; "
        f"the last error: {done.last_failure}; fix the engine or choose another with --deep"
    )
