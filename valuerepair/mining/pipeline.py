"""The writer's loop: it asks for positions, has the net and the oracle evaluate them, and alone writes the store."""

from __future__ import annotations

import contextlib
import platform
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty
from typing import TYPE_CHECKING

from valuerepair import __version__, values
from valuerepair.archives import total_bytes
from valuerepair.deep.oracle import OWN_Q, DeepFailure
from valuerepair.deep.spec import RECORDED
from valuerepair.errors import ValueRepairError
from valuerepair.mining.options import Evaluator, MineOptions, recorded_options, run_identity
from valuerepair.mining.recorded import has_own_q, remarks
from valuerepair.mining.summary import MineSummary, nothing_sampled, resume_line
from valuerepair.mining.tally import Pairs, Tally, numbers
from valuerepair.mining.workers import (
    CHUNK_ROWS,
    Evaluated,
    Event,
    NetBroke,
    NetThread,
    Reader,
    ReadingEnded,
    Sampled,
    Searched,
    Woken,
)
from valuerepair.positions import Position
from valuerepair.progress import Progress, format_rate
from valuerepair.store import Store
from valuerepair.store.rows import Run, RunRecord

if TYPE_CHECKING:
    from valuerepair.deep import DeepOutcome, Oracle

# A new chunk is asked for when fewer positions wait for an engine: enough for the time it takes to come.
_FEW_WAITING = 64
# One at work and one to go on with, so that a slow net never rests; the engines do not wait for it.
_CHUNKS_IN_NET = 2
_GRACE_S = 10.0
_TICK_S = 0.5
# An engine that fails on so many positions and has not scored one is broken as a whole.
_HOPELESS_FAILURES = 10


def mine(
    paths: Sequence[str],
    options: MineOptions,
    store: Store,
    net: Evaluator,
    oracle: Oracle,
    *,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> MineSummary:
    """Samples `paths`, scores every sampled position by `net` and `oracle`, and keeps all of it in `store`.

    What the store has already is not evaluated again, so the same call goes on where an earlier one stopped, however it
    ended; a different one adds to the store. Results are committed about once a second: whatever happens, at most the
    searches in flight and the last second's are lost. In the main thread SIGINT and SIGTERM end the run cleanly, with
    the searches in flight awaited for a short while (a second signal gives those up); the summary's state says so.

    Raises ValueRepairError when no position could be sampled, when the oracle or the net is broken as a whole, and
    what reading, the store and the oracle raise; what was scored until then is kept.
    """
    recorded = recorded_options(options.sample)
    versions = {"valuerepair": __version__, "python": platform.python_version(), "provider": net.provider}
    with Reader(paths, options.sample) as reader:  # it samples from now on
        identity = run_identity(paths, recorded, net, oracle.identity)
        run = store.begin_run(RunRecord(identity, options.command, recorded, options.sample.seed, versions))
        store.commit()
        if run.resumed:
            say(resume_line(run))
        pipeline = _Pipeline(reader, options, store, net, oracle, run, progress or Progress("mining", quiet=True))
        try:
            with pipeline.signals():
                state = pipeline.work()
                summary = pipeline.summary(state)
        except BaseException:
            # The error that ended the run is the one to tell, not that its end could not be recorded either.
            with contextlib.suppress(ValueRepairError):
                store.end_run(run, "interrupted", run.counts)
            raise
    store.end_run(run, "finished" if state == "finished" else "interrupted", summary.counts())
    if not summary.sampled and state == "finished":
        raise ValueRepairError(nothing_sampled(paths, summary.report))
    return summary


class _Pipeline:
    """One run. All methods run in the thread that owns the store, except callbacks, which only put events."""

    def __init__(
        self,
        reader: Reader,
        options: MineOptions,
        store: Store,
        net: Evaluator,
        oracle: Oracle,
        run: Run,
        progress: Progress,
    ) -> None:
        self._options, self._store, self._net, self._oracle = options, store, net, oracle
        self._run, self._progress = run, progress
        self._net_id = store.add_net(net.identity, net.history_fill)
        self._oracle_id = store.add_oracle(oracle.identity)
        self._recorded = oracle.identity.kind == RECORDED  # nothing is searched
        self._reader, self._events = reader, reader.events
        self._evaluator = NetThread(net, self._events)
        self._bytes = total_bytes(reader.paths)
        self._tally = Tally(options.threshold, options.q_from)
        self._alpha = values.Alpha(options.alpha or values.DEFAULT_ALPHA, "given" if options.alpha else "default")
        self._refit_at = 0
        self._waiting: deque[tuple[int, Position]] = deque()
        self._searching: dict[int, Future[DeepOutcome]] = {}
        self._pairs = Pairs(self._tally)
        self._capacity = 2 * oracle.workers
        self._asked = False
        self._in_net = 0
        self._reading = True
        self._read_error: Exception | None = None
        self._seen = bytearray()
        self._held_failures: list[tuple[int, str, int]] = []
        self._sampled = self._earlier = self._failed = self._failed_before = 0
        self._submitted = self._done = self._nodes = 0
        self._last_failure = ""
        self._signals = 0
        self._started = self._ticked = time.monotonic()

    # -- the loop -----------------------------------------------------------------------------------------------------

    def work(self) -> str:
        """Works until all is done, or the limit or a signal ends it; gives the run's state."""
        with self._evaluator:
            while not self._signals and (self._searching or self._pairs.open or not self._exhausted):
                self._feed()
                self._handle_next()
            return self._end()

    def _end(self) -> str:
        if self._signals:
            self._wind_down()
            return "interrupted"
        if self._read_error is not None:
            self._flush_failures()
            raise self._read_error
        if self._failed and not self._any_scored:
            raise self._hopeless()
        return "limited" if self._limit_reached and not self._drained else "finished"

    @property
    def _exhausted(self) -> bool:
        """Nothing is left to be searched."""
        return self._limit_reached or self._drained

    @property
    def _drained(self) -> bool:
        """Reading and net have nothing more to come."""
        return not (self._reading or self._in_net or self._waiting)

    @property
    def _limit_reached(self) -> bool:
        return self._allowed <= 0

    @property
    def _allowed(self) -> float:
        """Searches that may still begin."""
        return float("inf") if self._options.limit is None else self._options.limit - self._submitted

    @property
    def _any_scored(self) -> bool:
        return bool(len(self._tally) or self._pairs.open)

    def _feed(self) -> None:
        """Keeps the engines busy, and asks for a chunk when few positions wait for them."""
        while self._waiting and len(self._searching) < self._capacity and not self._limit_reached:
            position_id, position = self._waiting.popleft()
            future = self._oracle.submit(position)
            self._searching[position_id] = future
            self._submitted += 1
            future.add_done_callback(self._announcement(position_id))
        # What lies beyond the limit would be sampled and evaluated beside the engines, at their cost.
        few = len(self._waiting) < min(max(_FEW_WAITING, 2 * self._capacity), self._allowed)
        if self._reading and few and not self._asked and self._in_net < _CHUNKS_IN_NET:
            self._asked = True
            self._reader.ask()

    def _announcement(self, position_id: int) -> Callable[[Future[DeepOutcome]], None]:
        return lambda done: self._events.put(Searched(position_id, done))

    def _handle_next(self) -> None:
        """Waits a moment for an event, handles it, and commits and shows figures when that is due."""
        with contextlib.suppress(Empty):
            self._handle(self._events.get(timeout=_TICK_S))
        self._store.commit_if_due()
        if time.monotonic() - self._ticked >= _TICK_S:
            self._show()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Searched):
            self._take_outcome(event)
        elif isinstance(event, Sampled):
            self._take_chunk(event)
        elif isinstance(event, Evaluated):
            self._take_values(event)
        elif isinstance(event, NetBroke):
            raise event.error
        elif isinstance(event, ReadingEnded):
            self._reading, self._read_error = False, event.error

    # -- events -------------------------------------------------------------------------------------------------------

    def _take_chunk(self, event: Sampled) -> None:
        """Records sampled positions; those without a net value go to the net, those without a deep one to the engines.

        What is scored or has failed before is only counted.
        """
        self._asked = False
        ids, batch = self._store.add_positions(event.batch, self._run)
        rows = [i for i, position_id in enumerate(ids.tolist()) if self._is_first(position_id)]
        ids, batch = ids[rows], batch.take(rows)
        self._sampled += len(ids)
        fresh = []
        for i, known in enumerate(self._store.known(ids, self._net_id, self._oracle_id)):
            position_id = int(ids[i])
            if known.net_q is None:
                fresh.append(i)
            if known.deep is not None:
                self._earlier += 1
                self._pairs.add_deep(position_id, known.deep)
            elif known.failure is not None and not self._options.retry_failed:
                self._failed += 1
                self._failed_before += 1
                self._last_failure = known.failure
                continue
            else:
                self._waiting.append((position_id, batch[i]))
            if known.net_q is not None:
                self._pairs.add_net(position_id, known.net_q)
        if fresh:
            self._in_net += 1
            self._evaluator.submit(ids[fresh], batch.take(fresh))

    def _take_values(self, event: Evaluated) -> None:
        self._in_net -= 1
        self._store.add_net_values(event.ids, self._net_id, event.values, self._run)
        for position_id, net_q in zip(event.ids.tolist(), event.values.q.tolist(), strict=True):
            self._pairs.add_net(position_id, net_q)

    def _is_first(self, position_id: int) -> bool:
        """Whether this run meets the position for the first time. One byte a position of the store."""
        if position_id >= len(self._seen):
            self._seen.extend(bytes(position_id - len(self._seen) + CHUNK_ROWS))
        first = not self._seen[position_id]
        self._seen[position_id] = 1
        return first

    def _take_outcome(self, event: Searched) -> None:
        """Records a search; failures are held back until one succeeds, for an engine that fails always is broken."""
        del self._searching[event.id]
        if event.future.cancelled():
            return
        outcome = event.future.result()
        self._done += 1
        self._progress.advance()
        if isinstance(outcome, DeepFailure):
            self._failed += 1
            self._last_failure = outcome.reason
            self._pairs.drop(event.id)
            self._held_failures.append((event.id, outcome.reason, outcome.attempts))
            if not self._any_scored and len(self._held_failures) >= _HOPELESS_FAILURES:
                raise self._hopeless()
        else:
            self._store.add_deep(event.id, self._oracle_id, outcome, self._run)
            self._pairs.add_deep(event.id, numbers(outcome))
            self._nodes += 0 if self._recorded else outcome.nodes
        self._flush_failures()

    def _flush_failures(self) -> None:
        if self._any_scored:
            for position_id, reason, attempts in self._held_failures:
                self._store.add_failure(position_id, self._oracle_id, reason, attempts, self._run)
            self._held_failures.clear()

    def _hopeless(self) -> ValueRepairError:
        return ValueRepairError(
            f"the deep search ({self._oracle.identity.label}) failed on each of the {self._failed} positions it was "
            f"given, at last: {self._last_failure}; mend the engine or choose another with --deep"
            + (", then --retry-failed" if self._failed_before else "")
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
            self._events.put(Woken())

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
        while (self._searching or self._pairs.open) and self._signals < 2 and time.monotonic() < deadline:
            with contextlib.suppress(Empty):
                event = self._events.get(timeout=0.1)
                if isinstance(event, Searched | Evaluated):
                    self._handle(event)
        self._store.commit()
        self._oracle.close(cancel=True)

    def summary(self, state: str) -> MineSummary:
        """What the run came to, with the alpha of the store as it is now."""
        self._store.commit()
        alpha = self._store.alpha(self._net_id, self._oracle_id, self._options.alpha)
        return MineSummary(
            run_id=self._run.id,
            state=state,
            store=self._store.path,
            report=self._reader.report,
            # The sampler is ahead of a run that was stopped.
            sampled=max(self._sampled, self._reader.report.positions),
            scored=len(self._tally),
            earlier=self._earlier,
            failed=self._failed,
            candidates=self._tally.candidates(alpha.value),
            threshold=self._options.threshold,
            alpha=alpha,
            q_from=self._options.q_from,
            net=self._net.identity.name,
            provider=self._net.provider,
            oracle=self._oracle.identity.label,
            workers=self._oracle.workers,
            own_q=self._oracle.identity.kind in OWN_Q or has_own_q(self._oracle.identity),
            nodes=self._nodes,
            seconds=time.monotonic() - self._started,
            remarks=self._remarks(),
        )

    def _remarks(self) -> Sequence[str]:
        if not self._recorded:
            return ()
        return remarks(self._store, self._run.id, self._net_id, self._oracle_id, self._oracle.identity)

    # -- figures ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Brings the progress bar up to date: what is to come, candidates so far, speed."""
        self._ticked = time.monotonic()
        if len(self._tally) >= self._refit_at:
            self._alpha = self._store.alpha(self._net_id, self._oracle_id, self._options.alpha)
            self._refit_at = len(self._tally) + max(50, len(self._tally) // 2)
        expected = self._expected()
        if expected != self._progress.total:
            self._progress.set_total(expected)
        notes = []
        if len(self._tally):
            notes.append(f"{self._tally.candidates(self._alpha.value).count:,} candidates")
        if self._nodes:
            notes.append(format_rate(self._nodes / (time.monotonic() - self._started)))
        if self._reading and self._bytes:
            notes.append(f"read {100 * self._reader.bytes_read / self._bytes:.0f} %")
        self._progress.note(", ".join(notes))
        # A plain log gets its line also while nothing finishes.
        self._progress.advance(0)

    def _expected(self) -> int | None:
        """Searches of this run, done and to come; while archives are read, as many more as the bytes left promise."""
        found = float(self._reader.report.positions)
        if self._reading and self._bytes is None:
            return None
        if self._reading and self._bytes and 0 < self._reader.bytes_read < self._bytes:
            found *= self._bytes / self._reader.bytes_read
        new = round(found) - self._earlier - self._failed_before
        if self._options.limit is not None:
            new = min(new, self._options.limit)
        return max(new, self._done + len(self._searching)) or None
