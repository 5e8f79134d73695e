"""Certainty and look-ahead: what the search says is proven, against python-chess and exhaustive play."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mcts_doubles import COLOUR_PLANE, FakeNet, leaf_of, position, searched
from tests.search_trees import (
    BACK_RANK,
    CORNERED,
    MATE_IN_2,
    OPTIONS,
    STALEMATE_TRICK,
    Node,
    board_of,
    boards_of,
    endings,
    exhaustive,
    forced_mate,
    ids,
    placed,
    prove,
    result_of,
)
from tests.tree_checks import check_trees
from valuerepair.chess.positions import Position
from valuerepair.mcts.evaluator import Evaluations, Leaves
from valuerepair.mcts.layout import ENDED, OPEN, TWO_FOLD
from valuerepair.mcts.params import SearchParams

MEN = ("KQk", "KRk", "KQQk", "KRRk", "KRkr", "KPk", "KQkp", "KBNk", "KPPkp", "KRPkr", "KQkrp", "KNPkb", "KQRkrbnpp")
# Their lines end after a capture, so that the 50-move rule ends all the others soon.
SHORT = ("KQk", "KRk", "KBNk", "KBkn", "KNkn", "KBBk", "KNNk")
SHUFFLE = "7k/8/8/8/8/8/r6P/7K w - - 0 1"


def check_proofs(start: Position, nodes: int, options: dict[str, Any]) -> int:
    """Holds every node of a search against what its tree proves; returns how many say something."""
    forest = searched(start, nodes, **options)
    check_trees(forest._trees, forest._rules)
    tree, proofs = boards_of(forest, start), 0
    prove(tree)
    for node in tree.walk():
        where = f"{node.board.fen()} below {start.fen} with {options}"
        if node.depth == 0 or node.kind == TWO_FOLD:
            assert (node.lower, node.upper) == (-1, 1), where
        else:
            assert (node.lower, node.upper) == node.proven, where
            proofs += node.proven != (-1, 1)
    for move in forest.result(0).moves:
        proven = tree.children[move.move].proven if move.visits else (-1, 1)
        if move.certain is not None and move.visits:
            assert proven == (move.certain, move.certain), (start.fen, move)
    return proofs


# --- Proofs are right, and all that the tree holds are found


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=ids)
def test_bounds_are_those_of_minimax_over_what_was_tried(options: dict[str, Any]) -> None:
    proofs = sum(check_proofs(start, 600, options) for start in endings(MEN, (0, 0, 80, 90, 94, 97), 60, 8))
    assert proofs > 1500


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_no_proof_is_wrong_whatever_the_position(data: st.DataObject) -> None:
    men = "Kk" + "".join(data.draw(st.lists(st.sampled_from("QRBNPqrbnp"), max_size=6)))
    rng = data.draw(st.randoms(use_true_random=False))
    start = placed(men, data.draw(st.booleans()), data.draw(st.sampled_from((0, 60, 92, 99))), rng)
    if start is not None:
        check_proofs(start, data.draw(st.integers(1, 150)), data.draw(st.sampled_from(OPTIONS)))


def assert_solved(start: Position, seen: dict[str, int], **options: Any) -> bool:
    """All proven moves of a search have the value of exhaustive play; whether they are enough to know the best."""
    result, board, proven = result_of(start, 3000, certainty=True, **options), board_of(start), 0
    for move in result.moves:
        board.push_uci(move.move)
        if move.certain is not None:
            assert move.certain == -exhaustive(board, seen, 1), (start.fen, move)
            proven += 1
        board.pop()
    solved = result.certain == 1 or proven == len(result.moves)
    assert not solved or result.certain == exhaustive(board, seen), start.fen
    return solved


@pytest.mark.slow
@pytest.mark.parametrize(("forced", "count", "enough"), [(False, 80, 60), (True, 2000, 1200)])
def test_searches_to_the_end_find_the_value_of_exhaustive_play(forced: bool, count: int, enough: int) -> None:
    seen: dict[str, int] = {}
    starts = endings(SHORT, (96, 97, 98, 99), count, 2)
    assert sum(assert_solved(start, seen, lookahead=forced, auto_extend=forced) for start in starts) > enough


# --- What certainty does to visits and values


# White, a queen down, can repeat for the third time by f3g1.
QUEEN_DOWN = position(
    "rnbq1bnr/pppkpppp/8/3p4/8/P5PP/1PPPPP2/RNB1KBNR b - - 0 12", "g8f6 g1f3 f6g8 f3g1 g8f6 g1f3 f6g8"
)


class WhiteIsLost(FakeNet):
    """A net that gives White no hope, and some moves hardly a chance to be tried."""

    def __init__(self, disliked: int) -> None:
        super().__init__()
        self.disliked = disliked

    def __call__(self, leaves: Leaves) -> Evaluations:
        answer = super().__call__(leaves)
        q = np.where(leaves.masks[:, COLOUR_PLANE] != 0, 0.8, -0.8).astype(np.float32)
        logits = answer.logits - np.float32(9) * (leaves.indices == self.disliked)
        return answer._replace(q=q, d=np.full_like(q, 0.1), logits=logits)


@pytest.mark.parametrize("nodes", [2, 40, 200])
def test_a_value_is_not_below_a_draw_that_is_proven_at_the_root(nodes: int) -> None:
    """The net never tries the move."""
    board = board_of(QUEEN_DOWN)
    board.push_uci("f3g1")
    assert board.is_repetition(3)
    leaf, names = leaf_of(QUEEN_DOWN, SearchParams())
    net = WhiteIsLost(int(leaf.indices[names.index("f3g1")]))
    result = searched(QUEEN_DOWN, nodes, net, certainty=True, lookahead=True).result(0)
    assert (result.best_move, result.certain, result.q, result.best.visits) == ("f3g1", 0, 0.0, 0)
    unproven = searched(QUEEN_DOWN, nodes, net, lookahead=True).result(0)  # as lc0
    assert unproven.best_move != "f3g1"
    assert unproven.q < -0.5


def test_a_draw_that_is_worth_less_than_the_best_move_is_not_played() -> None:
    """What a draw is worth decides, not 0: a draw counts as a loss here."""
    leaf, names = leaf_of(QUEEN_DOWN, SearchParams())
    net = WhiteIsLost(int(leaf.indices[names.index("f3g1")]))
    result = searched(QUEEN_DOWN, 40, net, certainty=True, lookahead=True, draw_score=-1.0).result(0)
    assert result.best_move != "f3g1"
    assert -1 < result.q < -0.5


def grow(start: Position, steps: tuple[int, ...]) -> Iterator[Node]:
    forest = searched(start, 1, certainty=True)
    for nodes in steps:
        forest.go_on(0, nodes)
        while not forest.is_done(0):
            forest.play_round()
        yield boards_of(forest, start)


def test_what_is_proven_is_not_visited_again() -> None:
    quiet = grown = 0
    for start in endings(MEN, (0, 94, 97), 6, 3):
        proven: dict[tuple[str, ...], int] = {}
        for tree in grow(start, tuple(range(60, 300, 60))):
            for node in tree.walk():
                line = tuple(move.uci() for move in node.board.move_stack)
                drawn_at_root = node.depth == 1 and node.lower == 0
                if node.depth and node.kind == ENDED and not drawn_at_root:
                    quiet += line in proven
                    assert node.visits == proven.setdefault(line, node.visits), (start.fen, line)
                grown += node.kind == OPEN and node.visits > 1
    assert min(quiet, grown) > 100


def test_without_certainty_proven_moves_are_visited_on() -> None:
    start = position("7k/8/5K2/6Q1/8/8/8/8 w - - 90 90")
    tree = boards_of(searched(start, 500), start)
    assert any(node.kind == ENDED and node.visits > 20 for node in tree.walk())


def test_a_draw_in_hand_ends_visits_to_moves_that_cannot_win() -> None:
    passed = 0
    for start in endings(("KRkr", "KQkrp", "KRPkr", "KPk"), (97, 98), 12, 4):
        visits: dict[tuple[str, ...], int] = {}
        for tree in grow(start, (100, 200, 300)):
            for node in tree.walk():
                if node.depth == 0 or node.kind != OPEN or node.upper > 0:
                    continue
                for move, child in node.children.items():
                    if child.kind == OPEN and child.upper <= 0:
                        line = (*(m.uci() for m in node.board.move_stack), move)
                        passed += line in visits
                        assert child.visits == visits.setdefault(line, child.visits), (start.fen, line)
    assert passed > 5


@pytest.mark.parametrize("options", OPTIONS[3:], ids=ids)
def test_means_are_those_of_proven_values_and_lie_within_bounds(options: dict[str, Any]) -> None:
    hidden = 0
    for start in endings(MEN, (0, 94, 97), 8, 6):
        forest = searched(start, 300, **options)
        for node in boards_of(forest, start).walk():
            assert node.lower <= node.wl <= node.upper
            if node.kind == OPEN:
                own = 0.0 if node.forced else node.own
                mean = (own - sum(c.visits * c.wl for c in node.children.values())) / node.visits
                hidden += not node.lower - 1e-6 <= mean <= node.upper + 1e-6
                assert abs(node.wl - min(max(mean, node.lower), node.upper)) < 1e-5
    assert hidden > 0  # bounds did change means


def test_the_root_is_not_settled_and_the_search_ends_when_its_value_is_known() -> None:
    win = result_of(position(BACK_RANK), 500, certainty=True)
    assert (win.certain, win.best.wl) == (1, 1.0)
    assert abs(win.root_q) < 1
    assert win.q == 1
    lost = result_of(position("k7/8/1K6/8/8/8/8/7R b - - 0 1"), 500, certainty=True)
    assert {(move.certain, move.mate) for move in lost.moves} == {(-1, -1)}
    drawn = result_of(position("8/8/8/8/8/4k3/8/4KR2 b - - 99 90"), 500, certainty=True)
    assert {(move.certain, move.wl, move.d, move.mate) for move in drawn.moves} == {(0, 0.0, 1.0, None)}
    assert max(result.nodes for result in (win, lost, drawn)) < 500


# The king may take the rook, which draws at once.
TAKES_ROOK = position("8/8/8/8/8/4k3/4R3/7K b - - 0 1")


class BiasedNet(FakeNet):
    """Q of all positions is that much better for Black."""

    def __init__(self, by: float) -> None:
        super().__init__(spread=0.2)
        self.by = by

    def __call__(self, leaves: Leaves) -> Evaluations:
        answer, black = super().__call__(leaves), leaves.masks[:, 108] != 0
        q = answer.q + np.where(black, self.by, -self.by)
        return answer._replace(q=q.astype(np.float32))


def test_root_moves_that_draw_are_chosen_by_visits() -> None:
    worse, better = (searched(TAKES_ROOK, 200, BiasedNet(by), certainty=True).result(0) for by in (-0.3, 0.3))
    assert (worse.best_move, worse.certain) == ("e3e2", 0)
    assert worse.best.visits > 100
    assert better.best.certain is None
    assert next(move for move in better.moves if move.move == "e3e2").certain == 0


# --- Rules of the draw inside proofs


def test_a_first_repetition_is_no_proof_and_a_second_one_is() -> None:
    start = position(SHUFFLE, "h1g1 h8g8 g1h1 g8h8 h1g1 h8g8")
    forest = searched(start, 600, certainty=True)
    kinds = {node.kind for node in boards_of(forest, start).walk() if node.board.is_repetition(2)}
    third = [node for node in boards_of(forest, start).walk() if node.board.is_repetition(3)]
    assert TWO_FOLD in kinds
    assert {(node.kind, node.wl) for node in third} == {(ENDED, 0.0)}
    assert next(move for move in forest.result(0).moves if move.move == "g1h1").certain is None


def test_look_ahead_sees_a_second_repetition_with_the_moves_of_the_game() -> None:
    moves = "h1g1 h8g8 g1h1 g8h8 h1g1 h8g8 g1h1"
    start = position(SHUFFLE, moves)
    result = result_of(start, 1, certainty=True, lookahead=True)
    assert {move.move: move.certain for move in result.moves}["g8h8"] == 0
    fresh = result_of(position(start.fen), 1, certainty=True, lookahead=True)
    assert {move.move: move.certain for move in fresh.moves}["g8h8"] is None


def test_mate_comes_before_the_fifty_moves() -> None:
    result = result_of(position("7k/R7/1R6/8/8/8/8/K7 w - - 99 90"), 50, certainty=True)
    assert (result.best_move, result.mate) == ("b6b8", 1)
    assert {move.certain for move in result.moves[1:]} <= {0, None}


def test_a_fortress_is_no_win() -> None:
    # The defender stands before the pawn: the king's move behind it stalemates, all others lose it.
    for fen, stalemates in ((STALEMATE_TRICK, {"e6f6"}), ("k7/P7/8/1K6/8/8/8/8 w - - 0 1", {"b5a6", "b5b6"})):
        start = position(fen)
        forest = searched(start, 600, certainty=True)
        tree = boards_of(forest, start)
        moves = {move.move: move.certain for move in forest.result(0).moves}
        assert {move for move, certain in moves.items() if certain is not None} >= stalemates
        assert set(moves.values()) <= {0, None}
        assert all(child.upper == 0 for child in tree.children.values())


# --- Look-ahead


@pytest.mark.parametrize("certainty", [False, True])
def test_look_ahead_finds_a_mate_with_one_evaluation(certainty: bool) -> None:
    net = FakeNet()
    result = searched(position(BACK_RANK), 1, net, lookahead=True, certainty=certainty).result(0)
    assert net.sizes == [1]
    assert (result.best_move, result.mate, result.best.visits, result.best.wl) == ("d1d8", 1, 0, 1.0)
    assert result.best.pv == ("d1d8",)
    assert result_of(position(BACK_RANK), 1, certainty=certainty).mate is None


def test_with_certainty_a_mate_at_once_ends_the_search() -> None:
    net = FakeNet()
    result = searched(position(BACK_RANK), 800, net, lookahead=True, certainty=True).result(0)
    assert (net.sizes, result.nodes, result.mate) == ([1], 1, 1)


def test_look_ahead_settles_what_allows_mate_without_an_evaluation() -> None:
    start = position("6k1/5ppp/8/8/8/8/1q3PPP/3R2K1 b - - 0 1")
    for lookahead in (False, True):
        tree = boards_of(searched(start, 200, certainty=True, lookahead=lookahead), start)
        lost = [child for child in tree.children.values() if forced_mate(child.board, 1)]
        assert len(lost) >= 3
        assert lookahead == all(child.wl == -1 and child.visits == 1 and not child.children for child in lost)


def test_look_ahead_proves_the_same_with_fewer_evaluations() -> None:
    evaluations = {False: 0, True: 0}
    for start in map(position, (MATE_IN_2, BACK_RANK, "7k/8/5K2/8/8/8/8/6Q1 w - - 0 1", CORNERED)):
        for lookahead in (False, True):
            net = FakeNet()
            result = searched(start, 2000, net, certainty=True, lookahead=lookahead).result(0)
            assert result.certain == 1 or not lookahead
            evaluations[lookahead] += sum(net.sizes)
    assert evaluations[True] < 0.5 * evaluations[False]
