"""How soon the right move is found: each number of visits is looked at once, and what is told of them is recounted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.proof import visits
from benchmarks.proof.analysis import Drawn, median
from benchmarks.proof.visits import NEVER, NODES, Watch, sooner, visit_table, watch
from valuerepair.chess.positions import Position
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.result import SearchResult
from valuerepair.nets.net import open_net

VISITS = 60
FENS = (
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "6k1/5ppp/8/8/8/8/1q3PPP/3R2K1 w - - 0 1",  # mate in one
    "6k1/5ppp/8/8/8/8/1q3PPP/3R2K1 b - - 0 1",  # most moves allow it
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 10 1",
    "7k/8/5K2/6Q1/8/8/8/8 w - - 98 90",  # the fifty moves end here
    "8/8/8/8/3k4/8/1q6/K7 w - - 0 1",  # one move, which is a draw
)


@pytest.fixture(scope="module")
def watched(shared_data: Path) -> list[Watch]:
    """The searches of all positions, which grow by a visit at a time."""
    jumps = []

    class Checked(Watch):
        def more(self, result: SearchResult, seconds: float) -> int:
            if result.nodes != len(self.best) + 1:
                jumps.append((result.nodes, len(self.best) + 1, result.best.certain))
            return super().more(result, seconds)

    with pytest.MonkeyPatch.context() as patch, open_net(str(shared_data / "nets" / "meangirl-8.pb.gz")) as net:
        patch.setattr(visits, "Watch", Checked)
        found = list(watch(net, [Position(fen, fen) for fen in FENS], VISITS))
    # Fewer visits than there might be only where the root is proven; never more.
    assert all(nodes < asked and certain is not None for nodes, asked, certain in jumps)
    return found


@pytest.mark.parametrize("nodes", [1, 2, 3, 7, 20, VISITS])
def test_as_searches_of_so_many_nodes(watched: list[Watch], shared_data: Path, nodes: int) -> None:
    with open_net(str(shared_data / "nets" / "meangirl-8.pb.gz")) as net:
        forest = Forest(NetEvaluator(net), trees=2, nodes=VISITS)
        alone = dict(forest.search([Position(fen, fen) for fen in FENS], nodes))
    assert [one.best[nodes - 1] for one in watched] == [alone[i].best_move for i in range(len(FENS))]
    assert {len(one.best) for one in watched} == {VISITS}


def test_a_move_is_settled_when_it_is_best_from_then_on() -> None:
    one = Watch(5)
    one.best = ["a", "b", "a", "b", "b"]
    assert [one.settled(move) for move in "abc"] == [6, 4, 6]
    one.best = ["a"] * 5
    assert one.settled("a") == 1


def test_medians_of_drawn_positions() -> None:
    rng = np.random.default_rng(1)
    game, each = np.repeat(np.arange(30), 2), rng.integers(1, NEVER, 60).astype(float)
    drawn = Drawn(game, draws=50)
    assert (drawn.times.sum(1) == 60).all()
    for times, found, mean in zip(drawn.times, drawn.median(each), drawn.mean(each), strict=True):
        copies = np.repeat(each, times.astype(int))
        assert found == np.percentile(copies, 50, method="inverted_cdf") == median(copies)
        assert mean == pytest.approx(copies.mean())
    assert sooner(np.array([3.0, 9, NEVER, 2]), np.array([5.0, 4, NEVER, 2])).tolist() == [1, -1, 0, 0]


def test_who_finds_it_sooner() -> None:
    rng, games = np.random.default_rng(2), 400
    slow = np.exp(rng.normal(4, 1.5, (3, games))).round().clip(1, NEVER)
    fast = (slow * 0.5).round().clip(1, NEVER)
    rng.shuffle(fast)
    arms = {"fast": fast, "slow": slow, "same": slow[[1, 2, 0]]}
    found = visit_table(arms, {"fast": ["slow"], "slow": [], "same": ["slow"]}, np.arange(games))
    rows: list[dict[Any, Any]] = found.to_dict("records")
    cells = {(row["arm"], row["against"], row["measure"]): row for row in rows}
    for name, each in arms.items():
        assert cells[name, "", "median"]["value"] == np.mean([np.sort(seed)[games // 2 - 1] for seed in each])
        assert cells[name, "", "found"]["value"] == pytest.approx((each <= NODES).mean())
    pairs = [(a < b) * 1 - (a > b) * 1 for one in fast for other in slow for a, b in zip(one, other, strict=True)]
    told = cells["fast", "slow", "sooner"]
    assert told["value"] == pytest.approx(np.mean(pairs), abs=1e-9)
    assert told["low"] > 0.05
    assert told["value"] - told["low"] < 0.15
    assert cells["fast", "slow", "median"]["high"] < 0
    for measure in ("median", "found", "sooner"):
        same = cells["same", "slow", measure]
        assert same["low"] <= same["value"] <= same["high"]
        assert same["value"] == pytest.approx(0, abs=1e-9)
    assert set(found["seeds"]) == {3}
    assert set(found["positions"]) == {games}
