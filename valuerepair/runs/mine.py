"""The writer's loop: it asks for positions, has the net and the oracle evaluate them, and alone writes the store."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess import values
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.chess.progress import Progress
from valuerepair.errors import ValueRepairError
from valuerepair.judge.labelled import PolicyNet, add_priors
from valuerepair.oracles.oracle import Climb, DeepFailure, DeepResult, OracleIdentity, under_way_of
from valuerepair.oracles.recorded import NONE_THERE, RecordedNet, RecordedOracle
from valuerepair.oracles.spec import RECORDED
from valuerepair.question import Question
from valuerepair.runs.failures import Failures, NetFailures
from valuerepair.runs.loop import Loop, stored_run
from valuerepair.runs.options import Evaluator, MineOptions, recorded_options, run_identity, versions_of
from valuerepair.runs.outlook import Counts, Outlook, Pace
from valuerepair.runs.recorded import remarks
from valuerepair.runs.summary import Met, MineSummary, Pairs, Tally, nothing_sampled, numbers, resume_line
from valuerepair.runs.workers import (
    Evaluated,
    Event,
    NetBroke,
    Reader,
    ReadingEnded,
    Sampled,
    net_line,
)
from valuerepair.screening.ladder import Ladder
from valuerepair.screening.recall import recall_line
from valuerepair.store.rows import Known, Run, RunRecord
from valuerepair.store.screening import forget_passage, settle
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from valuerepair.oracles.oracle import Climber, Oracle

# A new chunk is asked for when fewer positions wait for an engine: enough for the time it takes to come.
_FEW_WAITING = 64


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
    whole = isinstance(net, RecordedNet) and options.limit is None
    with Reader(paths, options.sample, whole=whole) as reader:  # it samples from now on
        identity = run_identity(paths, recorded, net, oracle.identity)
        record = RunRecord(identity, options.command, recorded, options.sample.seed, versions_of(net))
        with stored_run(store, record) as run:
            store.commit()
            if whole:
                store.expect_many_rows()
            if run.resumed:
                say(resume_line(run))
            mining = _Mining(reader, options, store, net, oracle, run, progress or Progress("mining", quiet=True), say)
            with mining.interruptions.counted():
                state = mining.work()
                summary = mining.summary(state)
                if state != "interrupted" and summary.scored:
                    sha256, digest = store.names(*mining.pair)
                    question = replace(options.question, net=sha256, oracle=digest, alpha=summary.alpha.value)
                    keep_priors(store, net, *mining.pair, question)
    store.end_run(run, "finished" if state == "finished" else "interrupted", summary.counts())
    if not summary.sampled and state == "finished":
        raise ValueRepairError(nothing_sampled(paths, summary.report))
    return summary


class _Mining(Loop[int]):
    """A run of mining: positions come from archives, get the net's value and a deep one; keys are position_ids."""

    def __init__(
        self,
        reader: Reader,
        options: MineOptions,
        store: Store,
        net: Evaluator,
        oracle: Oracle,
        run: Run,
        progress: Progress,
        say: Callable[[str], None],
    ) -> None:
        self.pair = self._net_id, oracle_id = (
            store.add_net(net.identity, net.history_fill),
            store.add_oracle(oracle.identity),
        )
        failures = Failures(store, oracle_id, run, f"the deep search ({oracle.identity.label})")
        super().__init__(store, oracle, oracle_id, run, progress, failures, reader.events)
        self._options, self._net, self._reader = options, net, reader
        self._ladder = None
        if options.screen is not None:
            self._ladder = Ladder(
                store,
                *self.pair,
                cast("Climber", oracle),
                options.question,
                options.screen,
                options.sample.seed,
                run,
                say,
            )
        self._evaluator = net_line(net, self._events)
        searched = not isinstance(oracle, RecordedOracle)
        pace = Pace(oracle.identity.limits.get("nodes"), cuts=self._ladder is not None) if searched else None
        self._outlook = Outlook(progress, reader, options.limit, pace, under_way_of(oracle))
        self._tally = Tally(options.question)
        given = options.question.alpha
        self._alpha = values.Alpha(given or values.DEFAULT_ALPHA, "given" if given else "default")
        self._waiting: deque[tuple[int, Position]] = deque()
        self._to_screen: dict[int, Position] = {}  # they wait for the net first
        self._judged: dict[int, tuple[float, int]] = {}  # the net's value and first choice, for the ladder
        self._pairs = Pairs(self._tally)
        self._recorded: Recordings | None = None
        if isinstance(oracle, RecordedOracle):  # nothing is searched
            self._recorded = Recordings(store, oracle, self._oracle_id, run, self._pairs, self._take_recorded_failure)
        self._asked, self._in_net, self._refit_at, self._reading = False, 0, 0, True
        self._read_error: Exception | None = None
        self._met = Met()
        self._net_failures = NetFailures(store, net.identity, self._oracle_id, run)
        self._earlier = Earlier(
            store,
            self.pair,
            self._pairs,
            (self._failures, self._net_failures),
            retry_failed=options.retry_failed,
            screening=self._ladder is not None,
        )
        self._sampled = self._valued = self._cut = 0

    # -- the loop -----------------------------------------------------------------------------------------------------

    def work(self) -> str:
        with self._evaluator:
            return super().work()

    def _end(self) -> str:
        if self._read_error is not None:
            if self._any_scored:
                self._failures.record()
            raise self._read_error
        if self._failures.count and not self._any_scored:
            raise self._failures.hopeless()
        if self._net_failures.held:
            raise self._net_failures.hopeless()
        return "limited" if self._limit_reached and not self._drained else "finished"

    @property
    def _is_more_to_come(self) -> bool:
        return bool(self._pairs.open) or not (self._limit_reached or self._drained)

    @property
    def _is_waiting(self) -> bool:
        return bool(self._searching or self._pairs.open)

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
        return (self._options.limit or float("inf")) - self._begun

    @property
    def _any_scored(self) -> bool:
        return bool(len(self._tally) or self._pairs.open)

    def _feed(self) -> None:
        """Keeps the engines busy, and asks for a chunk when few positions wait for them."""
        capacity = self._capacity()
        while self._waiting and len(self._searching) < capacity and not self._limit_reached:
            if self._ladder is not None and not self._ladder.is_ready(self._waiting[0][0]):
                break
            self._search(*self._waiting.popleft())
        # What lies beyond the limit would be sampled and evaluated beside the engines, at their cost.
        few = len(self._waiting) < min(max(_FEW_WAITING, 2 * capacity), self._allowed)
        if self._reading and few and not self._asked and self._in_net < self._evaluator.at_once:
            self._asked = True
            self._reader.ask()

    def _search(self, position_id: int, position: Position) -> None:
        future: Future[Any]
        if self._ladder is None:
            future = self._oracle.submit(position)
        else:
            future = self._ladder.climb(position_id, position, *self._judged.pop(position_id))
        self._begin(position_id, future)

    def _take_event(self, event: Event) -> None:
        if isinstance(event, Evaluated):
            self._take_values(event)
        elif self.interruptions:
            return  # what came from the archives meanwhile is for the next time
        elif isinstance(event, Sampled):
            self._take_chunk(event)
        elif isinstance(event, NetBroke):
            raise event.error
        elif isinstance(event, ReadingEnded):
            self._reading, self._read_error = False, event.error

    # -- events -------------------------------------------------------------------------------------------------------

    def _take_chunk(self, event: Sampled) -> None:
        """Records sampled positions; those without a net value go to the net, those without a deep one to the engines.

        What is scored, cut or has failed before is only counted. With a ladder the net comes first.
        """
        self._asked = False
        ids, batch, new = self._store.add_positions(event.batch, self._run)
        rows = self._met.first(ids)
        ids, batch, new = ids[rows], batch.take(rows), new[rows]
        self._sampled += len(ids)
        cut: set[int] = self._ladder.cut_before(ids) if self._ladder is not None else set()
        if self._ladder is None and self._recorded is None:  # all that was cut is searched now
            settle(self._store, self._oracle_id, ids)
        fresh, wanted = self._earlier.take(ids, new, cut)
        if self._recorded is not None:
            self._take_recorded(self._recorded, ids[wanted], batch.take(np.flatnonzero(wanted)))
        else:
            queued = ((int(ids[i]), batch[i]) for i in np.flatnonzero(wanted).tolist())
            (self._waiting.extend if self._ladder is None else self._to_screen.update)(queued)
        if fresh.any():
            self._in_net += 1
            self._evaluator.submit(ids[fresh], batch.take(np.flatnonzero(fresh)))

    def _take_recorded(self, recorded: Recordings, ids: NDArray[np.int64], batch: PositionBatch) -> None:
        """Takes the evaluations that positions bring along; those beyond the limit are left waiting."""
        count = round(min(len(ids), max(self._allowed, 0)))
        self._waiting += ((int(ids[i]), batch[i]) for i in range(count, len(ids)))
        recorded.take(ids[:count], batch.take(np.arange(count)))
        self._begun += count
        self._done += count
        self._progress.advance(count)
        if self._any_scored:
            self._failures.record()

    def _take_values(self, event: Evaluated) -> None:
        self._in_net -= 1
        self._valued += len(event.ids)
        self._store.add_net_values(event.ids, self._net_id, event.values, self._run)
        self._net_failures.take(event.ids, event.failed)
        for position_id in event.failed:
            self._drop_without_net(position_id)
        position_ids = event.ids.tolist()
        self._pairs.add_net_all(position_ids, event.values.q.tolist())
        for i, position_id in enumerate(position_ids if self._to_screen else ()):
            position = self._to_screen.pop(position_id, None)
            if position is not None:
                self._judged[position_id] = float(event.values.q[i]), int(event.values.best_move[i])
                self._waiting.append((position_id, position))

    def _drop_without_net(self, position_id: int) -> None:
        """The net failed on a position: a search of it is of no use, unless it is at work."""
        self._pairs.drop_net(position_id)
        self._to_screen.pop(position_id, None)
        self._waiting = deque(pair for pair in self._waiting if pair[0] != position_id)

    def _take(self, key: int, outcome: DeepResult | Climb) -> None:
        if isinstance(outcome, Climb):
            self._take_climb(key, outcome)
            return
        self._store.add_deep(key, self._oracle_id, outcome, self._run)
        self._pairs.add_deep(key, numbers(outcome))
        forget_passage(self._store, self._oracle_id, key)
        self._nodes += outcome.nodes
        self._outlook.ended(outcome.nodes, cut=False)

    def _take_failure(self, key: int, failure: DeepFailure) -> None:
        self._pairs.drop(key)
        self._take_back(key)
        self._failures.add(key, failure)

    def _take_recorded_failure(self, position_id: int, failure: DeepFailure) -> None:
        self._take_failure(position_id, failure)
        if not self._any_scored:
            self._failures.check()

    def _take_back(self, key: int) -> None:
        if self._ladder is not None:
            self._ladder.drop(key)

    def _take_climb(self, position_id: int, climb: Climb) -> None:
        assert self._ladder is not None
        passage = self._ladder.take(position_id, climb)
        self._nodes += passage.nodes
        self._outlook.ended(passage.nodes, cut=not passage.searched)
        if passage.searched:
            self._pairs.add_deep(position_id, numbers(climb.results[-1]), 1 / passage.probability)
        else:
            self._cut += 1
            self._pairs.drop(position_id)

    # -- the end ------------------------------------------------------------------------------------------------------

    def summary(self, state: str) -> MineSummary:
        """What the run came to, with the alpha of the store as it is now."""
        self._store.commit()
        alpha = self._store.alpha(self._net_id, self._oracle_id, self._options.question.alpha)
        return MineSummary(
            run_id=self._run.id,
            state=state,
            store=self._store.path,
            report=self._reader.report,
            sampled=max(self._sampled, self._reader.report.positions),  # the sampler is ahead where a run was stopped
            scored=len(self._tally),
            earlier=self._earlier.scored,
            cut=self._cut + self._earlier.cut,
            failed=self._failures.count + self._net_failures.count,
            candidates=self._tally.candidates(alpha.value, self._cut + self._earlier.cut),
            threshold=self._options.question.threshold,
            alpha=alpha,
            q_from=self._options.question.q_from,
            net=self._net.identity.name,
            provider=self._net.provider,
            oracle=self._oracle.identity.label,
            workers=self._oracle.workers,
            nodes=self._nodes,
            seconds=time.monotonic() - self._started,
            recorded=self._recorded is not None,
            remarks=closing_remarks(self._store, *self.pair, self._oracle.identity, self._run, self._options),
        )

    def _show(self) -> None:
        """Brings the progress up to date, when that is due."""
        if not self._outlook.due:
            return
        if len(self._tally) >= self._refit_at:
            self._alpha = self._store.alpha(self._net_id, self._oracle_id, self._options.question.alpha)
            self._refit_at = len(self._tally) + max(50, len(self._tally) // 2)
        candidates = self._tally.candidates(self._alpha.value).count if len(self._tally) else None
        before = self._earlier.scored + self._earlier.cut + self._failures.earlier + self._net_failures.known
        begun, searching = self._done + len(self._searching), len(self._searching)
        counts = Counts(self._valued, before, begun, searching, self._nodes, candidates)
        self._outlook.show(counts, reading=self._reading)


class Earlier:
    """`scored` positions of the run had a deep value before it, `cut` had left the ladder."""

    def __init__(
        self,
        store: Store,
        pair: tuple[int, int],
        pairs: Pairs,
        failures: tuple[Failures, NetFailures],
        *,
        retry_failed: bool,
        screening: bool,
    ) -> None:
        self._store, self._pair, self._pairs = store, pair, pairs
        self._failures, self._net_failures = failures
        self._retry_failed, self._screening = retry_failed, screening
        self.scored = self.cut = 0

    def take(
        self, ids: NDArray[np.int64], new: NDArray[np.bool_], cut: AbstractSet[int]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Takes over what there is of the positions `ids` [n] that are not `new` to the store; `cut` left the ladder.

        Returns bool[n] twice: which are to be given to the net, and which are to get a deep value. What has failed
        before is only counted. With a ladder all that are to be searched go to the net first.
        """
        fresh, wanted = np.ones((2, len(ids)), np.bool_)
        lost = {} if self._retry_failed else self._net_failures.earlier(ids)
        old = np.flatnonzero(~new)
        for i, known in zip(old.tolist(), self._store.known(ids[old], *self._pair), strict=True):
            fresh[i], wanted[i] = self._take(int(ids[i]), known, cut, lost)
        return fresh, wanted

    def _take(
        self, position_id: int, known: Known, cut: AbstractSet[int], lost: Mapping[int, str]
    ) -> tuple[bool, bool]:
        if known.net_q is None and position_id in lost:
            self._net_failures.skip()
            return False, False
        wanted = self._is_wanted(position_id, known, cut)
        if known.deep is not None:
            self._pairs.add_deep(position_id, known.deep, known.weight)
        if known.net_q is not None and (known.deep is not None or wanted):
            self._pairs.add_net(position_id, known.net_q)
        return known.net_q is None or (wanted and self._screening), wanted

    def _is_wanted(self, position_id: int, known: Known, cut: AbstractSet[int]) -> bool:
        """Whether a position is to get a deep value; counts what was done before."""
        if known.deep is not None:
            self.scored += 1
        elif known.failure is not None and not self._retry_failed:
            self._failures.add_earlier(known.failure)
        elif position_id in cut:
            self.cut += 1
        else:
            return True
        return False


def keep_priors(store: Store, net: Evaluator, net_id: int, oracle_id: int, question: Question) -> None:
    """Keeps the priors of the moves that matter in the candidates, if the net has a policy."""
    if not isinstance(net, PolicyNet):
        return
    wanted = ("position_id", "disagreement")
    frame = store.frame(question, only=wanted)
    candidates = frame.loc[frame["disagreement"].abs() >= question.threshold, "position_id"].tolist()
    add_priors(store, net, net_id, oracle_id, candidates)


def closing_remarks(
    store: Store, net_id: int, oracle_id: int, oracle: OracleIdentity, run: Run, options: MineOptions
) -> Sequence[str]:
    """What recorded evaluations, or the screening ladder, have to say at the end."""
    if oracle.kind == RECORDED:
        return remarks(store, run.id, net_id, oracle_id, oracle)
    if options.screen is None:
        return ()
    line = recall_line(store, net_id, oracle_id, options.question)
    return (line,) if line else ()


class Recordings:
    """Takes the recorded evaluations of an oracle into the store and to the net's values."""

    def __init__(
        self,
        store: Store,
        oracle: RecordedOracle,
        oracle_id: int,
        run: Run,
        pairs: Pairs,
        fail: Callable[[int, DeepFailure], None],
    ) -> None:
        self._store, self._oracle, self._oracle_id, self._run = store, oracle, oracle_id, run
        self._pairs, self._fail = pairs, fail

    def take(self, ids: NDArray[np.int64], batch: PositionBatch) -> None:
        """Takes those of the positions `ids`; one that has none is told to `fail`."""
        rows, found = self._oracle.outcomes(batch)
        numbers = ids[rows]
        self._store.add_deep_columns(numbers, self._oracle_id, found, self._run)
        deciding = (found.cp, found.mate, found.win, found.draw, found.loss, found.q)
        self._pairs.add_deep_all(numbers.tolist(), zip(*deciding, strict=True))
        for position_id in np.delete(ids, rows).tolist():
            self._fail(position_id, NONE_THERE)
