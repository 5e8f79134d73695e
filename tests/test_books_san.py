"""SAN of many lines side by side, by the rules of python-chess one line at a time."""

from __future__ import annotations

import random
import re

import chess
import pytest

from tests.test_books_emit import STARTS
from valuerepair.books.emit import BookLine, book_lines
from valuerepair.books.lc0_reader import GAME_PLY_LIMIT
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


# Squares of e.p. captures: one that no pawn can take, one where a capture would uncover a check, and moves to them.
EP_STARTS = (
    "rnbqkbnr/pppp1ppp/8/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq e6 0 3",
    "4k3/8/8/3p4/8/4N3/8/4K3 w - d6 0 9",
    "8/8/8/K2pP2r/4N3/8/8/4k3 w - d6 0 1",
    "4k3/8/8/8/8/8/4P3/4K3 w - - 5 0",
)


def _game(seed: int, plies: int, start: str = STARTPOS_FEN) -> list[str]:
    """Random legal moves, captures, checks and promotions before others, so that they come up."""
    draw, board = random.Random(seed), chess.Board(start)
    for _ in range(plies):
        moves = list(board.legal_moves)
        if not moves:
            break
        if beside := [move for move in moves if move.to_square == board.ep_square]:
            moves = beside
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


def _end(moves: list[str], start: str = STARTPOS_FEN) -> str:
    board = chess.Board(start)
    for move in moves:
        board.push_uci(move)
    return board.fen()


def _by_python_chess(start: str, moves: list[str]) -> BookLine:
    """The moves from the first position with White to move after which lc0 reads all of them; else their end alone."""
    board, sans, first = chess.Board(start), list[str](), 0 if chess.Board(start).turn else 1
    fens = [board.fen()]
    for number, move in enumerate(map(chess.Move.from_uci, moves), 1):
        sans.append(board.san(move))
        piece = board.piece_type_at(move.from_square)
        if move.to_square == board.ep_square and piece != chess.PAWN and board.has_pseudo_legal_en_passant():
            first = number + board.turn
        board.push(move)
        fens.append(board.fen())
    if first >= len(moves) or int(fens[first].split()[5]) + len(moves) - first >= GAME_PLY_LIMIT:
        return BookLine(fens[-1], (), fens[-1])
    return BookLine(fens[first], tuple(sans[first:]), fens[-1])


@pytest.fixture(scope="module")
def games() -> list[list[str]]:
    return [_game(seed, 20 + seed) for seed in range(140)] + [_queens_game(seed) for seed in range(4)]


@pytest.mark.slow
def test_lines_are_those_of_python_chess(games: list[list[str]]) -> None:
    starts = [STARTPOS_FEN] * len(games)
    for number, start in enumerate(10 * (*STARTS, *EP_STARTS)):
        starts.append(start)
        games = [*games, _game(number, number % 50, start)]
    ends = [_end(*game_and_start) for game_and_start in zip(games, starts, strict=True)]
    lines = book_lines(starts, games, ends)
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
    for start, moves, line in zip(starts, games, lines, strict=True):
        assert line == _by_python_chess(start, moves)
        kinds -= {kind for kind in kinds if any(re.search(kind, san) for san in line.sans)}
    assert not kinds, f"no game with {kinds}"
    assert sum(line.start_fen == STARTPOS_FEN for line in lines) > 100
    assert sum(bool(line.sans) and line.start_fen != start for start, line in zip(starts, lines, strict=True)) > 40


def test_a_position_alone_where_lc0_would_not_read_the_moves() -> None:
    to_and_fro = ["g1f3", "g8f6", "f3g1", "f6g8"] * 113
    lines = [["e2e4", "e7e5"], [], EP_LINE, to_and_fro[: GAME_PLY_LIMIT - 2], to_and_fro[: GAME_PLY_LIMIT - 1]]
    written = book_lines([STARTPOS_FEN] * len(lines), lines, [_end(line) for line in lines])
    assert [bool(line.sans) for line in written] == [True, False, False, True, False]


@pytest.mark.parametrize("fen", ["8/5k2/8/1N6/8/8/8/1N1N1K2 w - - 0 1", "8/5k2/8/1Q6/8/8/8/1Q2Q1K1 b - - 0 1"])
def test_three_alike_have_the_shortest_name(fen: str) -> None:
    """Two on one file, and a third on neither its file nor its rank: the rank is enough."""
    board = chess.Board(fen)
    board.turn = chess.WHITE
    moves = list(board.legal_moves)
    lines = book_lines(
        [board.fen()] * len(moves), [[move.uci()] for move in moves], [_end([m.uci()], board.fen()) for m in moves]
    )
    assert [line.sans for line in lines] == [(board.san(move),) for move in moves]
