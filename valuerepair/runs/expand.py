"""Expansion: searches around the candidates of a store, step by step, where most candidates are expected.

Searches are planned in batches. The plan of a batch depends on the results of all batches except the last one, and on
the neighbours that had come by then, never on what happens to be ready. So the results of a run do not depend on the
speed of the engines, and a resumed run replays its plan and finds in the store what was searched before.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair import stop
from valuerepair.arrays import Moves
from valuerepair.chess.positions import boards, phases
from valuerepair.engines.kinds import kind_of
from valuerepair.errors import check_least
from valuerepair.judge.labelled import PolicyNet
from valuerepair.judge.split import Split
from valuerepair.nets.net import Evaluator, NetValues
from valuerepair.oracles.oracle import Climb, DeepFailure, Oracle
from valuerepair.progress import Progress
from valuerepair.question import Question, is_candidate
from valuerepair.runs.expansion import ExpandSummary, Expansion
from valuerepair.runs.frontier import (
    Frontier,
    PlannedSearch,
    PlannedSearches,
    SourceQueue,
    Waiting,
    Yields,
    groups_of,
    is_drawn,
    uniform,
)
from valuerepair.runs.loop import Failures, SearchLoop
from valuerepair.runs.neighbourhood import CHILDREN, STEPS, Neighbours, batch_of, neighbours
from valuerepair.runs.workers import CHUNK_ROWS, NetBroke, NetThread
from valuerepair.screening.ladder import Ladder
from valuerepair.screening.model import ScreenOptions
from valuerepair.store import reached
from valuerepair.store.reached import ExpansionSource, NeighbourOutcome, Reached
from valuerepair.store.rows import EXPANDED, INFERRED, LINE, DeepColumns, DeepResult, Run, RunRecord
from valuerepair.store.screening import REACHED
from valuerepair.store.store import Store
from valuerepair.text import format_rate

log = logging.getLogger(__name__)

# Positions that are planned together; more for the built-in search, which needs many at once to keep its trees busy.
_BATCH, _BATCH_OF_TREES = 64, 256
# A run ends when the yield of this many batches is too low.
_RECENT = 8
ROUNDS = 2  # the largest number of steps from a sampled candidate
AUDITED = 0.05  # the share of the inferred candidates that is searched anyway
_SEED = 0  # of the order of the candidates

Following = Callable[[Sequence[ExpansionSource]], Sequence[Moves]]


@dataclass(frozen=True)
class ExpandOptions:
    """The options of `expand`.

    The expansion ends after this many searched `positions` in total, over all runs. `screen`: positions that cannot be
    candidates are not searched in full; None: all are. With a `split` only candidates of its part ``train`` are
    sources.

    Raises UsageError for invalid values.
    """

    question: Question = field(default_factory=Question)
    positions: int | None = None
    screen: ScreenOptions | None = field(default_factory=ScreenOptions)
    split: Split | None = None
    command: str = ""

    def __post_init__(self) -> None:
        check_least("--positions", self.positions)


def expand(
    store: Store,
    net: Evaluator,
    oracle: Oracle,
    options: ExpandOptions,
    *,
    progress: Progress | None = None,
    following: Following | None = None,
) -> ExpandSummary:
    """Searches around the sampled candidates of `options.question`, which `net` and `oracle` have found.

    What the store has is not searched again, so the same call resumes a run, however it ended; with more positions it
    goes further. `following` gives the moves that were played after sources, if more of their games is
    known than the store has. In the main thread SIGINT and SIGTERM end the run cleanly.

    Raises ValueRepairError without candidates, when net or oracle as a whole is broken, and the errors of the store;
    what was found before is stored.
    """
    start = Expansion.of(store, net, oracle.identity, options.question, options.split)
    settings = {
        "question": [getattr(options.question, name) for name in ("alpha", "q_from", "threshold")],
        "screen": options.screen and [options.screen.recall, options.screen.audit, options.screen.rungs],
        **({} if options.split is None else {"split": asdict(options.split)}),
    }
    work = {"expand": settings, "pair": start.names, "seed": _SEED}
    with store.running(RunRecord.of(work, options.command, settings, _SEED, net.provider)) as run:
        store.commit()
        if run.resumed:
            log.info(f"resuming: {reached.done_before(store, run):,} positions were searched before")
        bar = progress or Progress("expanding", quiet=True)
        loop = _Expanding(store, net, oracle, options, start, run, bar, following)
        with loop.taking_signals():
            state = loop.work()
            summary = loop.summary(state)
    store.end_run(run, "interrupted" if state == "interrupted" else "finished", summary.counts())
    return summary


@dataclass(frozen=True)
class _Window:
    """Sources, their neighbours, and the net's values of the neighbours."""

    sources: list[ExpansionSource]
    near: Neighbours
    values: NetValues


class _Expanding(SearchLoop[PlannedSearch]):
    """A run of expansion."""

    def __init__(
        self,
        store: Store,
        net: Evaluator,
        oracle: Oracle,
        options: ExpandOptions,
        start: Expansion,
        run: Run,
        progress: Progress,
        following: Following | None,
    ) -> None:
        oracle_id = start.pair[1]
        failures = Failures(store, oracle_id, run, f"the deep search ({oracle.identity.label})")
        super().__init__(store, oracle, oracle_id, run, progress, failures)
        self._options, self._start, self._pair, self._net = options, start, start.pair, net
        self._following = following
        self._net_thread = NetThread(net, self._events)
        self._ladder = None
        if options.screen is not None:
            screen = replace(options.screen, price=start.price(oracle.identity))
            self._ladder = Ladder(store, *self._pair, oracle, start.question, screen, _SEED, run, REACHED)
        self._full_nodes = start.full_nodes(oracle.identity)
        self._batch_size = _BATCH_OF_TREES if kind_of(oracle.identity.kind).built_in else _BATCH
        self._yields, self._frontier = Yields(self._full_nodes), Frontier()
        self._sources = SourceQueue(start.roots(_SEED), ROUNDS)
        self._searches = PlannedSearches()
        self._round = 0
        self._window_requested = False  # the net evaluates the neighbours of a window of sources
        self._window: _Window | None = None
        self._reached_keys: set[int] = set()
        self._stored_keys: set[int] = set()  # the reached ones that this run put into the store
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT)
        self._over, self._stop_reason = False, ""

    # -- the loop -----------------------------------------------------------------------------------------------------

    def work(self) -> str:
        with self._net_thread:
            return super().work()

    @property
    def _is_more_to_come(self) -> bool:
        return not self._over

    def _feed(self) -> None:
        """Plans batches as far as possible, and keeps the engines busy."""
        while not stop.asked() and not self._over and self._searches.may_plan:
            if self._window_requested and self._window is None:
                break  # the plan depends on the neighbours that the net evaluates
            self._plan()
        waiting = self._searches.waiting
        while waiting and len(self._searching) < self._oracle.capacity:
            entry = waiting[0]
            if self._ladder is None or entry.group is None:
                future: Future[Any] = self._oracle.submit(entry.position)
            elif self._ladder.is_ready(entry.position_id):
                future = self._ladder.climb(entry.position_id, entry.position, entry.net_q, entry.net_best)
            else:
                break
            self._begin(waiting.popleft(), future)

    def _take_event(self, event: Any) -> None:
        if isinstance(event, NetBroke):
            raise event.error
        if isinstance(event, _Window):
            self._window = event

    def _take(self, key: PlannedSearch, outcome: DeepResult | Climb) -> None:
        if isinstance(outcome, Climb):
            assert self._ladder is not None
            passage = self._ladder.record(key.position_id, outcome)
            last = outcome.results[-1]
            key.outcome = NeighbourOutcome(
                last.scores if passage.searched else None, passage.nodes, cut=not passage.searched
            )
        else:
            self._store.add_deep(key.position_id, self._oracle_id, outcome, self._run, EXPANDED)
            reached.add_search(self._store, *self._pair, key.position_id, outcome.nodes)
            key.outcome = NeighbourOutcome(outcome.scores, outcome.nodes)
        self._nodes += key.outcome.nodes

    def _take_failure(self, key: PlannedSearch, failure: DeepFailure) -> None:
        self._take_back(key)
        self._failures.add(key.position_id, failure, EXPANDED)
        key.outcome = NeighbourOutcome(None, 0, failed=failure.reason)

    def _take_back(self, key: PlannedSearch) -> None:
        if self._ladder is not None:
            self._ladder.drop(key.position_id)

    def _end(self) -> str:
        finished = super()._end()
        return "limited" if self._stop_reason == "positions" else finished

    # -- the plan -----------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Plans one batch, which may be empty."""
        self._learn(self._searches.take_oldest())
        if self._window is not None:
            window, self._window, self._window_requested = self._window, None, False
            self._look_around(window)
        if not self._stop_reason:
            self._stop_reason = self._reason_to_stop()
        self._request_window()
        batch: list[PlannedSearch] = []
        if not self._stop_reason:
            batch += self._take_audits()
            batch += self._choose(len(batch))
        earlier = reached.outcomes(self._store, *self._pair, [entry.position_id for entry in batch])
        for entry in batch:
            entry.outcome = earlier.get(entry.position_id)
            if entry.outcome is not None:
                self._take_earlier(entry.outcome)
        self._searches.add(batch)
        # The net evaluates no neighbours that could lead to more searches, and no search is planned.
        self._over = not self._window_requested and self._searches.is_over
        if self._over and not self._stop_reason and (len(self._frontier) or self._searches.audits):
            self._stop_reason = "positions"
        self._store.commit_if_due()
        self._show_if_due()

    def _take_earlier(self, outcome: NeighbourOutcome) -> None:
        """Counts an earlier search; searches of another expansion do not count towards this one's limits."""
        self._scored = self._scored or outcome.deep is not None
        if outcome.failed is not None:
            self._failures.add_earlier(outcome.failed)
        if outcome.run_id != self._run.id:
            self._start.tally.planned -= 1

    def _reason_to_stop(self) -> str:
        """The reason to search no more: ``positions`` or ``yield``; empty while it may go on."""
        if self._left == 0:
            return "positions"
        candidates, nodes = (sum(column) for column in zip(*self._recent, strict=True)) if self._recent else (0, 0)
        if len(self._recent) == _RECENT and nodes and self._start.is_poorer(candidates, nodes):
            return "yield"
        return ""

    def _take_audits(self) -> list[PlannedSearch]:
        audits = self._searches.audits
        count = min(self._batch_size, len(audits), self._left)
        self._start.tally.planned += count
        return [audits.popleft() for _ in range(count)]

    @property
    def _left(self) -> int:
        """How many more searches may be planned."""
        if self._options.positions is None:
            return sys.maxsize
        return max(self._options.positions - self._start.tally.planned, 0)

    def _choose(self, audits: int) -> list[PlannedSearch]:
        """The neighbours to search now, in a batch with this many audits; puts them into the store."""
        count = self._batch_size - audits
        chosen = self._frontier.choose(self._yields.expected(), count, self._stored_keys, self._left)
        if chosen is None:
            return []
        self._start.tally.planned += len(chosen)
        return [chosen.search(row, number) for row, number in enumerate(self._add_to_store(chosen).tolist())]

    def _add_to_store(self, chosen: Waiting) -> NDArray[np.int64]:
        """Adds the neighbours that are new to the store; returns the ids of all."""
        self._stored_keys.update(chosen.batch.key.tolist())
        ids, _, _ = self._store.add_positions(chosen.batch, self._run, reached=True)
        rows = reached.not_reached(self._store, *self._pair, ids)
        if len(rows):
            new = chosen.take(rows)
            self._store.add_net_values(ids[rows], self._pair[0], new.values, self._run)
            columns = (ids[rows], new.root, new.parent, new.step, new.distance, new.round, new.drawn)
            ways = (Reached(*way) for way in zip(*(column.tolist() for column in columns), strict=True))
            reached.add_reached(self._store, *self._pair, ways, self._run)
        return ids

    def _learn(self, batch: list[PlannedSearch]) -> None:
        """Learns from a finished batch, in the order of its plan; a candidate found becomes a source itself."""
        nodes = candidates = 0
        for entry in batch:
            assert entry.outcome is not None
            is_hit = self._count(entry, entry.outcome)
            nodes, candidates = nodes + entry.outcome.nodes, candidates + is_hit
            if entry.group is not None and entry.outcome.failed is None:
                self._yields.add(entry.group, found=is_hit, nodes=entry.outcome.nodes)
            if is_hit:
                self._sources.add(entry.position_id, entry.root, entry.round)
        if batch:
            self._recent.append((candidates, nodes))

    def _count(self, entry: PlannedSearch, outcome: NeighbourOutcome) -> bool:
        """Counts a search; returns whether it found a candidate."""
        threshold = self._start.question.threshold
        is_hit = outcome.deep is not None and is_candidate(
            entry.net_q - float(self._start.deep_q([outcome.deep])[0]), threshold
        )
        self._start.tally.add(outcome, found=is_hit, own=outcome.run_id in (None, self._run.id))
        return is_hit

    # -- neighbours ---------------------------------------------------------------------------------------------------

    def _request_window(self) -> None:
        """Has the net evaluate the neighbours of the next sources; only those on lines once no more are searched."""
        steps = (LINE,) if self._stop_reason else STEPS
        if not self._sources:
            return
        self._log_round(self._sources.round)
        sources = self._start.read(self._sources.take_window())
        if self._following is not None:
            moves = self._following(sources)
            sources = [replace(source, following=played) for source, played in zip(sources, moves, strict=True)]
        self._window_requested = True
        self._net_thread.submit_work(lambda: look_around(self._net, sources, steps))

    def _log_round(self, number: int) -> None:
        """Logs the beginning of a round; later sources of the same round join it."""
        if number > self._round:
            self._round, tally = number, self._start.tally
            sources = f"{tally.found:,} found, {tally.inferred:,} inferred" if number > 1 else f"{len(self._sources):,}"
            log.info(f"round {number}: from {sources} candidates")

    def _look_around(self, window: _Window) -> None:
        """Puts neighbours of known value into the store, and the others on the frontier."""
        near = window.near
        keys = near.batch.key
        sampled, lines = reached.met_before(self._store, *self._pair, keys, self._run)
        new = [
            key not in sampled
            and (key not in self._stored_keys if step == LINE else key not in self._reached_keys and key not in lines)
            for key, step in zip(keys.tolist(), near.step, strict=True)
        ]
        rows = np.flatnonzero(new)
        if not len(rows):
            return
        self._reached_keys.update(keys[rows].tolist())
        waiting = self._waiting_of(window).take(rows)
        on_line = waiting.step == LINE
        self._infer(waiting.take(np.flatnonzero(on_line)), [near.deep[i] for i in rows[on_line].tolist()])
        if not self._stop_reason and not on_line.all():
            self._frontier.add(waiting.take(np.flatnonzero(~on_line)), self._yields.expected())

    def _waiting_of(self, window: _Window) -> Waiting:
        near, net_values = window.near, window.values
        sources = [window.sources[i] for i in near.source.tolist()]
        net_q = net_values.q.astype(np.float64)
        expected = net_q - np.where(near.same_side, 1, -1) * np.array([source.deep_q for source in sources])
        phase = phases(boards(near.batch.fen))
        threshold = self._start.question.threshold
        return Waiting(
            near.batch,
            net_values,
            groups_of(near.step, near.distance, near.later, expected, phase, threshold),
            np.array([is_drawn(key) for key in near.batch.key.tolist()], np.bool_),
            np.array([source.root_id for source in sources], np.int64),
            np.array([source.position_id for source in sources], np.int64),
            np.array(near.step, object),
            near.distance,
            np.array([source.round for source in sources], np.int64),
        )

    def _infer(self, line: Waiting, deep: list[DeepResult | None]) -> None:
        """Stores the inferred values of a line; a share of the candidates among them is searched anyway."""
        if not len(line):
            return
        ids = self._add_to_store(replace(line, drawn=np.zeros(len(line), np.bool_)))
        results = [result for result in deep if result is not None]
        new = reached.not_inferred(self._store, self._oracle_id, ids)
        values = DeepColumns.of([results[row] for row in new.tolist()])
        self._store.add_deep_columns(ids[new], self._oracle_id, values, self._run, INFERRED)
        deep_q = self._start.deep_q([result.scores for result in results])
        candidates = is_candidate(line.values.q.astype(np.float64) - deep_q, self._start.question.threshold).tolist()
        for i, (position_id, candidate) in enumerate(zip(ids.tolist(), candidates, strict=True)):
            root, round_ = int(line.root[i]), int(line.round[i])
            audited = candidate and uniform(int(line.batch.key[i]), "audit") < AUDITED
            self._start.tally.inferred += candidate
            self._frontier.families[root] += candidate
            if audited:
                self._searches.audits.append(line.search(i, position_id, is_audit=True))
            elif candidate:
                self._sources.add(position_id, root, round_)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        tally, seconds = self._start.tally, time.monotonic() - self._started
        notes = [f"{tally.found:,} candidates, {tally.inferred:,} inferred"]
        if self._nodes:
            notes.append(format_rate(self._nodes / seconds))
        if self._done:
            total = self._options.positions or tally.planned + len(self._frontier) + len(self._searches.audits)
            begun = len(self._searching) + len(self._searches.waiting)
            self._progress.set_total(self._done + max(total - tally.planned, 0) + begun)
        self._progress.note(", ".join(notes))
        self._progress.advance(0)

    def summary(self, state: str) -> ExpandSummary:
        """The results of the expansion."""
        for entry in self._searches:  # of an interrupted run: searches whose results are not counted yet
            if entry.outcome is not None:
                self._count(entry, entry.outcome)
        self._store.commit()
        seconds, failed = time.monotonic() - self._started, self._failures.count
        why = self._stop_reason or "everything"
        return ExpandSummary(state, why, self._start, seconds, self._nodes, self._oracle.workers, failed)


def look_around(net: Evaluator, sources: list[ExpansionSource], steps: Sequence[str]) -> _Window:
    """The neighbours of sources, and the net's values of them."""
    near = neighbours(sources, preferred(net, sources), steps)
    cuts = range(0, len(near.batch), CHUNK_ROWS)
    parts = [near.batch.take(np.arange(i, min(i + CHUNK_ROWS, len(near.batch)))) for i in cuts]
    return _Window(sources, near, NetValues.concat([net.evaluate(part) for part in parts]))


def preferred(net: Evaluator, sources: Sequence[ExpansionSource]) -> list[Moves]:
    """The moves that the net's policy prefers in each source, the best first; empty for a net without a policy."""
    if not isinstance(net, PolicyNet) or not sources:
        return [np.empty(0, np.uint16)] * len(sources)
    moves, offsets, p = net.priors(batch_of(sources))
    best = []
    for i in range(len(sources)):
        rows = slice(offsets[i], offsets[i + 1])
        order = np.argsort(-p[rows], kind="stable")[: CHILDREN + 1]  # one may be the deep search's move
        best.append(moves[rows][order])
    return best
