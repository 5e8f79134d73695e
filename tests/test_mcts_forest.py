"""The forest: its trees against a search in plain Python, and laws of growing together."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from typing import Any
from unittest.mock import patch

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mcts_doubles import (
    KIWIPETE,
    POSITIONS,
    FakeNet,
    PlainSearch,
    Tree,
    any_params,
    any_position,
    searched,
    tree_of,
)
from tests.tree_checks import checked_rounds
from valuerepair.chess.positions import STARTPOS_FEN, Position
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts import layout
from valuerepair.mcts.evaluator import Evaluations, Leaves
from valuerepair.mcts.forest import Forest, forest_bytes
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import SearchResult

EVERYTHING: dict[str, Any] = {"certainty": True, "lookahead": True, "auto_extend": True, "n_scl": 8, "draw_score": 0.1}
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"lc0_floats": True},
    {"lc0_floats": True, "sticky_endgames": False, "two_fold_draws": False},
    {"lc0_floats": True, "root_has_own_cpuct_params": True, "cpuct_at_root": 3.0, "cpuct_factor_at_root": 0.0},
    {"lc0_floats": True, "root_has_own_cpuct_params": True, "cpuct_base_at_root": 50.0, "cpuct_factor": 0.0},
    {"lc0_floats": True, "fpu_strategy": "absolute", "fpu_value": -0.2},
    {"lc0_floats": True, "fpu_strategy_at_root": "absolute", "fpu_value_at_root": 1.0},
    {"lc0_floats": True, "fpu_strategy_at_root": "reduction", "fpu_value_at_root": 0.0},
    {"lc0_floats": True, "policy_softmax_temp": 0.7, "cpuct": 0.9},
    {"lc0_floats": True, "draw_score": 0.4},
    {"draw_score": -0.4},
    {"cpuct_base": 20.0},
)


@pytest.mark.parametrize("changes", VARIANTS, ids=lambda c: " ".join(f"{k}={v}" for k, v in c.items()) or "defaults")
def test_every_node_is_that_of_a_plain_search(changes: dict[str, Any]) -> None:
    nodes = 60
    for start in POSITIONS[:-1]:
        plain = PlainSearch(FakeNet(), start, SearchParams(**changes))
        plain.run(nodes)
        ours = tree_of(searched(start, nodes, **changes))
        theirs = plain.tree()
        assert {path: t.n for path, t in ours.items()} == {path: n for path, (n, _, _) in theirs.items()}, start.uci
        values = np.array([(t.wl, t.d) for t in ours.values()])
        assert np.abs(values - [theirs[path][1:] for path in ours]).max() < 1e-5, start.uci


# --- Trees grow together as they grow alone

MIXES: tuple[dict[str, Any], ...] = (
    {},
    EVERYTHING,
    {"n_scl": 2, "lookahead": True},
    {"auto_extend": True, "certainty": True},
    {"minibatch_size": 5, "n_scl": 6},
    {"noise_epsilon": 0.25, "seed": 7},
    {"cpuct": 0.0, "cpuct_factor": 0.0, "lookahead": True, "n_scl": 3},  # each visit goes deeper than the last
)
DEEPER = MIXES[-1]
NETS = {"even": FakeNet(), "deep": FakeNet(sharpness=300.0, spread=0.0)}


@cache
def alone(index: int, nodes: int, mix: int, net: str) -> tuple[Tree, str]:
    """A tree and its result, which holds NaN and is therefore compared as text, with room enough from the beginning."""
    forest = searched(POSITIONS[index], nodes, NETS[net], room=2000, **MIXES[mix])
    return tree_of(forest), repr(forest.result(0))


JOBS = st.tuples(st.integers(0, len(POSITIONS) - 1), st.integers(1, 90), st.integers(0, 60))


@settings(max_examples=60, deadline=None)
@given(
    jobs=st.lists(JOBS, min_size=1, max_size=9),
    trees=st.integers(1, 6),
    room=st.integers(1, 40),
    mix=st.integers(0, len(MIXES) - 1),
    net=st.sampled_from(sorted(NETS)),
    tight=st.booleans(),
)
def test_a_tree_grows_in_a_batch_as_it_grows_alone(
    jobs: list[tuple[int, int, int]], trees: int, room: int, mix: int, net: str, tight: bool
) -> None:
    """Any number of trees, of unequal sizes, in any order, joining at any round, with room that has to be made."""
    with patch.multiple(layout, LINE_ROWS=-120, EDGES_PER_NODE=1) if tight else nullcontext():
        forest = Forest(NETS[net], SearchParams(**MIXES[mix]), trees=trees, nodes=room)
    waiting, running, rounds = list(jobs), dict[int, tuple[int, int]](), 0
    while waiting or running:
        ready = [job for job in waiting if job[2] <= rounds][: forest.free]
        for job in ready:
            waiting.remove(job)
            running[forest.add(POSITIONS[job[0]], job[1])] = job[:2]
        forest.play_round()
        rounds += 1
        for slot in [s for s in running if forest.is_done(s)]:
            index, nodes = running.pop(slot)
            assert (tree_of(forest, slot), repr(forest.result(slot))) == alone(index, nodes, mix, net)
            forest.release(slot)


@pytest.mark.parametrize(
    ("room", "index", "mix", "nodes"),
    [
        ("edge_room", len(POSITIONS) - 1, {}, 60),
        ("row_room", 0, DEEPER, 330),
        ("node_room", 2, {"auto_extend": True}, 60),
    ],
)
def test_each_kind_of_room_is_made_in_the_middle_of_a_search(
    room: str, index: int, mix: dict[str, Any], nodes: int
) -> None:
    net = NETS["deep"]
    small, large = (Forest(net, SearchParams(**mix), trees=2, nodes=n) for n in (nodes, 3000))
    before = getattr(small._rules, room)
    for forest in (small, large):
        for start in (POSITIONS[index], POSITIONS[index]):
            forest.add(start, nodes)
        while not all(forest.is_done(slot) for slot in (0, 1)):
            forest.play_round()
    assert getattr(small._rules, room) > before
    assert tree_of(small, 0) == tree_of(small, 1) == tree_of(large, 0)


def test_a_stream_keeps_all_trees_busy_and_is_read_as_they_become_free() -> None:
    read = 0

    def stream() -> Iterator[Position]:
        nonlocal read
        for start in POSITIONS * 5:
            read += 1
            yield start

    net, finished, ahead = FakeNet(), dict[int, str](), 0
    forest = Forest(net, trees=4, nodes=30)
    for index, result in forest.search(stream(), 30):
        finished[index] = repr(result)
        ahead = max(ahead, read - len(finished))
    assert ahead <= 4
    assert [finished[i] for i in range(50)] == [alone(i % 10, 30, 0, "even")[1] for i in range(50)]
    quiet = [size for size in net.sizes if size < 3]  # rounds in which visits ended in mates and draws apart
    assert len(quiet) < 0.1 * len(net.sizes)


def test_one_evaluation_is_the_net_itself() -> None:
    result = searched(POSITIONS[2], 1).result(0)
    assert (result.nodes, result.evaluations, result.q, result.root_q) == (1, 1, result.net_q, result.net_q)
    assert [m.prior for m in result.moves] == sorted((m.prior for m in result.moves), reverse=True)
    assert sum(m.prior for m in result.moves) == pytest.approx(1, abs=1e-5)
    assert {m.move for m in result.moves} == {m.uci() for m in chess.Board(KIWIPETE).legal_moves}


# --- One position until a limit or a stop


class SlowNet(FakeNet):
    def __call__(self, leaves: Leaves) -> Evaluations:
        time.sleep(0.002)
        return super().__call__(leaves)


def test_a_search_ends_by_nodes_by_time_and_by_stop_and_tells_on_the_way() -> None:
    forest, infos, start = Forest(SlowNet(), trees=1, nodes=10, lines=3), list[SearchResult](), POSITIONS[2]
    result = forest.search_one(start, 150, on_info=infos.append, info_seconds=0.05)
    assert repr(result) == repr(searched(start, 150).result(0, 3))
    nodes = [r.nodes for r in infos]
    assert 3 <= len(nodes) <= 30
    assert nodes == sorted(set(nodes))
    assert [len(m.pv) > 1 for m in infos[-1].moves[:4]] == [True, True, True, False]
    begun = time.monotonic()
    assert 1 < forest.search_one(start, 10**6, seconds=0.2).nodes < 110
    assert 0.2 <= time.monotonic() - begun < 0.6
    calls = iter(range(99))
    assert forest.search_one(start, 10**6, stop=lambda: next(calls) == 4).nodes == 5
    assert forest.search_one(start, 10**6, stop=lambda: True).nodes == 1
    assert forest.free == 1


# --- Invariants


@checked_rounds()
def smoke(seed: int, trees: int, nodes: int) -> None:
    rng = random.Random(seed)
    changes = any_params(rng)
    net = FakeNet(sharpness=rng.choice((1.0, 5.0, 40.0)), spread=rng.choice((0.0, 0.5, 1.0)))
    forest = Forest(net, SearchParams(**changes), trees=trees, nodes=rng.choice((1, nodes)))
    for _, result in forest.search([any_position(rng) for _ in range(trees)], nodes):
        proven = result.certain is not None
        assert result.nodes == nodes or (changes["certainty"] and proven and result.nodes < nodes), changes


@pytest.mark.parametrize("seed", [*range(24), 200138])  # in the last one visits in flight hide what is left to do
def test_invariants_hold_after_every_round(seed: int) -> None:
    smoke(seed, 3, 50)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_invariants_hold_after_every_round_of_longer_searches(seed: int) -> None:
    smoke(seed, 4, 200)


@pytest.mark.parametrize("nodes", [2, 50, 333])
@checked_rounds()
def test_virtual_visits_fill_batches_and_end_at_the_limit(nodes: int) -> None:
    net = FakeNet()
    forest = searched(POSITIONS[2], nodes, net, minibatch_size=16)
    assert forest.visits(0) == nodes
    assert net.sizes[0] == 1  # the root's own
    assert max(net.sizes) <= 16
    if nodes == 333:
        assert len(net.sizes) < 60
        one, many = (searched(POSITIONS[2], nodes, minibatch_size=n).result(0) for n in (1, 16))
        assert one.best_move in {m.move for m in many.moves[:3]}
        assert many.root_q == pytest.approx(one.root_q, abs=0.05)
        assert many.moves != one.moves


# --- Bad input


@pytest.mark.parametrize(
    ("fen", "message"),
    [
        ("8/8/8/8/8/8/8/K7 w - - 0 1", "no black king"),
        ("4k3/8/8/8/8/8/8/8 w - - 0 1", "no white king"),
        ("4k3/8/8/8/8/8/8/4RK2 w - - 0 1", "opposite check"),
        ("4k3/8/8/8/8/8/8/4K2P w - - 0 1", "pawns on backrank"),
        ("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3", "the game is over: checkmate"),
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "the game is over: stalemate"),
        ("not a position", "expected"),
        ("", "empty fen"),
        ("kbQ1Q3/pp4QQ/3Q4/Q5Q1/2Q1Q3/Q6Q/1Q3Q2/1K1Q4 w - - 0 1", "227 legal moves; no position .* more than 218"),
    ],
)
def test_positions_that_cannot_be_searched_are_refused_in_a_line(fen: str, message: str) -> None:
    forest = Forest(FakeNet(), trees=1, nodes=10)
    with pytest.raises(ValueRepairError, match=message) as refused:
        forest.add(Position(fen, fen), 10)
    assert "\n" not in str(refused.value)
    assert forest.free == 1
    assert next(forest.search([POSITIONS[0]], 5))[1].nodes == 5


@pytest.mark.parametrize("moves", [("e2e5",), ("e2e4", "e2e4"), ("zz",), ("e7e8q",)])
def test_moves_that_are_none_are_refused(moves: tuple[str, ...]) -> None:
    with pytest.raises(ValueRepairError, match=moves[-1]):
        Forest(FakeNet(), trees=1, nodes=10).add(Position(STARTPOS_FEN, STARTPOS_FEN, moves), 10)


def test_numbers_of_nodes_that_make_no_sense_are_refused() -> None:
    forest = Forest(FakeNet(), trees=1, nodes=10)
    for nodes in (0, -5):
        with pytest.raises(UsageError, match="at least 1"):
            forest.add(POSITIONS[0], nodes)
        with pytest.raises(UsageError, match="at least 1"):
            Forest(FakeNet(), nodes=nodes)
    with pytest.raises(UsageError, match="at least 1"):
        Forest(FakeNet(), trees=0)
    for build in (lambda: Forest(FakeNet(), nodes=10**12), lambda: forest.add(POSITIONS[0], 10**12)):
        with pytest.raises(UsageError, match=r"1,000,000,000,000 nodes in .* at most about [\d,]+ nodes"):
            build()
    assert forest.free == 1
    assert forest_bytes(64, 1000) < 64 * 2**20
