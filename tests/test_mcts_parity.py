"""Root visits equal to lc0's, move by move: a slice in every run, all of the golden positions when asked (`slow`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests import lc0_oracle
from tests.parity import search_parity as parity
from tests.parity.lc0_floats import gnu_sorted
from tests.parity.lc0_search import Lc0Search
from tests.parity.search_goldens import CONFIGS, Golden, load, params_of
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import decode_moves
from valuerepair.chess.rows import FLIP
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.expand import generation_rank, sort_as_lc0
from valuerepair.mcts.layout import make_rules, plant
from valuerepair.nets.net import open_net
from valuerepair.nets.registry import locate

# As measured by hand with lc0 0.32.1 and maia-1900: configuration, position, nodes, visits.
MEASURED = (
    ("default", "A", 100, "e2e4:47 d2d4:31 c2c4:9 g1f3:9 f2f4:3"),
    (
        *("default", "A", 800),
        "e2e4:312 d2d4:232 g1f3:80 c2c4:74 f2f4:20 g2g3:18 b2b3:16 e2e3:12 b1c3:11 b2b4:10 d2d3:9 g2g4:5",
    ),
    ("default", "B", 100, "g8f6:70 d8f6:25 c6d4:2 d7d6:2"),
    (
        *("default", "B", 800),
        "g8f6:545 d8f6:192 d7d5:20 d8e7:17 g8h6:11 f7f6:7 c6d4:2 d7d6:2 f8c5:2 f8e7:1",
    ),
    ("default", "C", 100, "e1f2:47 e1d2:39 e1f1:7 e1d1:6"),
    ("default", "C", 800, "e1f2:398 e1d2:348 e1f1:27 e1d1:23 e2e3:3"),
    ("default", "D", 100, "e2a6:83 c3b5:10 d5e6:3 c3d1:2 c3b1:1"),
    (
        *("default", "D", 800),
        "e2a6:653 d5e6:87 c3b5:27 d5d6:8 c3d1:7 e1c1:6 c3b1:5 e5g6:4 c3a4:1 e2b5:1",
    ),
    ("plain", "B", 100, "g8f6:69 d8f6:24 d8e7:2 c6d4:2 d7d6:2"),
    (
        *("plain", "B", 800),
        "g8f6:543 d8f6:192 d7d5:20 d8e7:17 g8h6:11 f7f6:7 c6d4:4 d7d6:2 f8c5:2 f8e7:1",
    ),
    ("plain", "C", 100, "e1f2:45 e1d2:39 e1f1:8 e1d1:7"),
    # With out-of-order evaluation, which was on then, one visit more was made: e1d1:29.
    ("plain", "C", 800, "e1f2:405 e1d2:330 e1f1:33 e1d1:28 e2e3:3"),
)
TOTAL = 300
ROOT_Q = {"A": (0.03705, 0.03749), "B": (-0.03163, 0.00044), "C": (0.20801, 0.24970), "D": (-0.05352, -0.11415)}


@pytest.fixture(scope="module")
def goldens() -> list[Golden]:
    found = load()
    assert len({golden.case.name for golden in found}) == len(found) == TOTAL
    return found


@pytest.fixture(scope="module")
def evaluator(any_maia: Path) -> Iterator[NetEvaluator]:
    with open_net(str(any_maia), device="cpu") as net:
        yield NetEvaluator(net)


def test_the_goldens_hold_what_was_measured_by_hand(goldens: list[Golden]) -> None:
    by_name = {g.case.name: g for g in goldens}
    for config, name, nodes, visits in MEASURED:
        found = by_name[name].searches[config, nodes]["visits"]
        assert found == {m: int(n) for m, n in (pair.split(":") for pair in visits.split())}, (config, name, nodes)
    for name, means in ROOT_Q.items():
        for nodes, mean in zip((100, 800), means, strict=True):
            assert by_name[name].root_q("default", nodes) == pytest.approx(mean, abs=2e-5)


def assert_equal(evaluator: NetEvaluator, some: list[Golden], config: str, nodes: int) -> None:
    assert some
    assert [str(row) for row in parity.differences(evaluator, some, config, nodes)] == []


def test_visits_are_those_of_lc0(evaluator: NetEvaluator, goldens: list[Golden]) -> None:
    assert_equal(evaluator, goldens[:40], "default", 100)
    assert_equal(evaluator, goldens[:10], "default", 800)


def test_visits_are_those_of_lc0_without_sticky_endgames_and_two_fold_draws(
    evaluator: NetEvaluator, goldens: list[Golden]
) -> None:
    assert_equal(evaluator, parity.having(goldens, "plain", 100)[:30], "plain", 100)


def test_the_search_in_plain_python_is_lc0s(goldens: list[Golden]) -> None:
    backend = lc0_oracle.backend(locate(None))
    for golden in goldens[:6]:
        search = Lc0Search(backend, golden.case.position, params_of("default"))
        assert search.run(100) == golden.searches["default", 100]["visits"]


def test_moves_come_in_lc0s_order(goldens: list[Golden]) -> None:
    for golden in goldens:
        boards = parse_fens([golden.case.position.fen])
        moves = legal_moves(boards)[0].astype(np.int64)
        turned = moves ^ int(FLIP) * (" b " in golden.case.position.fen)
        ranks = [generation_rank(boards, 0, move) for move in turned.tolist()]
        ours = [decode_moves(moves.astype(np.uint16))[i] for i in np.argsort(ranks)]
        assert ours == lc0_oracle.game_state(golden.case.position).moves(), golden.case.position.fen


def test_equal_priors_are_sorted_as_the_c_library_does() -> None:
    """By the sort that was checked against lc0's visits; longer than the 16 that are sorted by insertion."""
    chance = np.random.default_rng(1)
    trees = plant(1, make_rules(params_of("default"), 20))
    for count in (1, 2, 16, 17, 40, 91, 218):
        for kinds in (1, 2, 5, 300):
            keys = chance.integers(0, kinds, count)
            trees.prior[3 : 3 + count] = keys
            trees.move[3 : 3 + count] = np.arange(count)
            sort_as_lc0(trees, 3, count)
            assert trees.move[3 : 3 + count].tolist() == gnu_sorted(keys.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [100, 800, 3000])
def test_visits_of_all_positions(evaluator: NetEvaluator, goldens: list[Golden], nodes: int) -> None:
    rows = parity.differences(evaluator, goldens, "default", nodes)
    assert len(rows) <= TOTAL - 297, [str(row) for row in rows]
    theirs = parity.Lc0Evaluator()
    assert [str(row) for row in rows if not parity.explained(theirs, row)] == []


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [100, 800, 3000])
def test_root_q_of_all_positions(evaluator: NetEvaluator, goldens: list[Golden], nodes: int) -> None:
    errors = parity.q_errors(evaluator, goldens, nodes)
    over = [g for g, error in zip(goldens, errors, strict=True) if error > parity.Q_LIMIT]
    assert len(over) <= 1
    assert [g.case.name for g in over if not parity.sooner_or_later(evaluator, g, nodes)] == []


@pytest.mark.slow
@pytest.mark.parametrize("config", list(CONFIGS)[1:])
def test_visits_with_other_parameters_of_all(evaluator: NetEvaluator, goldens: list[Golden], config: str) -> None:
    theirs = parity.Lc0Evaluator()
    for nodes in 100, 800:
        some = parity.having(goldens, config, nodes)
        if some:
            rows = parity.differences(evaluator, some, config, nodes)
            assert [str(row) for row in rows if not parity.explained(theirs, row)] == []
