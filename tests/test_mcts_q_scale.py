"""`q_scale`: a search with mapped Q against a search of the net that says so itself, and against other units of Q."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linear_net import linear_onnx
from tests.mcts_doubles import (
    POSITIONS,
    FakeNet,
    PlainSearch,
    any_params,
    any_position,
    position,
    searched,
    tree_of,
)
from valuerepair.mcts.evaluator import Evaluations, Leaves, NetEvaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.layout import OPEN
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import open_net

STARTS = (position(), position(moves="e2e4 c7c5 g1f3 d7d6"), position(moves="d2d4 g8f6 c2c4 e7e6 b1c3 f8b4"))
MATE = position("6k1/5ppp/8/8/8/8/q4PPP/3R2K1 w - - 0 1")


class ScaledNet(FakeNet):
    """A net whose own value head says Q times `times`, as far as Q goes; draws have the room that is left."""

    def __init__(self, times: float, **how: Any) -> None:
        super().__init__(**how)
        self.times = np.float32(times)

    def __call__(self, leaves: Leaves) -> Evaluations:
        q, d, m, logits = super().__call__(leaves)
        q = np.clip(q * self.times, np.float32(-1), np.float32(1))
        return Evaluations(q, np.minimum(d, np.float32(1) - np.abs(q)), m, logits)


def visits(forest: Any) -> dict[tuple[str, ...], int]:
    return {path: twig.n for path, twig in tree_of(forest).items()}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.1, 5))
def test_the_tree_is_that_of_the_net_whose_q_is_scaled(seed: int, times: float) -> None:
    """All of it: visits, means, priors and proofs, of any search; with 5 two thirds of Q are cut off at 1."""
    rng = random.Random(seed)
    changes, start = any_params(rng), any_position(rng)
    mapped = searched(start, 100, FakeNet(), **changes, q_scale=times)
    assert tree_of(mapped) == tree_of(searched(start, 100, ScaledNet(times), **changes))


@pytest.mark.parametrize("times", [0.74, 3.0])
@pytest.mark.parametrize("lc0_floats", [False, True])
def test_the_visits_are_those_of_a_plain_search_of_the_scaled_net(times: float, lc0_floats: bool) -> None:
    for start in POSITIONS[:-1]:
        plain = PlainSearch(ScaledNet(times), start, SearchParams(lc0_floats=lc0_floats))
        plain.run(60)
        ours = visits(searched(start, 60, lc0_floats=lc0_floats, q_scale=times))
        assert ours == {path: n for path, (n, _, _) in plain.tree().items()}, start.uci


@pytest.mark.parametrize("times", [0.5, 2.0])
def test_scaling_q_is_scaling_cpuct_and_first_play_urgency(times: float) -> None:
    """Where nothing is proven: the rest of what is added to Q is in its units. `cpuct` alone is not the same."""
    both: dict[str, Any] = {"moves_left_max_effect": 0.0, "two_fold_draws": False}
    plain = SearchParams()
    units = {**both, "cpuct": plain.cpuct * times, "cpuct_factor": plain.cpuct_factor * times}
    for start in STARTS:
        net = FakeNet(spread=0.4)
        mapped = searched(start, 200, net, **both, q_scale=1 / times)
        assert {twig.kind for twig in tree_of(mapped).values()} == {OPEN}
        same = searched(start, 200, net, **units, fpu_value=plain.fpu_value * times)
        assert visits(mapped) == visits(same)
        assert visits(mapped) != visits(searched(start, 200, net, **units))


@pytest.mark.parametrize("certainty", [False, True])
def test_what_is_proven_keeps_its_value(certainty: bool) -> None:
    mated = searched(MATE, 200, q_scale=0.1, certainty=certainty).result(0)
    assert (mated.best_move, mated.q, mated.mate) == ("d1d8", 1.0, 1)
    plain = searched(MATE, 1).result(0)
    assert searched(MATE, 1, q_scale=0.1).result(0).net_wl == pytest.approx(0.1 * plain.net_wl)


def test_a_net_of_onnx_is_searched_as_one_whose_file_has_the_scale(tmp_path: Path) -> None:
    searches = []
    for name, times, scale in (("old", 1.0, 0.74), ("scaled", 0.74, 1.0), ("plain", 1.0, 1.0)):
        with open_net(str(linear_onnx(tmp_path / f"{name}.onnx", times)), device="cpu", threads=1) as net:
            forest = Forest(NetEvaluator(net), SearchParams(q_scale=scale), trees=1)
            for start in STARTS:
                moves = forest.search_one(start, 150).moves
                searches.append((name, [(m.move, m.visits, m.q) for m in moves if m.visits]))
    old, scaled, plain = ([moves for of, moves in searches if of == name] for name in ("old", "scaled", "plain"))
    assert old == scaled
    assert all(a != b for a, b in zip(old, plain, strict=True))
