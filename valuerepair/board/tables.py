"""Constant tables of the kernels: attacks, lines, Zobrist numbers. Squares are a1 = 0 .. h8 = 63.

The Zobrist numbers are those of the Polyglot book format (python-chess ships them), so keys of stored positions
never change with a version of this program, and equal Polyglot's wherever an en-passant capture is legal or no
pawn stands beside the one that just moved two squares.
"""

from __future__ import annotations

import numpy as np
from chess.polyglot import POLYGLOT_RANDOM_ARRAY
from numpy.typing import NDArray

U64 = np.uint64
Table = NDArray[np.uint64]

KNIGHT_STEPS = ((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2))
STRAIGHT = ((0, 1), (1, 0), (0, -1), (-1, 0))
SLANTED = ((1, 1), (1, -1), (-1, -1), (-1, 1))


def _steps(square: int, steps: tuple[tuple[int, int], ...], reach: int) -> list[list[int]]:
    """The squares met from `square` on an empty board, one list a direction, at most `reach` steps each."""
    rays: list[list[int]] = []
    for df, dr in steps:
        ray: list[int] = []
        file, rank = square % 8 + df, square // 8 + dr
        while 0 <= file < 8 and 0 <= rank < 8 and len(ray) < reach:
            ray.append(8 * rank + file)
            file, rank = file + df, rank + dr
        rays.append(ray)
    return rays


def _mask(rays: list[list[int]]) -> int:
    return sum(1 << square for ray in rays for square in ray)


def _per_square(steps: tuple[tuple[int, int], ...], reach: int) -> Table:
    return np.array([_mask(_steps(s, steps, reach)) for s in range(64)], np.uint64)


KNIGHT: Table = _per_square(KNIGHT_STEPS, 1)
KING: Table = _per_square(STRAIGHT + SLANTED, 1)
# The line through a square, without the square itself.
FILE: Table = _per_square(((0, 1), (0, -1)), 7)
DIAGONAL: Table = _per_square(((1, 1), (-1, -1)), 7)
ANTIDIAGONAL: Table = _per_square(((1, -1), (-1, 1)), 7)


def _rank_attacks() -> NDArray[np.uint8]:
    """[64 occupancies of files b-g, 8 files]: the files a rook attacks along its rank."""
    table = np.zeros((64, 8), np.uint8)
    for inner in range(64):
        for file in range(8):
            for step in (-1, 1):
                at = file + step
                while 0 <= at < 8:
                    table[inner, file] |= 1 << at
                    if inner << 1 & 1 << at:
                        break
                    at += step
    return table


RANK: NDArray[np.uint8] = _rank_attacks()


def _lines() -> tuple[Table, Table]:
    """[64, 64] masks: the squares strictly between two squares, and the whole line through both (0: not in line)."""
    between, line = np.zeros((64, 64), np.uint64), np.zeros((64, 64), np.uint64)
    for a in range(64):
        for df, dr in STRAIGHT + SLANTED:
            whole = _mask(_steps(a, ((df, dr), (-df, -dr)), 7)) | 1 << a
            passed = 0
            for b in _steps(a, ((df, dr),), 7)[0]:
                between[a, b], line[a, b] = passed, whole
                passed |= 1 << b
    return between, line


BETWEEN, LINE = _lines()

# Kinds of pieces, in Polyglot's and lc0's order.
PAWN, KNIGHT_KIND, BISHOP, ROOK, QUEEN, KING_KIND = range(6)

# PIECE_KEY[colour (1 = white), kind, square]: Polyglot numbers kinds black pawn, white pawn, black knight, ...
PIECE_KEY: Table = np.ascontiguousarray(
    np.array(POLYGLOT_RANDOM_ARRAY[:768], np.uint64).reshape(6, 2, 64).swapaxes(0, 1)
)
EP_KEY: Table = np.array(POLYGLOT_RANDOM_ARRAY[772:780], np.uint64)
WHITE_KEY = U64(POLYGLOT_RANDOM_ARRAY[780])


def _castling_keys() -> Table:
    """[black to move, 16 rights from the mover's side]: bit 0 our O-O, 1 our O-O-O, 2 their O-O, 3 their O-O-O."""
    table = np.zeros((2, 16), np.uint64)
    for black in range(2):
        for rights in range(16):
            absolute = (rights >> 2 | rights << 2) & 15 if black else rights
            for bit in range(4):
                if absolute >> bit & 1:
                    table[black, rights] ^= np.uint64(POLYGLOT_RANDOM_ARRAY[768 + bit])
    return table


CASTLING_KEY: Table = _castling_keys()


def _castling_kept() -> NDArray[np.int64]:
    """[64] rights (mover's side) that survive a move from or to a square."""
    kept = np.full(64, 15, np.int64)
    for square, lost in ((4, 3), (7, 1), (0, 2), (60, 12), (63, 4), (56, 8)):
        kept[square] = 15 - lost
    return kept


CASTLING_KEPT: NDArray[np.int64] = _castling_kept()
