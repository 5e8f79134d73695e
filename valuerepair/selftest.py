"""Compares the kernels of the rules, as compiled here, with published perft counts and python-chess: `vr doctor`."""

from __future__ import annotations

import random
from collections.abc import Iterator

import chess
import chess.polyglot
import numpy as np

from valuerepair.chess.board import fens, in_check, keys, legal_moves, parse_fens, perft, replay
from valuerepair.chess.positions import decode_moves, encode_moves

# chessprogramming.org/Perft_Results: the start position and positions 2 to 6; leaves of depth 1, 2, ...
PUBLISHED: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("start position", chess.STARTING_FEN, (20, 400, 8902, 197281, 4865609, 119060324)),
    (
        "position 2 (kiwipete)",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        (48, 2039, 97862, 4085603, 193690690),
    ),
    ("position 3", "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", (14, 191, 2812, 43238, 674624, 11030083)),
    (
        "position 4",
        "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
        (6, 264, 9467, 422333, 15833292),
    ),
    (
        "position 4, Black",
        "r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1",
        (6, 264, 9467, 422333, 15833292),
    ),
    ("position 5", "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", (44, 1486, 62379, 2103487, 89941194)),
    (
        "position 6",
        "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10",
        (46, 2079, 89890, 3894594, 164075551),
    ),
)
PLIES = 80


def published() -> Iterator[str]:
    """Counts perft of the published positions to the deepest published depth; yields a text for each wrong count."""
    for _, fen, counts in PUBLISHED:
        row = parse_fens([fen])
        for depth, leaves in enumerate(counts, 1):
            if (counted := perft(row, depth)) != leaves:
                yield f"{fen}: perft {depth} gives {counted:,}, not {leaves:,}"


def random_positions(count: int, seed: int = 0) -> Iterator[chess.Board]:
    """Positions of random games from the published positions, with their moves since the start of the game."""
    chance, board = random.Random(seed), chess.Board()
    for number in range(count):
        moves = list(board.legal_moves)
        if number % PLIES == 0 or not moves:
            board = chess.Board(chance.choice(PUBLISHED)[1])
        else:
            board.push(chance.choice(moves))
        yield board.copy()


def mismatches(board: chess.Board) -> Iterator[str]:
    """Yields a text for each answer of the kernels that differs from python-chess's.

    The kernels replay the board's moves from its first position.
    """
    played = encode_moves([m.uci() for m in board.move_stack])
    try:
        row = replay(parse_fens([board.root().fen()]), played, np.array([0, len(played)]))
    except ValueError as error:
        yield f"{board.fen()}: {error}"
        return
    plain = board.copy(stack=False)
    if not plain.has_legal_en_passant():
        plain.ep_square = None
    for subject, answer, expected in (
        ("legal moves", sorted(decode_moves(legal_moves(row)[0])), sorted(m.uci() for m in board.legal_moves)),
        ("check", bool(in_check(row)[0]), board.is_check()),
        ("FEN", fens(row)[0], board.fen()),
        ("key", f"{keys(row)[0]:016x}", f"{chess.polyglot.zobrist_hash(plain):016x}"),
    ):
        if answer != expected:
            yield f"{board.fen()}: {subject}: {answer}, not {expected}"
