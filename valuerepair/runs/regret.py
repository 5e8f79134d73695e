"""The searches that regret is computed from: the moves that two nets choose, and a judge's values after moves that
differ.

Results go into the store as they come, so that the same command resumes, and one for more positions or another second
net searches only what is missing. `judge.regret` computes regret from them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from valuerepair.arrays import Ids
from valuerepair.chess import values
from valuerepair.chess.origins import GAME
from valuerepair.chess.positions import Position
from valuerepair.chess.progress import Progress
from valuerepair.engines.kinds import parse_spec
from valuerepair.errors import UsageError, check_least
from valuerepair.judge.compare import ComparedScores, Remeasured
from valuerepair.judge.compared_nets import ComparedNet, ComparedOracle, words_for
from valuerepair.judge.regret import Regret, RegretRow, equal_match, regret_rows, sample
from valuerepair.judge.verdict import alpha_of_second
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import Net
from valuerepair.nets.options import split_key
from valuerepair.oracles.open import open_oracle, without_remarks
from valuerepair.oracles.oracle import Oracle
from valuerepair.question import Question
from valuerepair.runs.loop import Look, StoredSearches, after
from valuerepair.runs.stored_oracle import net_files, open_same
from valuerepair.store import second_looks
from valuerepair.store.rows import AFTER, CHOSEN, ENGINE_FILL, DeepResult, Run, RunRecord
from valuerepair.store.store import Store

log = logging.getLogger(__name__)

POSITIONS = 500


@dataclass(frozen=True)
class RegretOptions:
    """Both nets search `positions` of each kind with this many `nodes`; `deep` is the judge of the moves, a ``--deep``
    text, None for the oracle of the comparison. Raises UsageError for numbers that are too small, and for an invalid
    text."""

    nodes: int = 100
    positions: int = POSITIONS
    deep: str | None = None

    def __post_init__(self) -> None:
        if self.nodes < 2:
            raise UsageError(f"--regret {self.nodes}: a search has at least 2 nodes")
        check_least("--regret-positions", self.positions)
        if self.deep is not None:
            parse_spec(self.deep)


def search(
    store: Store, oracle: Oracle, run: Run, looks: Mapping[Look, Position], label: str, unit: str, *, quiet: bool
) -> None:
    """Makes searches and stores their results; `label` names them in the progress and in the error if all fail.

    Raises KeyboardInterrupt after a signal.
    """
    if not looks:
        return
    with Progress(label, len(looks), unit, quiet=quiet) as progress:
        loop = StoredSearches(store, oracle, run, progress, label, looks.items())
        with loop.taking_signals():
            state = loop.work()
    store.commit()
    if state == "interrupted":
        log.info("stopped: run the same command again to resume")
        raise KeyboardInterrupt


def measure_regret(
    db: str,
    nets: Sequence[ComparedNet],
    oracle: ComparedOracle,
    remeasured: Remeasured,
    options: RegretOptions,
    *,
    command: str = "",
    quiet: bool = False,
    **net_options: Any,
) -> Remeasured:
    """The comparison with the regret of each net after the first. All nets search with Q on the flattest net's scale.

    Makes the searches that the store lacks, and stores them. `net_options` are those of `nets.net.open_net`. Raises
    KeyboardInterrupt after a signal, UsageError for a net that cannot search and for a judge that cannot be opened.
    """
    scores = remeasured.all_kinds
    weighted_rows = scores.weight > 0
    ids = sample(scores.position_id[weighted_rows], scores.kind[weighted_rows], options.positions)
    # No scale is above 1, where a search cuts Q off. Rounded, so that scales, and so searches, stay the same if the
    # comparison has one more position.
    ratios = [1.0, *(1.0 if pair.q_scale is None else pair.q_scale.value for pair in remeasured.comparisons)]
    scales = [round(ratio / max(ratios), 2) for ratio in ratios]
    settings = {
        "nets": [net.key for net in nets],
        "oracle": oracle.digest,
        "nodes": options.nodes,
        "deep": options.deep,
    }
    record = RunRecord.of({"command": "regret", **settings}, command, {**settings, "positions": options.positions})
    with Store.open(db, write=True) as store, store.running(record) as run:
        work = _RegretSearches(store, oracle, run, ids, quiet)
        with _opened_judge(store, oracle, options.deep) as judge:  # a missing judge is noticed before a net runs
            played = [
                work.play(net, scale, options.nodes, net_options) for net, scale in zip(nets, scales, strict=True)
            ]
            moves = [{number: str(move) for number, (move, _) in of_net.items()} for of_net in played]
            differing = {move for other in moves[1:] for move in _differing(moves[0], other)}
            after_q = work.judge(judge, differing, nets[0], remeasured)
        store.end_run(run, "finished", {"positions": len(ids)})
    regret = []
    of_games = set(scores.position_id[scores.kind == GAME].tolist())
    for pair, scale, own, other in zip(remeasured.comparisons, scales[1:], moves[1:], played[1:], strict=True):
        rows = _rows(scores, moves[0], own, after_q.q)
        searches = [time for side in (played[0], other) for number, (_, time) in side.items() if number in of_games]
        judged = [after_q.milliseconds.get(move, 0) for move in _differing(moves[0], own) if move[0] in of_games]
        match = equal_match(rows, sum(searches) / 1000 / max(len(searches), 1), (sum(searches) + sum(judged)) / 1000)
        q_scales = scales[0], scale
        regret.append(Regret(pair.first, pair.second, options.nodes, q_scales, after_q.judge, rows, match))
    return replace(remeasured, regret=regret)


def _differing(first: Mapping[int, str], second: Mapping[int, str]) -> list[tuple[int, str]]:
    """Both moves of each position in which two nets choose different ones."""
    differing = [number for number in first if second.get(number, first[number]) != first[number]]
    return [(number, moves[number]) for number in differing for moves in (first, second)]


def _rows(
    scores: ComparedScores,
    first: Mapping[int, str],
    second: Mapping[int, str],
    after_q: Mapping[tuple[int, str], float],
) -> list[RegretRow]:
    """The rows of the positions in which both nets have chosen a move."""
    ids = sorted(first.keys() & second.keys())
    different = np.array([first[number] != second[number] for number in ids], np.bool_)
    after_first, after_second = (
        np.array([after_q.get((number, moves[number]), np.nan) for number in ids]) for moves in (first, second)
    )
    rows = np.searchsorted(scores.position_id, ids)
    facts = scores.weight[rows], scores.game_id[rows], scores.kind[rows]
    return regret_rows(different, (after_first, after_second), *facts)


class _JudgedMoves(NamedTuple):
    """Q after moves, for the side that moved, and the milliseconds of the searches, by position and move; the judge."""

    q: dict[tuple[int, str], float]
    milliseconds: dict[tuple[int, str], int]
    judge: str


class _RegretSearches:
    """The searches of one comparison, in a store that is open for writing."""

    def __init__(self, store: Store, oracle: ComparedOracle, run: Run, ids: Ids, quiet: bool) -> None:
        self._store, self._oracle, self._run, self._quiet = store, oracle, run, quiet
        self._positions = dict(zip(ids.tolist(), store.positions(ids), strict=True))

    def play(
        self, net: ComparedNet, scale: float, nodes: int, net_options: Mapping[str, Any]
    ) -> dict[int, tuple[str, int]]:
        """By position, the move that a search with the net chooses, and the milliseconds of the search."""
        from valuerepair.nets.net import fill_of, open_net

        if net.history_fill == ENGINE_FILL:
            raise UsageError(f"--regret: {net.name} is an engine's evaluation, and no search is made with it")
        path = net.path or net_files(self._store, []).get(split_key(net.key)[0], "")
        if not path:
            raise UsageError(f"--regret: the file of {net.name}, which has to search, is not known; give --net FILE")
        with (
            open_net(path, history_fill=fill_of(net.history_fill), **net_options) as opened,
            _player(opened, scale, nodes) as player,
        ):
            oracle_id = self._store.add_oracle(player.identity)
            stored = self._stored(oracle_id)
            looks = {Look(number, CHOSEN): position for number, position in self._positions.items()}
            missing = {look: position for look, position in looks.items() if look not in stored}
            self._search(player, missing, f"{net.name}: moves", "positions")
            results = self._stored(oracle_id).items()
        return {look.position_id: result for look, result in results if look.stage == CHOSEN and result[0]}

    def judge(
        self, judge: Oracle, moves: set[tuple[int, str]], net: ComparedNet, remeasured: Remeasured
    ) -> _JudgedMoves:
        """The judge's values after these moves, given as (position_id, move)."""
        oracle_id = self._store.add_oracle(judge.identity)
        self._search(judge, self._looks(oracle_id, moves), "judging", "moves")
        judging = second_looks.oracle_of(self._store.connection, judge.identity.digest)
        words = words_for(self._store, net, self._oracle)
        question = Question(
            net=words, oracle=self._oracle.digest, alpha=remeasured.alpha.value, q_from=remeasured.q_from
        )
        frame = self._store.frame(question, only=("position_id",))
        first = second_looks.oracle_of(self._store.connection, self._oracle.digest)
        alpha = alpha_of_second(self._store, frame, net.id, first, judging)
        afters = second_looks.searches_after_moves(self._store.connection, oracle_id)
        q = -values.deep_q(afters.scores, alpha.value, remeasured.q_from)
        times = {(n, stage.removeprefix(AFTER)): time for (n, stage), (_, time) in self._stored(oracle_id).items()}
        by_move = dict(zip(zip(afters.ids.tolist(), afters.moves, strict=True), q.tolist(), strict=True))
        return _JudgedMoves(by_move, times, judging.label)

    def _looks(self, oracle_id: int, moves: set[tuple[int, str]]) -> dict[Look, Position]:
        """The searches after moves that are still to be made; a move that ends the game is recorded without one."""
        stored = self._stored(oracle_id)
        failed = second_looks.failed(self._store.connection, oracle_id)
        looks = {}
        for number, move in sorted(moves):
            look = Look(number, AFTER + move)
            if look in stored or look in failed:
                continue
            reached = after(self._positions[number], move)
            if isinstance(reached, DeepResult):
                self._store.add_deep(number, oracle_id, reached, self._run, look.stage)
            elif reached is not None:
                looks[look] = reached
        self._store.commit()
        return looks

    def _stored(self, oracle_id: int) -> dict[Look, tuple[str, int]]:
        """The searches of these positions that the store has of this oracle: best move and milliseconds of each."""
        query = """
            SELECT position_id, stage, best_move, time_ms FROM deep_values
            WHERE oracle_id = ? AND position_id IN (SELECT value FROM json_each(?))
        """
        rows = self._store.connection.execute(query, (oracle_id, json.dumps([*self._positions]))).fetchall()
        return {Look(number, stage): (best, milliseconds) for number, stage, best, milliseconds in rows}

    def _search(self, oracle: Oracle, looks: Mapping[Look, Position], label: str, unit: str) -> None:
        search(self._store, oracle, self._run, looks, label, unit, quiet=self._quiet)


@contextmanager
def _opened_judge(store: Store, oracle: ComparedOracle, deep: str | None) -> Iterator[Oracle]:
    """The judge: the oracle of the comparison, unless `deep` names another; closed at the end."""
    if deep is not None:
        with open_oracle(deep, net_path=None) as named:
            yield named
        return
    stored = second_looks.oracle_of(store.connection, oracle.digest)
    judge, reason = open_same(stored, net_files(store, []), None)
    if judge is None:
        raise UsageError(
            f"--regret: {stored.label} judges the moves, and it cannot be run again: {reason}; "
            "name another judge: --deep stockfish:nodes=20000"
        )
    with judge:
        yield judge


def _player(net: Net, scale: float, nodes: int) -> Oracle:
    """A search as in `vr match`, of many positions at once."""
    from valuerepair.oracles.mcts_oracle import open_mcts

    with without_remarks():  # it is not a deep search
        return open_mcts(SearchParams(history_fill=net.history_fill, q_scale=scale), nodes, None, net)
