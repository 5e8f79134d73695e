"""Material signatures and near-duplicates, against python-chess and its Syzygy names."""

from __future__ import annotations

import random

import chess
import chess.syzygy
from hypothesis import given
from hypothesis import strategies as st

from valuerepair.chess.material import material_signature, near_keys


def wild_boards(seed: int, games: int = 12) -> list[chess.Board]:
    """Boards of random games in which captures are liked, so that all kinds of endings come up."""
    dice, found = random.Random(seed), []
    for _ in range(games):
        board = chess.Board()
        while not board.is_game_over(claim_draw=False) and board.ply() < 240:
            captures = list(board.generate_legal_captures())
            board.push(dice.choice(captures if captures and dice.random() < 0.5 else list(board.legal_moves)))
            found.append(board.copy(stack=False))
    return found


def test_signatures_are_named_as_syzygy_tables() -> None:
    boards = wild_boards(1)
    expected = [chess.syzygy.normalize_tablename(chess.syzygy.calc_key(board)) for board in boards]
    fens = [board.fen() for board in boards]
    assert [material_signature(fen) for fen in fens] == expected
    assert any(name.startswith("KR") for name in expected)


def test_each_table_of_up_to_six_men_has_its_own_name() -> None:
    """Whichever colour has which side, the name is that of the table."""
    for name in [*chess.syzygy.tablenames(piece_count=6), "KvK"]:
        white, black = name.split("v")
        for top, bottom in ((white, black), (black, white)):
            fen = f"{top.lower()}{8 - len(top)}/8/8/8/8/8/8/{bottom}{8 - len(bottom)} w - - 0 1"
            assert material_signature(fen) == name


def test_near_duplicates_have_the_same_men_and_pawns() -> None:
    boards = wild_boards(2) + [board.mirror() for board in wild_boards(2, 2)]
    expected = []
    for board in boards:
        pawns = {square: piece for square, piece in board.piece_map().items() if piece.piece_type == chess.PAWN}
        bare = chess.Board(None)
        bare.set_piece_map(pawns)
        expected.append(f"{material_signature(board.fen())} {bare.board_fen()}")
    found = near_keys([board.fen() for board in boards])
    assert len({*found}) == len({*expected}) == len({*zip(found, expected, strict=True)}) < len(boards)
    assert near_keys([]) == []


@given(st.data())
def test_colours_exchanged_keep_the_signature(data: st.DataObject) -> None:
    squares = data.draw(st.lists(st.integers(0, 63), min_size=2, max_size=20, unique=True))
    board = chess.Board(None)
    for square, colour in zip(squares, (True, False), strict=False):
        board.set_piece_at(square, chess.Piece(chess.KING, colour))
    for square in squares[2:]:
        board.set_piece_at(square, chess.Piece(data.draw(st.integers(1, 5)), data.draw(st.booleans())))
    mirrored = board.mirror()
    assert material_signature(board.fen()) == material_signature(mirrored.fen())
