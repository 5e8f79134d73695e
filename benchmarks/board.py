"""Speed of the rules kernels against python-chess."""

from __future__ import annotations

import random

import chess

from benchmarks.comparison import Comparison, compare
from valuerepair.chess import board as rules

GAMES, PLIES = 64, 60


def random_games(seed: int = 0) -> list[chess.Board]:
    """Boards at the end of random games of 60 plies, with their moves."""
    chance = random.Random(seed)
    boards: list[chess.Board] = []
    while len(boards) < GAMES:
        board = chess.Board()
        while len(board.move_stack) < PLIES and any(board.legal_moves):
            board.push(chance.choice(list(board.legal_moves)))
        if len(board.move_stack) == PLIES:
            boards.append(board)
    return boards


def legal_moves(data: object) -> Comparison:
    """Legal moves of positions given as FEN; `data` is not needed."""
    fens = [b.fen() for b in random_games()]
    many = fens * 300

    def ours() -> float:
        rules.legal_moves(rules.parse_fens(many))
        return len(many)

    def theirs() -> float:
        for fen in fens:
            list(chess.Board(fen).legal_moves)
        return len(fens)

    return compare("legal moves from FEN", "positions", "python-chess", ours, theirs, target=100.0)
