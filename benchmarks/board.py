"""Speed of the rules kernels against python-chess."""

from __future__ import annotations

import random
import time

import chess

from benchmarks.comparison import BenchData, Comparison, compare
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


def perft(data: BenchData) -> Comparison:
    """Perft 5 of the start position on one thread, the last ply counted and not made, on either side."""
    start = rules.parse_fens([chess.STARTING_FEN])

    def ours() -> float:
        end, leaves = time.perf_counter() + data.seconds / 10, 0
        while not leaves or time.perf_counter() < end:
            leaves += rules.perft(start, 5)
        return leaves

    def theirs() -> float:
        return count_leaves(chess.Board(), 3)  # the rate does not depend on the depth

    return compare("perft 5", "moves", "python-chess", ours, theirs, target=100.0, floor=200e6)


def count_leaves(board: chess.Board, depth: int) -> int:
    """Perft by python-chess."""
    if depth == 1:
        return board.legal_moves.count()
    leaves = 0
    for move in board.legal_moves:
        board.push(move)
        leaves += count_leaves(board, depth - 1)
        board.pop()
    return leaves
