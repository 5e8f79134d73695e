"""The loop of every run: it handles all events, and is the store's only writer.

A run with deep searches is a `SearchLoop`; one that searches positions of the store, such as `vr confirm`, is a
`StoredSearches`; one that samples archives is a `runs.sampled.SampledRun`. Other threads, and callbacks of searches,
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
from typing import Any, Generic, NamedTuple, TypeVar

import chess

from valuerepair import stop
from valuerepair.chess.positions import Position
from valuerepair.errors import ValueRepairError
from valuerepair.oracles.oracle import DeepFailure, Oracle
from valuerepair.progress import Progress
from valuerepair.store.rows import FULL, DeepResult, Run
from valuerepair.store.screening import forget_passage
from valuerepair.store.store import Store

TICK_S = 0.5
_GRACE_S = 5.0

# An engine that fails on this many positions and has not scored one is broken as a whole.
HOPELESS = 10

Key = TypeVar("Key")


class Failures:
    """The positions on which the oracle failed.

    They are recorded only once another position succeeds: if every position fails, the fault is not in the positions.
    `count` includes failures of earlier runs that are not tried again; `earlier` counts these. `who` names the
    oracle.
    """

    def __init__(self, store: Store, oracle_id: int, run: Run, who: str) -> None:
        self.count = self.earlier = 0
        self._store, self._oracle_id, self._run = store, oracle_id, run
        self._who, self._last = who, ""
        self._held: list[tuple[int, DeepFailure, str]] = []

    @property
    def held(self) -> bool:
        """Whether failures are not recorded yet, because no position has succeeded."""
        return bool(self._held)

    def add(self, position_id: int, failure: DeepFailure, stage: str = FULL) -> None:
        """Holds a failure back until `record`."""
        self.count += 1
        self._last = failure.reason
        self._held.append((position_id, failure, stage))

    def add_earlier(self, reason: str) -> None:
        """Counts a failure that an earlier run recorded and this one does not try again."""
        self.count += 1
        self.earlier += 1
        self._last = reason

    def check(self) -> None:
        """Raises ValueRepairError if too many failures are held back."""
        if len(self._held) >= HOPELESS:
            raise self.hopeless()

    def record(self) -> None:
        """Records the failures held back."""
        for position_id, failure, stage in self._held:
            self._store.add_failure(position_id, self._oracle_id, failure.reason, failure.attempts, self._run, stage)
            if stage == FULL:
                forget_passage(self._store, self._oracle_id, position_id)  # an earlier ladder may have cut it
        self._held.clear()

    def hopeless(self) -> ValueRepairError:
        """The error of a run in which everything failed."""
        return ValueRepairError(
            f"{self._who} failed on each of the {self.count} positions it was given; the last error: {self._last}; "
            "fix the engine or choose another with --deep"
        )


@dataclass(frozen=True)
class SearchDone(Generic[Key]):
    """A search has ended: its `future` is done; `key` is the one given to `_begin`."""

    key: Key
    future: Future[Any]


class Loop:
    """One run. All methods run in the thread that owns the store."""

    def __init__(self, store: Store, run: Run, progress: Progress, events: SimpleQueue[Any] | None = None) -> None:
        self._store, self._run, self._progress = store, run, progress
        self._events: SimpleQueue[Any] = SimpleQueue() if events is None else events
        self._started = self._ticked = time.monotonic()

    # -- for subclasses -----------------------------------------------------------------------------------------------

    @property
    def _is_at_work(self) -> bool:
        """Whether work remains."""
        raise NotImplementedError

    @property
    def _is_waiting(self) -> bool:
        """Whether work is in flight, for which an interrupted run waits."""
        raise NotImplementedError

    def _feed(self) -> None:
        """Begins as much work as is possible now."""
        raise NotImplementedError

    def _take_event(self, event: Any) -> None:
        """Handles an event."""

    def _cancel(self) -> int:
        """Cancels searches that have not begun; returns the number of those in flight."""
        return 0

    def _abandon(self) -> None:
        """Abandons the work in flight."""

    def _end(self) -> str:
        """The state of a run that was not interrupted; raises the error that broke the run as a whole."""
        raise NotImplementedError

    def _show(self) -> None:
        """Brings the progress up to date."""
        raise NotImplementedError

    # -- the loop -----------------------------------------------------------------------------------------------------

    def work(self) -> str:
        """Works until all is done, or a limit or a signal ends the run; returns its state."""
        while not stop.asked() and self._is_at_work:
            self._feed()
            if self._is_at_work:
                self._handle_next()
        if stop.asked():
            self._wind_down()
            return "interrupted"
        return self._end()

    def taking_signals(self) -> AbstractContextManager[None]:
        """A context in which a signal ends `work` and nothing else."""
        return stop.flag()

    def _handle_next(self) -> None:
        """Waits briefly for an event and handles it; commits and shows the progress if they are due."""
        with contextlib.suppress(Empty):
            self._handle(self._events.get(timeout=TICK_S))
        self._store.commit_if_due()
        self._show_if_due()

    def _show_if_due(self) -> None:
        if time.monotonic() - self._ticked >= TICK_S:
            self._ticked = time.monotonic()
            self._show()

    def _handle(self, event: Any) -> None:
        self._take_event(event)

    def _wind_down(self) -> None:
        """Ends after a signal: waits for the searches in flight until a deadline."""
        running = self._cancel()
        self._progress.say(f"stopping: waiting for {running} searches in flight; Ctrl-C again ends at once")
        deadline = time.monotonic() + _GRACE_S
        while self._is_waiting and time.monotonic() < deadline:
            with contextlib.suppress(Empty):
                self._handle(self._events.get(timeout=0.1))
        self._store.commit()
        self._abandon()


class SearchLoop(Loop, Generic[Key]):
    """A run whose positions are searched by an oracle."""

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

    # -- for subclasses -----------------------------------------------------------------------------------------------

    @property
    def _is_more_to_come(self) -> bool:
        """Whether work remains besides the searches in flight."""
        raise NotImplementedError

    @property
    def _any_scored(self) -> bool:
        """Whether the oracle has scored a position of the run, so that failures are due to the positions."""
        return self._scored

    def _take(self, key: Key, outcome: Any) -> None:
        """Records the outcome of a search."""
        raise NotImplementedError

    def _take_failure(self, key: Key, failure: DeepFailure) -> None:
        """Records a failed search."""
        raise NotImplementedError

    def _take_back(self, key: Key) -> None:
        """Forgets a search that was cancelled."""

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
        """Records that a search has begun; its end becomes an event."""
        self._searching[key] = future
        self._begun += 1
        future.add_done_callback(lambda done: self._events.put(SearchDone(key, done)))

    def _handle(self, event: Any) -> None:
        if isinstance(event, SearchDone):
            self._take_search(event)
        else:
            super()._handle(event)

    def _take_search(self, event: SearchDone[Key]) -> None:
        """Takes a finished search; holds failures back until a search succeeds (see `Failures`)."""
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

    def _abandon(self) -> None:
        self._oracle.close(cancel=True)


class Look(NamedTuple):
    """A search of a position of the store, or of the position after a move; `stage` is that of its value in the store
    (`store.rows`)."""

    position_id: int
    stage: str


class StoredSearches(SearchLoop[Look]):
    """A run of looks, given with the positions to search; results are stored as they come.

    `who` names the oracle in the message when all searches fail.
    """

    def __init__(
        self,
        store: Store,
        oracle: Oracle,
        run: Run,
        progress: Progress,
        who: str,
        looks: Iterable[tuple[Look, Position]] = (),
    ) -> None:
        oracle_id = store.add_oracle(oracle.identity)
        super().__init__(store, oracle, oracle_id, run, progress, Failures(store, oracle_id, run, who))
        self._looks_to_come, self._is_over = iter(looks), False

    @property
    def _is_more_to_come(self) -> bool:
        return not self._is_over

    def _next(self) -> tuple[Look, Position] | None:
        return next(self._looks_to_come, None)

    def _feed(self) -> None:
        while not stop.asked() and len(self._searching) < self._oracle.capacity:
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
        self._progress.advance(0)  # a plain log gets its line even while no search ends


_CHECKMATED = DeepResult(mate=0)
_DRAWN = DeepResult(cp=0, wdl=(0, 1000, 0))


def after(position: Position, uci: str) -> Position | DeepResult | None:
    """The position after a move (UCI); a result if the move ends the game; None if the move is not legal.

    The result is as an engine gives it: ``mate 0`` for the side that is mated; 0 centipawns for stalemate, insufficient
    material, the third occurrence and the 50-move rule, counted with the known history.
    """
    board = chess.Board(position.start_fen)
    for played in position.moves:
        board.push_uci(played)
    try:
        move = board.parse_uci(uci)
    except ValueError:
        return None
    board.push(move)
    if board.is_checkmate():
        return _CHECKMATED
    drawn = board.is_stalemate() or board.is_insufficient_material() or board.is_fifty_moves()
    if drawn or board.is_repetition(3):
        return _DRAWN
    return Position(
        board.fen(),
        position.start_fen,
        (*position.moves, move.uci()),
        position.ply + 1,
        history_known=position.history_known,
    )
