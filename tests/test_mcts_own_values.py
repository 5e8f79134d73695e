"""What a result says of the net itself: its values and priors, whatever the search made of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.mcts_doubles import FakeNet
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import STARTPOS_FEN, Position, PositionBatch, decode_moves
from valuerepair.mcts.evaluator import Evaluations, Leaves
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import SearchResult
from valuerepair.nets.planes import PLANES, encode
from valuerepair.nets.policy import policy_indices

OPEN_GAME = Position(
    "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3",
    "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3",
)
# Most moves of White are answered by mate on b2.
NEARLY_MATED = Position("7k/8/8/8/8/1q6/2r5/K5R1 w - - 0 1", "7k/8/8/8/8/1q6/2r5/K5R1 w - - 0 1")
POSITIONS = (Position(STARTPOS_FEN), OPEN_GAME, NEARLY_MATED)


def asked(position: Position) -> tuple[Evaluations, tuple[str, ...]]:
    """What the fake net answers to a root, with the moves that the logits are of."""
    batch = PositionBatch.from_positions([position])
    boards = parse_fens([position.fen])
    moves, offsets = legal_moves(boards)
    planes = encode(batch)[0].reshape(PLANES, 64)
    masks = np.packbits(planes != 0, axis=1, bitorder="little").view("<u8")[:, 0]
    rule50 = planes[109].max()
    masks[109] = np.uint64(2**64 - 1)
    indices = policy_indices(boards, moves, offsets).astype(np.uint16)
    leaves = Leaves(masks[None, :].copy(), np.array([rule50], np.float32), indices, offsets)
    return FakeNet()(leaves), decode_moves(moves)


def searched(position: Position, nodes: int = 60, settings: str = "") -> SearchResult:
    params = SearchParams().with_settings(dict(pair.split("=") for pair in settings.split()))
    return next(iter(Forest(FakeNet(), params, trees=1, nodes=nodes).search([position], nodes)))[1]


@pytest.mark.parametrize("settings", ["", "noise_epsilon=0.5", "certainty=1 lookahead=1"])
@pytest.mark.parametrize("position", POSITIONS, ids=["start", "open", "nearly mated"])
def test_they_are_the_nets_answer(position: Position, settings: str) -> None:
    answer, moves = asked(position)
    result = searched(position, settings=settings)
    assert result.net_q == pytest.approx(float(answer.q[0]), abs=1e-7)
    assert result.net_d == pytest.approx(float(answer.d[0]), abs=1e-8)
    assert result.net_m == pytest.approx(float(answer.m[0]), abs=1e-5)
    powers = np.exp(answer.logits.astype(float) / SearchParams().policy_softmax_temp)
    wanted = dict(zip(moves, (powers / powers.sum()).tolist(), strict=True))
    assert {m.move: m.net_prior for m in result.moves} == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(("start", "worth"), [(Position(STARTPOS_FEN), 0.5), (OPEN_GAME, -0.5)])
def test_the_nets_q_has_the_draw_score_as_that_of_the_search_has(start: Position, worth: float) -> None:
    plain, scored = searched(start, 1), searched(start, 1, settings="draw_score=0.5")
    assert (scored.net_wl, scored.net_d) == (plain.net_q, plain.net_d)
    assert scored.net_q == pytest.approx(plain.net_q + worth * plain.net_d)
    assert scored.net_q == pytest.approx(scored.root_q)  # of a single visit


def test_priors_with_noise_are_others() -> None:
    noisy = searched(OPEN_GAME, settings="noise_epsilon=0.5")
    assert max(abs(m.prior - m.net_prior) for m in noisy.moves) > 0.01
    plain = searched(OPEN_GAME)
    assert [m.prior for m in plain.moves] == [m.net_prior for m in plain.moves]


def test_a_move_proven_lost_keeps_what_the_net_said_of_it() -> None:
    lost = [m for m in searched(NEARLY_MATED, 200).moves if m.certain == -1]
    assert lost
    assert all(m.prior < 1e-6 < m.net_prior for m in lost)


def test_results_without_them_say_so() -> None:
    result = SearchResult(1, 1, 0.0, 0.0, 0.0, 0.0, 0.0, (), 0, 0)
    assert math.isnan(result.net_d)
    assert math.isnan(result.net_m)
    assert result == replace(result)
