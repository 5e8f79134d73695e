"""lc0's 112 input planes from positions with their history (lc0 src/neural/encoder.cc, EncodePositionForNN).

Everything is seen from the side to move: for Black ranks are upside down and colours swapped. Planes 13i .. 13i+12
hold the position i plies ago: our P N B R Q K, their P N B R Q K, and ones if it occurred before. 104-107 castling,
108 side to move or en passant, 109 the half-move clock, 110 zero (Armageddon formats: ones for Black), 111 ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Masks, Moves
from valuerepair.chess.bits import ALL, ONE, ZERO, files_flipped, lowest, mirrored
from valuerepair.chess.board import owned, parse_fens
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move, clock, copy_row, make, mark_repetition
from valuerepair.chess.movegen import ep_file
from valuerepair.chess.positions import STARTPOS_FEN, PositionBatch
from valuerepair.chess.rows import (
    BLACK_SHIFT,
    EP_SHIFT,
    FLIP,
    KINGS,
    KNIGHTS,
    PAWNS,
    REPETITION,
    RIGHTS,
    ROW,
    SAME_POSITION,
    SLANTED,
    STATE,
    STRAIGHT,
    THEM,
    US,
    Boards,
)

Planes = NDArray[np.float32]

PLANES, HISTORY, BOARD_PLANES, AUXILIARY, CLOCK_PLANE = 112, 8, 13, 104, 109
PLANES_SHAPE = PLANES, 8, 8
# lc0's ids (proto/net.proto, NetworkFormat.InputFormat).
CLASSICAL, CASTLING_PLANE, CANONICAL, HECTOPLIES, CANONICAL_V2 = 1, 2, 3, 4, 5
ARMAGEDDON, ARMAGEDDON_V2 = 132, 133
INPUT_FORMATS = (CLASSICAL, CASTLING_PLANE, CANONICAL, HECTOPLIES, CANONICAL_V2, ARMAGEDDON, ARMAGEDDON_V2)

FLIP_FILES, MIRROR_RANKS, TRANSPOSE = 1, 2, 4
FILES_A_TO_D, RANKS_5_TO_8 = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0xFFFFFFFF00000000)
ABOVE_DIAGONAL, ON_DIAGONAL = np.uint64(0xE0C08000), np.uint64(0x10204080)
PAWN_BACK = np.uint64(2**48 + 2**32)  # their pawn from its fifth rank back to its seventh, on file a


@kernel
def transposed(board: np.uint64) -> np.uint64:
    """The board reflected in the diagonal h1-a8."""
    half = board ^ board << np.uint64(36)
    board ^= np.uint64(0xF0F0F0F00F0F0F0F) & (half ^ board >> np.uint64(36))
    half = np.uint64(0xCCCC0000CCCC0000) & (board ^ board << np.uint64(18))
    board ^= half ^ half >> np.uint64(18)
    half = np.uint64(0xAA00AA00AA00AA00) & (board ^ board << np.uint64(9))
    result: np.uint64 = board ^ half ^ half >> np.uint64(9)
    return result


@kernel
def transformed(board: np.uint64, transform: int) -> np.uint64:
    """The board flipped, mirrored and transposed, in this order, each if its bit in `transform` is set."""
    if transform & FLIP_FILES:
        board = files_flipped(board)
    if transform & MIRROR_RANKS:
        board = mirrored(board)
    if transform & TRANSPOSE:
        board = transposed(board)
    return board


@kernel
def canonical_transform(rows: Boards, r: int) -> int:
    """The symmetry through which canonical nets see row r (lc0 ChooseTransform)."""
    us, them, kings = rows[r, US], rows[r, THEM], rows[r, KINGS]
    slanted, straight = rows[r, SLANTED], rows[r, STRAIGHT]
    if rows[r, STATE] & RIGHTS:
        return 0
    king, transform = us & kings, 0
    if king & FILES_A_TO_D:
        transform = FLIP_FILES
    if rows[r, PAWNS]:
        return transform
    if king & RANKS_5_TO_8:
        transform |= MIRROR_RANKS
    king = transformed(king, transform)
    if king & ABOVE_DIAGONAL:
        return transform | TRANSPOSE
    if not king & ON_DIAGONAL:
        return transform
    queens, rooks, bishops = slanted & straight, straight & ~slanted, slanted & ~straight
    for board in (us | them, us, kings, queens, rooks, rows[r, KNIGHTS], bishops):
        board_seen = transformed(board, transform)
        reflected = transposed(board_seen)
        if board_seen != reflected:
            return transform if board_seen < reflected else transform | TRANSPOSE
    return transform


@kernel
def board_masks(rows: Boards, r: int, turned: bool, masks: Masks, n: int, base: int) -> None:
    """Writes the twelve bitboards of row r to masks[n, base:base+12], seen by the other side if `turned`."""
    us, them = rows[r, US], rows[r, THEM]
    pawns, knights, kings = rows[r, PAWNS], rows[r, KNIGHTS], rows[r, KINGS]
    slanted, straight = rows[r, SLANTED], rows[r, STRAIGHT]
    if turned:
        us, them = mirrored(them), mirrored(us)
        pawns, knights, kings = mirrored(pawns), mirrored(knights), mirrored(kings)
        slanted, straight = mirrored(slanted), mirrored(straight)
    bishops, rooks, queens = slanted & ~straight, straight & ~slanted, slanted & straight
    masks[n, base], masks[n, base + 6] = pawns & us, pawns & them
    masks[n, base + 1], masks[n, base + 7] = knights & us, knights & them
    masks[n, base + 2], masks[n, base + 8] = bishops & us, bishops & them
    masks[n, base + 3], masks[n, base + 9] = rooks & us, rooks & them
    masks[n, base + 4], masks[n, base + 10] = queens & us, queens & them
    masks[n, base + 5], masks[n, base + 11] = kings & us, kings & them


@kernel
def auxiliary_masks(state: np.uint64, form: int, masks: Masks, n: int) -> None:
    """Writes planes 104-111 of a row with this state to masks[n]."""
    black, file = state >> BLACK_SHIFT & ONE, state >> EP_SHIFT & RIGHTS
    our_short, our_long = state & ONE, state >> ONE & ONE
    their_short, their_long = state >> np.uint64(2) & ONE, state >> np.uint64(3) & ONE
    if form == CLASSICAL:
        masks[n, AUXILIARY], masks[n, AUXILIARY + 1] = ALL * our_long, ALL * our_short
        masks[n, AUXILIARY + 2], masks[n, AUXILIARY + 3] = ALL * their_long, ALL * their_short
    else:  # the rooks they are castled with
        masks[n, AUXILIARY] = our_long | their_long << np.uint64(56)
        masks[n, AUXILIARY + 1] = our_short << np.uint64(7) | their_short << np.uint64(63)
        masks[n, AUXILIARY + 2] = masks[n, AUXILIARY + 3] = ZERO
    masks[n, AUXILIARY + 4] = ALL * black
    if form >= CANONICAL:
        masks[n, AUXILIARY + 4] = ONE << (np.uint64(55) + file) if file else ZERO
    masks[n, CLOCK_PLANE] = masks[n, CLOCK_PLANE + 2] = ALL
    masks[n, CLOCK_PLANE + 1] = ALL * black if form >= ARMAGEDDON else ZERO


@kernel
def write_masks(rows: Boards, first: int, last: int, initial: bool, form: int, masks: Masks, n: int) -> np.float32:
    """Writes all planes of row `last` to masks[n], bit 8 * rank + file being the value on that square.

    Rows first..last are the known game, each made from the row before, with repetitions marked where needed. Slots
    before them are copies of row `first`, and zeros where `initial` says that it is the standard starting position
    (lc0's history fill ``fen_only``). Plane 109 is written as ones; returns the factor for it: the half-move clock,
    divided by 100 in formats that require it. The loop follows lc0's.
    """
    canonical, repeats_only = form >= CANONICAL, form in (CANONICAL_V2, ARMAGEDDON_V2)
    state = rows[last, STATE]
    slot, at, turned = 0, last, False
    while slot < HISTORY:
        r = max(at, first)
        file = ep_file(rows, r)
        rights = rows[r, STATE] & RIGHTS
        if turned:
            rights = (rights >> np.uint64(2) | rights << np.uint64(2)) & RIGHTS
        if canonical and (rights != state & RIGHTS or (at != last and file >= 0)):
            break
        repeated = rows[r, REPETITION] != ZERO
        if repeats_only and slot > 0 and not repeated:
            # Before the known history lc0 would repeat the first position forever; that is not a repetition.
            if at < first or clock(rows, r) == 0:
                break
            turned ^= at > first
            at -= 1
            continue
        if at < first and initial:
            break
        base = BOARD_PLANES * slot
        board_masks(rows, r, turned, masks, n, base)
        masks[n, base + 12] = ALL if repeated else ZERO
        if at < first and file >= 0:
            if turned:
                masks[n, base] ^= mirrored(PAWN_BACK << np.uint64(file))
            else:
                masks[n, base + 6] ^= PAWN_BACK << np.uint64(file)
        slot += 1
        if canonical and clock(rows, r) == 0:
            break
        turned ^= at > first
        at -= 1
    for plane in range(BOARD_PLANES * slot, AUXILIARY):
        masks[n, plane] = ZERO
    auxiliary_masks(state, form, masks, n)
    transform = canonical_transform(rows, last) if canonical else 0
    for plane in range(CLOCK_PLANE if transform else 0):
        if masks[n, plane]:
            masks[n, plane] = transformed(masks[n, plane], transform)
    rule50: np.float32 = np.float32(clock(rows, last)) / np.float32(100 if form >= HECTOPLIES else 1)
    return rule50


@kernel
def unpack_row(masks: Masks, n: int, rule50: np.float32, out: Planes, row: int) -> None:
    """Writes masks[n] as out[row] (float32[112 * 64]), plane 109 times `rule50`."""
    out[row, :] = np.float32(0)
    for plane in range(PLANES):
        board, base = masks[n, plane], 64 * plane
        if board == ALL:
            value = rule50 if plane == CLOCK_PLANE else np.float32(1)
            for square in range(64):
                out[row, base + square] = value
            continue
        while board:
            out[row, base + lowest(board)] = np.float32(1)
            board &= board - ONE


@kernel
def unpack_rows(masks: Masks, rule50: NDArray[np.float32], out: Planes) -> None:
    """`unpack_row` for all rows of `masks`."""
    for n in range(len(masks)):
        unpack_row(masks, n, rule50[n], out, n)


@allocating_kernel
def encode_games(
    starts: Boards,
    initial: NDArray[np.bool_],
    moves: Moves,
    offsets: NDArray[np.int64],
    form: int,
    out: Planes,
) -> None:
    """Replays moves[offsets[n]:offsets[n+1]] from starts[n] and writes out[n], for every n."""
    longest = 0
    for n in range(len(starts)):
        longest = max(longest, offsets[n + 1] - offsets[n])
    rows, masks = np.empty((longest + 1, ROW), np.uint64), np.empty((1, PLANES), np.uint64)
    for n in range(len(starts)):
        copy_row(starts, n, rows, 0)
        last = offsets[n + 1] - offsets[n]
        for i in range(last):
            make(rows, i, i + 1, np.int64(moves[offsets[n] + i]) ^ FLIP * black_to_move(rows, i))
            if i + HISTORY >= last or form >= CANONICAL_V2:  # V2 may look at any earlier position
                mark_repetition(rows, 0, i + 1)
        rule50 = write_masks(rows, 0, last, initial[n], form, masks, 0)
        unpack_row(masks, 0, rule50, out, n)


def encode(batch: PositionBatch, input_format: int = CLASSICAL, out: Planes | None = None) -> Planes:
    """The input planes of the positions, float32[n, 112, 8, 8]: row 0 is the mover's first rank, column 0 file a.

    Boards before the position come from replaying its moves from `start_fen`; the slots before that are copies of the
    first known position, unless it is the standard starting position: then zeros. `input_format` is lc0's id of the
    net's input. `out`, C-contiguous float32 of at least n rows, is filled and its first n rows returned.

    The moves must be legal. Raises ValueError for an unknown format, an unfit `out`, or a bad `start_fen`.
    """
    if input_format not in INPUT_FORMATS:
        raise ValueError(f"unknown input format {input_format}; known: {', '.join(map(str, INPUT_FORMATS))}")
    if out is None:
        out = np.empty((len(batch), *PLANES_SHAPE), np.float32)
    rows = _plane_rows(out, len(batch))
    starts = parse_fens(batch.start_fen)
    moves, offsets = owned(batch.moves, np.uint16), owned(batch.offsets, np.int64)
    encode_games(starts, is_initial(starts), moves, offsets, input_format, rows)
    return out[: len(batch)]


def unpack_masks(masks: Masks, rule50: NDArray[np.float32], out: Planes) -> None:
    """Writes the planes of bitboards uint64[n, 112] by `write_masks` to out[:n], float32[>=n, 112, 8, 8].

    `rule50` float32[n] multiplies plane 109. `out` must be C-contiguous. Raises ValueError for arrays that do not fit.
    """
    n = len(masks)
    if masks.shape != (n, PLANES) or rule50.shape != (n,):
        raise ValueError(f"masks {list(masks.shape)} and rule50 {list(rule50.shape)} must be [n, {PLANES}] and [n]")
    unpack_rows(masks, rule50, _plane_rows(out, n))


def _plane_rows(out: Planes, n: int) -> Planes:
    """The first n rows of `out` as float32[n, 112 * 64]. Raises ValueError if `out` does not fit."""
    fits = out.shape[1:] == PLANES_SHAPE and len(out) >= n
    if not fits or out.dtype != np.float32 or not out.flags.c_contiguous:
        raise ValueError(f"out must be C-contiguous float32[>={n},112,8,8], not {out.dtype}{list(out.shape)}")
    return out.reshape(len(out), PLANES * 64)[:n]


def is_initial(boards: Boards) -> NDArray[np.bool_]:
    """bool[n]: the standard starting position, White to move, all castling rights; clocks do not count."""
    start = parse_fens([STARTPOS_FEN])[0]
    same_pieces = (boards[:, :STATE] == start[:STATE]).all(axis=1)
    result: NDArray[np.bool_] = same_pieces & ((boards[:, STATE] ^ start[STATE]) & SAME_POSITION == ZERO)
    return result
