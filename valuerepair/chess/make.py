"""Playing moves, keys, repetitions and dead positions, as kernels."""

from __future__ import annotations

import numpy as np

from valuerepair.chess.bits import (
    CASTLING_KEPT,
    CASTLING_KEY,
    EIGHT,
    EP_KEY,
    NOT_FILE_A,
    NOT_FILE_H,
    ONE,
    PIECE_KEY,
    WHITE_KEY,
    ZERO,
    lowest,
    mirrored,
    popcount,
)
from valuerepair.chess.jit import kernel
from valuerepair.chess.movegen import ep_capturers, ep_file
from valuerepair.chess.rows import (
    BLACK_SHIFT,
    CLOCK_SHIFT,
    EP_SHIFT,
    KEY,
    KINGS,
    KNIGHTS,
    NUMBER_SHIFT,
    PAWNS,
    REPETITION,
    RIGHTS,
    ROW,
    SAME_POSITION,
    SIXTEEN_BITS,
    SLANTED,
    STATE,
    STRAIGHT,
    THEM,
    US,
    Boards,
)

LIGHT_SQUARES = np.uint64(0x55AA55AA55AA55AA)
DARK_SQUARES = np.uint64(0xAA55AA55AA55AA55)


@kernel
def black_to_move(rows: Boards, r: int) -> int:
    """1 if Black is to move, else 0."""
    result: int = np.int64(rows[r, STATE] >> BLACK_SHIFT & ONE)
    return result


@kernel
def clock(rows: Boards, r: int) -> int:
    """Half-moves since the last capture or pawn move."""
    result: int = np.int64(rows[r, STATE] >> CLOCK_SHIFT & SIXTEEN_BITS)
    return result


@kernel
def kind_at(rows: Boards, r: int, bit: np.uint64) -> int:
    """The kind of the man on `bit`: 0 pawn, 1 knight, 2 bishop, 3 rook, 4 queen, 5 king."""
    if bit & rows[r, PAWNS]:
        return 0
    if bit & rows[r, KNIGHTS]:
        return 1
    if bit & rows[r, SLANTED]:
        return 4 if bit & rows[r, STRAIGHT] else 2
    return 3 if bit & rows[r, STRAIGHT] else 5


@kernel
def drop(rows: Boards, r: int, bit: np.uint64, kind: int, side: int) -> None:
    """Puts men of one kind and `side` (US or THEM) on the empty squares `bit`, one or several."""
    rows[r, side] |= bit
    if kind == 0:
        rows[r, PAWNS] |= bit
    elif kind == 1:
        rows[r, KNIGHTS] |= bit
    elif kind == 5:
        rows[r, KINGS] |= bit
    else:
        if kind != 3:
            rows[r, SLANTED] |= bit
        if kind != 2:
            rows[r, STRAIGHT] |= bit


@kernel
def moved(board: np.uint64, keep: np.uint64, origin: np.uint64, goal: np.uint64) -> np.uint64:
    """A bitboard after a move: its bit on `origin` moves to `goal`; of its other bits, those in `keep` remain."""
    result: np.uint64 = (board & keep) | (board >> origin & ONE) << goal
    return result


@kernel
def make(rows: Boards, source: int, r: int, move: int) -> None:
    """Plays a legal mover-relative move on row `source` and writes the turned board to row `r` (may be the same)."""
    us, them, pawns, knights = rows[source, US], rows[source, THEM], rows[source, PAWNS], rows[source, KNIGHTS]
    slanted, straight, kings = rows[source, SLANTED], rows[source, STRAIGHT], rows[source, KINGS]
    black, rule50 = black_to_move(rows, source), clock(rows, source) + 1
    white, turn = 1 - black, 56 * black
    origin, goal, promotion = move & 63, move >> 6 & 63, min(move >> 12, 4)
    from_shift, to_shift = np.uint64(origin), np.uint64(goal)
    from_bit, to_bit = ONE << from_shift, ONE << to_shift
    kind, key, new_ep = kind_at(rows, source, from_bit), rows[source, KEY], 0

    victim = to_bit
    if kind == 0:
        rule50 = 0
        if (goal - origin) & 1 and not them & to_bit:
            victim = to_bit >> EIGHT  # en passant
        beside = ((to_bit & NOT_FILE_A) >> ONE) | ((to_bit & NOT_FILE_H) << ONE)
        if goal - origin == 16 and beside & them & pawns:
            new_ep = (goal & 7) + 1
    if them & victim:
        key ^= PIECE_KEY[black, kind_at(rows, source, victim), lowest(victim) ^ turn]
        rule50 = 0
    keep = ~(from_bit | victim)
    us, them = us ^ from_bit ^ to_bit, them & keep
    pawns, knights = moved(pawns, keep, from_shift, to_shift), moved(knights, keep, from_shift, to_shift)
    slanted, straight = moved(slanted, keep, from_shift, to_shift), moved(straight, keep, from_shift, to_shift)
    kings = moved(kings, keep, from_shift, to_shift)
    key ^= PIECE_KEY[white, kind, origin ^ turn]
    if kind == 0 and promotion:
        kind, pawns = promotion, pawns ^ to_bit
        knights |= to_bit if kind == 1 else ZERO
        slanted |= to_bit if kind == 2 or kind == 4 else ZERO
        straight |= to_bit if kind >= 3 else ZERO
    elif kind == 5 and (goal - origin == 2 or origin - goal == 2):
        rook_from, rook_to = (7, 5) if goal > origin else (0, 3)
        rook = ONE << np.uint64(rook_from) | ONE << np.uint64(rook_to)
        us, straight = us ^ rook, straight ^ rook
        key ^= PIECE_KEY[white, 3, rook_from ^ turn] ^ PIECE_KEY[white, 3, rook_to ^ turn]
    key ^= PIECE_KEY[white, kind, goal ^ turn]

    before = np.int64(rows[source, STATE] & RIGHTS)
    rights = before & CASTLING_KEPT[origin] & CASTLING_KEPT[goal]
    number = np.int64(rows[source, STATE] >> NUMBER_SHIFT & SIXTEEN_BITS) + black
    turned = (rights >> 2 | rights << 2) & 15
    rows[r, US], rows[r, THEM], rows[r, PAWNS] = mirrored(them), mirrored(us), mirrored(pawns)
    rows[r, KNIGHTS], rows[r, SLANTED] = mirrored(knights), mirrored(slanted)
    rows[r, STRAIGHT], rows[r, KINGS] = mirrored(straight), mirrored(kings)
    rows[r, STATE] = np.uint64(turned | white << 4 | new_ep << 8 | min(rule50, 0xFFFF) << 16 | number << 32)
    rows[r, KEY] = key ^ CASTLING_KEY[black, before] ^ CASTLING_KEY[black, rights] ^ WHITE_KEY
    rows[r, REPETITION] = ZERO


@kernel
def set_ep(rows: Boards, r: int, file: int) -> None:
    """Sets the en-passant file (-1: none) as lc0 does after a move: only next to one of our pawns."""
    pawn = (rows[r, THEM] & rows[r, PAWNS]) >> np.uint64(32 + max(file, 0)) & ONE
    bit = ONE << np.uint64(32 + max(file, 0))
    beside = ((bit & NOT_FILE_A) >> ONE) | ((bit & NOT_FILE_H) << ONE)
    ep = file + 1 if file >= 0 and pawn and beside & rows[r, US] & rows[r, PAWNS] else 0
    rows[r, STATE] = (rows[r, STATE] & ~(RIGHTS << EP_SHIFT)) | np.uint64(ep) << EP_SHIFT


@kernel
def turn_over(rows: Boards, r: int) -> None:
    """Swaps the sides and turns the ranks of the bitboards."""
    us = rows[r, US]
    rows[r, US], rows[r, THEM] = mirrored(rows[r, THEM]), mirrored(us)
    for column in range(PAWNS, STATE):
        rows[r, column] = mirrored(rows[r, column])


@kernel
def copy_row(rows: Boards, r: int, target: Boards, target_row: int) -> None:
    for column in range(ROW):
        target[target_row, column] = rows[r, column]


@kernel
def home_rights(rows: Boards, r: int) -> int:
    """The castling rights (as in the state) for which king and rook are at home."""
    rooks = rows[r, STRAIGHT] & ~rows[r, SLANTED]
    rights = 0
    for bit in range(4):
        side, king = (US, 4) if bit < 2 else (THEM, 60)
        rook = king - 4 if bit & 1 else king + 3
        home = rows[r, side] & rows[r, KINGS] & ONE << np.uint64(king)
        if home and rows[r, side] & rooks & ONE << np.uint64(rook):
            rights |= 1 << bit
    return rights


@kernel
def key_of(rows: Boards, r: int) -> np.uint64:
    """The key of placement, side to move, castling rights and the en-passant file if a capture there is legal."""
    key: np.uint64 = rows[r, KEY]
    if ep_capturers(rows, r):
        key ^= EP_KEY[ep_file(rows, r)]
    return key


@kernel
def same_men(rows: Boards, a: int, b: int) -> bool:
    """Whether both rows have the same men on the same squares."""
    different = ZERO
    for column in range(STATE):
        different |= rows[a, column] ^ rows[b, column]
    return bool(different == ZERO)


@kernel
def same_position(rows: Boards, a: int, b: int) -> bool:
    """lc0's equality of boards: placement, side to move, castling rights and its own en-passant flag."""
    if rows[a, KEY] != rows[b, KEY] or (rows[a, STATE] ^ rows[b, STATE]) & SAME_POSITION:
        return False
    return same_men(rows, a, b)


@kernel
def mark_repetition(rows: Boards, first: int, r: int) -> None:
    """Writes how often the position of row r occurred in the game before it, rows first..r-1, and how many plies ago.

    Like lc0's ComputeLastMoveRepetitions, it looks only 4, 6, ... plies back and within the half-move clock.
    """
    rows[r, REPETITION] = ZERO
    if clock(rows, r) < 4:
        return
    earlier = r - 4
    while earlier >= first:
        if same_position(rows, earlier, r):
            count = (rows[earlier, REPETITION] & SIXTEEN_BITS) + ONE
            rows[r, REPETITION] = count | np.uint64(r - earlier) << CLOCK_SHIFT
            return
        if clock(rows, earlier) < 2:
            return
        earlier -= 2


@kernel
def insufficient_material(rows: Boards, r: int) -> bool:
    """Whether no series of moves can mate: bare kings, one minor piece, or bishops of one square colour."""
    if rows[r, PAWNS] or rows[r, STRAIGHT]:
        return False
    if popcount(rows[r, US] | rows[r, THEM]) < 4:
        return True
    bishops = rows[r, SLANTED]
    return not rows[r, KNIGHTS] and not (bishops & LIGHT_SQUARES and bishops & DARK_SQUARES)
