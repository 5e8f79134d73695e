"""A second look at candidates: a deeper search of each, and one after the moves that net and first look preferred.

Raw results go into the store as they come; who was right is computed from them (`valuerepair.candidates.verdict`).
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import chess

from valuerepair import __version__
from valuerepair.deep.oracle import DeepFailure, DeepResult
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.positions import Position
from valuerepair.progress import Progress, format_rate
from valuerepair.store import Store, second_looks
from valuerepair.store.connect import store_errors
from valuerepair.store.rows import AFTER, SECOND, Run, RunRecord, json_text

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.deep import DeepOutcome, Oracle

_GRACE_S = 10.0
_TICK_S = 0.5
# An engine that fails on so many positions and has not searched one is broken as a whole.
_HOPELESS_FAILURES = 10
_CHECKMATED = DeepResult(mate=0)
_DRAWN = DeepResult(cp=0, wdl=(0, 1000, 0))


@dataclass(frozen=True)
class ConfirmOptions:
    """`limit`: look at no more than so many candidates this time. `retry_failed`: search again what failed before.
    `command`: the command line, kept in the store for the reader of it. Raises UsageError for a limit below 1."""

    limit: int | None = None
    retry_failed: bool = False
    command: str = ""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit {self.limit}: must be at least 1")


@dataclass(frozen=True)
class ConfirmSummary:
    """What one run of second looks did.

    `searches` were made in `seconds`, with `nodes` in all, `workers` at once; `failed` looks could not be made, now or
    before. `state` is ``finished``, ``interrupted`` (by a signal) or ``limited`` (by ``--limit``).
    """

    state: str
    searches: int
    failed: int
    nodes: int
    seconds: float
    workers: int


class _Look(NamedTuple):
    """One search to be made: of a candidate, or of the position after a move from it."""

    position_id: int
    stage: str
    position: Position


@dataclass
class _Work:
    """A candidate: its `row` in the frame, and the stages that are to come."""

    row: int
    stages: list[str] = field(default_factory=list)


def confirm(
    store: Store,
    frame: pd.DataFrame,
    oracle: Oracle,
    options: ConfirmOptions,
    *,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> ConfirmSummary:
    """Looks by `oracle` at each candidate of `frame` (of `Store.candidates`), in its order, and keeps what it sees.

    A candidate gets a search of its position, one after the net's preferred move and one after the first look's (or,
    where that one named none, after the move of the second look). What the store has is not searched again, so the same
    call goes on where an earlier one stopped, however it ended. Results are committed about once a second. In the main
    thread SIGINT and SIGTERM end the run cleanly, with the searches in flight awaited for a short while.

    Raises ValueRepairError when the oracle is broken as a whole, and what it and the store raise.
    """
    asked = {name: frame.attrs[name] for name in ("net", "oracle", "alpha", "q_from")}
    identity = hashlib.sha256(json_text({"second look": oracle.identity.digest, **asked}).encode()).hexdigest()
    versions = {"valuerepair": __version__, "python": platform.python_version()}
    run = store.begin_run(RunRecord(identity, options.command, asked, 0, versions))
    if run.resumed and run.scored:
        say(f"going on with {run.scored:,} searches made before")
    try:
        looking = _Looking(store, frame, oracle, options, run, progress or Progress("confirming", quiet=True))
        with looking.signals():
            state = looking.work()
            counts = looking.counts()
    except BaseException:
        # The error that ended the run is the one to tell, not that its end could not be recorded either.
        with contextlib.suppress(ValueRepairError):
            store.end_run(run, "interrupted", run.counts)
        raise
    store.end_run(run, "finished" if state == "finished" else "interrupted", counts)
    return looking.summary(state)


class _Looking:
    """One run. All methods run in the thread that owns the store, except callbacks, which only put events."""

    def __init__(
        self,
        store: Store,
        frame: pd.DataFrame,
        oracle: Oracle,
        options: ConfirmOptions,
        run: Run,
        progress: Progress,
    ) -> None:
        self._store, self._frame, self._oracle, self._run = store, frame, oracle, run
        self._progress = progress
        self._oracle_id = store.add_oracle(oracle.identity)
        self._events: SimpleQueue[tuple[_Look, Future[DeepOutcome]] | None] = SimpleQueue()
        self._searching: dict[tuple[int, str], Future[DeepOutcome]] = {}
        self._rows = {int(number): row for row, number in enumerate(frame["position_id"])}
        # Where there is no move, a frame may hold None or NaN.
        moves = ([move if isinstance(move, str) else "" for move in frame[f"{who}_best"]] for who in ("net", "deep"))
        self._preferred = list(zip(*moves, strict=True))
        self._failed = self._searches = self._nodes = 0
        self._any_scored = False
        self._held_failures: list[tuple[_Look, DeepFailure]] = []
        self._signals = 0
        work, self._limited = self._plan(options)
        self._total = sum(len(each.stages) for each in work)
        self._coming = self._looks(work)
        self._followers: deque[_Look] = deque()
        progress.set_total(self._total)
        self._started = self._ticked = time.monotonic()

    # -- what is to be searched ---------------------------------------------------------------------------------------

    def _plan(self, options: ConfirmOptions) -> tuple[list[_Work], bool]:
        """The candidates with searches to come, and whether the limit leaves some out."""
        ids = [int(each) for each in self._frame["position_id"]]
        with self._store.writing() as connection:
            second_looks.take_over(connection, self._oracle_id, ids, self._run.id)
            done = second_looks.finished(connection, self._oracle_id, ids)
            failed = {} if options.retry_failed else second_looks.failed(connection, self._oracle_id)
        self._any_scored = bool(done)
        work = []
        for row, number in enumerate(ids):
            there = done.get(number, {})
            wanted = self._stages(row, there.get(SECOND))
            self._failed += sum((number, stage) in failed for stage in wanted)
            stages = [stage for stage in wanted if stage not in there and (number, stage) not in failed]
            if stages:
                work.append(_Work(row, stages))
        kept = work[: options.limit]
        return kept, len(kept) < len(work)

    def _stages(self, row: int, second_best: str | None) -> list[str]:
        """All searches of a candidate; of the second look's own move, where the first look named none."""
        net_best, deep_best = self._preferred[row]
        moves = dict.fromkeys(move for move in (net_best, deep_best or second_best) if move)
        return [SECOND, *(AFTER + move for move in moves)]

    def _looks(self, work: list[_Work]) -> Iterator[_Look]:
        """The searches to be made, made up as they are needed; ends of games are recorded and not searched."""
        for each in work:
            position = self._position(each.row)
            number = int(self._frame["position_id"].iloc[each.row])
            for stage in each.stages:
                look = self._look(number, stage, position)
                if look is not None:
                    yield look

    def _position(self, row: int) -> Position:
        cells = self._frame.iloc[row]
        moves = tuple(str(cells["moves"]).split())
        known = bool(cells["history_known"])
        return Position(str(cells["fen"]), str(cells["start_fen"]), moves, int(cells["ply"]), history_known=known)

    def _look(self, number: int, stage: str, position: Position) -> _Look | None:
        """The search of a stage; None where there is none to make, because the move ends the game."""
        if stage == SECOND:
            return _Look(number, stage, position)
        reached = after(position, stage.removeprefix(AFTER))
        if isinstance(reached, Position):
            return _Look(number, stage, reached)
        if reached is not None:
            self._store.add_deep(number, self._oracle_id, reached, self._run, stage)
        self._add_to_total(-1)
        return None

    # -- the loop -----------------------------------------------------------------------------------------------------

    def work(self) -> str:
        """Works until all is searched, or a signal ends it; gives the run's state."""
        self._feed()
        while not self._signals and self._searching:
            self._handle_next()
            self._feed()
        if self._signals:
            self._wind_down()
            return "interrupted"
        if self._held_failures:
            raise self._hopeless()
        return "limited" if self._limited else "finished"

    def _feed(self) -> None:
        while not self._signals and len(self._searching) < 2 * self._oracle.workers:
            look = self._followers.popleft() if self._followers else next(self._coming, None)
            if look is None:
                return
            future = self._oracle.submit(look.position)
            self._searching[look.position_id, look.stage] = future
            future.add_done_callback(self._announcement(look))

    def _announcement(self, look: _Look) -> Callable[[Future[DeepOutcome]], None]:
        return lambda done: self._events.put((look, done))

    def _handle_next(self, timeout: float = _TICK_S) -> None:
        """Waits a moment for a search to be done, records it, and commits and shows figures when that is due."""
        with contextlib.suppress(Empty):
            event = self._events.get(timeout=timeout)
            if event is not None:
                self._take(*event)
        self._store.commit_if_due()
        if time.monotonic() - self._ticked >= _TICK_S:
            self._show()

    def _take(self, look: _Look, future: Future[DeepOutcome]) -> None:
        """Records a search; failures are held back until one succeeds, for an engine that fails always is broken."""
        del self._searching[look.position_id, look.stage]
        if future.cancelled():
            return
        outcome = future.result()
        self._searches += 1
        self._progress.advance()
        if isinstance(outcome, DeepFailure):
            self._failed += 1
            self._held_failures.append((look, outcome))
            if not self._any_scored and len(self._held_failures) >= _HOPELESS_FAILURES:
                raise self._hopeless()
        else:
            self._any_scored = True
            self._nodes += outcome.nodes
            self._store.add_deep(look.position_id, self._oracle_id, outcome, self._run, look.stage)
            if look.stage == SECOND:
                self._follow(look, outcome.best_move)
        if self._any_scored:
            for held, failure in self._held_failures:
                self._store.add_failure(
                    held.position_id, self._oracle_id, failure.reason, failure.attempts, self._run, held.stage
                )
            self._held_failures.clear()

    def _follow(self, look: _Look, best: str | None) -> None:
        """Adds the search after the second look's own move, where the first look named none."""
        row = self._rows[look.position_id]
        for stage in self._stages(row, best):
            if stage not in self._stages(row, None):
                self._add_to_total(1)
                follower = self._look(look.position_id, stage, look.position)
                if follower is not None:
                    self._followers.append(follower)

    def _add_to_total(self, amount: int) -> None:
        self._total += amount
        self._progress.set_total(self._total)

    def _hopeless(self) -> ValueRepairError:
        return ValueRepairError(
            f"the second look ({self._oracle.identity.label}) failed on each of the {len(self._held_failures)} "
            f"positions it was given, at last: {self._held_failures[-1][1].reason}; mend the engine or choose another "
            "with --deep"
        )

    # -- the end ------------------------------------------------------------------------------------------------------

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Within, SIGINT and SIGTERM are counted instead of raised, where that is possible: in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def count(signum: int, frame: object) -> None:
            self._signals += 1
            self._events.put(None)

        before = {number: signal.signal(number, count) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _wind_down(self) -> None:
        """After a signal: no new search begins, those in flight get a short while, a second signal gives them up."""
        for future in list(self._searching.values()):
            future.cancel()
        running = sum(not future.cancelled() for future in self._searching.values())
        self._progress.say(f"stopping: waiting for {running} searches in flight; Ctrl-C again gives them up")
        deadline = time.monotonic() + _GRACE_S
        while self._searching and self._signals < 2 and time.monotonic() < deadline:
            self._handle_next(0.1)
        self._store.commit()
        self._oracle.close(cancel=True)

    def _show(self) -> None:
        """Brings the progress bar up to date."""
        self._ticked = time.monotonic()
        if self._nodes:
            self._progress.note(format_rate(self._nodes / (time.monotonic() - self._started)))
        # A plain log gets its line also while nothing finishes.
        self._progress.advance(0)

    def counts(self) -> dict[str, Any]:
        """What the store keeps of the run: nothing that depends on how often it was interrupted."""
        with store_errors(self._store.path):
            done = second_looks.finished(self._store.connection, self._oracle_id, list(self._rows))
        return {"looked": sum(SECOND in stages for stages in done.values()), "failed": self._failed}

    def summary(self, state: str) -> ConfirmSummary:
        seconds = time.monotonic() - self._started
        return ConfirmSummary(state, self._searches, self._failed, self._nodes, seconds, self._oracle.workers)


def after(position: Position, uci: str) -> Position | DeepResult | None:
    """The position after a move; how the game ended where the move ends it; None where the move is not legal.

    The end is as an engine says it: ``mate 0`` for the side that is mated, 0 centipawns for stalemate, too little
    material, the third occurrence and 50 moves each, counted with the known history.
    """
    board = chess.Board(position.start_fen)
    for move in position.moves:
        board.push_uci(move)
    try:
        chosen = board.parse_uci(uci)
    except ValueError:
        return None
    board.push(chosen)
    if board.is_checkmate():
        return _CHECKMATED
    drawn = board.is_stalemate() or board.is_insufficient_material() or board.is_fifty_moves()
    if drawn or board.is_repetition(3):
        return _DRAWN
    return Position(
        board.fen(),
        position.start_fen,
        (*position.moves, chosen.uci()),
        position.ply + 1,
        history_known=position.history_known,
    )
