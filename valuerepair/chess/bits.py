"""Bit operations and attacks of pieces, as kernels.

The attacks of one slider come from hyperbola quintessence, and along ranks from a table. The attacks of many sliders at
once come from parallel prefix fills (Kogge-Stone): 16 operations for each direction, whatever their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chess
import numpy as np
from chess.polyglot import POLYGLOT_RANDOM_ARRAY
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from valuerepair.chess.jit import kernel

# In Numba, + and & of a uint64 and an integer literal give an int64, so every constant for bitboards is a uint64.
ZERO, ONE = np.uint64(0), np.uint64(1)
ALL = np.uint64(2**64 - 1)
NOT_FILE_A, NOT_FILE_H = np.uint64(0xFEFEFEFEFEFEFEFE), np.uint64(0x7F7F7F7F7F7F7F7F)
FILES_A_TO_F, FILES_C_TO_H = np.uint64(0x3F3F3F3F3F3F3F3F), np.uint64(0xFCFCFCFCFCFCFCFC)
SEVEN, NINE, EIGHT = np.uint64(7), np.uint64(9), np.uint64(8)
TWO, FOUR, SIXTEEN = np.uint64(2), np.uint64(4), np.uint64(16)
INNER = np.uint64(63)
_ODD, _PAIRS, _NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)


def _instruction(result: Any, emit: Callable[[Any, Any], Any]) -> Any:
    """A single machine instruction that Numba does not offer, as a function of a uint64 for kernels."""

    def typed(typingctx: Any, word: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit(builder, args[0])

        return result(types.uint64), codegen

    return intrinsic(typed)


_TRUE = ir.Constant(ir.IntType(1), 1)
# The number of bits set; the index of the lowest bit, undefined for 0; the board with its ranks upside down.
popcount: Callable[[np.uint64], int] = _instruction(types.int64, lambda builder, word: builder.ctpop(word))
lowest: Callable[[np.uint64], int] = _instruction(types.int64, lambda builder, word: builder.cttz(word, _TRUE))
mirrored: Callable[[np.uint64], np.uint64] = _instruction(types.uint64, lambda builder, word: builder.bswap(word))


def count_bits(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The number of bits set in each word of an array."""
    x = words - (words >> ONE & _ODD)
    x = (x & _PAIRS) + (x >> TWO & _PAIRS)
    x = (x + (x >> FOUR)) & _NIBBLES
    return np.asarray((x * np.uint64(0x0101010101010101)) >> np.uint64(56), np.uint8)


# NumPy 2.0 and later need one instruction for each word.
bit_count: Callable[[NDArray[np.uint64]], NDArray[np.uint8]] = getattr(np, "bitwise_count", count_bits)


@kernel
def files_flipped(board: np.uint64) -> np.uint64:
    """The board with its files reversed: a becomes h."""
    board = (board >> ONE & _ODD) | (board & _ODD) << ONE
    board = (board >> TWO & _PAIRS) | (board & _PAIRS) << TWO
    result: np.uint64 = (board >> FOUR & _NIBBLES) | (board & _NIBBLES) << FOUR
    return result


@kernel
def along(occupied: np.uint64, bit: np.uint64, line: np.uint64) -> np.uint64:
    """Attacks from `bit` on a file or diagonal, `line` being that line without `bit` (hyperbola quintessence)."""
    forward = occupied & line
    backward = mirrored(forward)
    forward = forward - bit
    backward = backward - mirrored(bit)
    result: np.uint64 = (forward ^ mirrored(backward)) & line
    return result


@kernel
def bishop_attacks(square: int, occupied: np.uint64) -> np.uint64:
    bit = ONE << np.uint64(square)
    result: np.uint64 = along(occupied, bit, DIAGONAL[square]) | along(occupied, bit, ANTIDIAGONAL[square])
    return result


@kernel
def rook_attacks(square: int, occupied: np.uint64) -> np.uint64:
    shift = np.uint64(square & 56)
    inner = (occupied >> (shift + ONE)) & INNER
    rank = np.uint64(RANK[np.int64(inner), square & 7]) << shift
    result: np.uint64 = rank | along(occupied, ONE << np.uint64(square), FILE[square])
    return result


@kernel
def pawn_attacks_up(pawns: np.uint64) -> np.uint64:
    """Squares attacked by pawns that move towards rank 8."""
    result: np.uint64 = ((pawns & NOT_FILE_A) << SEVEN) | ((pawns & NOT_FILE_H) << NINE)
    return result


@kernel
def pawn_attacks_down(pawns: np.uint64) -> np.uint64:
    """Squares attacked by pawns that move towards rank 1."""
    result: np.uint64 = ((pawns & NOT_FILE_A) >> NINE) | ((pawns & NOT_FILE_H) >> SEVEN)
    return result


@kernel
def knight_attacks(knights: np.uint64) -> np.uint64:
    """Squares attacked by any of the knights."""
    beside = ((knights >> ONE) & NOT_FILE_H) | ((knights << ONE) & NOT_FILE_A)
    two_aside = ((knights >> TWO) & FILES_A_TO_F) | ((knights << TWO) & FILES_C_TO_H)
    result: np.uint64 = (beside << SIXTEEN) | (beside >> SIXTEEN) | (two_aside << EIGHT) | (two_aside >> EIGHT)
    return result


@kernel
def fill_up(sliders: np.uint64, free: np.uint64, step: np.uint64, inside: np.uint64) -> np.uint64:
    """Squares that sliders attack by steps of `step` towards h8.

    `inside` are the squares that a step reaches without leaving the board at one side and entering it at the other.
    """
    free &= inside
    sliders |= free & (sliders << step)
    free &= free << step
    sliders |= free & (sliders << step * TWO)
    free &= free << step * TWO
    sliders |= free & (sliders << step * FOUR)
    result: np.uint64 = (sliders << step) & inside
    return result


@kernel
def fill_down(sliders: np.uint64, free: np.uint64, step: np.uint64, inside: np.uint64) -> np.uint64:
    """As `fill_up`, towards a1."""
    free &= inside
    sliders |= free & (sliders >> step)
    free &= free >> step
    sliders |= free & (sliders >> step * TWO)
    free &= free >> step * TWO
    sliders |= free & (sliders >> step * FOUR)
    result: np.uint64 = (sliders >> step) & inside
    return result


@kernel
def slanted_attacks(bishops: np.uint64, free: np.uint64) -> np.uint64:
    """Squares attacked by any of the bishops (or queens) when the squares `free` are empty."""
    up = fill_up(bishops, free, NINE, NOT_FILE_A) | fill_up(bishops, free, SEVEN, NOT_FILE_H)
    down = fill_down(bishops, free, NINE, NOT_FILE_H) | fill_down(bishops, free, SEVEN, NOT_FILE_A)
    result: np.uint64 = up | down
    return result


@kernel
def straight_attacks(rooks: np.uint64, free: np.uint64) -> np.uint64:
    """Squares attacked by any of the rooks (or queens) when the squares `free` are empty."""
    up = fill_up(rooks, free, EIGHT, ALL) | fill_up(rooks, free, ONE, NOT_FILE_A)
    down = fill_down(rooks, free, EIGHT, ALL) | fill_down(rooks, free, ONE, NOT_FILE_H)
    result: np.uint64 = up | down
    return result


Table = NDArray[np.uint64]
_SQUARES = np.arange(64)
_FILES, _RANKS = _SQUARES % 8, _SQUARES // 8


def _others(line: NDArray[np.int64]) -> Table:
    """[64] the other squares of each square's line; `line` [64] is the number of the line."""
    same_line = (line[:, None] == line) & ~np.eye(64, dtype=np.bool_)
    return np.asarray(np.where(same_line, ONE << _SQUARES.astype(np.uint64), ZERO).sum(1, dtype=np.uint64))


FILE, DIAGONAL, ANTIDIAGONAL = _others(_FILES), _others(_RANKS - _FILES), _others(_RANKS + _FILES)
KNIGHT: Table = np.array(chess.BB_KNIGHT_ATTACKS, np.uint64)
KING: Table = np.array(chess.BB_KING_ATTACKS, np.uint64)
# [64 occupancies of files b-g, 8 files]: the files a rook attacks along its rank.
RANK: NDArray[np.uint8] = np.array(
    [[chess.BB_RANK_ATTACKS[f][inner << 1 & chess.BB_RANK_MASKS[f]] for f in range(8)] for inner in range(64)], np.uint8
)
# [64, 64]: the squares strictly between two squares, and the whole line through both (0: not in line).
BETWEEN: Table = np.array([[chess.between(a, b) for b in chess.SQUARES] for a in chess.SQUARES], np.uint64)
LINE: Table = np.array([[chess.ray(a, b) for b in chess.SQUARES] for a in chess.SQUARES], np.uint64)
# [colour (1 = white), kind as of `kind_at`, square]: Polyglot numbers kinds black pawn, white pawn, black knight, ...
PIECE_KEY: Table = np.ascontiguousarray(
    np.array(POLYGLOT_RANDOM_ARRAY[:768], np.uint64).reshape(6, 2, 64).swapaxes(0, 1)
)
EP_KEY: Table = np.array(POLYGLOT_RANDOM_ARRAY[772:780], np.uint64)
WHITE_KEY = np.uint64(POLYGLOT_RANDOM_ARRAY[780])


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
    rights = np.full(64, 15, np.int64)
    for square, lost in ((4, 3), (7, 1), (0, 2), (60, 12), (63, 4), (56, 8)):
        rights[square] = 15 - lost
    return rights


CASTLING_KEPT: NDArray[np.int64] = _castling_kept()
