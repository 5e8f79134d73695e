"""SAN of many lines side by side, and whether lc0 plays on, by the rules of python-chess one line at a time."""

from __future__ import annotations

import random
import re

import chess
import numpy as np
import pandas as pd
import pytest

from valuerepair.books.emit import LineWriter, plain_lines
from valuerepair.books.lc0_reader import GAME_PLY_LIMIT, no_game
from valuerepair.books.rows import playable
from valuerepair.chess.positions import STARTPOS_FEN

EP_LINE = [
    "e2e4",
    "a7a6",
    "e4e5",
    "a6a5",
    "b1c3",
    "a5a4",
    "c3e4",
    "d7d5",
    "e4d6",
]  # to the square of a possible e.p. capture


def _game(seed: int, plies: int) -> list[str]:
    """Random legal moves, captures, checks and promotions before others, so that they come up."""
    draw, board = random.Random(seed), chess.Board()
    for _ in range(plies):
        moves = list(board.legal_moves)
        if not moves:
            break
        striking = [move for move in moves if board.is_capture(move) or move.promotion or board.gives_check(move)]
        castling = [move for move in moves if board.is_castling(move)]
        board.push(draw.choice(castling or (striking if striking and draw.random() < 0.4 else moves)))
    return [move.uci() for move in board.move_stack]


def _queens_game(seed: int) -> list[str]:
    """Pawns are taken and go on until there are queens, three of which may go to one square."""
    draw, board = random.Random(seed), chess.Board()
    while len(board.move_stack) < 260 and (moves := list(board.legal_moves)):
        pawns = [move for move in moves if board.piece_type_at(move.from_square) == chess.PAWN]
        striking = [move for move in pawns if board.is_capture(move) or move.promotion == chess.QUEEN]
        sparing = [move for move in moves if not board.is_capture(move)]
        both = [
            move for move in moves if len(board.san(move).rstrip("+#").replace("x", "")) == 5 and not move.promotion
        ]
        board.push(draw.choice(both or striking or pawns or sparing or moves))
    return [move.uci() for move in board.move_stack]


def _end(moves: list[str]) -> str:
    board = chess.Board()
    for move in moves:
        board.push_uci(move)
    return board.fen()


def _goes_on(fen: str, start_fen: str, moves: str) -> bool:
    board = chess.Board(start_fen if moves else fen)
    for move in moves.split():
        board.push_uci(move)
    return no_game(board, int(fen.split()[5])) is None


@pytest.fixture(scope="module")
def games() -> list[list[str]]:
    return [_game(seed, 20 + seed) for seed in range(140)] + [_queens_game(seed) for seed in range(4)]


def test_lines_are_those_of_python_chess(games: list[list[str]]) -> None:
    ends = [_end(moves) for moves in games]
    found = plain_lines(games)
    kinds = {
        "O-O-O",
        "x",
        "=",
        r"\+",
        "#",
        "^[NBRQ][a-h]x?[a-h][1-8]",
        "^[NBRQ][1-8]x?[a-h]",
        "^[NBRQ][a-h][1-8]x?[a-h]",
    }
    for moves, end, line in zip(games, ends, found, strict=True):
        expected = LineWriter().line(STARTPOS_FEN, moves, end)
        if line is None:  # only where lc0 would misread the whole line
            assert expected.start_fen != STARTPOS_FEN
            continue
        assert line == expected
        kinds -= {kind for kind in kinds if any(re.search(kind, san) for san in line.sans)}
    assert not kinds, f"no game with {kinds}"
    assert sum(line is not None for line in found) > 100


def test_what_is_not_plain_is_left_to_the_writer() -> None:
    to_and_fro = ["g1f3", "g8f6", "f3g1", "f6g8"] * 113
    lines = [["e2e4", "e7e5"], [], EP_LINE, to_and_fro[: GAME_PLY_LIMIT - 2], to_and_fro[: GAME_PLY_LIMIT - 1]]
    assert [line is not None for line in plain_lines(lines)] == [True, False, False, True, False]


def test_playable_as_one_by_one(games: list[list[str]]) -> None:
    to_and_fro = ["g1f3", "g8f6", "f3g1", "f6g8"]
    lines = [*games, to_and_fro * 2, [*to_and_fro * 2, "g1f3"], to_and_fro + to_and_fro[:2], to_and_fro * 30]
    rows = pd.DataFrame(
        {
            "fen": [_end(line) for line in lines]
            + ["8/8/4k3/8/8/3NK3/8/8 w - - 3 60", "7k/8/8/8/8/8/R7/K7 w - - 99 450"],
            "start_fen": STARTPOS_FEN,
            "moves": [" ".join(line) for line in lines] + ["", ""],
        }
    )
    # Where the moves lead elsewhere, what they lead to counts.
    rows.loc[len(rows)] = ["7k/8/8/8/8/8/R7/K7 w - - 20 40", STARTPOS_FEN, " ".join(to_and_fro * 2)]
    expected = [_goes_on(*row) for row in rows.itertuples(index=False)]
    found = playable(rows)
    np.testing.assert_array_equal(found.to_numpy(), expected)
    assert 0 < sum(expected) < len(expected) - 4
