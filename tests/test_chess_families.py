"""Families and near-duplicates of positions, against python-chess."""

from __future__ import annotations

import random

import chess
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valuerepair.chess.material import near_keys
from valuerepair.chess.openings import first_moves, material_family, opening_families
from valuerepair.chess.positions import STARTPOS_FEN

# No deadline: kernels may be compiled in a test, and the machine may be busy.
CASES = settings(max_examples=60, deadline=None)
STARTS = (
    STARTPOS_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 3 12",
    "rnbqkbnr/ppp1pppp/8/8/3pP3/5N2/PPPP1PPP/RNBQKB1R b KQkq e3 0 3",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 40",
)


def _line(seed: int, plies: int) -> chess.Board:
    """A board with some random moves behind it."""
    dice = random.Random(seed)
    board = chess.Board(dice.choice(STARTS))
    while len(board.move_stack) < plies and (legal := list(board.legal_moves)):
        board.push(dice.choice(legal))
    return board


@CASES
@given(st.integers(0, 10_000), st.integers(0, 120))
def test_the_material_family_is_of_both_sides_whatever_the_colours(seed: int, plies: int) -> None:
    board = _line(seed, plies)
    family = material_family(board.fen())
    assert family == material_family(board.mirror().fen())
    sides = sorted(side.removeprefix("K") for side in family.split("v"))
    letters = [
        "".join(letter for letter in "QRBN" if board.pieces(chess.Piece.from_symbol(letter).piece_type, colour))
        for colour in chess.COLORS
    ]
    assert sides == sorted(letters)


@pytest.mark.parametrize(
    ("fen", "family"),
    [
        (STARTPOS_FEN, "KQRBNvKQRBN"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "KvK"),
        ("4k3/r7/8/8/8/8/4P3/R3K3 w - - 0 1", "KRvKR"),
        ("4k3/bn6/8/8/8/8/4P3/R3K3 b - - 0 1", "KRvKBN"),
        ("4k3/q7/8/8/8/8/4P3/RR2K3 b - - 0 1", "KQvKR"),
    ],
)
def test_material_families_by_name(fen: str, family: str) -> None:
    assert material_family(fen) == family


def test_the_opening_family_is_the_headers_or_that_of_the_moves() -> None:
    lines = first_moves(["e2e4 c7c5"] * 3)
    families = opening_families([None, "?", "C02"], [STARTPOS_FEN] * 3, lines)
    assert families == ["Sicilian Defense", "Sicilian Defense", "French Defense"]
    after_e4 = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
    assert opening_families([None], [after_e4], [["c7c5"]]) == ["Sicilian Defense"]


@CASES
@given(st.integers(0, 10_000), st.integers(0, 60))
def test_near_keys_change_exactly_with_men_and_pawns(seed: int, plies: int) -> None:
    board = _line(seed, plies)
    for move in list(board.legal_moves)[:8]:
        before = near_keys([board.fen()])
        quiet = not board.is_capture(move) and board.piece_type_at(move.from_square) != chess.PAWN
        board.push(move)
        assert (near_keys([board.fen()]) == before) == quiet
        board.pop()
