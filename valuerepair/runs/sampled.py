"""The common part of mining and of importing recorded evaluations: positions come from archives and get net values."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from valuerepair import stop
from valuerepair.chess import values
from valuerepair.chess.origins import GAME, KINDS, Kind
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.judge.labelled import PolicyNet, add_priors
from valuerepair.judge.split import split_file
from valuerepair.nets.net import NetFacts
from valuerepair.question import Question, is_candidate
from valuerepair.rates import Rate, weighted, wilson
from valuerepair.runs.beside import lines_of
from valuerepair.runs.loop import Failures, Loop
from valuerepair.runs.options import MineOptions, mining_work, sampling_options
from valuerepair.runs.progress import RunCounts, RunProgress
from valuerepair.runs.summary import (
    MineSummary,
    SeenPositions,
    ValuePairs,
    nothing_sampled,
    resume_line,
)
from valuerepair.runs.workers import ArchiveReader, Evaluated, Event, NetBroke, NetLine, ReadingEnded, Sampled
from valuerepair.store.columns import KIND, both_q, columns
from valuerepair.store.queries import net_label
from valuerepair.store.rows import EXPANDED, FULL, OracleIdentity, Run, RunRecord, StoredValues
from valuerepair.store.screening import passage_columns
from valuerepair.store.selection import audit_weights
from valuerepair.store.store import Store

log = logging.getLogger(__name__)


class SampledRun(Loop):
    """A run that samples positions."""

    positions: SampledPositions

    def _take_chunk(self, event: Sampled) -> None:
        """Records sampled positions, and passes on those that have no values yet."""
        raise NotImplementedError

    def summary(self, state: str) -> MineSummary:
        """The results of the run."""
        raise NotImplementedError

    def work(self) -> str:
        with self.positions.line or nullcontext():
            return super().work()

    def _take_event(self, event: Event) -> None:
        if isinstance(event, Evaluated):
            self._take_values(event)
        elif stop.asked():
            return  # positions that were read in the meantime are left to the next run
        elif isinstance(event, Sampled):
            self._take_chunk(event)
        else:
            self.positions.take_ending(event)

    def _take_values(self, event: Evaluated) -> None:
        self.positions.take_evaluated(event)


def run_sampled(
    paths: Sequence[str],
    options: MineOptions,
    store: Store,
    net: NetFacts,
    oracle: OracleIdentity,
    start: Callable[[ArchiveReader, Run], SampledRun],
    *,
    uncut: bool = False,
) -> MineSummary:
    """Begins a run by `start`, which gets a reader of `paths` and the run's record; does its work and records its end.

    With `uncut` the reader's batches are not cut into chunks. Raises ValueRepairError when no position could be
    sampled, and the errors of the run, of reading and of the store; what was scored before is stored. Raises UsageError
    for kinds of positions that need a policy if the net has none.
    """
    sampling = sampling_options(options.sample)
    work = mining_work(paths, sampling, net, oracle)
    record = RunRecord.of(work, options.command, sampling, options.sample.seed, net.provider)
    lines = lines_of(net, options.sample)
    with (
        # The reader samples from here on.
        ArchiveReader(paths, options.sample, uncut=uncut, net=lines) as reader,
        store.running(record) as run,
    ):
        store.commit()
        if run.resumed:
            log.info(resume_line(run))
        sampled = start(reader, run)
        with sampled.taking_signals():
            state = sampled.work()
            summary = sampled.summary(state)
            if state != "interrupted" and summary.scored:
                keep_priors(store, net, sampled.positions.pair, options.question, beside=bool(summary.beside))
    store.end_run(run, "finished" if state == "finished" else "interrupted", summary.counts())
    if not summary.sampled and state == "finished":
        raise ValueRepairError(nothing_sampled(paths, summary.report))
    return summary


def keep_priors(store: Store, net: NetFacts, pair: tuple[int, int], question: Question, *, beside: bool) -> None:
    """Stores the priors of the moves that matter in candidates of `pair`, net and oracle, if the net has a policy; with
    `beside` also in candidates beside the games."""
    if not isinstance(net, PolicyNet):
        return
    sha256, digest = store.names(*pair)
    of_pair = replace(question, net=sha256, oracle=digest, alpha=store.alpha(*pair, question.alpha).value)
    question = replace(of_pair, expanded="searched" if beside else "no")
    frame = store.frame(question, only=("position_id", "disagreement", "kind"))
    wanted = is_candidate(frame["disagreement"], question.threshold) & frame["kind"].notna()
    add_priors(store, net, *pair, frame.loc[wanted, "position_id"].tolist())


class SampledPositions:
    """The sampled positions of a run, from the archive through the net into the store, until both values are known.

    `line` passes positions to the net, None if the archive has its values. `pair` are net and oracle in the store.
    """

    def __init__(
        self,
        reader: ArchiveReader,
        options: MineOptions,
        store: Store,
        net: NetFacts,
        oracle: OracleIdentity,
        run: Run,
        line: NetLine | None,
        shown: RunProgress,
    ) -> None:
        self._reader, self._options, self._store, self._run = reader, options, store, run
        self._net, self._oracle, self.line, self._shown = net, oracle, line, shown
        self.pair = store.add_net(net.identity, net.history_fill), store.add_oracle(oracle)
        self.failures = Failures(store, self.pair[1], run, f"the deep search ({oracle.label})")
        self.kinds = dict[int, Kind]()  # of the run's positions beside the games
        self.pairs = ValuePairs(options.question)
        self.earlier = EarlierValues(
            store,
            self.pair,
            self.pairs,
            self.failures,
            self.kinds,
            screening=options.screen is not None,
        )
        self._reading = True
        self._read_error: Exception | None = None
        self._chunk_requested, self._in_net = False, 0
        self._seen, self._sampled, self._sampled_twice, self._valued = SeenPositions(), 0, 0, 0
        alpha = options.question.alpha
        self._alpha = alpha or values.DEFAULT_ALPHA
        self._refit_at = self._found = 0

    @property
    def drained(self) -> bool:
        """Whether reading has ended and the net has no positions left."""
        return not (self._reading or self._in_net)

    @property
    def any_scored(self) -> bool:
        """Whether a position has a deep value."""
        return bool(self.pairs.count or self.pairs.open)

    def request_chunk(self) -> None:
        """Requests a chunk of positions, unless one is already requested or the net has enough to do."""
        if self._reading and not self._chunk_requested and (self.line is None or self._in_net < self.line.at_once):
            self._chunk_requested = True
            self._reader.request_chunk()

    def take_ending(self, event: object) -> None:
        """Records that reading has ended; raises the error of a net that broke."""
        if isinstance(event, NetBroke):
            raise event.error
        if isinstance(event, ReadingEnded):
            self._reading, self._read_error = False, event.error

    def take_chunk(self, event: Sampled) -> tuple[NDArray[np.int64], PositionBatch, NDArray[np.bool_]]:
        """Records sampled positions; returns ids and rows that the run had not seen, and which are new to the store."""
        self._chunk_requested = False
        ids, batch, new = self._store.add_positions(event.batch, self._run)
        for position_id, kind in zip(ids.tolist(), batch.origin.kind, strict=True):
            if kind != GAME:
                self.kinds[position_id] = kind
            elif self.kinds.pop(position_id, None):  # it was sampled beside a game before, and now in a game
                self._store.take_over_expanded(np.array([position_id], np.int64), self.pair[1])
        rows = self._seen.first(ids)
        self._sampled += len(rows)
        self._sampled_twice += len(ids) - len(rows)
        return ids[rows], batch.take(rows), new[rows]

    def stage(self, position_id: int) -> str:
        """The stage of a position's deep value: positions beside the games are kept apart."""
        return EXPANDED if position_id in self.kinds else FULL

    def evaluate(self, ids: NDArray[np.int64], batch: PositionBatch) -> None:
        """Passes positions to the net, which answers with an `Evaluated` event."""
        assert self.line is not None
        self._in_net += 1
        self.line.submit(ids, batch)

    def take_evaluated(self, event: Evaluated) -> None:
        """Records the net's answer."""
        self._in_net -= 1
        self.add_net_values(event)

    def add_net_values(self, evaluated: Evaluated) -> None:
        """Records values of the net."""
        self._valued += len(evaluated.ids)
        self._store.add_net_values(evaluated.ids, self.pair[0], evaluated.values, self._run)
        for position_id, q in zip(evaluated.ids.tolist(), evaluated.values.q.tolist(), strict=True):
            self.pairs.add_net(position_id, q)

    def check_end(self) -> None:
        """Raises the error that broke a run as a whole; called at the end of a run that was not interrupted."""
        if self._read_error is not None:
            if self.any_scored:
                self.failures.record()
            raise self._read_error
        if self.failures.count and not self.any_scored:
            raise self.failures.hopeless()

    def summary(
        self,
        state: str,
        started: float,
        *,
        workers: int | None = None,
        nodes: int = 0,
        cut: int = 0,
        remarks: Sequence[str],
        turned: Sequence[str],
    ) -> MineSummary:
        """The results of the run, by the present alpha of the store. The run `started` at this time of the monotonic
        clock; `workers` is the number of searches at a time, None if nothing was searched; `cut` positions left the
        ladder in this run; `remarks` and `turned` are as in `MineSummary`."""
        self._store.commit()
        question = self._options.question
        alpha = self._store.alpha(*self.pair, question.alpha)
        report = replace(  # a position beside a game that came later in a game was sampled twice
            self._reader.report,
            positions=self._reader.report.positions - self._sampled_twice,
            duplicates=self._reader.report.duplicates + self._sampled_twice,
        )
        rates = self._rates(alpha.value)
        return MineSummary(
            run_id=self._run.id,
            state=state,
            store=self._store.path,
            report=report,
            sampled=max(self._sampled, report.positions),  # in a stopped run the sampler is ahead
            scored=self.pairs.count,
            earlier=self.earlier.scored + self.earlier.cut,
            cut=cut + self.earlier.cut,
            failed=self.failures.count,
            candidates=rates.pop(GAME, wilson(0, 0)),
            beside=rates,
            threshold=question.threshold,
            alpha=alpha,
            q_from=question.q_from,
            net=net_label(self._store.connection, self.pair[0]),
            provider=self._net.provider,
            oracle=self._oracle.label,
            workers=workers,
            nodes=nodes,
            seconds=time.monotonic() - started,
            remarks=remarks,
            turned=turned,
            pair=self._store.pair_options(*self.pair) if self.pairs.count else (),
            split=split_file(self._store),
        )

    def _rates(self, alpha: float) -> dict[Kind, Rate]:
        """The rate of candidates among the run's positions that have both values, by kind, by this alpha.

        Audited positions represent those of the run that the ladder cut (`store.selection.audit_weights`).
        """
        question, connection = self._options.question, self._store.connection
        read = columns(connection, *self.pair, ("game_id", KIND), "searched")
        net_q, deep_q = both_q(connection, *self.pair, alpha, question.q_from, "searched")
        ids, weights = read["position_id"], np.ones(len(net_q))
        disagreement = net_q - deep_q
        passages = passage_columns(self._store, *self.pair)
        left_ladder = self._seen.among(passages.ids) & ~np.isnan(passages.cut_at)
        probability = np.where(passages.searched, passages.probability, np.inf)[left_ladder]
        _, of_rows, of_left = np.intersect1d(ids, passages.ids[left_ladder], return_indices=True)
        weights[of_rows] = audit_weights(probability)[of_left]
        usable = self._seen.among(ids) & ~np.isnan(disagreement)
        return {
            kind: weighted(is_candidate(disagreement[rows], question.threshold), weights[rows], read["game_id"][rows])
            for kind in KINDS
            for rows in [usable & (read[KIND] == kind)]
            if rows.any()
        }

    def show(self, begun: int, *, searching: int = 0, nodes: int = 0) -> None:
        """Updates the progress: `begun` deep values, `searching` of them in flight."""
        self._found += self.pairs.found(self._alpha)
        if (count := self.pairs.count) >= self._refit_at:
            self._alpha = self._store.alpha(*self.pair, self._options.question.alpha).value
            self._refit_at = count + max(50, count // 2)
            self._found = sum(rate.count for rate in self._rates(self._alpha).values())
        candidates = self._found if count else None
        before = self.earlier.scored + self.earlier.cut + self.failures.earlier
        counts = RunCounts(self._valued, before, begun, searching, nodes, candidates)
        self._shown.show(counts, reading=self._reading)


class EarlierValues:
    """Values that the store had before the run. `scored` positions had a deep value; a ladder had `cut` others."""

    def __init__(
        self,
        store: Store,
        pair: tuple[int, int],
        pairs: ValuePairs,
        failures: Failures,
        kinds: Mapping[int, Kind],
        *,
        screening: bool,
    ) -> None:
        self._store, self._pair, self._pairs, self._failures = store, pair, pairs, failures
        self._kinds, self._screening = kinds, screening
        self.scored = self.cut = 0

    def take(
        self, ids: NDArray[np.int64], new: NDArray[np.bool_], cut: AbstractSet[int]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Uses the values that the store has of the positions `ids` [n], except `new` ones; a ladder has cut `cut`.

        Returns bool[n] twice: which positions go to the net, and which get a deep value. Earlier failures are only
        counted. With a ladder, all positions to search go to the net first.
        """
        fresh, wanted = np.ones((2, len(ids)), np.bool_)
        in_games = np.array([position_id not in self._kinds for position_id in ids.tolist()], np.bool_)
        of_games, others = np.flatnonzero(~new & in_games), np.flatnonzero(~new & ~in_games)
        if len(of_games):
            self._store.take_over_expanded(ids[of_games], self._pair[1])
        for old, stage in ((of_games, FULL), (others, EXPANDED)):
            all_stored = self._store.stored_values(ids[old], *self._pair, stage)
            for i, stored in zip(old.tolist(), all_stored, strict=True):
                fresh[i], wanted[i] = self._take(int(ids[i]), stored, cut)
        return fresh, wanted

    def _take(self, position_id: int, stored: StoredValues, cut: AbstractSet[int]) -> tuple[bool, bool]:
        wanted = self._is_wanted(position_id, stored, cut)
        if stored.deep is not None:
            self._pairs.add_deep(position_id, stored.deep)
        if stored.net_q is not None and (stored.deep is not None or wanted):
            self._pairs.add_net(position_id, stored.net_q)
        climbs = self._screening and position_id not in self._kinds
        return stored.net_q is None or (wanted and climbs), wanted

    def _is_wanted(self, position_id: int, stored: StoredValues, cut: AbstractSet[int]) -> bool:
        """Whether a position gets a deep value now; if not, counts the earlier result."""
        if stored.deep is not None:
            self.scored += 1
        elif position_id in cut:
            self.cut += 1
        else:
            return True
        return False
