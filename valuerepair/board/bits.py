"""Bit operations and attacks of pieces, as kernels. Sliders by hyperbola quintessence and a table for ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from valuerepair.board.jit import kernel
from valuerepair.board.tables import ANTIDIAGONAL, DIAGONAL, FILE, RANK

# uint64 with an integer literal becomes int64 under + and &, so every constant met by a bitboard is a uint64.
ZERO, ONE = np.uint64(0), np.uint64(1)
ALL = np.uint64(2**64 - 1)
FILE_A, FILE_H = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
NOT_FILE_A, NOT_FILE_H = np.uint64(0xFEFEFEFEFEFEFEFE), np.uint64(0x7F7F7F7F7F7F7F7F)
SEVEN, NINE, EIGHT = np.uint64(7), np.uint64(9), np.uint64(8)
INNER = np.uint64(63)

# The parameters of these three are Numba types at compile time, not values: hence Any.


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no type hints
def popcount(typingctx: Any, word: Any) -> Any:
    """The number of bits set, as int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no type hints
def lowest(typingctx: Any, word: Any) -> Any:
    """The index of the lowest bit set, as int64; undefined for 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no type hints
def mirrored(typingctx: Any, word: Any) -> Any:
    """The bytes in reverse order: the board with its ranks upside down."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bswap(args[0])

    return types.uint64(types.uint64), codegen


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
    return along(occupied, bit, DIAGONAL[square]) | along(occupied, bit, ANTIDIAGONAL[square])


@kernel
def rook_attacks(square: int, occupied: np.uint64) -> np.uint64:
    shift = np.uint64(square & 56)
    inner = (occupied >> (shift + ONE)) & INNER
    rank = np.uint64(RANK[np.int64(inner), square & 7]) << shift
    return rank | along(occupied, ONE << np.uint64(square), FILE[square])


@kernel
def pawn_attacks_up(pawns: np.uint64) -> np.uint64:
    """Squares attacked by pawns that move towards rank 8."""
    return ((pawns & NOT_FILE_A) << SEVEN) | ((pawns & NOT_FILE_H) << NINE)


@kernel
def pawn_attacks_down(pawns: np.uint64) -> np.uint64:
    """Squares attacked by pawns that move towards rank 1."""
    return ((pawns & NOT_FILE_A) >> NINE) | ((pawns & NOT_FILE_H) >> SEVEN)
