"""One root: the tree kept between moves, two-fold draws taken back, proven positions as roots, limits and stops."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mcts_doubles import (
    FakeNet,
    PlainSearch,
    Tree,
    Twig,
    after,
    any_params,
    any_position,
    position,
    searched,
    tree_below,
    tree_of,
)
from tests.tree_checks import check_trees, checked_rounds
from valuerepair.chess.positions import Position
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.evaluator import Evaluations, Leaves
from valuerepair.mcts.layout import ENDED, OPEN, TWO_FOLD
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import SearchResult
from valuerepair.mcts.search import Search
from valuerepair.nets.policy import PLAIN_INDEX

START = position()
KIWIPETE = position("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", "a2a3 h3g2")
ENDING = position("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 10 1")
BACK_RANK = position("6k1/5ppp/8/8/8/8/1q3PPP/3R2K1 b - - 0 1")  # most moves of the queen allow mate
# Knights go out and home again: policy indices of g1f3 and f3g1, seen from the side to move.
KNIGHT_OUT, KNIGHT_HOME = int(PLAIN_INDEX[6, 21]), int(PLAIN_INDEX[21, 6])
SHUFFLE = ("g1f3", "g8f6", "f3g1", "f6g8")


def tree(search: Search) -> Tree:
    """What the search knows, which must hold together."""
    check_trees(search._forest._trees, search._forest._rules)
    return tree_of(search._forest)


def visited(search: Search, start: Position, nodes: int) -> SearchResult:
    search.set_position(start)
    return search.run(nodes=nodes)


def as_root(twig: Twig) -> Twig:
    """What may be different of a node that has become the root: nobody moves there any more, nothing bounds it."""
    return replace(twig, edge=None, bounds=(-1, 1))


def line_of(nodes: Tree, length: int) -> tuple[str, ...]:
    """The most visited line."""
    line: tuple[str, ...] = ()
    while len(line) < length:
        replies = [path for path in nodes if len(path) == len(line) + 1 and path[:-1] == line]
        line = max(replies, key=lambda path: nodes[path].n)
    return line


# --- What is kept


@settings(max_examples=25, deadline=None)
@given(
    start=st.sampled_from((START, KIWIPETE, ENDING, BACK_RANK)),
    plies=st.integers(1, 3),
    sharpness=st.sampled_from((2.0, 8.0)),
    changes=st.sampled_from(({}, {"certainty": True, "lookahead": True}, {"n_scl": 4, "auto_extend": True})),
)
def test_exactly_what_is_below_the_moves_is_kept(
    start: Position, plies: int, sharpness: float, changes: dict[str, Any]
) -> None:
    params = SearchParams(two_fold_draws=False, **changes)
    search = Search(FakeNet(sharpness=sharpness), params)
    visited(search, start, 150)
    before = tree(search)
    line = line_of(before, plies)
    if before[line].kind != OPEN:
        return  # a proven root is another test's
    assert search.set_position(after(start, *line))
    kept = tree_below(before, *line)
    kept[()] = as_root(kept[()])
    now = tree(search)
    if "certainty" in changes:  # means are taken anew
        assert {path: t.wl for path, t in now.items()} == pytest.approx({path: t.wl for path, t in kept.items()})
        assert {path: t.d for path, t in now.items()} == pytest.approx({path: t.d for path, t in kept.items()})
        now, kept = ({path: replace(t, wl=0, d=0, edge=None) for path, t in x.items()} for x in (now, kept))
    assert now == kept
    assert search.nodes == kept[()].n
    result = search.run(nodes=search.nodes + 60)
    assert result.evaluations <= 60


@pytest.mark.parametrize("changes", [{}, {"lc0_floats": True}, {"draw_score": 0.3}])
@pytest.mark.parametrize("start", [START, KIWIPETE, ENDING])
def test_a_kept_tree_grows_on_as_a_plain_search_does(start: Position, changes: dict[str, Any]) -> None:
    params = SearchParams(two_fold_draws=False, sticky_endgames=False, **changes)
    search, plain = Search(FakeNet(), params), PlainSearch(FakeNet(), start, params)
    visited(search, start, 120)
    plain.run(120)
    line = line_of(tree(search), 3)
    for moves in (line[:1], line[1:]):  # one ply, then two at once
        plain.advance(*moves)
        start = after(start, *moves)
        assert search.set_position(start)
        search.run(nodes=150)
        plain.run(150)
        ours, theirs = tree(search), plain.tree()
        assert {path: t.n for path, t in ours.items()} == {path: n for path, (n, _, _) in theirs.items()}
        values = np.array([(t.wl, t.d) for t in ours.values()])
        assert np.abs(values - [theirs[path][1:] for path in ours]).max() < 1e-5


def test_the_same_position_and_unknown_replies() -> None:
    search = Search(FakeNet())
    assert not search.set_position(KIWIPETE)
    search.run(nodes=200)
    assert search.set_position(KIWIPETE)
    assert search.nodes == 200
    nodes = tree(search)
    unseen = next(name for name, _, _ in nodes[line_of(nodes, 1)].moves if (*line_of(nodes, 1), name) not in nodes)
    assert not search.set_position(after(KIWIPETE, *line_of(nodes, 1), unseen))
    assert search.nodes == 0
    assert search.run(nodes=30).nodes == 30


@pytest.mark.parametrize(
    "other",
    [
        Position(KIWIPETE.fen, KIWIPETE.fen),  # without its history
        position(KIWIPETE.start_fen, "a2a3"),  # moves were taken back
        position(KIWIPETE.start_fen, "a2a4 h3g2"),
        START,
    ],
)
def test_another_game_gets_a_new_tree(other: Position) -> None:
    search = Search(FakeNet())
    visited(search, KIWIPETE, 100)
    assert not search.set_position(other)
    assert search.nodes == 0
    assert repr(search.run(nodes=60)) == repr(searched(other, 60).result(0))


def test_a_position_that_cannot_be_searched_leaves_the_last_one() -> None:
    search = Search(FakeNet())
    visited(search, KIWIPETE, 50)
    for wrong in (after(START, "f2f3", "e7e5", "g2g4", "d8h4"), Position("k7/8/8/8/8/8/8/8 w - - 0 1", "k w")):
        with pytest.raises(ValueRepairError):
            search.set_position(wrong)
    assert search.nodes == 50
    assert search.run(nodes=60).nodes == 60


@checked_rounds()
def play_on(seed: int, plies: int, nodes: int) -> int:
    """A game from a random position with random options; the best move is played, or another. Counts the trees kept."""
    rng = random.Random(seed)
    changes = any_params(rng)
    search = Search(FakeNet(sharpness=rng.choice((1.0, 6.0)), spread=rng.choice((0.0, 0.5))), SearchParams(**changes))
    game, kept = any_position(rng), 0
    for _ in range(plies):
        kept += search.set_position(game)
        result = search.run(nodes=search.nodes + nodes)
        assert sum(m.prior for m in result.moves) > 0.0
        assert {m.move for m in result.moves} == {m.uci() for m in chess.Board(game.fen).legal_moves}
        move = result.best_move if rng.random() < 0.7 else rng.choice(result.moves).move
        game = after(game, move)
        if not any(chess.Board(game.fen).legal_moves):
            break
    return kept


@pytest.mark.parametrize("seed", [*range(8), 100084])
def test_trees_stay_whole_through_a_game_with_any_options(seed: int) -> None:
    # In the last one draws are taken back, searched, and kept: their moves lie behind those of later nodes then.
    assert play_on(seed, 12, 40 if seed < 8 else 60) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_trees_stay_whole_through_longer_games(seed: int) -> None:
    play_on(seed, 40, 120)


# --- Two-fold draws


def shuffling() -> FakeNet:
    return FakeNet(sharpness=1.0, spread=0.02, liked=(KNIGHT_OUT, KNIGHT_HOME))


@pytest.mark.parametrize("changes", [{}, {"draw_score": 0.5}, {"auto_extend": True}])
def test_a_two_fold_draw_that_begins_before_the_root_is_taken_back(changes: dict[str, Any]) -> None:
    search = Search(shuffling(), SearchParams(**changes))
    visited(search, START, 300)
    before = tree(search)
    drawn = {path: t.n for path, t in before.items() if t.kind == TWO_FOLD}
    assert drawn[SHUFFLE] > 1
    search.set_position(after(START, *SHUFFLE[:1]))
    now = tree(search)
    gone = {path[1:]: n for path, n in drawn.items() if path[:1] == SHUFFLE[:1] and before[path].m > len(path) - 1}
    assert gone
    for path, twig in now.items():
        lost = sum(n for drawn_path, n in gone.items() if drawn_path[: len(path)] == path)
        assert twig.n == before[SHUFFLE[:1] + path].n - lost
        assert (twig.kind == TWO_FOLD) is (before[SHUFFLE[:1] + path].kind == TWO_FOLD and path not in gone)
        if not lost and path:
            assert replace(twig, edge=None) == replace(before[SHUFFLE[:1] + path], edge=None)
    search.run(nodes=search.nodes + 200)
    assert tree(search)[SHUFFLE[1:]].kind == OPEN
    assert tree(search)[SHUFFLE[1:]].n > 0
    fresh = searched(after(START, *SHUFFLE[:1]), 300, shuffling(), **changes)
    assert search.run(nodes=search.nodes).root_q == pytest.approx(fresh.result(0).root_q, abs=0.05)


def test_a_two_fold_draw_inside_the_kept_tree_stays() -> None:
    search = Search(shuffling())
    visited(search, START, 2000)
    line = ("g1f3", *SHUFFLE[1:])
    further = [p for p, t in tree(search).items() if t.kind == TWO_FOLD and len(p) >= 6 and t.m <= len(p) - 1]
    inside = next(p for p in further if p[:1] == line[:1])
    twig = tree(search)[inside]
    assert search.set_position(after(START, "g1f3"))
    assert tree(search)[inside[1:]] == twig


def test_a_forced_chain_that_ended_in_such_a_draw_is_searched_again() -> None:
    """Checks that leave the king one square each: the only visits of the chain are those of the draw."""
    start, line = position("6k1/6p1/8/7Q/8/8/6PP/6K1 w - - 0 1"), ("h5e8", "g8h7", "e8h5", "h7g8")
    net = FakeNet(spread=0.1, liked=(int(PLAIN_INDEX[39, 60]), int(PLAIN_INDEX[60, 39])))
    search = Search(net, SearchParams(auto_extend=True))
    visited(search, start, 150)
    before = tree(search)
    assert before[line[:3]].forced
    assert (before[line].kind, before[line].n) == (TWO_FOLD, before[line[:3]].n)
    assert search.set_position(after(start, *line[:1]))
    now = tree(search)
    assert (now[line[1:3]].n, now[line[1:]].n, now[line[1:]].kind) == (0, 0, OPEN)
    assert search.nodes == now[()].n == before[line[:1]].n - before[line].n
    search.run(nodes=search.nodes + 100)
    assert tree(search)[line[1:]].n == tree(search)[line[1:3]].n > 0
    assert search.set_position(after(start, *line[:2]))
    assert search.run(nodes=search.nodes + 100).nodes == tree(search)[()].n == search.nodes


# --- Proven positions


@pytest.mark.parametrize("changes", [{}, {"certainty": True}, {"certainty": True, "lookahead": True}])
def test_a_proven_position_as_root_is_searched_as_any_other(changes: dict[str, Any]) -> None:
    search = Search(FakeNet(), SearchParams(**changes))
    first = visited(search, BACK_RANK, 200)
    blunder = next(m for m in first.moves if m.mate == -1 and m.visits)
    assert (blunder.certain, blunder.q, blunder.wdl) == (-1, -1.0, (0.0, 0.0, 1.0))
    was_kept = search.set_position(after(BACK_RANK, blunder.move))
    assert was_kept or "lookahead" in changes  # what was never evaluated is not kept
    if was_kept:
        assert tree(search)[()].kind == OPEN
        assert sum(m.prior for m in search.run(nodes=1).moves) > 0.5
    result = search.run(nodes=60)
    assert (result.best_move, result.certain, result.mate) == ("d1d8", 1, 1)
    assert sum(m.prior for m in result.moves) == pytest.approx(1, abs=1e-4)


@checked_rounds()
def test_the_mate_that_was_found_is_played_out() -> None:
    start = position("6k1/5ppp/8/8/8/8/q4PPP/3R2K1 w - - 0 1")
    params = SearchParams(certainty=True)
    search = Search(FakeNet(), params)
    result = visited(search, start, 500)
    assert (result.best_move, result.mate) == ("d1d8", 1)
    assert result.nodes < 100
    assert [t.kind for path, t in tree(search).items() if path == ("d1d8",)] == [ENDED]
    with pytest.raises(ValueRepairError, match="checkmate"):
        search.set_position(after(start, "d1d8"))


# --- Root moves


@checked_rounds()
def test_only_the_given_root_moves_are_searched() -> None:
    search = Search(FakeNet())
    search.set_position(KIWIPETE)
    root_moves = ["e1c1", "e5g6", "e1c1"]
    result = search.run(nodes=80, root_moves=root_moves)
    assert {m.move for m in result.moves} == set(root_moves)
    assert result.nodes == 1 + sum(m.visits for m in result.moves) == 80
    everything = visited(Search(FakeNet()), KIWIPETE, 1)
    assert {m.move: m.prior for m in result.moves} == {
        m.move: m.prior for m in everything.moves if m.move in root_moves
    }
    assert not search.set_position(KIWIPETE)  # some moves only are no tree for all of them
    assert len(search.run(nodes=40).moves) == len(everything.moves)
    assert search.run(nodes=40, root_moves=["e2a6"]).best_move == "e2a6"
    assert search.run(nodes=40, root_moves=["e5g6"]).best_move == "e5g6"


@pytest.mark.parametrize("lookahead", [False, True])
@checked_rounds()
def test_a_win_that_is_left_out_ends_no_search(lookahead: bool) -> None:
    """Ra8 mates. A kept mate ends the search at once, one that is not to be searched proves nothing."""
    start = position("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1")
    search = Search(FakeNet(), SearchParams(certainty=True, lookahead=lookahead))
    search.set_position(start)
    others = search.run(nodes=60, root_moves=["a1a7", "a1a2"])
    assert others.nodes == 60
    assert {move.move for move in others.moves if move.visits} == {"a1a7", "a1a2"}
    mate = search.run(nodes=60, root_moves=["a1a8", "a1a2"])
    assert (mate.best_move, mate.certain) == ("a1a8", 1)
    assert mate.nodes < 60


@pytest.mark.parametrize("wrong", ["e2e5", "e1h1", "e7e5", "xx", ""])
def test_a_root_move_that_is_not_legal_is_refused(wrong: str) -> None:
    search = Search(FakeNet())
    search.set_position(KIWIPETE)
    with pytest.raises(UsageError, match=f"^{wrong}: not a legal move in r3k2r"):
        search.run(nodes=50, root_moves=["e1c1", wrong])
    assert search.run(nodes=50).nodes == 50


# --- Limits


class SlowNet(FakeNet):
    def __call__(self, leaves: Leaves) -> Evaluations:
        time.sleep(0.002)
        return super().__call__(leaves)


def test_a_search_ends_by_nodes_by_time_and_by_stop() -> None:
    search = Search(SlowNet(), nodes=5000)
    search.set_position(KIWIPETE)
    assert search.run(nodes=40).nodes == 40
    assert search.run(nodes=10).nodes == 41  # it has them; there is always one more evaluation
    begun = time.monotonic()
    timed = search.run(seconds=0.2)
    assert 0.2 <= time.monotonic() - begun < 0.6
    assert 41 < timed.nodes < 41 + 110
    calls = 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls == 5

    assert search.run(stop=stop).nodes == timed.nodes + 5
    assert search.run(stop=lambda: True).nodes == timed.nodes + 6


def test_a_search_without_limits_ends_when_its_room_is_full() -> None:
    search = Search(FakeNet(), nodes=300)
    search.set_position(KIWIPETE)
    assert search.run().nodes == 300
    assert search.run(nodes=1000).nodes == 301


def test_information_comes_while_it_searches() -> None:
    search, infos = Search(SlowNet()), list[SearchResult]()
    search.set_position(KIWIPETE)
    last = search.run(nodes=150, on_info=infos.append, info_seconds=0.05, lines=3)
    nodes = [r.nodes for r in infos]
    assert 3 <= len(nodes) <= 30
    assert nodes == sorted(set(nodes))
    assert nodes[-1] <= last.nodes == 150
    assert [len(m.pv) > 1 for m in infos[-1].moves[:4]] == [True, True, True, False]
    assert all(m.pv[0] == m.move for m in infos[-1].moves)


@pytest.mark.parametrize("nodes", [0, -1])
def test_no_nodes_are_refused(nodes: int) -> None:
    search = Search(FakeNet())
    with pytest.raises(UsageError, match="no position to search"):
        search.run(nodes=1)
    search.set_position(KIWIPETE)
    with pytest.raises(UsageError, match="at least 1"):
        search.run(nodes=nodes)
    with pytest.raises(UsageError, match="at least 1"):
        Search(FakeNet(), nodes=nodes)


def test_a_tree_beyond_memory_is_refused() -> None:
    search = Search(FakeNet(), nodes=10**11)
    search.set_position(KIWIPETE)
    with pytest.raises(UsageError, match=r"^100,000,000,000 nodes .* at most about [\d,]+ nodes$"):
        search.run()
    assert search.run(nodes=10).nodes == 10
