"""Expansion without an engine: where games have an evaluation at every move, a candidate's neighbours are known."""

from __future__ import annotations

import logging
import time

import numpy as np
from numpy.typing import NDArray

from valuerepair import signals
from valuerepair.archives.options import COMMENT_KINDS, KINDS, SELFPLAY, RecordedOptions, View
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.progress import Progress
from valuerepair.errors import UsageError
from valuerepair.nets.net import Evaluator, NetValues
from valuerepair.oracles.recorded import RecordedSource
from valuerepair.question import is_candidate
from valuerepair.runs.expand import ExpandOptions
from valuerepair.runs.expansion import ExpandSummary, Expansion
from valuerepair.runs.known_games import KnownGames
from valuerepair.runs.neighbourhood import GAME, GAME_PLIES, PARENT, PARENTS
from valuerepair.store import reached
from valuerepair.store.reached import NeighbourOutcome, Reached
from valuerepair.store.rows import EXPANDED, Run, RunRecord
from valuerepair.store.second_looks import StoredOracle
from valuerepair.store.store import Store

log = logging.getLogger(__name__)

_REACH = max(GAME_PLIES)


def recorded_source(oracle: StoredOracle) -> RecordedSource:
    """The evaluations that the values of a stored oracle were taken from.

    Raises UsageError for kinds that are not written at the moves of games.
    """
    given, least = oracle.options, oracle.limits
    kind = str(given["kind"])
    if kind not in COMMENT_KINDS:
        raise UsageError(
            f"{oracle.label}: {KINDS[kind].what} have no games to look around in; "
            "vr mine takes all their positions with --per-game 1000"
        )
    view: View | None = "mover" if given.get("view") == "mover" else "white" if given.get("view") == "white" else None
    # Comments of vr selfplay have no depth, and none is needed.
    usual = None if kind == SELFPLAY or "min-depth" in least else True
    depth = {"none": False, "any": None}.get(str(given.get("depth")), usual)
    options = RecordedOptions(kind, view, depth, least.get("min-depth"), least.get("min-nodes"), given.get("by"))
    return RecordedSource.of(options)


def expand_recorded(
    store: Store,
    net: Evaluator,
    source: RecordedSource,
    options: ExpandOptions,
    *,
    progress: Progress | None = None,
) -> ExpandSummary:
    """Takes the positions around sampled candidates in their games, with the evaluations that are recorded there.

    The steps are parents and game, a position's distance from a candidate at most `GAME_PLIES` has; the search
    continues from those found, for as many rounds as asked. Nothing is searched by an engine: budgets, audit and
    screening have no effect. The same call goes on where an earlier one stopped. In the main thread SIGINT and SIGTERM
    end it cleanly.

    Raises UsageError for other steps, ValueRepairError where there is no candidate, and what reading and the store
    raise; what was taken until then is kept.
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
        taking = _Taking(store, net, source, options, start, run, progress or Progress("expanding", quiet=True))
        with signals.left_to_loop():
            state = taking.work(games)
            summary = taking.summary(state)
    store.end_run(run, "interrupted" if state == "interrupted" else "finished", summary.counts())
    return summary.with_figures()


class _Taking:
    """A run that takes what is recorded."""

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
        self._seen: set[int] = set()
        self._candidates = {
            (each.game.source, each.game.number, each.ply): each.position_id
            for each in start.read([(number, number, 1) for number in start.candidates.tolist()])
        }

    def work(self, games: KnownGames) -> str:
        """Takes what is recorded in all games; gives the run's state."""
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
        there = ((*place, ply) for place, ply in zip(places, batch.ply.tolist(), strict=True))
        ids = np.array([self._candidates.get(place, 0) for place in there], np.int64)
        self._seen.update(batch.key[ids > 0].tolist())
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
        """The rows that are reached for the first time, and their sources' rows."""
        rows = np.array(sorted(near), np.int64)
        keys = batch.key[rows]
        before, _ = reached.met_before(self._store, *self._start.pair, keys, self._run)
        fresh = []
        for row, key in zip(rows.tolist(), keys.tolist(), strict=True):
            if key not in self._seen and key not in before:
                self._seen.add(key)
                fresh.append(row)
        return np.array(fresh, np.int64), np.array([near[row] for row in fresh], np.int64)

    def _take(
        self,
        batch: PositionBatch,
        rows: NDArray[np.int64],
        parents: NDArray[np.int64],
        root: NDArray[np.int64],
        known: NDArray[np.int64],
        round_: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Stores positions with their values by net and record; returns their ids [n], and which are candidates."""
        start, some = self._start, batch.take(rows)
        ids, some, _ = self._store.add_positions(some, self._run, reached=True)
        steps = [_step(int(batch.ply[a]) - int(batch.ply[b])) for a, b in zip(rows, parents, strict=True)]
        columns = (ids.tolist(), root[rows].tolist(), known[parents].tolist())
        members = [
            Reached(number, of, parent, step, distance, round_, drawn=True)
            for number, of, parent, (step, distance) in zip(*columns, steps, strict=True)
        ]
        # At once: a position that nobody reached is one that was sampled.
        reached.add_reached(self._store, *start.pair, members, self._run)
        judged = start.judged(self._evaluate(ids, some), some)
        _, deep = self._source.deep_values(batch.take(rows))  # all of them have one
        self._store.add_deep_columns(ids, start.pair[1], deep, self._run, EXPANDED)
        cells = list(zip(deep.cp, deep.mate, deep.win, deep.draw, deep.loss, deep.q, strict=True))
        candidate = is_candidate(judged - start.deep_q(cells), start.question.threshold)
        for member, cell, found in zip(members, cells, candidate.tolist(), strict=True):
            reached.add_search(self._store, *start.pair, member.position_id, 0)
            start.tally.planned += 1
            start.tally.add(NeighbourOutcome(cell, 0), found=found)
        return ids, candidate

    def _evaluate(self, ids: NDArray[np.int64], batch: PositionBatch) -> NDArray[np.float32]:
        """[n] the net's Q; values that the store has are not computed again."""
        before = self._store.known(ids, *self._start.pair)
        q = np.array([np.nan if known.net_q is None else known.net_q for known in before], np.float32)
        missing = np.flatnonzero(np.isnan(q))
        if len(missing):
            net_values: NetValues = self._net.evaluate(batch.take(missing))
            self._store.add_net_values(ids[missing], self._start.pair[0], net_values, self._run)
            q[missing] = net_values.q
        return q


def _near(
    game: NDArray[np.int64], ply: NDArray[np.int32], sources: NDArray[np.int64], steps: tuple[str, ...]
) -> dict[int, int]:
    """The rows within reach of a source in the same game, and the nearest source of each; of two the later one."""
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
