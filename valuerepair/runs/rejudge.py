"""The searches of a deeper judge that show how right the first one was, and the comparison of nets by both.

Results go into the store as they come, so that the same command resumes, and one for more positions or another net
searches only what is missing. `judge.rejudged` draws the positions and computes the estimates.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from valuerepair.arrays import Floats, Ids
from valuerepair.chess import values
from valuerepair.chess.origins import GAME
from valuerepair.chess.positions import Position
from valuerepair.engines.kinds import parse_spec
from valuerepair.errors import UsageError, ValueRepairError, check_least
from valuerepair.judge import rejudged
from valuerepair.judge.by_kind import better_judge
from valuerepair.judge.compare import Compared
from valuerepair.judge.compared_nets import ComparedOracle
from valuerepair.judge.rejudged import Rejudged, RejudgedNet, RejudgedPair
from valuerepair.oracles.open import open_oracle
from valuerepair.oracles.oracle import Oracle
from valuerepair.progress import Progress
from valuerepair.runs.loop import Look, StoredSearches
from valuerepair.runs.stored_oracle import is_same_search
from valuerepair.store import second_looks
from valuerepair.store.rows import EXPANDED, FULL, REJUDGED, SECOND, OracleIdentity, Run, RunRecord
from valuerepair.store.second_looks import StoredOracle
from valuerepair.store.store import Store

log = logging.getLogger(__name__)

# With fewer positions, intervals of candidates contain the true value less often than stated.
FEWEST = 100


def judged_again(
    db: str,
    oracle: ComparedOracle,
    compared: Compared,
    deep: str,
    positions: int,
    *,
    command: str,
    quiet: bool,
) -> Compared:
    """The comparison, with that by a deeper judge as `rejudged`. Makes the searches that the store lacks, stores them.

    `deep` is a text of ``--deep``; it judges this many `positions`, or all if they are fewer. Both judges' centipawns
    become Q by one alpha, that of the comparison. Raises KeyboardInterrupt after a signal, UsageError for fewer than
    `FEWEST` positions, an invalid text, or a judge that is not deeper than the first, the errors of `open_oracle`, and
    ValueRepairError if it judged no position.
    """
    check_least("--rejudge-positions", positions, FEWEST)
    try:
        parse_spec(deep)
    except UsageError as error:
        raise UsageError(str(error).replace("--deep", "--rejudge", 1)) from None
    scores = compared.all_kinds
    plan = rejudged.draw(scores.position_id, scores.disagreement, scores.weight, compared.threshold, positions)
    ids = scores.position_id[plan.drawn]
    settings = {"oracle": oracle.digest, "deep": deep}
    with (
        Store.open(db, write=True) as store,
        open_oracle(deep, net_path=None) as deeper,
    ):
        _check_deeper(second_looks.oracle_of(store.connection, oracle.digest), deeper.identity)
        record = RunRecord.of({"command": "rejudge", **settings}, command, {**settings, "positions": positions})
        with store.running(record) as run:
            judged = _judge(store, deeper, run, ids, quiet)
            store.end_run(run, "finished", {"positions": len(judged.ids)})
        label = deeper.identity.label
    deep_q = np.full(len(scores.position_id), np.nan)
    rows = np.searchsorted(scores.position_id, judged.ids)
    deep_q[rows] = values.deep_q(judged.scores, compared.alpha.value, compared.q_from)
    if np.isnan(deep_q).all():
        raise ValueRepairError(f"--rejudge: {label} has no value of any position drawn")
    return replace(compared, rejudged=_estimate(compared, label, plan, deep_q, held_out=oracle.part is not None))


def _estimate(compared: Compared, judge: str, plan: rejudged.Draw, deep_q: Floats, *, held_out: bool) -> Rejudged:
    all_kinds, is_of_game = compared.all_kinds, compared.all_kinds.kind == GAME
    deeper, strata = rejudged.deeper_values(plan, deep_q)
    scores, of_games = all_kinds.of_games(), deeper.of(is_of_game)
    net_q = scores.net_q
    by_game = (scores.weight, scores.game_id, compared.threshold)
    nets: list[RejudgedNet] = [
        rejudged.rejudged_net(net.name, q, scores.deep_q, of_games, plan.stratum[is_of_game], *by_game)
        for net, q in zip(compared.nets, net_q, strict=True)
    ]
    pairs = []
    for i, pair in enumerate(compared.comparisons, 1):
        candidates, mean_abs = rejudged.rejudged_pair((net_q[0], net_q[i]), scores.deep_q, of_games, *by_game)
        rows = all_kinds.by_kind(i, deeper)
        judgement = better_judge(rows, held_out=held_out)
        pairs.append(RejudgedPair(pair.first, pair.second, candidates, mean_abs, rows, judgement))
    drawn, judged = (sum(getattr(stratum, name) for stratum in strata) for name in ("drawn", "judged"))
    positions = sum(stratum.positions for stratum in strata)
    return Rejudged(judge, compared.threshold, positions, drawn, judged, strata, nets, pairs)


def _check_deeper(first: StoredOracle, second: OracleIdentity) -> None:
    """Raises UsageError if the second judge is the first, or the same search with no more nodes."""
    if second.digest == first.digest:
        raise UsageError(f"--rejudge: {second.label} is the first judge; give more nodes")
    before, now = first.limits.get("nodes"), second.limits.get("nodes")
    if is_same_search(first, second) and before and now and now <= before:
        raise UsageError(f"--rejudge: the first judge has {before:,} nodes, this one {now:,}; give more")


# -- searching --------------------------------------------------------------------------------------------------------

# The stages of an oracle's full searches; a value of any of them will do.
_FULL_STAGES = (FULL, EXPANDED, SECOND, REJUDGED)


class _DeeperScores(NamedTuple):
    """Raw `scores` [m, 6] of the positions `ids` [m], ascending, see `chess.values.deep_q`."""

    ids: Ids
    scores: Floats


def _judge(store: Store, oracle: Oracle, run: Run, ids: Ids, quiet: bool) -> _DeeperScores:
    """The oracle's scores of these positions: searches those that the store lacks, and stores the results."""
    number = store.add_oracle(oracle.identity)
    failed = (position for position, stage in second_looks.failed(store.connection, number) if stage == REJUDGED)
    done = {*_read(store, number, ids).ids.tolist(), *failed}
    missing = [position for position in ids.tolist() if position not in done]
    looks = dict(zip((Look(position, REJUDGED) for position in missing), store.positions(missing), strict=True))
    _search(store, oracle, run, looks, quiet)
    return _read(store, number, ids)


def _search(store: Store, oracle: Oracle, run: Run, looks: Mapping[Look, Position], quiet: bool) -> None:
    """Makes searches and stores their results. Raises KeyboardInterrupt after a signal."""
    if not looks:
        return
    label = f"judging again ({oracle.identity.label})"
    with Progress(label, len(looks), "positions", quiet=quiet) as progress:
        loop = StoredSearches(store, oracle, run, progress, label, looks.items())
        with loop.taking_signals():
            state = loop.work()
    store.commit()
    if state == "interrupted":
        log.info("stopped: run the same command again to resume")
        raise KeyboardInterrupt


def _read(store: Store, oracle_id: int, ids: Ids) -> _DeeperScores:
    query = f"""
        SELECT position_id, cp, mate, w, d, l, q FROM deep_values
        WHERE oracle_id = ? AND stage IN ({", ".join("?" * len(_FULL_STAGES))})
        AND position_id IN (SELECT value FROM json_each(?)) GROUP BY position_id ORDER BY position_id
    """
    rows = store.connection.execute(query, (oracle_id, *_FULL_STAGES, json.dumps(ids.tolist()))).fetchall()
    cells = np.array(rows, np.float64).reshape(-1, 7)
    return _DeeperScores(cells[:, 0].astype(np.int64), cells[:, 1:])
