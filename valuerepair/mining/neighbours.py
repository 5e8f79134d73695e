"""Neighbours of candidates: where a net is wrong once, it is often wrong again nearby.

Around a candidate lie its *line* (the positions that the judge expects), its *parents* (one, two and four plies
earlier) and its *children* (after the moves that the net prefers). The judge's value of the candidate, with the sign
changed at each ply, is what they are expected to be worth. Those where the net differs from it by the threshold or more
are searched, lines first, then the nearest, and stored as neighbours, which the rates of an archive leave out.

Measured beside mining 3,000 positions at 20,000 nodes (docs/methods.md, "Neighbours"): 7 to 38 times as many
candidates a node. With the largest differences first they are half to three quarters as many: there the expectation is
wrong. The moves of the game, and neighbours of neighbours, bring no more a node than these.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from valuerepair import stop
from valuerepair.arrays import Floats, Ids, Moves
from valuerepair.chess import values
from valuerepair.chess.board import fens, keys
from valuerepair.chess.origins import GAME, NEIGHBOUR, Origins
from valuerepair.chess.positions import PositionBatch, decode_move, encode_move, joined
from valuerepair.chess.reached import boards_after
from valuerepair.errors import ValueRepairError, check_least
from valuerepair.mining.search import SearchCounts, Task, search
from valuerepair.mining.summary import NOT_DONE, next_command
from valuerepair.nets.net import Evaluator, NetValues
from valuerepair.oracles.oracle import Judge
from valuerepair.progress import Progress
from valuerepair.question import Question, is_candidate
from valuerepair.store import view
from valuerepair.store.alpha import alpha as alpha_of
from valuerepair.store.pairs import net_label
from valuerepair.store.parts import TRAIN
from valuerepair.store.rows import POLICY, Run, RunRecord, signed
from valuerepair.store.store import Store
from valuerepair.text import quantity

log = logging.getLogger(__name__)

LONGEST_LINE = 12  # plies
PARENTS = (1, 2, 4)  # plies before the candidate: successive positions have nearly the same values
CHILDREN = 3  # moves of the policy
_SOURCES_AT_ONCE, _TASKS_AT_ONCE = 32, 64  # few: a signal is obeyed between two calls of the net


@dataclass(frozen=True)
class Expanded:
    """The end of a search around candidates.

    `candidates` were started from; `searched` neighbours have a value of the judge by now, `found` of all neighbours
    are candidates. `done` is what this call searched, `workers` at a time. `state` is ``finished``, ``limited`` (so
    many neighbours as were asked for have been searched) or ``interrupted`` (by a signal).
    """

    state: str
    store: str
    net: str
    judge: str
    alpha: values.Alpha
    question: Question
    candidates: int
    searched: int
    found: int
    done: SearchCounts
    workers: int

    def lines(self) -> list[str]:
        """The summary for a terminal, with what to do next."""
        started = f"{quantity(self.candidates, 'candidate')} for training at {self.question.threshold:g}"
        enough = "; a larger --positions goes on" if self.state == "limited" else ""
        return [
            f"{self.net} against {self.judge}, {self.alpha.source(self.question.q_from)}",
            f"searched around {started}: {self.done.line(self.workers)}",
            f"neighbours: {self.searched:,} searched so far, {self.found:,} of them candidates{enough}",
            "",
            self._next(),
        ]

    def _next(self) -> str:
        if self.state == "interrupted":
            return NOT_DONE
        if self.found:
            return f"next: {next_command('vr books', self.store, self.question.threshold)}"
        return "no further candidates: mine more"


def expand(
    store: Store,
    net: Evaluator,
    judge: Judge,
    question: Question,
    *,
    positions: int | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Expanded:
    """Searches around the candidates of a question that are for training; `net` and `judge` have found them.

    It ends when the store has values of so many neighbours (`positions`), or of all that differ enough. What the store
    has is not searched again, so the same call resumes, however it ended. Raises UsageError for positions below 1,
    ValueRepairError without candidates, and if the judge as a whole is broken.
    """
    check_least("--positions", positions)
    pair = store.add_net(net.identity), store.add_judge(judge.identity)
    named = replace(question, net=net.identity.key, oracle=judge.identity.digest)
    alpha = alpha_of(store, pair, question.alpha)
    asked, bar = replace(named, alpha=alpha.value, beside=True), progress or Progress("expanding", quiet=True)
    sources = _sources(store, asked)
    if not len(sources.ids):
        raise ValueRepairError(
            f"{store.path}: no candidates for training at {question.threshold:g} to start from; mine more, or lower "
            "--threshold"
        )
    work = {"expand": [asked.threshold, alpha.value, asked.q_from], "net": asked.net, "judge": asked.oracle}
    with stop.flag(), store.running(RunRecord.of(work, command, work, net.provider)) as run:
        if before := _searched(store, pair[1]):
            log.info(f"{before:,} neighbours were searched before")
        bar.stage("the net's values of neighbours")
        left = None if positions is None else max(positions - before, 0)
        batch, net_values, parents = _differing(store, net, pair[1], asked, sources, left)
        bar.stage("")
        bar.set_total(len(batch))
        done = search(store, run, judge, pair[1], _tasks(store, run, pair[0], batch, net_values, parents), bar)
        searched = _searched(store, pair[1])
        run.state = "interrupted" if done.stopped else "finished"
        run.counts["searched"] = searched
    found = view.frame(store, asked, only=("kind",), candidates_only=True)["kind"] == NEIGHBOUR
    return Expanded(
        state="interrupted" if done.stopped else "limited" if len(batch) == left else "finished",
        store=store.path,
        net=net_label(store, pair[0]),
        judge=judge.identity.label,
        alpha=alpha,
        question=question,
        candidates=len(sources.ids),
        searched=searched,
        found=int(found.sum()),
        done=done,
        workers=judge.workers,
    )


def _searched(store: Store, judge_id: int) -> int:
    """How many neighbours have a value of the judge."""
    query = """
        SELECT count(*) FROM positions p JOIN deep_values v ON v.judge_id = ? AND v.position_id = p.id
        WHERE p.origin = 'neighbour' AND v.failed IS NULL
    """
    return int(store.connection.execute(query, (judge_id,)).fetchone()[0])


# -- candidates and what lies around them -----------------------------------------------------------------------------


class Sources(NamedTuple):
    """n candidates to start from: their ids, positions, the judge's Q, its lines and the net's best moves."""

    ids: Ids
    batch: PositionBatch
    deep_q: Floats
    line: list[Moves]
    policy: list[Moves]


def _sources(store: Store, asked: Question) -> Sources:
    """The mined candidates that are for training."""
    only = ("position_id", "kind", "part", "deep_q", "pv", "policy")
    frame = view.frame(store, asked, only=only, candidates_only=True)
    frame = frame[(frame["part"] == TRAIN) & (frame["kind"] != NEIGHBOUR)]
    ids = frame["position_id"].to_numpy(np.int64)
    policies = (np.frombuffer(blob or b"", POLICY)["move"] for blob in frame["policy"])
    return Sources(
        ids,
        store.positions(ids),
        frame["deep_q"].to_numpy(np.float64),
        [_line(pv or "") for pv in frame["pv"]],
        [np.asarray(moves[:CHILDREN], np.uint16) for moves in policies],
    )


def _line(pv: str) -> Moves:
    """The moves of a line, up to the first text that is not UCI: recorded lines come from other programs."""
    moves = []
    for uci in pv.split()[:LONGEST_LINE]:
        try:
            moves.append(encode_move(uci))
        except ValueError:
            break
    return np.array(moves, np.uint16)


class Neighbours(NamedTuple):
    """m neighbours as columns [m]: the position, the index of its `source`, its plies from that, and its rank in the
    order of searches."""

    batch: PositionBatch
    source: Ids
    plies: Ids
    rank: Ids

    def take(self, rows: Ids) -> Neighbours:
        """The neighbours at these rows."""
        return Neighbours(self.batch.take(rows), self.source[rows], self.plies[rows], self.rank[rows])


def neighbours(sources: Sources, rows: range) -> Neighbours:
    """All neighbours of the sources in `rows`: line, parents and children of each, each position once.

    Positions where the game is over are left out, and lines end before a move that is not legal.
    """
    around = [(i, *near) for i in rows for near in _around(sources, i)]
    starts = [sources.batch.start_fen[i] for i, *_ in around]
    boards, over = boards_after(starts, [moves for _, moves, *_ in around])
    ended = -1  # a line leads nowhere once the game is over in it
    for k, (i, _, _, rank, _) in enumerate(around):
        over[k] |= ended == i and rank <= LONGEST_LINE
        if over[k] and rank <= LONGEST_LINE:
            ended = i
    board_keys, alive = keys(boards), np.flatnonzero(~over)
    index = alive[np.sort(np.unique(board_keys[alive], return_index=True)[1])]
    found = [around[k] for k in index.tolist()]
    source, plies, ranks = (np.array([row[at] for row in found], np.int64) for at in (0, 2, 3))
    games, played = [sources.batch.origin.game[i] for i in source.tolist()], [played for *_, played in found]
    batch = PositionBatch(
        fens(boards[index]),
        [starts[k] for k in index.tolist()],
        *joined([moves for _, moves, *_ in found]),
        sources.batch.ply[source] + plies.astype(np.int32),
        board_keys[index],
        sources.batch.history_known[source],
        Origins(games, played, None, [NEIGHBOUR] * len(found)),
    )
    return Neighbours(batch, source, plies, ranks)


def _around(sources: Sources, i: int) -> Iterator[tuple[Moves, int, int, str | None]]:
    """The neighbours of source i, including duplicates and positions where the game is over: the moves to each, its
    plies from the source, its rank, and the move that was played in it, if it is of a game."""
    offsets = sources.batch.offsets
    moves, line = sources.batch.moves[offsets[i] : offsets[i + 1]], sources.line[i]
    for plies in range(1, len(line) + 1):
        yield np.concatenate([moves, line[:plies]]), plies, plies, None
    for plies in PARENTS:
        if plies < len(moves):
            played = decode_move(int(moves[-plies])) if sources.batch.origin.kind[i] == GAME else None
            yield moves[:-plies], -plies, LONGEST_LINE + plies, played
    for move in sources.policy[i].tolist():
        if move not in line[:1]:  # the judge's own move leads to the first position of the line
            yield np.append(moves, np.uint16(move)), 1, LONGEST_LINE + 1, None


# -- which of them are searched ---------------------------------------------------------------------------------------


def _differing(
    store: Store, net: Evaluator, judge_id: int, asked: Question, sources: Sources, most: int | None
) -> tuple[PositionBatch, NetValues, list[int]]:
    """The neighbours to search, at most so many, in their order: those where the net differs from what is expected.

    Each position counts once, as its first candidate's. With them the net's values and the ids of the candidates.
    """
    seen = set[int]()
    parts: list[tuple[PositionBatch, NetValues, Ids, Ids]] = []
    for begin in range(0, len(sources.ids), _SOURCES_AT_ONCE):
        if stop.asked():
            break
        rows = range(begin, min(begin + _SOURCES_AT_ONCE, len(sources.ids)))
        near = _new(store, judge_id, neighbours(sources, rows), seen)
        if not len(near.source):
            continue
        net_values = net.evaluate(near.batch)
        expected = np.where(near.plies % 2, -1, 1) * sources.deep_q[near.source]
        differing = np.flatnonzero(is_candidate(net_values.q - expected, asked.threshold))
        near = near.take(differing)
        parts.append((near.batch, _rows(net_values, differing), near.rank, sources.ids[near.source]))
    if not parts:
        return PositionBatch.concat([]), NetValues.concat([]), []
    batches, all_values, ranks, parents = zip(*parts, strict=True)
    order = np.argsort(np.concatenate(ranks), kind="stable")[:most]
    in_order = _rows(NetValues.concat(all_values), order)
    return PositionBatch.concat(batches).take(order), in_order, np.concatenate(parents)[order].tolist()


def _new(store: Store, judge_id: int, near: Neighbours, seen: set[int]) -> Neighbours:
    """Those that were neither mined nor searched as neighbours, nor `seen` before (keys, which are added to), with the
    history that they have in the store, if any.

    A mined position without a value was left out by screening; others stand for it.
    """
    query = """
        SELECT j.key, p.id, p.origin <> 'neighbour' OR EXISTS (
            SELECT 1 FROM deep_values v WHERE v.judge_id = ? AND v.position_id = p.id AND v.failed IS NULL
        ) FROM json_each(?) j JOIN positions p ON p.key = j.value
    """
    known = store.connection.execute(query, (judge_id, json.dumps(signed(near.batch.key)))).fetchall()
    is_done = {row for row, _, done in known if done}
    of_store = {row: number for row, number, done in known if not done}
    rows = [row for row, key in enumerate(near.batch.key.tolist()) if row not in is_done and key not in seen]
    seen |= {*near.batch.key[rows].tolist()}
    place = {row: len(near.batch) + i for i, row in enumerate(of_store)}
    both = PositionBatch.concat([near.batch, store.positions([*of_store.values()])])
    batch = both.take(np.array([place.get(row, row) for row in rows], np.int64))
    return near.take(np.array(rows, np.int64))._replace(batch=batch)


def _rows(net_values: NetValues, rows: Ids) -> NetValues:
    return NetValues(*(getattr(net_values, name)[rows] for name in NetValues.__slots__))


def _tasks(
    store: Store, run: Run, net_id: int, batch: PositionBatch, net_values: NetValues, parents: list[int]
) -> Iterator[Task]:
    """The searches of these neighbours, which are put into the store some before they begin."""
    for begin in range(0, len(batch), _TASKS_AT_ONCE):
        rows = np.arange(begin, min(begin + _TASKS_AT_ONCE, len(batch)))
        some = batch.take(rows)
        ids = store.add_positions(some, run, parents[begin : begin + _TASKS_AT_ONCE])
        store.add_net_values(ids, net_id, _rows(net_values, rows))
        yield from (Task(number, position) for number, position in zip(ids.tolist(), some, strict=True))
