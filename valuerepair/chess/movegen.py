"""Legal moves and check as kernels, by pin and check masks.

Moves inside kernels are the 16-bit moves of `valuerepair.chess.positions` with mover-relative squares; XOR with `FLIP`
converts Black's moves to absolute squares.
"""

from __future__ import annotations

import numpy as np

from valuerepair.arrays import Moves
from valuerepair.chess.bits import (
    BETWEEN,
    EIGHT,
    KING,
    KNIGHT,
    LINE,
    NINE,
    NOT_FILE_A,
    NOT_FILE_H,
    ONE,
    SEVEN,
    TWO,
    ZERO,
    bishop_attacks,
    knight_attacks,
    lowest,
    pawn_attacks_down,
    pawn_attacks_up,
    popcount,
    rook_attacks,
    slanted_attacks,
    straight_attacks,
)
from valuerepair.chess.jit import kernel
from valuerepair.chess.rows import EP_SHIFT, KINGS, KNIGHTS, PAWNS, RIGHTS, SLANTED, STATE, STRAIGHT, THEM, US, Boards

MAX_MOVES = 512  # 15 queens and a king have at most 413; boards with more than 16 men a side are refused

RANK_3, RANK_8 = np.uint64(0xFF0000), np.uint64(0xFF00000000000000)
C1, G1 = np.uint64(0x04), np.uint64(0x40)
F1_G1, E1_TO_G1 = np.uint64(0x60), np.uint64(0x70)
B1_D1, C1_TO_E1 = np.uint64(0x0E), np.uint64(0x1C)


@kernel
def attackers(rows: Boards, r: int, square: int, occupied: np.uint64) -> np.uint64:
    """Their men that attack `square` if the squares `occupied` are taken; men outside `occupied` do not attack."""
    attacking = KNIGHT[square] & rows[r, KNIGHTS]
    attacking |= pawn_attacks_up(ONE << np.uint64(square)) & rows[r, PAWNS]
    attacking |= KING[square] & rows[r, KINGS]
    attacking |= bishop_attacks(square, occupied) & rows[r, SLANTED]
    attacking |= rook_attacks(square, occupied) & rows[r, STRAIGHT]
    result: np.uint64 = attacking & rows[r, THEM] & occupied
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
def danger(rows: Boards, r: int) -> np.uint64:
    """The squares that their men attack, also through our king, which must not move there."""
    them, king = rows[r, THEM], rows[r, US] & rows[r, KINGS]
    free = ~(rows[r, US] | them) | king
    attacked = KING[lowest(them & rows[r, KINGS])] | knight_attacks(them & rows[r, KNIGHTS])
    attacked |= pawn_attacks_down(them & rows[r, PAWNS]) | slanted_attacks(them & rows[r, SLANTED], free)
    result: np.uint64 = attacked | straight_attacks(them & rows[r, STRAIGHT], free)
    return result


@kernel
def castling_goals(rows: Boards, r: int, attacked: np.uint64) -> np.uint64:
    """G1, C1, both or none: the squares that our king may castle to, given the squares they attack (`danger`)."""
    rights, occupied = rows[r, STATE] & RIGHTS, rows[r, US] | rows[r, THEM]
    goals: np.uint64 = ZERO
    if rights & ONE and not (occupied & F1_G1 or attacked & E1_TO_G1):
        goals |= G1
    if rights & TWO and not (occupied & B1_D1 or attacked & C1_TO_E1):
        goals |= C1
    return goals


@kernel
def king_moves(rows: Boards, r: int, king: int, out: Moves, n: int) -> int:
    """Writes the legal moves of our king on square `king`, castling too."""
    attacked = danger(rows, r)
    n = put(out, n, king, KING[king] & ~rows[r, US] & ~attacked)
    goals = castling_goals(rows, r, attacked)
    if goals & G1:
        n = put(out, n, king, G1)
    return put(out, n, king, goals & C1)


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
def pawn_targets(
    rows: Boards, r: int, pawns: np.uint64, allowed: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Allowed squares the given pawns move to, without en passant: by one step, two, a capture left and right."""
    them = rows[r, THEM]
    free = ~(rows[r, US] | them)
    single = pawns << EIGHT & free
    double = (single & RANK_3) << EIGHT & free & allowed
    left, right = (pawns & NOT_FILE_A) << SEVEN & them & allowed, (pawns & NOT_FILE_H) << NINE & them & allowed
    return single & allowed, double, left, right


@kernel
def pawn_moves(rows: Boards, r: int, out: Moves, n: int, pawns: np.uint64, allowed: np.uint64) -> int:
    """Writes the moves of the given pawns to allowed squares, without en passant."""
    single, double, left, right = pawn_targets(rows, r, pawns, allowed)
    n = put_pawns(out, n, single, 8)
    n = put_pawns(out, n, double, 16)
    n = put_pawns(out, n, left, 7)
    return put_pawns(out, n, right, 9)


@kernel
def count_pawn_moves(rows: Boards, r: int, pawns: np.uint64, allowed: np.uint64) -> int:
    """The number of moves that `pawn_moves` writes."""
    single, double, left, right = pawn_targets(rows, r, pawns, allowed)
    promotions = popcount(single & RANK_8) + popcount(left & RANK_8) + popcount(right & RANK_8)
    return popcount(single) + popcount(double) + popcount(left) + popcount(right) + 3 * promotions


@kernel
def slider_targets(rows: Boards, r: int, square: int, occupied: np.uint64) -> np.uint64:
    """The squares that our slider on `square` attacks."""
    bit = ONE << np.uint64(square)
    targets: np.uint64 = ZERO
    if bit & rows[r, SLANTED]:
        targets |= bishop_attacks(square, occupied)
    if bit & rows[r, STRAIGHT]:
        targets |= rook_attacks(square, occupied)
    return targets


@kernel
def legal(rows: Boards, r: int, out: Moves, n: int) -> int:
    """Writes the legal moves (mover-relative) of row r from out[n] on; returns the new n.

    `out` needs room for MAX_MOVES beyond n.
    """
    us, occupied = rows[r, US], rows[r, US] | rows[r, THEM]
    king = lowest(us & rows[r, KINGS])
    pinned, checking = pinned_and_checkers(rows, r, king)
    n = king_moves(rows, r, king, out, n)
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
        targets = slider_targets(rows, r, square, occupied) & allowed
        if pinned >> np.uint64(square) & ONE:
            targets &= LINE[king, square]
        n = put(out, n, square, targets)
        sliders &= sliders - ONE
    return n


@kernel
def is_legal(rows: Boards, r: int, move: int, buffer: Moves) -> bool:
    """Whether a mover-relative move is legal on row r; `buffer` has room for MAX_MOVES."""
    is_listed = False
    for i in range(legal(rows, r, buffer, 0)):
        is_listed |= np.int64(buffer[i]) == move
    return is_listed


@kernel
def count_legal(rows: Boards, r: int) -> int:
    """The number of legal moves of row r, as `legal` writes them, by counting bits."""
    us, occupied = rows[r, US], rows[r, US] | rows[r, THEM]
    king = lowest(us & rows[r, KINGS])
    pinned, checking = pinned_and_checkers(rows, r, king)
    attacked = danger(rows, r)
    n = popcount(KING[king] & ~us & ~attacked) + popcount(castling_goals(rows, r, attacked))
    if checking & (checking - ONE):
        return n
    allowed = ~us
    if checking:
        allowed = BETWEEN[king, lowest(checking)] | checking
    n += count_pawn_moves(rows, r, us & rows[r, PAWNS] & ~pinned, allowed) + popcount(ep_capturers(rows, r))
    knights = us & rows[r, KNIGHTS] & ~pinned
    while knights:
        n += popcount(KNIGHT[lowest(knights)] & allowed)
        knights &= knights - ONE
    slanted, straight = us & rows[r, SLANTED] & ~pinned, us & rows[r, STRAIGHT] & ~pinned
    while slanted:
        n += popcount(bishop_attacks(lowest(slanted), occupied) & allowed)
        slanted &= slanted - ONE
    while straight:
        n += popcount(rook_attacks(lowest(straight), occupied) & allowed)
        straight &= straight - ONE
    tied = pinned & ~rows[r, KNIGHTS]
    while tied:
        square = lowest(tied)
        along_pin = allowed & LINE[king, square]
        n += count_pawn_moves(rows, r, tied & (~tied + ONE) & rows[r, PAWNS], along_pin)
        n += popcount(slider_targets(rows, r, square, occupied) & along_pin)
        tied &= tied - ONE
    return n
