"""The loop of every run: it handles all events, and is the store's only writer.

A run that asks for deep searches is a `SearchLoop`, and one that searches what the store has, as `vr confirm` does, is
`StoredSearches`. One that samples archives is a `runs.sampled.SampledRun`. Other threads, and callbacks of searches,
only put events into its queue.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from valuerepair import signals
from valuerepair.chess.positions import Position
from valuerepair.chess.progress import Progress
from valuerepair.oracles.oracle import DeepFailure
from valuerepair.runs.failures import Failures
from valuerepair.store.rows import DeepResult, Run
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from valuerepair.oracles.oracle import Oracle

TICK_S = 0.5
_GRACE_S = 5.0

Key = TypeVar("Key")


@dataclass(frozen=True)
class SearchDone(Generic[Key]):
    """A search is done, and with it its `future`; `key` is what it was begun by."""

    key: Key
    future: Future[Any]


class Loop:
    """One run. All methods run in the thread that owns the store."""

    def __init__(self, store: Store, run: Run, progress: Progress, events: SimpleQueue[Any] | None = None) -> None:
        self._store, self._run, self._progress = store, run, progress
        self._events: SimpleQueue[Any] = SimpleQueue() if events is None else events
        self._started = self._ticked = time.monotonic()

    # -- what a kind of run does in its own way -----------------------------------------------------------------------

    @property
    def _is_at_work(self) -> bool:
        """Whether there is anything to do."""
        raise NotImplementedError

    @property
    def _is_waiting(self) -> bool:
        """Whether an interrupted run still waits for something that was begun."""
        raise NotImplementedError

    def _feed(self) -> None:
        """Begins what may begin."""
        raise NotImplementedError

    def _take_event(self, event: Any) -> None:
        """Handles an event."""

    def _cancel(self) -> int:
        """Cancels what has not begun; gives how many searches are in flight."""
        return 0

    def _leave(self) -> None:
        """Gives up what is in flight."""

    def _end(self) -> str:
        """The state of a run that was not interrupted; raises what went wrong as a whole."""
        raise NotImplementedError

    def _show(self) -> None:
        """Brings the progress up to date."""
        raise NotImplementedError

    # -- the loop -----------------------------------------------------------------------------------------------------

    def work(self) -> str:
        """Works until all is done, or a limit or a signal ends it; gives the run's state."""
        while not signals.count() and self._is_at_work:
            self._feed()
            if self._is_at_work:
                self._handle_next()
        if signals.count():
            self._wind_down()
            return "interrupted"
        return self._end()

    def taking_signals(self) -> AbstractContextManager[None]:
        """Within, a signal ends `work`, and nothing else."""
        return signals.left_to_loop(lambda: self._events.put(None))  # to be woken

    def _handle_next(self) -> None:
        """Waits a moment for an event, handles it, and commits and shows figures when that is due."""
        with contextlib.suppress(Empty):
            self._handle(self._events.get(timeout=TICK_S))
        self._store.commit_if_due()
        self._show_if_due()

    def _show_if_due(self) -> None:
        if time.monotonic() - self._ticked >= TICK_S:
            self._ticked = time.monotonic()
            self._show()

    def _handle(self, event: Any) -> None:
        if event is not None:
            self._take_event(event)

    def _wind_down(self) -> None:
        """After a signal: nothing new begins, searches in flight get a short while, a second signal abandons them."""
        running = self._cancel()
        self._progress.say(f"stopping: waiting for {running} searches in flight; Ctrl-C again abandons them")
        deadline = time.monotonic() + _GRACE_S
        while self._is_waiting and signals.count() < 2 and time.monotonic() < deadline:
            with contextlib.suppress(Empty):
                self._handle(self._events.get(timeout=0.1))
        self._store.commit()
        self._leave()


class SearchLoop(Loop, Generic[Key]):
    """A run that has an oracle search."""

    def __init__(
        self,
        store: Store,
        oracle: Oracle,
        oracle_id: int,
        run: Run,
        progress: Progress,
        failures: Failures,
        events: SimpleQueue[Any] | None = None,
    ) -> None:
        super().__init__(store, run, progress, events)
        self._oracle, self._oracle_id, self._failures = oracle, oracle_id, failures
        self._searching: dict[Key, Future[Any]] = {}
        self._begun = self._done = self._nodes = 0  # searches, and their nodes
        self._scored = False

    # -- what a kind of run does in its own way -----------------------------------------------------------------------

    @property
    def _is_more_to_come(self) -> bool:
        """Whether there is anything to do besides the searches in flight."""
        raise NotImplementedError

    @property
    def _any_scored(self) -> bool:
        """Whether the oracle has searched any position of the run, so that failures are the positions' own."""
        return self._scored

    def _take(self, key: Key, outcome: Any) -> None:
        """Records what a search has found."""
        raise NotImplementedError

    def _take_failure(self, key: Key, failure: DeepFailure) -> None:
        """Records a search that has failed."""
        raise NotImplementedError

    def _take_back(self, key: Key) -> None:
        """Forgets a search that was given up."""

    def _end(self) -> str:
        if self._failures.held:
            raise self._failures.hopeless()
        return "finished"

    # -- the searches -------------------------------------------------------------------------------------------------

    @property
    def _is_at_work(self) -> bool:
        return bool(self._searching) or self._is_more_to_come

    @property
    def _is_waiting(self) -> bool:
        return bool(self._searching)

    def _begin(self, key: Key, future: Future[Any]) -> None:
        """Notes that a search has begun; its end becomes an event."""
        self._searching[key] = future
        self._begun += 1
        future.add_done_callback(lambda done: self._events.put(SearchDone(key, done)))

    def _handle(self, event: Any) -> None:
        if isinstance(event, SearchDone):
            self._take_search(event)
        else:
            super()._handle(event)

    def _take_search(self, event: SearchDone[Key]) -> None:
        """Takes a search; failures are held back until one succeeds, as an engine that always fails is broken."""
        del self._searching[event.key]
        if event.future.cancelled():
            self._take_back(event.key)
            return
        outcome = event.future.result()
        self._done += 1
        self._progress.advance()
        if isinstance(outcome, DeepFailure):
            self._take_failure(event.key, outcome)
            if not self._any_scored:
                self._failures.check()
        else:
            self._scored = True
            self._take(event.key, outcome)
        if self._any_scored:
            self._failures.record()

    def _cancel(self) -> int:
        for future in list(self._searching.values()):
            future.cancel()
        return sum(not future.cancelled() for future in self._searching.values())

    def _leave(self) -> None:
        self._oracle.close(cancel=True)


class Look(NamedTuple):
    """A search of a position of the store, or after a move from it; the stage is that of its value (`store.rows`)."""

    position_id: int
    stage: str


class StoredSearches(SearchLoop[Look]):
    """A run of looks, each with the position that is searched; what they find is kept as it comes.

    `who` names the oracle if all searches fail.
    """

    def __init__(
        self,
        store: Store,
        oracle: Oracle,
        run: Run,
        progress: Progress,
        who: str,
        coming: Iterable[tuple[Look, Position]] = (),
    ) -> None:
        oracle_id = store.add_oracle(oracle.identity)
        super().__init__(store, oracle, oracle_id, run, progress, Failures(store, oracle_id, run, who))
        self._coming, self._is_over = iter(coming), False

    @property
    def _is_more_to_come(self) -> bool:
        return not self._is_over

    def _next(self) -> tuple[Look, Position] | None:
        return next(self._coming, None)

    def _feed(self) -> None:
        while not signals.count() and len(self._searching) < self._oracle.capacity:
            if (following := self._next()) is None:
                self._is_over = True
                return
            look, position = following
            self._begin(look, self._oracle.submit(position))

    def _take(self, key: Look, outcome: DeepResult) -> None:
        self._nodes += outcome.nodes
        self._store.add_deep(key.position_id, self._oracle_id, outcome, self._run, key.stage)

    def _take_failure(self, key: Look, failure: DeepFailure) -> None:
        self._failures.add(key.position_id, failure, key.stage)

    def _show(self) -> None:
        # A plain log gets its line also while nothing finishes.
        self._progress.advance(0)
