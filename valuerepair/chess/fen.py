"""FEN texts to boards and back, as kernels on ASCII bytes."""

from __future__ import annotations

import numpy as np

from valuerepair.arrays import Bytes
from valuerepair.chess.bits import CASTLING_KEY, ONE, PIECE_KEY, WHITE_KEY, ZERO, lowest, popcount
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move, clock, drop, home_rights, kind_at, turn_over
from valuerepair.chess.movegen import attackers, ep_capturers, ep_file
from valuerepair.chess.rows import KEY, KINGS, NUMBER_SHIFT, PAWNS, RIGHTS, ROW, SIXTEEN_BITS, STATE, THEM, US, Boards

# The faults of a row; kernels return the index of a fault.
REASONS = (
    "",
    "it needs at least placement, side to move, castling and en passant",
    "the placement is not eight ranks of eight squares",
    "unknown letter in the placement",
    "each side needs exactly one king",
    "a pawn stands on the first or last rank",
    "a side has more than 16 men",
    "the side to move is neither w nor b",
    "castling is neither - nor letters of KQkq",
    "the en-passant square is neither - nor on rank 3 or 6 as the side to move demands",
    "a move counter is not a number below 65536",
    "the side that is not to move is in check",
    "more than six fields",
)
FINE, FIELDS_MISSING, BAD_RANKS, BAD_LETTER, BAD_KINGS, BAD_PAWNS, TOO_MANY = range(7)
BAD_SIDE, BAD_CASTLING, BAD_EP, BAD_NUMBER, OPPONENT_IN_CHECK, TOO_LONG = range(7, len(REASONS))

LETTERS: Bytes = np.frombuffer(b"PNBRQKpnbrqk", np.uint8).copy()
BACK_RANKS = np.uint64(0xFF000000000000FF)
SPACE, SLASH, DASH, ZERO_DIGIT, NEWLINE = 32, 47, 45, 48, 10
FEN_ROOM = 100  # bytes, enough for the longest FEN and a newline


@kernel
def complete(rows: Boards, r: int, black: int, rights: int, ep: int, rule50: int, number: int) -> int:
    """Finishes a row whose men are placed from White's side (us = White); returns the fault, 0 for none.

    `rights` are absolute (KQkq from bit 0); rights whose king or rook is not at home are dropped. `ep` is the file + 1,
    dropped if no pawn can just have moved two squares to that file.
    """
    us, them, kings = rows[r, US], rows[r, THEM], rows[r, KINGS]
    if popcount(us & kings) != 1 or popcount(them & kings) != 1:
        return BAD_KINGS
    if popcount(us) > 16 or popcount(them) > 16:
        return TOO_MANY
    if rows[r, PAWNS] & BACK_RANKS:
        return BAD_PAWNS
    if black:
        turn_over(rows, r)
        rights = (rights >> 2 | rights << 2) & 15
    rights &= home_rights(rows, r)
    if ep and not (rows[r, THEM] & rows[r, PAWNS]) >> np.uint64(31 + ep) & ONE:
        ep = 0
    rows[r, STATE] = np.uint64(rights | black << 4 | ep << 8 | rule50 << 16 | number << 32)
    rows[r, KEY] = key_from_scratch(rows, r)
    return FINE


@kernel
def key_from_scratch(rows: Boards, r: int) -> np.uint64:
    """The Zobrist key without en passant that `make` keeps up to date."""
    black = black_to_move(rows, r)
    key: np.uint64 = CASTLING_KEY[black, np.int64(rows[r, STATE] & RIGHTS)]
    if not black:
        key ^= WHITE_KEY
    for side in (US, THEM):
        men = rows[r, side]
        white = (1 - black) if side == US else black
        while men:
            square = lowest(men)
            men &= men - ONE
            key ^= PIECE_KEY[white, kind_at(rows, r, ONE << np.uint64(square)), square ^ 56 * black]
    return key


@kernel
def opponent_in_check(rows: Boards, r: int) -> bool:
    """Whether the side that is not to move is in check, which is impossible in a game."""
    turn_over(rows, r)
    king = lowest(rows[r, US] & rows[r, KINGS])
    attacked = attackers(rows, r, king, rows[r, US] | rows[r, THEM]) != ZERO
    turn_over(rows, r)
    return bool(attacked)


@kernel
def skip(text: Bytes, at: int, end: int, blanks: bool) -> int:
    """The end of the run of blanks (or of non-blanks) that begins at `at`."""
    while at < end and (text[at] == SPACE) == blanks:
        at += 1
    return at


@kernel
def read_placement(text: Bytes, at: int, end: int, rows: Boards, r: int) -> int:
    """Puts the men of a FEN's first field on row r, White as us; returns the fault."""
    rank, file = 7, 0
    while at < end:
        letter = np.int64(text[at])
        at += 1
        if letter == SLASH:
            if file != 8 or rank == 0:
                return BAD_RANKS
            rank, file = rank - 1, 0
        elif ZERO_DIGIT < letter < ZERO_DIGIT + 9:
            file += letter - ZERO_DIGIT
        else:
            man = -1
            for i in range(12):
                if LETTERS[i] == letter:
                    man = i
            if man < 0:
                return BAD_LETTER
            if file > 7:
                return BAD_RANKS
            drop(rows, r, ONE << np.uint64(8 * rank + file), man % 6, US if man < 6 else THEM)
            file += 1
        if file > 8:
            return BAD_RANKS
    return FINE if rank == 0 and file == 8 else BAD_RANKS


@kernel
def read_castling(text: Bytes, at: int, end: int) -> int:
    """The rights (KQkq from bit 0) of a FEN's third field, -1 if it is wrong. Rook files (HAha) mean the same."""
    if end - at == 1 and text[at] == DASH:
        return 0
    rights = 0
    for i in range(at, end):
        letter, white = np.int64(text[i]), text[i] < 97
        upper = letter if white else letter - 32
        if upper == 75 or upper == 72:  # K, H
            rights |= 1 if white else 4
        elif upper == 81 or upper == 65:  # Q, A
            rights |= 2 if white else 8
        else:
            return -1
    return rights


@kernel
def read_ep(text: Bytes, at: int, end: int, black: int) -> int:
    """The file + 1 of a FEN's fourth field, 0 for none, -1 if it is wrong."""
    if end - at == 1 and text[at] == DASH:
        return 0
    file: int = np.int64(text[at]) - 96
    rank = 51 if black else 54
    if end - at != 2 or file < 1 or file > 8 or text[at + 1] != rank:
        return -1
    return file


@kernel
def read_number(text: Bytes, at: int, end: int) -> int:
    """A decimal number below 65536, else -1."""
    if end - at > 5:
        return -1
    number = 0
    for i in range(at, end):
        digit = np.int64(text[i]) - ZERO_DIGIT
        if digit < 0 or digit > 9:
            return -1
        number = 10 * number + digit
    return number if number <= 0xFFFF else -1


@allocating_kernel
def read_fen(text: Bytes, at: int, end: int, rows: Boards, r: int) -> int:
    """Fills row r from the FEN of four to six fields in text[at:end]; returns the index in REASONS."""
    starts, ends = np.empty(7, np.int64), np.empty(7, np.int64)
    count = 0
    at = skip(text, at, end, True)
    while at < end and count < 7:
        starts[count] = at
        at = skip(text, at, end, False)
        ends[count] = at
        at = skip(text, at, end, True)
        count += 1
    if count < 4:
        return FIELDS_MISSING
    if count > 6:
        return TOO_LONG
    for column in range(ROW):
        rows[r, column] = ZERO
    wrong = read_placement(text, starts[0], ends[0], rows, r)
    if wrong:
        return wrong
    side = text[starts[1]]
    if ends[1] - starts[1] != 1 or (side != 119 and side != 98):
        return BAD_SIDE
    black = 1 if side == 98 else 0
    rights, ep = read_castling(text, starts[2], ends[2]), read_ep(text, starts[3], ends[3], black)
    rule50 = read_number(text, starts[4], ends[4]) if count > 4 else 0
    number = read_number(text, starts[5], ends[5]) if count > 5 else 1
    if rights < 0:
        return BAD_CASTLING
    if ep < 0:
        return BAD_EP
    if rule50 < 0 or number < 0:
        return BAD_NUMBER
    wrong = complete(rows, r, black, rights, ep, rule50, number)
    if wrong:
        return wrong
    return OPPONENT_IN_CHECK if opponent_in_check(rows, r) else FINE


@kernel
def write_number(text: Bytes, at: int, number: int) -> int:
    """Writes a number below 65536 in decimal; returns the end."""
    divisor = 1
    while number // divisor >= 10:
        divisor *= 10
    while divisor:
        text[at] = ZERO_DIGIT + number // divisor % 10
        at += 1
        divisor //= 10
    return at


@kernel
def write_placement(text: Bytes, at: int, rows: Boards, r: int) -> int:
    """Writes the first field; returns the end."""
    black = black_to_move(rows, r)
    men, white = rows[r, US] | rows[r, THEM], rows[r, THEM] if black else rows[r, US]
    for rank in range(7, -1, -1):
        empty = 0
        for file in range(8):
            bit = ONE << np.uint64((8 * rank + file) ^ 56 * black)
            if men & bit:
                if empty:
                    text[at] = ZERO_DIGIT + empty
                    at, empty = at + 1, 0
                text[at] = LETTERS[kind_at(rows, r, bit) + (0 if white & bit else 6)]
                at += 1
            else:
                empty += 1
        if empty:
            text[at] = ZERO_DIGIT + empty
            at += 1
        if rank:
            text[at] = SLASH
            at += 1
    return at


@kernel
def write_fen(text: Bytes, at: int, rows: Boards, r: int) -> int:
    """Writes the six fields and a newline; returns the end. En passant only where a capture is legal."""
    black = black_to_move(rows, r)
    at = write_placement(text, at, rows, r)
    text[at], text[at + 1], text[at + 2] = SPACE, 98 if black else 119, SPACE
    at += 3
    rights = np.int64(rows[r, STATE] & RIGHTS)
    if black:
        rights = (rights >> 2 | rights << 2) & 15
    for bit in range(4):
        if rights >> bit & 1:
            text[at] = LETTERS[(5, 4, 11, 10)[bit]]
            at += 1
    if not rights:
        text[at] = DASH
        at += 1
    text[at] = SPACE
    at += 1
    if ep_capturers(rows, r):
        text[at], text[at + 1] = 97 + ep_file(rows, r), 51 if black else 54
        at += 2
    else:
        text[at] = DASH
        at += 1
    text[at] = SPACE
    at = write_number(text, at + 1, clock(rows, r))
    text[at] = SPACE
    at = write_number(text, at + 1, np.int64(rows[r, STATE] >> NUMBER_SHIFT & SIXTEEN_BITS))
    text[at] = NEWLINE
    return at + 1
