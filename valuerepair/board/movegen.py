"""Legal moves and check as kernels, by pin and check masks.

Moves inside kernels are the 16-bit moves of `valuerepair.positions` with mover-relative squares; XOR with `FLIP`
turns those of Black into absolute ones.
"""

from __future__ import annotations

import numpy as np

from valuerepair.board.bits import (
    NOT_FILE_A,
    NOT_FILE_H,
    ONE,
    ZERO,
    bishop_attacks,
    lowest,
    pawn_attacks_down,
    pawn_attacks_up,
    rook_attacks,
)
from valuerepair.board.jit import kernel
from valuerepair.board.rows import (
    EP_SHIFT,
    KINGS,
    KNIGHTS,
    PAWNS,
    RIGHTS,
    SLANTED,
    STATE,
    STRAIGHT,
    THEM,
    US,
    Boards,
    Moves,
)
from valuerepair.board.tables import BETWEEN, KING, KNIGHT, LINE

MAX_MOVES = 512  # 15 queens and a king have at most 413; boards with more than 16 men a side are refused

SEVEN, EIGHT, NINE = np.uint64(7), np.uint64(8), np.uint64(9)
RANK_3 = np.uint64(0xFF0000)
F1_G1, B1_D1 = np.uint64(0x60), np.uint64(0x0E)


@kernel
def attackers(rows: Boards, r: int, square: int, occupied: np.uint64) -> np.uint64:
    """Their pieces that attack `square` when the board is occupied so; men taken off `occupied` do not attack."""
    found = KNIGHT[square] & rows[r, KNIGHTS]
    found |= pawn_attacks_up(ONE << np.uint64(square)) & rows[r, PAWNS]
    found |= KING[square] & rows[r, KINGS]
    found |= bishop_attacks(square, occupied) & rows[r, SLANTED]
    found |= rook_attacks(square, occupied) & rows[r, STRAIGHT]
    result: np.uint64 = found & rows[r, THEM] & occupied
    return result


@kernel
def checkers(rows: Boards, r: int) -> np.uint64:
    """Their pieces that give check."""
    king = lowest(rows[r, US] & rows[r, KINGS])
    return attackers(rows, r, king, rows[r, US] | rows[r, THEM])


@kernel
def ep_file(rows: Boards, r: int) -> int:
    """The en-passant file of the state, -1 for none."""
    result: int = np.int64(rows[r, STATE] >> EP_SHIFT & RIGHTS) - 1
    return result


@kernel
def ep_capturers(rows: Boards, r: int) -> np.uint64:
    """Our pawns that may legally capture en passant."""
    file = ep_file(rows, r)
    legal: np.uint64 = ZERO
    if file < 0:
        return legal
    us, them = rows[r, US], rows[r, THEM]
    target, victim = ONE << np.uint64(40 + file), ONE << np.uint64(32 + file)
    occupied = us | them
    if occupied & target or not (them & rows[r, PAWNS] & victim):
        return legal
    king = lowest(us & rows[r, KINGS])
    candidates = pawn_attacks_down(target) & us & rows[r, PAWNS]
    while candidates:
        pawn = candidates & (~candidates + ONE)
        candidates ^= pawn
        if not attackers(rows, r, king, (occupied ^ pawn ^ victim) | target):
            legal |= pawn
    return legal


@kernel
def put(out: Moves, n: int, origin: int, targets: np.uint64) -> int:
    """Writes the moves from one square to each target from out[n] on; returns the new n."""
    while targets:
        out[n] = origin | lowest(targets) << 6
        targets &= targets - ONE
        n += 1
    return n


@kernel
def put_pawns(out: Moves, n: int, targets: np.uint64, step: int) -> int:
    """Writes pawn moves to the targets, each from `step` squares below; four moves for a promotion."""
    while targets:
        target = lowest(targets)
        targets &= targets - ONE
        move = (target - step) | target << 6
        if target < 56:
            out[n] = move
            n += 1
        else:
            for promotion in range(4):
                out[n + promotion] = move | (4 - promotion) << 12
            n += 4
    return n


@kernel
def king_moves(rows: Boards, r: int, out: Moves, n: int, in_check: bool) -> int:
    """Writes the king's legal moves, castling too."""
    us, them = rows[r, US], rows[r, THEM]
    bit = us & rows[r, KINGS]
    king, without = lowest(bit), (us | them) ^ bit
    targets = KING[king] & ~us & ~pawn_attacks_down(them & rows[r, PAWNS])
    while targets:
        target = lowest(targets)
        targets &= targets - ONE
        # What stands on the target is taken, so it shields the square but does not attack it.
        if not attackers(rows, r, target, without):
            out[n] = king | target << 6
            n += 1
    rights = rows[r, STATE] & RIGHTS
    if in_check or not rights & np.uint64(3):
        return n
    if rights & ONE and not without & F1_G1 and not attackers(rows, r, 5, without) | attackers(rows, r, 6, without):
        out[n] = 4 | 6 << 6
        n += 1
    if (
        rights & np.uint64(2)
        and not without & B1_D1
        and not attackers(rows, r, 3, without) | attackers(rows, r, 2, without)
    ):
        out[n] = 4 | 2 << 6
        n += 1
    return n


@kernel
def pinned_and_checkers(rows: Boards, r: int, king: int) -> tuple[np.uint64, np.uint64]:
    """Our men pinned to the king, and their men giving check."""
    us, them = rows[r, US], rows[r, THEM]
    snipers = (rook_attacks(king, them) & rows[r, STRAIGHT]) | (bishop_attacks(king, them) & rows[r, SLANTED])
    snipers &= them
    checking = KNIGHT[king] & rows[r, KNIGHTS]
    checking |= pawn_attacks_up(ONE << np.uint64(king)) & rows[r, PAWNS]
    checking &= them
    pinned = ZERO
    while snipers:
        sniper = lowest(snipers)
        snipers &= snipers - ONE
        shield = BETWEEN[king, sniper] & us
        if not shield:
            checking |= ONE << np.uint64(sniper)
        elif not shield & (shield - ONE):
            pinned |= shield
    return pinned, checking


@kernel
def pawn_moves(rows: Boards, r: int, out: Moves, n: int, pawns: np.uint64, allowed: np.uint64) -> int:
    """Writes the moves of the given pawns to allowed squares, without en passant."""
    them = rows[r, THEM]
    free = ~(rows[r, US] | them)
    single = pawns << EIGHT & free
    double = (single & RANK_3) << EIGHT & free & allowed
    n = put_pawns(out, n, single & allowed, 8)
    n = put_pawns(out, n, double, 16)
    n = put_pawns(out, n, (pawns & NOT_FILE_A) << SEVEN & them & allowed, 7)
    return put_pawns(out, n, (pawns & NOT_FILE_H) << NINE & them & allowed, 9)


@kernel
def legal(rows: Boards, r: int, out: Moves, n: int) -> int:
    """Writes the legal moves (mover-relative) of row r from out[n] on; returns the new n.

    `out` needs room for MAX_MOVES beyond n.
    """
    us, occupied = rows[r, US], rows[r, US] | rows[r, THEM]
    king = lowest(us & rows[r, KINGS])
    pinned, checking = pinned_and_checkers(rows, r, king)
    n = king_moves(rows, r, out, n, checking != ZERO)
    if checking & (checking - ONE):
        return n
    allowed = ~us
    if checking:
        allowed = BETWEEN[king, lowest(checking)] | checking
    pawns = us & rows[r, PAWNS]
    n = pawn_moves(rows, r, out, n, pawns & ~pinned, allowed)
    tied = pawns & pinned
    while tied:
        square = lowest(tied)
        n = pawn_moves(rows, r, out, n, ONE << np.uint64(square), allowed & LINE[king, square])
        tied &= tied - ONE
    capturers = ep_capturers(rows, r)
    while capturers:
        n = put(out, n, lowest(capturers), ONE << np.uint64(40 + ep_file(rows, r)))
        capturers &= capturers - ONE
    knights = us & rows[r, KNIGHTS] & ~pinned
    while knights:
        square = lowest(knights)
        n = put(out, n, square, KNIGHT[square] & allowed)
        knights &= knights - ONE
    sliders = us & (rows[r, SLANTED] | rows[r, STRAIGHT])
    while sliders:
        square = lowest(sliders)
        bit = sliders & (~sliders + ONE)
        sliders ^= bit
        targets = ZERO
        if bit & rows[r, SLANTED]:
            targets |= bishop_attacks(square, occupied)
        if bit & rows[r, STRAIGHT]:
            targets |= rook_attacks(square, occupied)
        targets &= allowed
        if bit & pinned:
            targets &= LINE[king, square]
        n = put(out, n, square, targets)
    return n
