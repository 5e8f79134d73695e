"""The neighbourhood of a position: what is one step away, and what a search says of its own line.

python-chess is the judge of what is reached and of when a game is over, Stockfish of what a line is worth.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from valuerepair.runs.neighbourhood import STEPS, Neighbours, inferred, neighbours
from valuerepair.store.reached import ExpansionSource

from valuerepair.chess import values
from valuerepair.chess.origins import OriginGame
from valuerepair.chess.positions import Position, encode_moves
from valuerepair.engines.spec import find_engine
from valuerepair.oracles.open import open_oracle
from valuerepair.store.rows import CHILD, GAME, LINE, PARENT, DeepResult

GAME_OF = OriginGame("games.pgn", 7, 100, {"White": "A"}, "1-0")
ALL = STEPS


def source_of(
    moves: Sequence[str] = (), fen: str = chess.STARTING_FEN, deep: DeepResult | None = None, then: Sequence[str] = (),
    **changes: object,
) -> ExpansionSource:  # fmt: skip
    board = played(fen, moves)
    fields = {"searched": True, "in_game": True, "deep_q": 0.1, **changes}
    return ExpansionSource(
        5, 5, 1, fen, encode_moves(moves), encode_moves(then), board.ply(), history_known=True, game=GAME_OF,
        deep=deep or DeepResult(cp=30, depth=20), **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def played(fen: str, moves: Sequence[str]) -> chess.Board:
    board = chess.Board(fen)
    for move in moves:
        board.push_uci(move)
    return board


def found(source: ExpansionSource, steps: Sequence[str] = ALL, policy: Sequence[str] = ()) -> Neighbours:
    return neighbours([source], [encode_moves(policy)], steps)


def random_game(seed: int, plies: int) -> list[str]:
    dice, board = random.Random(seed), chess.Board()
    while board.ply() < plies and any(board.legal_moves):
        board.push(dice.choice(list(board.legal_moves)))
    return [move.uci() for move in board.move_stack]


def steps_of(near: Neighbours) -> list[tuple[str, int]]:
    return list(zip(near.step, near.distance.tolist(), strict=True))


# -- values of a line -------------------------------------------------------------------------------------------------


@given(mate=st.integers(-40, 40).filter(bool), plies=st.integers(1, 12))
def test_moves_to_mate_count_down_as_python_chess_counts_them(mate: int, plies: int) -> None:
    """UCI counts the mating side's moves; python-chess turns such a score, and the distance in plies shrinks by one."""
    deep = DeepResult(mate=mate, depth=99, pv=("a2a3",) * 12)
    reached = inferred(deep, plies)
    left = (2 * mate - 1 if mate > 0 else -2 * mate) - plies
    if left <= 0:
        assert reached is None
        return
    assert reached is not None
    assert reached.mate is not None
    assert (2 * reached.mate - 1 if reached.mate > 0 else -2 * reached.mate) == left
    assert (reached.mate > 0) == (left % 2 == 1)  # who has the last ply mates
    assert (reached.mate > 0) == (mate > 0) if plies % 2 == 0 else (reached.mate > 0) != (mate > 0)


def test_a_real_mate_counts_down_to_the_board_on_which_it_is_given() -> None:
    """Légal's mate from the queen's capture on: two more moves, three plies."""
    moves = ["e2e4", "e7e5", "g1f3", "d7d6", "f1c4", "c8g4", "b1c3", "g7g6", "f3e5", "g4d1"]
    line = ("c4f7", "e8e7", "c3d5")
    assert played(chess.STARTING_FEN, [*moves, *line]).is_checkmate()
    near = found(source_of(moves, deep=DeepResult(mate=2, depth=30, pv=line)), (LINE,))
    assert [deep.mate for deep in near.deep if deep is not None] == [-1, 1]
    for k, fen in enumerate(near.batch.fen, 1):
        board = played(chess.STARTING_FEN, [*moves, *line[:k]])
        assert fen == board.fen()


@given(
    cp=st.integers(-900, 900), w=st.integers(0, 500), d=st.integers(0, 500), q=st.floats(-1, 1),
    plies=st.integers(1, 12),
)  # fmt: skip
def test_a_value_changes_sides_with_every_ply(cp: int, w: int, d: int, q: float, plies: int) -> None:
    wdl = (w, d, 1000 - w - d)
    deep = DeepResult(cp=cp, wdl=wdl, q=q, depth=13, seldepth=20, nodes=1000, time_ms=7, pv=tuple("abcdefghijkl"))
    reached = inferred(deep, plies)
    assert reached is not None
    sign = (-1) ** plies
    assert (reached.cp, reached.q, reached.depth) == (sign * cp, sign * q, 13 - plies)
    assert reached.wdl is not None
    assert float(values.wdl_to_q(reached.wdl)) == pytest.approx(sign * float(values.wdl_to_q(wdl)))
    assert (reached.nodes, reached.time_ms) == (0, 0)
    assert reached.pv == deep.pv[plies:]
    assert reached.best_move == (deep.pv[plies] if plies < 12 else None)


def test_no_value_without_depth_left_or_beyond_the_line() -> None:
    deep = DeepResult(cp=10, depth=3, pv=("e2e4", "e7e5", "g1f3"))
    assert [inferred(deep, k) is not None for k in (1, 2, 3, 4)] == [True, True, False, False]
    assert inferred(DeepResult(cp=10, depth=30, pv=("e2e4",)), 2) is None


@pytest.mark.skipif(find_engine("stockfish") is None, reason="no Stockfish here")
def test_stockfish_searched_again_agrees_with_what_its_line_says() -> None:
    """Of decided middlegames: the sign is that of a search of the position itself, and Q is near."""
    fens = [
        "r1bqkb1r/pppp1ppp/2n2n2/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR w KQkq - 4 4",
        "r2q1rk1/ppp2ppp/2n1bn2/2bpp3/4P3/2PP1N2/PP1NBPPP/R1B1QRK1 w - - 0 9",
        "8/8/4k3/8/3QK3/8/8/8 w - - 0 1",
        "6k1/5ppp/8/8/8/8/5PPP/3R2K1 b - - 0 1",
        "4k3/8/8/8/8/8/4PPPP/4K2R w K - 0 1",
        "r3k2r/pppq1ppp/2np1n2/2b1p3/4P3/2NP1N2/PPP2PPP/R1B1K2R b KQkq - 0 9",
        "rnb1kbnr/pppp1ppp/8/4p3/4P2q/8/PPPP1PPP/RNBQKBNR w KQkq - 1 3",
    ]
    with open_oracle("stockfish:nodes=20000", net_path=None, workers=1) as oracle:
        checked = 0
        for fen in fens:
            root = Position(fen, fen, (), chess.Board(fen).ply(), history_known=False)
            deep = oracle.submit(root).result()
            assert isinstance(deep, DeepResult)
            near = found(source_of((), fen, deep), (LINE,))
            for row in range(0, len(near.batch), 3):
                again, by_line = oracle.submit(near.batch[row]).result(), near.deep[row]
                assert isinstance(again, DeepResult)
                assert by_line is not None
                one, other = (float(values.deep_q(np.array(r.scores, np.float64), 170.0)) for r in (again, by_line))
                if abs(other) > 0.5:
                    checked += 1
                    assert one * other > 0, (near.batch.fen[row], one, other)
                    assert abs(one - other) < 0.6
    assert checked >= 8


# -- what is reached --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_every_neighbour_is_legal_play_from_the_game(seed: int) -> None:
    game = random_game(seed, 60)
    begun, line = game[:30], tuple(random_game_from(game[:30], seed, 14))
    policy = [move.uci() for move in played(chess.STARTING_FEN, begun).legal_moves][:5]
    source = source_of(begun, deep=DeepResult(cp=300, depth=25, pv=line), then=game[30:32])
    near = found(source, policy=policy)
    assert {LINE, PARENT, CHILD, GAME} == set(near.step)
    assert len(set(near.batch.key.tolist())) == len(near.batch)
    for row, position in enumerate(near.batch):
        board = played(position.start_fen, position.moves)  # raises where a move is not legal
        assert (board.fen(), board.ply()) == (position.fen, position.ply)
        assert near.same_side[row] == (board.turn == played(chess.STARTING_FEN, begun).turn)
        assert not board.is_game_over(claim_draw=False)
        origin = position.origin
        assert OriginGame(origin.source, origin.game, origin.offset, origin.headers, origin.result) == GAME_OF
        after = len(position.moves) - len(begun)
        step, distance = near.step[row], int(near.distance[row])
        if step == LINE:
            assert position.moves == (*begun, *line[:distance])
            assert near.deep[row] == inferred(source.deep, distance)
        elif step == CHILD:
            others = [move for move in policy if move != line[0]]
            assert position.moves == (*begun, others[distance - 1])
        elif near.later[row]:
            assert (after, position.moves) == (distance, tuple(game[: 30 + distance]))
        else:
            assert (after, position.moves) == (-distance, tuple(game[: 30 - distance]))
            assert position.origin.played == game[30 - distance]
        assert (near.deep[row] is None) == (step != LINE)
    assert [d for s, d in steps_of(near) if s == PARENT] == [1, 2, 4]


def random_game_from(moves: Sequence[str], seed: int, plies: int) -> list[str]:
    dice, board = random.Random(seed), played(chess.STARTING_FEN, moves)
    for _ in range(plies):
        if not any(board.legal_moves):
            break
        board.push(dice.choice(list(board.legal_moves)))
    return [move.uci() for move in board.move_stack[len(moves) :]]


def test_a_line_stops_where_the_game_is_over() -> None:
    knights = ["g1f3", "g8f6", "f3g1", "f6g8"]
    near = found(source_of(knights, deep=DeepResult(cp=0, depth=30, pv=(*knights, "e2e4"))), (LINE,))
    # The eighth half-move brings the third occurrence: python-chess says so too.
    assert played(chess.STARTING_FEN, [*knights, *knights]).is_repetition(3)
    assert steps_of(near) == [(LINE, 1), (LINE, 2), (LINE, 3)]


def test_positions_of_the_game_that_were_drawn_by_rule_are_left_out() -> None:
    knights = ["g1f3", "g8f6", "f3g1", "f6g8"]
    game = ["e2e4", "e7e5", *knights, *knights, "d2d4", "d7d6"]
    near = found(source_of(game), (PARENT, GAME))
    for position in near.batch:
        assert not played(position.start_fen, position.moves).is_repetition(3)
    # Two plies earlier is the third occurrence.
    assert played(chess.STARTING_FEN, game[:-2]).is_repetition(3)
    assert (PARENT, 2) not in steps_of(near)
    assert {(PARENT, 1), (PARENT, 4)} <= set(steps_of(near))


def test_fifty_moves_and_bare_kings_end_a_line() -> None:
    fen = "7k/8/8/8/8/8/8/R6K w - - 98 80"
    near = found(source_of((), fen, DeepResult(cp=500, depth=30, pv=("a1a2", "h8g8", "a2a3"))), (LINE,))
    assert steps_of(near) == [(LINE, 1)]
    assert played(fen, ["a1a2", "h8g8"]).is_fifty_moves()
    fen = "7k/8/8/8/8/8/6rK/8 w - - 0 80"
    assert steps_of(found(source_of((), fen, DeepResult(cp=0, depth=9, pv=("h2g2", "h8g8"))), (LINE,))) == []


def test_a_line_with_a_move_that_is_none_goes_as_far_as_it_is_legal() -> None:
    deep = DeepResult(cp=300, depth=30, pv=("e2e4", "e7e5", "e1e3", "e5e4"))
    assert steps_of(found(source_of(deep=deep), (LINE,))) == [(LINE, 1), (LINE, 2)]
    deep = DeepResult(cp=300, depth=30, pv=("e2e4", "0000", "e1e3"))
    assert steps_of(found(source_of(deep=deep), (LINE,))) == [(LINE, 1)]


def test_an_inferred_position_has_no_line_and_what_was_not_played_has_no_past() -> None:
    game, deep = random_game(3, 20), DeepResult(cp=300, depth=30, pv=tuple(random_game_from(random_game(3, 20), 1, 3)))
    policy = [move.uci() for move in played(chess.STARTING_FEN, game).legal_moves][:4]
    near = found(source_of(game, deep=deep, searched=False, in_game=False), policy=policy)
    assert set(near.step) == {CHILD}
    assert len(near.batch) == 3


def test_nothing_comes_of_nothing() -> None:
    assert len(neighbours([], [], ALL).batch) == 0
    assert len(found(source_of()).batch) == 0


def test_many_sources_are_as_each_alone(tmp_path: Path) -> None:
    games = [random_game(seed, 40 + seed) for seed in range(6)]
    sources = [source_of(game[:-1], then=game[-1:]) for game in games]
    both = neighbours(sources, [encode_moves([])] * 6, ALL)
    alone = [found(source) for source in sources]
    assert sum(len(single.batch) for single in alone) >= len(both.batch)  # openings of two games may be one position
    for row, fen in enumerate(both.batch.fen):
        near = alone[int(both.source[row])]
        at = near.batch.fen.index(fen)
        assert (near.step[at], near.distance[at]) == (both.step[row], both.distance[row])
