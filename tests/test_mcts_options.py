"""What the search's options change, forced chains, search-contempt, two-fold draws; and what the net itself said."""

from __future__ import annotations

import math
from typing import Any

import chess
import numpy as np
import pytest

from tests.mcts_doubles import FakeNet, leaf_of, position, searched, tree_of
from tests.search_trees import Node, boards_of
from valuerepair.chess.positions import Position
from valuerepair.mcts.evaluator import Evaluations, Leaves
from valuerepair.mcts.layout import ENDED, OPEN, TWO_FOLD
from valuerepair.mcts.params import SearchParams

SMOTHERED = position("r5rk/6pp/7N/8/2Q5/8/5PPP/6K1 w - - 1 1")
CHECKS = position("6k1/5ppp/8/8/8/8/1q3PPP/3R2K1 b - - 0 1")
KIWIPETE = position("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1")
SHUFFLE = "7k/8/8/8/8/8/r6P/7K w - - 0 1"
STARTS = (position(), KIWIPETE, SMOTHERED, CHECKS)


def legal(board: chess.Board) -> int:
    return board.legal_moves.count()


# --- Auto-extend


class Recorder(FakeNet):
    """Keeps how many moves each leaf has."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[int] = []

    def __call__(self, leaves: Leaves) -> Evaluations:
        self.moves += np.diff(leaves.offsets).tolist()
        return super().__call__(leaves)


@pytest.mark.parametrize("start", [SMOTHERED, CHECKS], ids=lambda p: p.fen)
@pytest.mark.parametrize("certainty", [False, True])
def test_positions_with_one_move_are_links_without_an_evaluation(start: Any, certainty: bool) -> None:
    plain, extended = Recorder(), Recorder()
    searched(start, 500, plain, certainty=certainty)
    forest = searched(start, 500, extended, auto_extend=True, certainty=certainty)
    assert 1 in plain.moves[1:]
    assert 1 not in extended.moves[1:]
    links = 0
    for node in boards_of(forest, start).walk():
        if node.kind != OPEN:
            continue
        assert node.forced == (node.depth > 0 and legal(node.board) == 1)
        if node.forced:
            links += 1
            (child,) = node.children.values()
            assert child.visits == node.visits
            assert child.wl == pytest.approx(-node.wl, abs=1e-5)
            if not math.isnan(child.own):
                assert node.own == -child.own
    assert links > 5


def test_the_value_of_a_chains_end_reaches_the_root_with_the_right_sign() -> None:
    lengths = set()  # in the last position 1. Qf7+ K:f7 2. Kh7 are two
    for start in (SMOTHERED, CHECKS, position("5k1K/4p2Q/8/8/8/8/8/8 w - - 0 1")):
        for node in boards_of(searched(start, 400, auto_extend=True), start).walk():
            end, length = node, 0
            while end.forced:
                (end,) = end.children.values()
                length += 1
            assert node.wl == pytest.approx(end.wl if length % 2 == 0 else -end.wl, abs=1e-6)
            lengths.add(length)
    assert lengths >= {0, 1, 2}


def test_one_visit_reaches_the_end_of_a_chain() -> None:
    # After 1. Qg8+ the rook must take.
    for extending, reply in ((False, 0), (True, 1)):
        nodes = 2
        while "c4g8" not in boards_of(searched(SMOTHERED, nodes, auto_extend=extending), SMOTHERED).children:
            nodes += 1
        check = boards_of(searched(SMOTHERED, nodes, auto_extend=extending), SMOTHERED).children["c4g8"]
        assert (check.visits, len(check.children)) == (1, reply)


def test_a_root_with_one_move_is_evaluated_itself() -> None:
    forced = position("k7/8/1K6/8/8/8/8/7R b - - 0 1")
    assert legal(chess.Board(forced.fen)) == 1
    forest = searched(forced, 50, auto_extend=True)
    assert forest.result(0).nodes == 50
    assert forest.result(0).net_q == searched(forced, 1).result(0).net_q


# --- Search-contempt


@pytest.mark.parametrize("start", STARTS, ids=lambda p: p.fen)
def test_without_limit_it_is_plain_puct_visit_for_visit(start: Any) -> None:
    assert tree_of(searched(start, 400, n_scl=10**9)) == tree_of(searched(start, 400))


def test_up_to_the_limit_it_is_plain_puct_and_then_not() -> None:
    assert tree_of(searched(KIWIPETE, 60, n_scl=59)) == tree_of(searched(KIWIPETE, 60))
    assert tree_of(searched(KIWIPETE, 400, n_scl=5)) != tree_of(searched(KIWIPETE, 400))


def frozen_nodes(n_scl: int, nodes: int, seed: int = 0) -> list[Node]:
    forest = searched(KIWIPETE, nodes, n_scl=n_scl, seed=seed, sticky_endgames=False)
    tree = boards_of(forest, KIWIPETE)
    assert not any(node.frozen for node in tree.walk() if node.depth % 2 == 0)
    frozen = [node for node in tree.walk() if node.frozen]
    for node in tree.walk():
        if node.depth % 2 == 1 and node.kind == OPEN and node.visits > n_scl + 1:
            assert node.frozen, "an opponent's node that has its visits is frozen"
    return frozen


def test_opponents_nodes_are_frozen_after_so_many_visits() -> None:
    nodes = frozen_nodes(10, 800)
    assert len(nodes) > 10
    assert {sum(node.frozen.values()) for node in nodes} == {10}
    for node in nodes:
        assert all(node.children[move].visits >= visits for move, visits in node.frozen.items())
        assert set(node.children) == set(node.frozen)  # no other move is visited any more


def test_later_visits_are_spread_as_the_frozen_ones() -> None:
    chi_square, freedom = 0.0, 0
    for node in frozen_nodes(25, 6000):
        later = {move: node.children[move].visits - visits for move, visits in node.frozen.items()}
        total = sum(later.values())
        expected = {move: total * visits / 25 for move, visits in node.frozen.items()}
        if total < 200 or len(later) < 2:
            continue
        chi_square += sum((later[move] - expected[move]) ** 2 / expected[move] for move in later)
        freedom += len(later) - 1
    assert freedom >= 8
    # Mean and deviation of a chi-square; five deviations either way.
    assert abs(chi_square - freedom) < 5 * math.sqrt(2 * freedom)


def test_draws_are_seeded() -> None:
    trees = [tree_of(searched(KIWIPETE, 500, n_scl=6, seed=seed)) for seed in (1, 1, 2)]
    assert trees[0] == trees[1] != trees[2]


def test_an_opponent_who_does_not_improve_makes_results_more_decided() -> None:
    plain, contempt = (
        [searched(start, 800, FakeNet(sharpness=0.5), **options).result(0) for start in STARTS[:2]]
        for options in ({}, {"n_scl": 4})
    )
    for before, after in zip(plain, contempt, strict=True):
        assert after.root_wl > before.root_wl + 0.01
        assert after.root_d != before.root_d
        assert after.best.wdl[0] > before.best.wdl[0]


# --- Two-fold draws


def is_two_fold(node: Node) -> bool:
    """The position occurred once before, inside the search, and so did all of the cycle."""
    board = node.board.copy()
    if not board.is_repetition(2) or board.is_repetition(3) or not any(board.legal_moves) or node.depth < 4:
        return False
    key, plies = board._transposition_key(), 0
    while plies == 0 or board._transposition_key() != key:
        board.pop()
        plies += 1
    return plies <= node.depth and node.board.halfmove_clock < 100 and not node.board.is_insufficient_material()


def test_a_first_repetition_inside_the_search_is_a_draw() -> None:
    for start in (position(SHUFFLE), position(SHUFFLE, "h1g1 h8g8 g1h1 g8h8")):
        counted = 0
        net = FakeNet(sharpness=0.3)
        for node in boards_of(searched(start, 3000, net, cpuct=0.6), start).walk():
            assert (node.kind == TWO_FOLD) == is_two_fold(node), node.board.fen()
            if node.kind == TWO_FOLD:
                counted += 1
                assert (node.wl, node.children, node.lower, node.upper) == (0.0, {}, -1, 1)
        assert counted > 3


def test_without_two_fold_draws_only_a_second_repetition_is_one() -> None:
    start = position(SHUFFLE, "h1g1 h8g8 g1h1 g8h8")
    tree = boards_of(searched(start, 3000, FakeNet(sharpness=0.3), cpuct=0.6, two_fold_draws=False), start)
    assert TWO_FOLD not in {node.kind for node in tree.walk()}
    assert {node.kind for node in tree.walk() if node.board.is_repetition(3)} == {ENDED}
    assert any(is_two_fold(node) and node.visits > 1 for node in tree.walk())


# --- What a result says of the net itself, whatever the search made of it

OPEN_GAME = position("r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3")
NEARLY_MATED = position("7k/8/8/8/8/1q6/2r5/K5R1 w - - 0 1")  # most moves of White are answered by mate on b2


@pytest.mark.parametrize("changes", [{}, {"noise_epsilon": 0.5}, {"certainty": True, "lookahead": True}])
@pytest.mark.parametrize("start", [STARTS[0], OPEN_GAME, NEARLY_MATED], ids=["start", "open", "nearly mated"])
def test_the_nets_values_and_priors_are_its_answer(start: Position, changes: dict[str, Any]) -> None:
    leaf, moves = leaf_of(start, SearchParams())
    answer, result = FakeNet()(leaf), searched(start, 60, **changes).result(0)
    assert result.net_q == pytest.approx(float(answer.q[0]), abs=1e-7)
    assert result.net_d == pytest.approx(float(answer.d[0]), abs=1e-8)
    assert result.net_m == pytest.approx(float(answer.m[0]), abs=1e-5)
    powers = np.exp(answer.logits.astype(float) / SearchParams().policy_softmax_temp)
    wanted = dict(zip(moves, (powers / powers.sum()).tolist(), strict=True))
    assert {m.move: m.net_prior for m in result.moves} == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(("start", "worth"), [(STARTS[0], 0.5), (OPEN_GAME, -0.5)])
def test_the_nets_q_has_the_draw_score_as_that_of_the_search_has(start: Position, worth: float) -> None:
    plain, scored = searched(start, 1).result(0), searched(start, 1, draw_score=0.5).result(0)
    assert (scored.net_wl, scored.net_d) == (plain.net_q, plain.net_d)
    assert scored.net_q == pytest.approx(plain.net_q + worth * plain.net_d)
    assert scored.net_q == pytest.approx(scored.root_q)  # of a single visit


def test_priors_with_noise_are_others() -> None:
    noisy = searched(OPEN_GAME, 60, noise_epsilon=0.5).result(0)
    assert max(abs(m.prior - m.net_prior) for m in noisy.moves) > 0.01
    plain = searched(OPEN_GAME, 60).result(0)
    assert [m.prior for m in plain.moves] == [m.net_prior for m in plain.moves]


def test_a_move_proven_lost_keeps_what_the_net_said_of_it() -> None:
    lost = [m for m in searched(NEARLY_MATED, 200).result(0).moves if m.certain == -1]
    assert lost
    assert all(m.prior < 1e-6 < m.net_prior for m in lost)
