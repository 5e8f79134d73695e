"""The import of evaluations recorded in archives, and the remarks on them at its end: their depth, their players, and
whether their point of view is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.options import CHUNKS, CUTECHESS, RECORD_KINDS, TCEC
from valuerepair.arrays import Floats
from valuerepair.chess import values
from valuerepair.chess.positions import PositionBatch
from valuerepair.nets.net import Evaluator, NetFacts
from valuerepair.oracles.oracle import DeepFailure
from valuerepair.oracles.recorded import RecordedSource, net_values
from valuerepair.progress import Progress
from valuerepair.runs.options import MineOptions
from valuerepair.runs.progress import RunProgress
from valuerepair.runs.sampled import SampledPositions, SampledRun, run_sampled
from valuerepair.runs.summary import ENOUGH_GAMES, RESULT, MineSummary, by_side, view_warning
from valuerepair.runs.workers import ArchiveReader, Evaluated, NetLine, Sampled, net_line
from valuerepair.store.rows import OracleIdentity, Run
from valuerepair.store.store import Store

_NONE_THERE = DeepFailure("no recorded evaluation", 0)

_NAMES_SHOWN = 3
_ROWS = """
FROM deep_values v
JOIN positions p ON p.id = v.position_id
JOIN games g ON g.id = p.game_id
LEFT JOIN net_values n ON :with_net AND n.net_id = :net AND n.position_id = v.position_id
WHERE v.run_id = :run AND v.oracle_id = :oracle AND v.stage = 'full'
"""
_NUMBERS = f"""
SELECT p.side = 'w', {RESULT},
v.cp, v.mate, v.q, n.q, v.depth, v.nodes, g.id {_ROWS}
"""
_PLAYERS = f"SELECT DISTINCT iif(p.side = 'w', g.white, g.black) {_ROWS}"


def import_recorded(
    paths: Sequence[str],
    options: MineOptions,
    store: Store,
    source: RecordedSource,
    net: Evaluator | None = None,
    *,
    progress: Progress | None = None,
) -> MineSummary:
    """Samples `paths`, and stores the evaluations recorded with the positions, and the values of `net`.

    Training chunks have the values of their own net: `source` names it, and `net` is None. No position is searched or
    screened; `options.limit` is the number of evaluations to take in this run. Signals, errors and the rest are as in
    `runs.mine.mine`.
    """
    options = replace(options, sample=replace(options.sample, recorded=source.wanted), screen=None)
    net_facts: NetFacts | None = source.net if net is None else net
    assert net_facts is not None

    def start(reader: ArchiveReader, run: Run) -> _Import:
        line = None if net is None else net_line(net, reader.events)
        bar = progress or Progress("mining", quiet=True)
        return _Import(reader, options, store, source, net_facts, line, run, bar)

    # Without a net, chunks need not be small: batches are not cut up, unless there is a limit.
    uncut = net is None and options.limit is None
    return run_sampled(paths, options, store, net_facts, source.identity, start, uncut=uncut)


class _Import(SampledRun):
    """A run of the import. `line` hands positions to the net, None if the archive has its values."""

    def __init__(
        self,
        reader: ArchiveReader,
        options: MineOptions,
        store: Store,
        source: RecordedSource,
        net: NetFacts,
        line: NetLine | None,
        run: Run,
        progress: Progress,
    ) -> None:
        super().__init__(store, run, progress, reader.events)
        self._source, self._limit = source, options.limit
        run_progress = RunProgress(progress, reader, options.limit)
        self.positions = SampledPositions(reader, options, store, net, source.identity, run, line, run_progress)
        self._taken, self._cut_off = 0, False  # evaluations taken; whether the limit left some out

    @property
    def _allowed(self) -> float:
        """The number of evaluations that may still be taken."""
        return (self._limit or float("inf")) - self._taken

    @property
    def _is_at_work(self) -> bool:
        return self._is_waiting or not (self._allowed <= 0 or self.positions.drained)

    @property
    def _is_waiting(self) -> bool:
        return bool(self.positions.pairs.open)

    def _feed(self) -> None:
        if self._allowed > 0:
            self.positions.request_chunk()

    def _end(self) -> str:
        self.positions.check_end()
        drained = self.positions.drained and not self._cut_off
        return "limited" if self._allowed <= 0 and not drained else "finished"

    def _take_chunk(self, event: Sampled) -> None:
        """Records sampled positions with their evaluations and net values, or passes them to the net for these.

        Positions that were scored or failed before are only counted.
        """
        ids, batch, new = self.positions.take_chunk(event)
        fresh, wanted = self.positions.earlier.take(ids, new, set())
        self._take_evaluations(ids[wanted], batch.take(np.flatnonzero(wanted)))
        if not fresh.any():
            return
        ids, batch = ids[fresh], batch.take(np.flatnonzero(fresh))
        if self.positions.line is None:
            self.positions.add_net_values(Evaluated(ids, net_values(batch)))
        else:
            self.positions.evaluate(ids, batch)

    def _take_evaluations(self, ids: NDArray[np.int64], batch: PositionBatch) -> None:
        """Takes the evaluations recorded with the positions, up to the limit."""
        count = round(min(len(ids), max(self._allowed, 0)))
        self._cut_off = self._cut_off or count < len(ids)
        ids, batch = ids[:count], batch.take(np.arange(count))
        rows, scores = self._source.deep_values(batch)
        self._store.add_deep_columns(ids[rows], self.positions.pair[1], scores, self._run)
        deciding = (scores.cp, scores.mate, scores.win, scores.draw, scores.loss, scores.q)
        for position_id, *deep in zip(ids[rows].tolist(), *deciding, strict=True):
            self.positions.pairs.add_deep(position_id, tuple(deep))
        failures = self.positions.failures
        for position_id in np.delete(ids, rows).tolist():
            self.positions.pairs.drop(position_id)
            failures.add(position_id, _NONE_THERE)
            if not self.positions.any_scored:
                failures.check()
        self._taken += count
        self._progress.advance(count)
        if self.positions.any_scored:
            failures.record()

    def summary(self, state: str) -> MineSummary:
        """The results of the run."""
        notes, turned = remarks(self._store, self._run.id, *self.positions.pair, self._source.identity)
        return self.positions.summary(state, self._started, remarks=notes, turned=turned)

    def _show(self) -> None:
        self.positions.show(self._taken)


def remarks(
    store: Store, run_id: int, net_id: int, oracle_id: int, identity: OracleIdentity
) -> tuple[list[str], list[str]]:
    """The remarks on the evaluations that a run has imported, and warnings if their point of view seems wrong."""
    kind = identity.options["kind"]
    parameters = {"net": net_id, "run": run_id, "oracle": oracle_id, "with_net": kind != CHUNKS}
    white, result, cp, mate, own, net, depth, nodes, games = store.connection.numbers(_NUMBERS, parameters)
    if not len(white):
        return [], []
    view = identity.options.get("view", RECORD_KINDS[kind].view)
    no_wdl = [np.full(len(own), np.nan)] * 3
    q = values.deep_q(np.stack([cp, mate, *no_wdl, own], 1), values.DEFAULT_ALPHA)
    notes = [_extent(depth, nodes), *_mixed_depth(depth)]
    if kind in (CUTECHESS, TCEC) and "by" not in identity.options:
        notes += _players([name for (name,) in store.connection.execute(_PLAYERS, parameters)])
    references = []
    if len(np.unique(games)) >= ENOUGH_GAMES:  # positions of one game have one result
        references.append(("the results of the games", np.where(white == 1, result, -result)))
    if kind != CHUNKS:  # in chunks, the net's value is a part of the evaluation's record
        references.append(("the net", net))
    for name, reference in references:
        if warning := point_of_view(white == 1, q, reference, name, view):
            return notes, [warning]
    return notes, []


def _extent(depth: Floats, nodes: Floats) -> str:
    parts = []
    for name, column in (("depth", depth), ("nodes", nodes)):
        positive = column[column > 0]
        if len(positive):
            missing = f" ({len(column) - len(positive):,} do not say)" if len(positive) < len(column) else ""
            middle = np.median(positive)
            parts.append(f"{name} {positive.min():,.0f} to {positive.max():,.0f}, median {middle:,.0f}{missing}")
        else:
            parts.append(f"{name} not recorded")
    return f"recorded evaluations: {'; '.join(parts)}"


def _mixed_depth(depth: Floats) -> list[str]:
    """A warning if evaluations with and without a depth are mixed, as from archives that could not be read before."""
    unknown = int((depth == 0).sum())
    if unknown in (0, len(depth)):
        return []
    return [
        f"warning: {unknown:,} of {len(depth):,} evaluations do not say how deep they looked and are in one oracle "
        "with the others; recorded:min-depth=1 leaves them out"
    ]


def _players(names: Sequence[str | None]) -> list[str]:
    players = sorted({name for name in names if name})
    if len(players) < 2:
        return []
    named = ", ".join(players[:_NAMES_SHOWN]) + (", ..." if len(players) > _NAMES_SHOWN else "")
    return [
        f"warning: evaluations by {len(players)} players ({named}) are in one oracle, though the centipawns of "
        "players differ; recorded:by=NAME takes those of one player"
    ]


def point_of_view(white: NDArray[np.bool_], q: Floats, reference: Floats, name: str, view: str) -> str | None:
    """A warning if evaluations do not agree with `reference`, both [n] and from the side to move; else None.

    `name` is that of the reference, `view` the point of view that the evaluations were read with.

    A wrong point of view shows by side: White's evaluations taken for the mover's are right with White to move and have
    the wrong sign with Black to move.
    """
    sides = by_side(white, q, reference)
    other_view, viewer = ("white", "White") if view == "mover" else ("mover", "the mover")
    advice = {
        "White": "they may be written from Black's view",
        "Black": f"they seem to be written from {viewer}'s view: recorded:view={other_view}",
        "both": "they are of other positions, or from the other side's view",
    }
    wrong = [side for side, agreed in sides.items() if agreed.disagrees]
    return view_warning(sides, wrong, "the recorded evaluations", name, advice)
