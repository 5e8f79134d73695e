"""Mining: samples positions, has the net and the oracle evaluate them, and stores the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.positions import Position
from valuerepair.nets.net import Evaluator
from valuerepair.oracles.oracle import Climb, DeepFailure, Oracle
from valuerepair.progress import Progress
from valuerepair.runs.loop import SearchLoop
from valuerepair.runs.options import MineOptions
from valuerepair.runs.progress import RunProgress
from valuerepair.runs.sampled import SampledPositions, SampledRun, run_sampled
from valuerepair.runs.summary import MineSummary, engine_view
from valuerepair.runs.workers import ArchiveReader, Evaluated, Sampled, net_line
from valuerepair.screening.ladder import Ladder
from valuerepair.screening.recall import recall_line
from valuerepair.store.rows import DeepResult, Run
from valuerepair.store.screening import forget_passage, settle
from valuerepair.store.store import Store

# A new chunk is requested when fewer positions than this wait for an engine: enough to last until it comes.
_FEW_WAITING = 64


def mine(
    paths: Sequence[str],
    options: MineOptions,
    store: Store,
    net: Evaluator,
    oracle: Oracle,
    *,
    progress: Progress | None = None,
) -> MineSummary:
    """Samples `paths`, scores every sampled position by `net` and `oracle`, and stores all results in `store`.

    What the store has is not evaluated again, so the same call resumes a run, however it ended; a different call adds
    to the store. Results are committed about once a second: whatever happens, at most the searches in flight and the
    results of the last second are lost. In the main thread SIGINT and SIGTERM end the run cleanly, after a short wait
    for the searches in flight (a second signal abandons them); the summary's state says so.

    Raises ValueRepairError when no position could be sampled, when the oracle or the net as a whole is broken, and the
    errors of reading, store and oracle; what was scored before is stored.
    """

    def start(reader: ArchiveReader, run: Run) -> _MiningRun:
        return _MiningRun(reader, options, store, net, oracle, run, progress or Progress("mining", quiet=True))

    return run_sampled(paths, options, store, net, oracle.identity, start)


class _MiningRun(SampledRun, SearchLoop[int]):
    """A run of mining: positions come from archives, get the net's value and a deep one; keys are position_ids."""

    def __init__(
        self,
        reader: ArchiveReader,
        options: MineOptions,
        store: Store,
        net: Evaluator,
        oracle: Oracle,
        run: Run,
        progress: Progress,
    ) -> None:
        self._options = options
        line = net_line(net, reader.events)
        progress.jobs = oracle.workers
        self._shown = RunProgress(progress, reader, options.limit, lambda: oracle.under_way)
        self.positions = SampledPositions(reader, options, store, net, oracle.identity, run, line, self._shown)
        pair, self._pairs = self.positions.pair, self.positions.pairs
        super().__init__(store, oracle, pair[1], run, progress, self.positions.failures, reader.events)
        self._ladder = None
        if options.screen is not None:
            seed = options.sample.seed
            self._ladder = Ladder(store, *pair, oracle, options.question, options.screen, seed, run)
        self._waiting: deque[tuple[int, Position]] = deque()
        self._to_screen: dict[int, Position] = {}  # positions that wait for the net's value
        self._judged: dict[int, tuple[float, int]] = {}  # the net's value and first choice, for the ladder
        self._cut = 0
        # Without a ladder: the ids of each chunk. All of these positions are searched, so that at the end audited ones
        # no longer represent those that an earlier run cut.
        self._uncut: list[NDArray[np.int64]] = []

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _end(self) -> str:
        self.positions.check_end()
        if self._limit_reached and not self._drained:
            return "limited"
        for ids in self._uncut:
            settle(self._store, self._oracle_id, ids)
        return "finished"

    @property
    def _is_more_to_come(self) -> bool:
        return bool(self._pairs.open) or not (self._limit_reached or self._drained)

    @property
    def _is_waiting(self) -> bool:
        return bool(self._searching or self._pairs.open)

    @property
    def _drained(self) -> bool:
        """Whether all positions have been read, and none waits for an engine."""
        return self.positions.drained and not self._waiting

    @property
    def _limit_reached(self) -> bool:
        return self._allowed <= 0

    @property
    def _allowed(self) -> float:
        """The number of searches that may still begin."""
        return (self._options.limit or float("inf")) - self._begun

    @property
    def _any_scored(self) -> bool:
        return self.positions.any_scored

    def _feed(self) -> None:
        """Keeps the engines busy, and requests a chunk when few positions wait for them."""
        capacity = self._oracle.capacity
        while self._waiting and len(self._searching) < capacity and not self._limit_reached:
            first = self._waiting[0][0]
            if self._ladder is not None and first in self._judged and not self._ladder.is_ready(first):
                break
            self._search(*self._waiting.popleft())
        # Positions beyond the limit are not requested: sampling and evaluating them would take time from the engines.
        if len(self._waiting) < min(max(_FEW_WAITING, 2 * capacity), self._allowed):
            self.positions.request_chunk()

    def _search(self, position_id: int, position: Position) -> None:
        future: Future[Any]
        judged = self._judged.pop(position_id, None)
        if self._ladder is None or judged is None:
            future = self._oracle.submit(position)
        else:
            future = self._ladder.climb(position_id, position, *judged)
        self._begin(position_id, future)

    # -- events -------------------------------------------------------------------------------------------------------

    def _take_chunk(self, event: Sampled) -> None:
        """Records sampled positions; those without a net value go to the net, those without a deep one to the engines.

        Positions that were scored, were cut or failed before are only counted. With a ladder the net comes first;
        positions beside the games are searched in full.
        """
        ids, batch, new = self.positions.take_chunk(event)
        cut: set[int] = set()
        if self._ladder is None:  # positions that an earlier run cut are searched now
            self._uncut.append(ids)
        else:
            cut = self._ladder.cut_before(ids)
        fresh, wanted = self.positions.earlier.take(ids, new, cut)
        for i in np.flatnonzero(wanted).tolist():
            position_id = int(ids[i])
            # The ladder is fitted to positions of games; of the others training uses every value, candidate or not.
            if self._ladder is None or position_id in self.positions.kinds:
                self._waiting.append((position_id, batch[i]))
            else:
                self._to_screen[position_id] = batch[i]
        if fresh.any():
            self.positions.evaluate(ids[fresh], batch.take(np.flatnonzero(fresh)))

    def _take_values(self, event: Evaluated) -> None:
        super()._take_values(event)
        for i, position_id in enumerate(event.ids.tolist() if self._to_screen else ()):
            position = self._to_screen.pop(position_id, None)
            if position is not None:
                self._judged[position_id] = float(event.values.q[i]), int(event.values.best_move[i])
                self._waiting.append((position_id, position))

    def _take(self, key: int, outcome: DeepResult | Climb) -> None:
        if isinstance(outcome, Climb):
            self._take_climb(key, outcome)
            return
        self._store.add_deep(key, self._oracle_id, outcome, self._run, self.positions.stage(key))
        self._pairs.add_deep(key, outcome.scores)
        forget_passage(self._store, self._oracle_id, key)
        self._nodes += outcome.nodes

    def _take_failure(self, key: int, failure: DeepFailure) -> None:
        self._pairs.drop(key)
        self._take_back(key)
        self._failures.add(key, failure, self.positions.stage(key))

    def _take_back(self, key: int) -> None:
        if self._ladder is not None:
            self._ladder.drop(key)

    def _take_climb(self, position_id: int, climb: Climb) -> None:
        assert self._ladder is not None
        passage = self._ladder.record(position_id, climb)
        self._nodes += passage.nodes
        if passage.searched:
            self._pairs.add_deep(position_id, climb.results[-1].scores)
        else:
            self._cut += 1
            self._pairs.drop(position_id)

    # -- the end ------------------------------------------------------------------------------------------------------

    def summary(self, state: str) -> MineSummary:
        """The results of the run."""
        pair = self.positions.pair
        question = self._options.question
        line = None if self._ladder is None else recall_line(self._store, *pair, question)
        return self.positions.summary(
            state,
            self._started,
            workers=self._oracle.workers,
            nodes=self._nodes,
            cut=self._cut,
            remarks=[line] if line else [],
            turned=engine_view(self._store, pair, question.q_from),
        )

    def _show(self) -> None:
        searching = len(self._searching)
        self.positions.show(self._done + searching, searching=searching, nodes=self._nodes)
