"""The distance of positions: python-chess's mirrors, a count by hand, and the laws of a distance."""

from __future__ import annotations

import random
from functools import cache

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valuerepair.chess.bits import bit_count, count_bits
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.judge import neighbours
from valuerepair.judge.neighbours import distances, shapes

KINDS = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9}


@cache
def pool() -> list[str]:
    """Boards of random games, many of them late, when rights are gone and few men left."""
    dice, fens = random.Random(7), []
    for _ in range(12):
        board = chess.Board()
        while not board.is_game_over() and board.ply() < 200:
            captures = list(board.generate_legal_captures())
            board.push(dice.choice(captures if captures and dice.random() < 0.3 else list(board.legal_moves)))
            fens.append(board.fen())
    return fens[::5]


def boards() -> st.SearchStrategy[chess.Board]:
    return st.deferred(lambda: st.sampled_from(pool()).map(chess.Board))


def distance(one: chess.Board, other: chess.Board, mirror: bool = True) -> tuple[float, float, float, float]:
    """Total, material, pawns, kings."""
    measured = (distances if mirror else neighbours._parts)(shapes([one.fen()]), shapes([other.fen()]))
    return float(measured.total[0]), float(measured.material[0]), float(measured.pawns[0]), float(measured.kings[0])


def by_hand(one: chess.Board, other: chess.Board) -> tuple[float, float, float, float]:
    """The definition in docs/methods/judges.md, square by square, without mirror images."""
    one, other = (board if board.turn else board.mirror() for board in (one, other))
    material = pawns = kings = 0.0
    for side in (chess.WHITE, chess.BLACK):
        for kind, value in KINDS.items():
            material += value * abs(len(one.pieces(kind, side)) - len(other.pieces(kind, side)))
        p, q = one.pieces(chess.PAWN, side), other.pieces(chess.PAWN, side)
        pawns += 0.5 * len(p ^ q)
        for file in range(8):
            in_file = [sum(chess.square_file(square) == file for square in men) for men in (p, q)]
            pawns += 0.5 * abs(in_file[0] - in_file[1])
        squares = [board.king(side) for board in (one, other)]
        assert squares[0] is not None
        assert squares[1] is not None
        kings += 0.5 * chess.square_distance(squares[0], squares[1])
    return material + pawns + kings, material, pawns, kings


@given(boards(), boards())
@settings(deadline=None, max_examples=60)
def test_it_is_what_the_definition_says(one: chess.Board, other: chess.Board) -> None:
    assert distance(one, other, mirror=False) == by_hand(one, other)
    mirrored = other.transform(chess.flip_horizontal)
    free = not one.castling_rights and not other.castling_rights
    expected = min(by_hand(one, other)[0], by_hand(one, mirrored)[0]) if free else by_hand(one, other)[0]
    assert distance(one, other)[0] == expected


@given(boards(), boards())
@settings(deadline=None, max_examples=60)
def test_colours_and_without_rights_sides_do_not_matter(one: chess.Board, other: chess.Board) -> None:
    assert distance(one, one.mirror()) == (0, 0, 0, 0)
    assert distance(one, other) == distance(one.mirror(), other) == distance(one, other.mirror())
    assert distance(one, other) == distance(other, one)
    for board in (one, other):
        board.set_castling_fen("-")
    flipped = one.transform(chess.flip_horizontal)
    assert distance(one, flipped)[0] == 0
    assert distance(flipped, other)[0] == distance(one, other)[0]


@given(boards(), boards(), boards())
@settings(deadline=None, max_examples=50)
def test_the_way_round_is_no_shorter(one: chess.Board, other: chess.Board, third: chess.Board) -> None:
    through = distance(one, third, False)[0] + distance(third, other, False)[0]
    assert distance(one, other, False)[0] <= through


def test_castling_rights_tell_left_from_right() -> None:
    board = chess.Board("r3k2r/pppq4/8/8/8/8/PPPQ4/R3K2R w KQkq - 0 1")
    flipped = board.transform(chess.flip_horizontal)  # king d1: no rights can be kept
    assert distance(board, flipped)[0] > 0
    board.set_castling_fen("-")
    measured = distances(shapes([board.fen()]), shapes([flipped.fen(), board.fen()]))
    assert measured.total.tolist() == [0, 0]
    assert measured.mirrored.tolist() == [True, False]
    assert distance(board, flipped, mirror=False)[0] > 0


@pytest.mark.parametrize(
    ("fen", "expected"),
    [
        (STARTPOS_FEN, (0, 0, 0, 0)),
        ("rnbqkbnr/pppppppp/8/8/8/4P3/PPPP1PPP/RNBQKBNR w KQkq - 0 1", (1, 0, 1, 0)),  # e2-e3
        ("rnbqkbnr/pppppppp/8/8/8/8/PPP1PPPP/RNBQKBNR w KQkq - 0 1", (2, 1, 1, 0)),  # no d-pawn
        ("rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQ1BNR w kq - 0 1".replace("Q1B", "QKB"), (9, 9, 0, 0)),
        ("rnbqkbnr/pppppppp/8/8/8/5N2/PPPPPPPP/RNBQKB1R w KQkq - 0 1", (0, 0, 0, 0)),  # a knight's square
    ],
)
def test_examples(fen: str, expected: tuple[float, float, float, float]) -> None:
    assert distance(chess.Board(STARTPOS_FEN), chess.Board(fen)) == expected


def test_other_pieces_decide_between_equals() -> None:
    measured = distances(
        shapes([STARTPOS_FEN]), shapes([STARTPOS_FEN, "rnbqkbnr/pppppppp/8/8/8/5N2/PPPPPPPP/RNBQKB1R w KQkq - 0 1"])
    )
    assert measured.total.tolist() == [0, 0]
    assert measured.pieces.tolist() == [0, 2]


@given(boards(), st.lists(boards(), min_size=1, max_size=8))
@settings(deadline=None, max_examples=40)
def test_material_alone_is_a_lower_bound(one: chess.Board, others: list[chess.Board]) -> None:
    measured = distances(shapes([one.fen()]), shapes([board.fen() for board in others]))
    assert (measured.material <= measured.total).all()
    men = [chess.popcount(board.occupied) for board in (one, *others)]
    assert (np.abs(np.array(men[1:]) - men[0]) <= measured.material).all()


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_bits_are_counted_without_a_new_numpy_too(words: list[int]) -> None:
    array = np.array(words, np.uint64)
    assert count_bits(array).tolist() == [word.bit_count() for word in words]
    assert bit_count(array).tolist() == count_bits(array).tolist()


def test_what_is_no_position_is_named() -> None:
    with pytest.raises(ValueError, match="row 1: "):
        shapes([STARTPOS_FEN, "8/8/8/8/8/8/8/8 w - - 0 1"])
