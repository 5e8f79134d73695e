"""Expansion without an engine: if games have an evaluation at every move, the values of neighbours are recorded."""

from __future__ import annotations

import logging
import time

import numpy as np
from numpy.typing import NDArray

from valuerepair import signals
from valuerepair.archives.options import COMMENT_KINDS, RECORD_KINDS, SELFPLAY, VIEWS, RecordedOptions
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.progress import Progress
from valuerepair.errors import UsageError
from valuerepair.nets.net import Evaluator, NetValues
from valuerepair.oracles.recorded import RecordedSource
from valuerepair.question import is_candidate
from valuerepair.runs.expand import ExpandOptions
from valuerepair.runs.expansion import ExpandSummary, Expansion, KnownGames
from valuerepair.runs.neighbourhood import GAME_PLIES, PARENTS
from valuerepair.store import reached
from valuerepair.store.reached import NeighbourOutcome, Reached
from valuerepair.store.rows import EXPANDED, GAME, PARENT, Run, RunRecord
from valuerepair.store.second_looks import StoredOracle
from valuerepair.store.store import Store

log = logging.getLogger(__name__)

_REACH = max(GAME_PLIES)


def recorded_source(oracle: StoredOracle) -> RecordedSource:
    """The recorded evaluations that the values of a stored oracle were imported from.

    Raises UsageError for kinds that are not recorded with the moves of games.
    """
    options, limits = oracle.options, oracle.limits
    kind = str(options["kind"])
    if kind not in COMMENT_KINDS:
        raise UsageError(
            f"{oracle.label}: {RECORD_KINDS[kind].description} have no games to look around in; "
            "vr mine takes all their positions with --per-game 1000"
        )
    view = next((view for view in VIEWS if view == options.get("view")), None)
    # Comments of vr selfplay have no depth, and none is needed.
    default_depth = None if kind == SELFPLAY or "min-depth" in limits else True
    depth = {"none": False, "any": None}.get(str(options.get("depth")), default_depth)
    least_depth, least_nodes = limits.get("min-depth"), limits.get("min-nodes")
    return RecordedSource.of(RecordedOptions(kind, view, depth, least_depth, least_nodes, options.get("by")))


def expand_recorded(
    store: Store,
    net: Evaluator,
    source: RecordedSource,
    options: ExpandOptions,
    *,
    progress: Progress | None = None,
) -> ExpandSummary:
    """Stores the positions around sampled candidates in their games, with the evaluations that are recorded there.

    The steps are parents and game, at distances up to the largest of `GAME_PLIES`; candidates found this way are
    sources of the next round, up to `rounds` of the options. No engine searches, so budgets, audit and screening have
    no effect. The same call resumes a run. In the main thread SIGINT and SIGTERM end it cleanly.

    Raises UsageError for other steps, ValueRepairError without candidates, and the errors of reading and of the store;
    what was taken before is stored.
    """
    if not {PARENT, GAME} & set(options.steps):
        raise UsageError("recorded evaluations are of moves that were played: give --by parents,game, or one of them")
    start = Expansion.of(store, net, source.identity, options.question, options.split)
    settings = {"steps": options.steps, "rounds": options.rounds, "threshold": options.question.threshold}
    settings |= options.of_split()
    work = {"expand recorded": settings, "question": str(start.question), "pair": start.names}
    games = KnownGames.of(store, start.candidates.tolist())
    log.info(
        f"{source.identity.label}: positions around candidates have recorded values in {len(games):,} games; "
        "no engine runs"
    )
    with store.running(RunRecord.of(work, options.command, settings, provider=net.provider)) as run:
        store.commit()
        bar = progress or Progress("expanding", quiet=True)
        loop = _RecordedExpansion(store, net, source, options, start, run, bar)
        with signals.left_to_loop():
            state = loop.work(games)
            summary = loop.summary(state)
    store.end_run(run, "interrupted" if state == "interrupted" else "finished", summary.counts())
    return summary.with_figures()


class _RecordedExpansion:
    """A run of expansion by recorded evaluations."""

    def __init__(
        self,
        store: Store,
        net: Evaluator,
        source: RecordedSource,
        options: ExpandOptions,
        start: Expansion,
        run: Run,
        progress: Progress,
    ) -> None:
        self._store, self._net, self._source, self._options = store, net, source, options
        self._start, self._run, self._progress = start, run, progress
        self._started = time.monotonic()
        self._reached_keys: set[int] = set()
        self._candidates = {
            (source.game.source, source.game.number, source.ply): source.position_id
            for source in start.read([(number, number, 1) for number in start.candidates.tolist()])
        }

    def work(self, games: KnownGames) -> str:
        """Takes the recorded evaluations of all games; returns the run's state."""
        self._progress.set_total(len(games))
        for batch in games.positions(self._source.wanted):
            self._take_games(batch)
            self._store.commit_if_due()
            if signals.count():
                return "interrupted"
            self._progress.advance(len({(game.source, game.number) for game in batch.origin.game}))
        return "finished"

    def summary(self, state: str) -> ExpandSummary:
        """The results of the run."""
        seconds = time.monotonic() - self._started
        return ExpandSummary(state, "everything", self._start, seconds, nodes=0, workers=None, failed=0)

    def _take_games(self, batch: PositionBatch) -> None:
        """Goes out from the candidates of these games, round after round."""
        places = [(game.source, game.number) for game in batch.origin.game]
        _, game = np.unique([f"{number} {name}" for name, number in places], return_inverse=True)
        places_of_plies = ((*place, ply) for place, ply in zip(places, batch.ply.tolist(), strict=True))
        ids = np.array([self._candidates.get(place, 0) for place in places_of_plies], np.int64)
        self._reached_keys.update(batch.key[ids > 0].tolist())
        sources = np.flatnonzero(ids)
        root = ids.copy()
        for round_ in range(1, self._options.rounds + 1):
            near = _near(game, batch.ply, sources, self._options.steps)
            rows, parents = self._new(batch, near)
            if not len(rows):
                return
            root[rows] = root[parents]
            ids[rows], candidate = self._take(batch, rows, parents, root, ids, round_)
            sources = rows[candidate]

    def _new(self, batch: PositionBatch, near: dict[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows that are reached for the first time, and the rows of their sources."""
        rows = np.array(sorted(near), np.int64)
        keys = batch.key[rows]
        before, _ = reached.met_before(self._store, *self._start.pair, keys, self._run)
        new = []
        for row, key in zip(rows.tolist(), keys.tolist(), strict=True):
            if key not in self._reached_keys and key not in before:
                self._reached_keys.add(key)
                new.append(row)
        return np.array(new, np.int64), np.array([near[row] for row in new], np.int64)

    def _take(
        self,
        batch: PositionBatch,
        rows: NDArray[np.int64],
        parents: NDArray[np.int64],
        root: NDArray[np.int64],
        row_ids: NDArray[np.int64],
        round_: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Stores positions with the net's values and recorded ones; returns their ids [n], and which are candidates.

        `root` and `row_ids` have the root's id and the id of each row of the batch that was reached before.
        """
        start, chosen = self._start, batch.take(rows)
        ids, chosen, _ = self._store.add_positions(chosen, self._run, reached=True)
        steps = [_step(int(batch.ply[a]) - int(batch.ply[b])) for a, b in zip(rows, parents, strict=True)]
        columns = (ids.tolist(), root[rows].tolist(), row_ids[parents].tolist())
        members = [
            Reached(position_id, root_id, parent, step, distance, round_, drawn=True)
            for position_id, root_id, parent, (step, distance) in zip(*columns, steps, strict=True)
        ]
        # First of all, because a position without such a row counts as sampled.
        reached.add_reached(self._store, *start.pair, members, self._run)
        judged = start.judged(self._evaluate(ids, chosen), chosen)
        _, deep = self._source.deep_values(batch.take(rows))  # all of them have one
        self._store.add_deep_columns(ids, start.pair[1], deep, self._run, EXPANDED)
        cells = list(zip(deep.cp, deep.mate, deep.win, deep.draw, deep.loss, deep.q, strict=True))
        candidate = is_candidate(judged - start.deep_q(cells), start.question.threshold)
        for member, cell, is_found in zip(members, cells, candidate.tolist(), strict=True):
            reached.add_search(self._store, *start.pair, member.position_id, 0)
            start.tally.planned += 1
            start.tally.add(NeighbourOutcome(cell, 0), found=is_found)
        return ids, candidate

    def _evaluate(self, ids: NDArray[np.int64], batch: PositionBatch) -> NDArray[np.float32]:
        """[n] the net's Q; values that the store has are not computed again."""
        stored = self._store.stored_values(ids, *self._start.pair)
        q = np.array([np.nan if values.net_q is None else values.net_q for values in stored], np.float32)
        missing = np.flatnonzero(np.isnan(q))
        if len(missing):
            net_values: NetValues = self._net.evaluate(batch.take(missing))
            self._store.add_net_values(ids[missing], self._start.pair[0], net_values, self._run)
            q[missing] = net_values.q
        return q


def _near(
    game: NDArray[np.int64], ply: NDArray[np.int32], sources: NDArray[np.int64], steps: tuple[str, ...]
) -> dict[int, int]:
    """The rows within reach of a source in the same game, with the nearest source of each; the later one of two."""
    near: dict[int, int] = {}
    for source in sources.tolist():
        for row in np.flatnonzero((game == game[source]) & (np.abs(ply - ply[source]) <= _REACH)).tolist():
            plies = int(ply[row] - ply[source])
            best = near.get(row)
            closer = best is None or (abs(plies), -ply[source]) < (abs(int(ply[row] - ply[best])), -ply[best])
            if plies and closer and _step(plies)[0] in steps:
                near[row] = source
    return near


def _step(plies: int) -> tuple[str, int]:
    """The step to a position this many plies later in the game, and its distance."""
    return (PARENT if -plies in PARENTS else GAME), abs(plies)
