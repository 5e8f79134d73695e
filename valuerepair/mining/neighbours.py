"""Neighbours of candidates: where a net is wrong once, it is often wrong again nearby.

Around a candidate lie its *line* (the positions that the judge expects), its *parents* (one, two and four plies
earlier), its *children* (after the moves that the net prefers) and other plies of its *game*. The judge's value of the
candidate, with the sign changed at each ply, is what they are expected to be worth. Those where the net differs from it
by the threshold or more are searched, lines first, then the nearest, and stored as neighbours, which the rates of an
archive leave out. Candidates among them have neighbours, too, for one more round.

Measured around the 66 candidates of data/sample.db at 0.35, all 1,675 neighbours searched: of the 592 that differ so
much 38 % are candidates (of lines 83 %, one or two plies away 62 %, farther ones 22 %), of the others 5 %. The largest
differences are no better: there the expectation is wrong.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair import stop
from valuerepair.arrays import Flags, Floats, Ids, Moves
from valuerepair.chess import values
from valuerepair.chess.board import fens, keys
from valuerepair.chess.origins import NEIGHBOUR, Origins
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
from valuerepair.store.rows import POLICY, Run, RunRecord, signed, unsigned
from valuerepair.store.store import Store
from valuerepair.text import format_duration, format_rate, quantity

log = logging.getLogger(__name__)

ROUNDS = 2  # the largest number of steps from a mined candidate
LONGEST_LINE = 12  # plies
PARENTS = (1, 2, 4)  # plies before the candidate
CHILDREN = 3  # moves of the policy
# Plies before and after the candidate; before it, `PARENTS` are left out. Distant ones have gaps, because successive
# positions have nearly the same values.
GAME_PLIES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
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
        done, threshold = self.done, self.question.threshold
        speed = f", {format_rate(done.nodes / done.seconds)}" if done.nodes and done.seconds else ""
        enough = "; a larger --positions goes on" if self.state == "limited" else ""
        return [
            f"{self.net} against {self.judge}, {self.alpha.source(self.question.q_from)}",
            f"around {quantity(self.candidates, 'candidate')} at {threshold:g}: {done.searched:,} positions searched, "
            f"{self.workers} at once, {done.failed:,} failed; {format_duration(done.seconds)}{speed}",
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
    start, total, tried = _sources(store, asked, 0), SearchCounts(), set[int]()
    if not len(start.ids):
        raise ValueRepairError(
            f"{store.path}: no candidates for training at {question.threshold:g} to start from; mine more, or lower "
            "--threshold"
        )
    work = {"expand": [asked.threshold, alpha.value, asked.q_from], "net": asked.net, "judge": asked.oracle}
    with stop.flag(), store.running(RunRecord.of(work, command, work, net.provider)) as run:
        if before := _searched(store, pair[1]):
            log.info(f"{before:,} neighbours were searched before")
        for number in range(ROUNDS):
            left = None if positions is None else positions - _searched(store, pair[1])
            if total.stopped or (left is not None and left <= 0):
                break
            bar.stage(f"the net's values of neighbours, step {number + 1}")
            sources = _sources(store, asked, number) if number else start
            near = _differing(store, net, pair[1], asked, sources, left, tried)
            tried |= {*near.batch.key.tolist()}
            bar.stage("")
            bar.set_total(bar.done + len(near.parent))
            done = search(store, run, judge, pair[1], _tasks(store, run, pair[0], near), bar)
            total = _sum(total, done)
        searched = _searched(store, pair[1])
        is_limited = positions is not None and searched >= positions
        run.state = "interrupted" if total.stopped else "finished"
        run.counts["searched"] = searched
    found = view.frame(store, asked, only=("kind",), candidates_only=True)["kind"] == NEIGHBOUR
    return Expanded(
        state="interrupted" if total.stopped else "limited" if is_limited else "finished",
        store=store.path,
        net=net_label(store, pair[0]),
        judge=judge.identity.label,
        alpha=alpha,
        question=question,
        candidates=len(start.ids),
        searched=searched,
        found=int(found.sum()),
        done=total,
        workers=judge.workers,
    )


def _sum(first: SearchCounts, second: SearchCounts) -> SearchCounts:
    return SearchCounts(
        first.searched + second.searched,
        first.failed + second.failed,
        first.nodes + second.nodes,
        first.seconds + second.seconds,
        second.stopped,
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


def _sources(store: Store, asked: Question, steps: int) -> Sources:
    """The candidates for training that were mined (0 steps), or that are neighbours of these (1)."""
    only = ("position_id", "kind", "part", "deep_q", "pv", "policy")
    frame = view.frame(store, asked, only=only, candidates_only=True)
    frame = frame[(frame["part"] == TRAIN) & ((frame["kind"] == NEIGHBOUR) == bool(steps))]
    if steps:
        query = """
            SELECT n.id FROM positions n JOIN positions c ON c.id = n.parent_id
            WHERE n.origin = 'neighbour' AND c.origin <> 'neighbour'
        """
        frame = frame[frame["position_id"].isin([row[0] for row in store.connection.execute(query)])]
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


class Near(NamedTuple):
    """A neighbour: the moves to it, its plies from the candidate, its rank in the order of searches, and the move that
    was played in it, if any."""

    moves: Moves
    plies: int
    rank: int
    played: str | None = None


class Neighbours(NamedTuple):
    """m neighbours as columns [m]: the position, the index of its `source`, and the rest as in `Near`."""

    batch: PositionBatch
    source: Ids
    plies: Ids
    rank: Ids


def neighbours(sources: Sources, rows: range, games: Sequence[Moves]) -> Neighbours:
    """All neighbours of the sources in `rows`: line, parents, children and game of each, each position once.

    `games` [n] are the moves of each source's game, from its start, as far as they are known; empty for a source that
    is not of a game. Positions where the game is over are left out, and lines end before a move that is not legal.
    """
    of_rows = [(i, near) for i in rows for near in _around(sources, i, games[i])]
    starts = [sources.batch.start_fen[i] for i, _ in of_rows]
    boards, over = boards_after(starts, [near.moves for _, near in of_rows])
    ended = -1  # a line leads nowhere once the game is over in it
    for k, (i, near) in enumerate(of_rows):
        over[k] |= ended == i and near.rank <= LONGEST_LINE
        if over[k] and near.rank <= LONGEST_LINE:
            ended = i
    board_keys, alive = keys(boards), np.flatnonzero(~over)
    index = alive[np.sort(np.unique(board_keys[alive], return_index=True)[1])]
    found = [of_rows[k] for k in index.tolist()]
    source = np.array([i for i, _ in found], np.int64)
    plies = np.array([near.plies for _, near in found], np.int64)
    games_of, played = [sources.batch.origin.game[i] for i, _ in found], [near.played for _, near in found]
    batch = PositionBatch(
        fens(boards[index]),
        [starts[k] for k in index.tolist()],
        *joined([near.moves for _, near in found]),
        sources.batch.ply[source] + plies.astype(np.int32),
        board_keys[index],
        sources.batch.history_known[source],
        Origins(games_of, played, None, [NEIGHBOUR] * len(found)),
    )
    return Neighbours(batch, source, plies, np.array([near.rank for _, near in found], np.int64))


def _around(sources: Sources, i: int, game: Moves) -> Iterator[Near]:
    """The neighbours of source i, including duplicates and positions where the game is over."""
    offsets = sources.batch.offsets
    moves, line = sources.batch.moves[offsets[i] : offsets[i + 1]], sources.line[i]

    def in_game(plies: int) -> Near:
        at = len(moves) + plies
        played = decode_move(int(game[at])) if at < len(game) else None
        return Near(game[:at] if len(game) else moves[:at], plies, LONGEST_LINE + abs(plies), played)

    for plies in range(1, len(line) + 1):
        yield Near(np.concatenate([moves, line[:plies]]), plies, plies)
    yield from (in_game(-plies) for plies in PARENTS if plies < len(moves))
    for move in sources.policy[i].tolist():
        if move not in line[:1]:  # the judge's own move leads to the first position of the line
            yield Near(np.append(moves, np.uint16(move)), 1, LONGEST_LINE + 1)
    if len(game):
        yield from (in_game(-plies) for plies in GAME_PLIES if plies < len(moves) and plies not in PARENTS)
        yield from (in_game(plies) for plies in GAME_PLIES if len(moves) + plies <= len(game))


def _games(store: Store, sources: Sources) -> list[Moves]:
    """[n] the moves of each source's game, as far as the store knows them; empty for a source that is not of a game."""
    query = """
        SELECT p.id, g.moves, g.played FROM json_each(?) j JOIN positions p ON p.id = j.value
        JOIN positions g ON g.game_id = p.game_id AND g.origin = 'game' WHERE p.origin = 'game'
    """
    longest: dict[int, Moves] = {}
    for number, blob, played in store.connection.execute(query, (json.dumps(sources.ids.tolist()),)):
        moves = np.frombuffer(blob, "<u2").astype(np.uint16)
        if played:
            moves = np.append(moves, np.uint16(encode_move(played)))
        if len(moves) > len(longest.get(number, ())):
            longest[number] = moves
    games: list[Moves] = []
    for i, number in enumerate(sources.ids.tolist()):
        game = longest.get(number, np.empty(0, np.uint16))
        own = sources.batch.moves[sources.batch.offsets[i] : sources.batch.offsets[i + 1]]
        games.append(game if np.array_equal(game[: len(own)], own) else np.empty(0, np.uint16))
    return games


# -- which of them are searched ---------------------------------------------------------------------------------------


class Differing(NamedTuple):
    """m neighbours to search, in this order: position, the net's values, and the id of the candidate [m]."""

    batch: PositionBatch
    values: NetValues
    parent: list[int]


def _differing(
    store: Store, net: Evaluator, judge_id: int, asked: Question, sources: Sources, most: int | None, tried: set[int]
) -> Differing:
    """The neighbours to search, at most so many: those where the net differs from what is expected, in their order,
    without those that were `tried` (keys), which may have failed."""
    games, seen = _games(store, sources), {*tried}
    parts: list[tuple[PositionBatch, NetValues, Ids, Ids]] = []
    for begin in range(0, len(sources.ids), _SOURCES_AT_ONCE):
        if stop.asked():
            break
        near = neighbours(sources, range(begin, min(begin + _SOURCES_AT_ONCE, len(sources.ids))), games)
        new = np.flatnonzero(_is_new(store, judge_id, near.batch.key, seen))
        if not len(new):
            continue
        batch, source, plies = _as_stored(store, near.batch.take(new)), near.source[new], near.plies[new]
        net_values = net.evaluate(batch)
        expected = np.where(plies % 2, -1, 1) * sources.deep_q[source]
        differing = np.flatnonzero(is_candidate(net_values.q - expected, asked.threshold))
        of_net, ids = _rows(net_values, differing), sources.ids[source[differing]]
        parts.append((batch.take(differing), of_net, near.rank[new][differing], ids))
    if not parts:
        return Differing(PositionBatch.concat([]), NetValues.concat([]), [])
    batches, all_values, ranks, parents = zip(*parts, strict=True)
    order = np.argsort(np.concatenate(ranks), kind="stable")[:most]
    values_in_order = _rows(NetValues.concat(all_values), order)
    return Differing(
        PositionBatch.concat(batches).take(order), values_in_order, np.concatenate(parents)[order].tolist()
    )


def _as_stored(store: Store, batch: PositionBatch) -> PositionBatch:
    """The positions; those that the store has without a value, with the history that they have there."""
    query = "SELECT j.key, p.id FROM json_each(?) j JOIN positions p ON p.key = j.value"
    rows = store.connection.execute(query, (json.dumps(signed(batch.key)),)).fetchall()
    order = np.arange(len(batch))
    order[[i for i, _ in rows]] = len(batch) + np.arange(len(rows))
    return PositionBatch.concat([batch, store.positions([number for _, number in rows])]).take(order)


def _rows(net_values: NetValues, rows: NDArray[np.int64]) -> NetValues:
    return NetValues(*(getattr(net_values, name)[rows] for name in NetValues.__slots__))


def _is_new(store: Store, judge_id: int, board_keys: NDArray[np.uint64], seen: set[int]) -> Flags:
    """bool[m]: which positions were neither mined nor searched as neighbours, nor seen before; adds them to `seen`.

    A mined position without a value was left out by screening; others stand for it.
    """
    query = """
        SELECT p.key FROM json_each(?) j JOIN positions p ON p.key = j.value WHERE p.origin <> 'neighbour'
        OR EXISTS (SELECT 1 FROM deep_values v WHERE v.judge_id = ? AND v.position_id = p.id AND v.failed IS NULL)
    """
    rows = store.connection.execute(query, (json.dumps(signed(board_keys)), judge_id)).fetchall()
    known = seen | set(unsigned([row[0] for row in rows]).tolist())
    new = np.array([key not in known for key in board_keys.tolist()], np.bool_)
    seen |= set(board_keys[new].tolist())
    return new


def _tasks(store: Store, run: Run, net_id: int, near: Differing) -> Iterator[Task]:
    """The searches of these neighbours, which are put into the store some before they begin."""
    for begin in range(0, len(near.parent), _TASKS_AT_ONCE):
        rows = np.arange(begin, min(begin + _TASKS_AT_ONCE, len(near.parent)))
        batch = near.batch.take(rows)
        ids = store.add_positions(batch, run, [near.parent[i] for i in rows.tolist()])
        store.add_net_values(ids, net_id, _rows(near.values, rows))
        yield from (Task(number, position) for number, position in zip(ids.tolist(), batch, strict=True))
