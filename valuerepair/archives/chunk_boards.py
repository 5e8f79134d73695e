"""Kernels that read boards, moves and histories from training records: the inverse of lc0's input planes.

A record has its own board with castling rights and clock, and only the men of up to seven earlier boards. A move is the
legal move that leads from one board to the next. Where consecutive records are linked by such moves, the history of a
later record goes back to the oldest board of the first record.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Masks, Moves
from valuerepair.chess import v6
from valuerepair.chess.bits import CASTLING_KEPT, KING, ONE, ZERO, files_flipped, lowest, mirrored, popcount
from valuerepair.chess.fen import BACK_RANKS, key_from_scratch, opponent_in_check
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import (
    black_to_move,
    copy_row,
    drop,
    home_rights,
    kind_at,
    make,
    same_men,
    set_ep,
    turn_over,
)
from valuerepair.chess.movegen import MAX_MOVES, count_legal, is_legal
from valuerepair.chess.rows import (
    BLACK_SHIFT,
    CLOCK_SHIFT,
    FLIP,
    KEY,
    KINGS,
    PAWNS,
    RIGHTS,
    ROW,
    SIXTEEN_BITS,
    STATE,
    THEM,
    US,
    Boards,
    Index,
)

Small = NDArray[np.uint8]

FINE, ILLEGAL, NOT_STANDARD, OTHER_MOVES = range(4)
REASONS = ("", "illegal position", "Chess960", "legal moves differ from those recorded")
NO_MOVE = 0xFFFF
EP_UNKNOWN = -2
HISTORY, PLANES_OF_BOARD = 8, 13
# Rows of scratch boards after the records' rows: eight of the history, one to play on.
SCRATCH = HISTORY + 1

# Sizes and places in a record, in 32-bit words.
WORDS, POLICY_BEGIN, POLICY_SIZE = v6.RECORD.itemsize // 4, 2, len(v6.POLICY_MOVES)

_E1, _G1, _C1 = np.uint64(0x10), np.uint64(0x40), np.uint64(0x04)
_SAME = np.uint64(0xF) | ONE << BLACK_SHIFT | SIXTEEN_BITS << CLOCK_SHIFT  # of the state: rights, side, clock


@kernel
def count_legal_moves(words: NDArray[np.uint32], legal: Index) -> None:
    """Counts the moves of each record that have a share of visits, by the signs of the floats: illegal moves have -1.

    `words` are the records as 32-bit words.
    """
    for i in range(len(legal)):
        begin = i * WORDS + POLICY_BEGIN
        negative = np.uint32(0)
        for j in range(begin, begin + POLICY_SIZE):
            negative += words[j] >> np.uint32(31)
        legal[i] = POLICY_SIZE - np.int64(negative)


@kernel
def place(planes: Masks, i: int, k: int, rows: Boards, r: int) -> bool:
    """Puts the men of the board k plies before record i on row r, as the record's mover sees them.

    Returns False for an impossible board: not one king per side, pawns on the first or last rank, two men on a square.
    """
    for column in range(ROW):
        rows[r, column] = ZERO
    men = 0
    for side in range(2):
        for kind in range(6):
            bits = files_flipped(planes[i, PLANES_OF_BOARD * k + 6 * side + kind])
            men += popcount(bits)
            drop(rows, r, bits, kind, side)
    us, them, kings = rows[r, US], rows[r, THEM], rows[r, KINGS]
    kinged = popcount(us & kings) == 1 and popcount(them & kings) == 1
    fits = popcount(us) <= 16 and popcount(them) <= 16 and popcount(us | them) == men
    return bool(kinged and fits and not rows[r, PAWNS] & BACK_RANKS)


@kernel
def settle(rows: Boards, r: int, black: int, rights: int, clock: int) -> None:
    """Sets state and key of row r, whose men are placed from the mover's side: move number 1, no en passant."""
    rows[r, STATE] = np.uint64(rights | black << 4 | clock << 16 | 1 << 32)
    rows[r, KEY] = key_from_scratch(rows, r)


@kernel
def move_between(rows: Boards, a: int, b: int) -> int:
    """The mover-relative move that explains the squares that changed from row a to row b; -1 if no move does."""
    after = mirrored(rows[b, THEM])
    vacated, entered = rows[a, US] & ~after, after & ~rows[a, US]
    if popcount(vacated) == 1 and popcount(entered) == 1:
        goal, promotion = lowest(entered), 0
        if goal >= 56 and vacated & rows[a, PAWNS]:
            promotion = kind_at(rows, b, mirrored(entered))
            if promotion == 0 or promotion == 5:
                return -1
        return lowest(vacated) | goal << 6 | promotion << 12
    if popcount(vacated) == 2 and popcount(entered) == 2 and vacated & rows[a, KINGS] & _E1:
        if entered & _G1:
            return 4 | 6 << 6
        if entered & _C1:
            return 4 | 2 << 6
    return -1


@kernel
def play_legal(rows: Boards, a: int, r: int, move: int, buffer: Moves) -> bool:
    """Plays the mover-relative move from row a to row r; returns False and changes nothing if it is not legal."""
    legal = is_legal(rows, a, move, buffer)
    if legal:
        make(rows, a, r, move)
    return legal


@kernel
def known_boards(planes: Masks, i: int, rows: Boards, base: int, moves: Index) -> int:
    """Writes the boards 1, 2, ... plies before record i to the rows after row `base`, each as its mover sees it. Row
    `base` has the record's own board.

    moves[k] is the move played on board k. Stops at an empty board, at a board that repeats the one after it (that is
    how lc0 fills missing history), and where no move leads to the next board. Returns the number of boards, the
    record's own included.
    """
    count = 1
    while count < HISTORY:
        repeats = True
        for k in range(PLANES_OF_BOARD - 1):
            at = PLANES_OF_BOARD * count + k
            repeats = repeats and planes[i, at] == planes[i, at - PLANES_OF_BOARD]
        if repeats or not place(planes, i, count, rows, base + count):
            break
        if count & 1:
            turn_over(rows, base + count)
        moves[count] = move_between(rows, base + count, base + count - 1)
        if moves[count] < 0:
            break
        count += 1
    return count


@kernel
def rewind(rows: Boards, base: int, count: int, moves: Index, black: int) -> None:
    """Sets the state of the oldest of the boards after row `base`, from the moves played since.

    If a move ended a castling right, the right is assumed to have existed before, provided king and rook stood at home.
    The clock is known only if no move reset it since; otherwise it is 0.
    """
    oldest = base + count - 1
    rights, clock = np.int64(rows[base, STATE] & RIGHTS), np.int64(rows[base, STATE] >> CLOCK_SHIFT & SIXTEEN_BITS)
    for k in range(1, count):
        origin, goal = moves[k] & 63, moves[k] >> 6 & 63
        ended = ~(CASTLING_KEPT[origin] & CASTLING_KEPT[goal])
        rights = ((rights >> 2 | rights << 2) & 15 | ended) & home_rights(rows, base + k)
        pawn, captured = ONE << np.uint64(origin) & rows[base + k, PAWNS], ONE << np.uint64(goal) & rows[base + k, THEM]
        clock = 0 if pawn or captured or clock < 1 else clock - 1
    settle(rows, oldest, (black + count - 1) & 1, rights, clock)
    origin, goal = moves[count - 1] & 63, moves[count - 1] >> 6 & 63
    pawn, captured = ONE << np.uint64(origin) & rows[oldest, PAWNS], ONE << np.uint64(goal) & rows[oldest, THEM]
    if (origin ^ goal) & 7 and pawn and not captured:
        set_ep(rows, oldest, goal & 7)


@kernel
def replay(rows: Boards, base: int, count: int, moves: Index, buffer: Moves) -> int:
    """Plays the moves from the oldest board on the scratch row; returns 0 if every board comes out as recorded.

    Otherwise returns the number of boards, counted from the newest, for the next attempt.
    """
    on = base + HISTORY
    copy_row(rows, base + count - 1, rows, on)
    for k in range(count - 1, 0, -1):
        if not play_legal(rows, on, on, moves[k], buffer) or not same_men(rows, on, base + k - 1):
            return k
    return 0 if (rows[on, STATE] ^ rows[base, STATE]) & _SAME == ZERO else 1


@kernel
def history(planes: Masks, i: int, rows: Boards, base: int, moves: Index, buffer: Moves) -> int:
    """Finds the moves that led to record i, whose board and state are in row i: moves[1] the last, moves[2] before it.

    Returns the number of boards, with the oldest in row base + number - 1; row i is then the board that these moves
    lead to, with en passant and move number.
    """
    copy_row(rows, i, rows, base)
    count = known_boards(planes, i, rows, base, moves)
    while count > 1:
        rewind(rows, base, count, moves, black_to_move(rows, i))
        fewer = replay(rows, base, count, moves, buffer)
        if not fewer:
            copy_row(rows, base + HISTORY, rows, i)
            break
        count = fewer
    return count


@kernel
def read_board(planes: Masks, i: int, castling: Small, black: int, clock: int, rows: Boards) -> int:
    """Fills row i from record i alone; returns the index in REASONS.

    `castling` [n, 4] are the rights, KQkq from the mover: 1 for a right, 2 for a right whose rook is not at home.
    """
    if not place(planes, i, 0, rows, i):
        return ILLEGAL
    rights = 0
    for bit in range(4):
        if castling[i, bit] > 1:
            return NOT_STANDARD
        rights |= castling[i, bit] << bit
    if rights & ~home_rights(rows, i):
        return NOT_STANDARD
    settle(rows, i, black, rights, clock)
    return ILLEGAL if opponent_in_check(rows, i) else FINE


@kernel
def fit_en_passant(rows: Boards, r: int, offered: int) -> None:
    """Sets the en-passant file with which row r has the recorded number of legal moves, `offered`, if any file fits."""
    plain = rows[r, STATE]
    file = 0
    while file < 8 and count_legal(rows, r) != offered:
        rows[r, STATE] = plain
        set_ep(rows, r, file)
        file += 1
    if count_legal(rows, r) != offered:
        rows[r, STATE] = plain


@allocating_kernel
def rebuild(
    planes: Masks,
    castling: Small,
    black: Small,
    clocks: Small,
    ep_files: Index,
    boards_known: Small,
    first: NDArray[np.bool_],
    offered: Index,
    rows: Boards,
    wrong: Index,
    moves: Moves,
    begin: Index,
    end: Index,
    start: Index,
    starts: Boards,
) -> int:
    """Boards and histories of the records of some chunks, in order; returns the number of starts.

    Input per record: rights [n, 4] as in `read_board`, 1 if Black is to move, clock, en-passant file (-1 none,
    `EP_UNKNOWN`), whether its planes have older boards, whether it begins a chunk, and the number of legal moves.
    Output: `rows` [n + SCRATCH, ROW] with the boards, `wrong` [n] indices in REASONS, and the history of record i: it
    begins at starts[start[i]] and plays moves[begin[i]:end[i]], in absolute squares; `moves` needs room for 8 n.
    """
    n, at, starts_written = len(planes), 0, 0
    buffer, back = np.empty(MAX_MOVES, np.uint16), np.empty(HISTORY + 1, np.int64)
    base, on = n, n + HISTORY
    for i in range(n):
        wrong[i] = read_board(planes, i, castling, np.int64(black[i]), np.int64(clocks[i]), rows)
        if wrong[i]:
            continue
        move = move_between(rows, i - 1, i) if not first[i] and not wrong[i - 1] else -1
        linked = move >= 0 and play_legal(rows, i - 1, on, move, buffer) and same_men(rows, on, i)
        if linked and (rows[on, STATE] ^ rows[i, STATE]) & _SAME == ZERO:
            moves[at] = move ^ FLIP * black_to_move(rows, i - 1)
            at += 1
            copy_row(rows, on, rows, i)
            begin[i], start[i] = begin[i - 1], start[i - 1]
        else:
            if ep_files[i] >= 0:
                set_ep(rows, i, ep_files[i])
            count = history(planes, i, rows, base, back, buffer) if boards_known[i] else 1
            if count == 1 and ep_files[i] == EP_UNKNOWN:
                fit_en_passant(rows, i, offered[i])
            copy_row(rows, base + count - 1 if count > 1 else i, starts, starts_written)
            begin[i], start[i] = at, starts_written
            for k in range(count - 1, 0, -1):
                moves[at] = back[k] ^ FLIP * (np.int64(black[i]) + k & 1)
                at += 1
            starts_written += 1
        end[i] = at
        if count_legal(rows, i) != offered[i]:
            wrong[i] = OTHER_MOVES
    return starts_written


@allocating_kernel
def recorded_moves(rows: Boards, picked: Index, indices: Index, transforms: Small, policy: Moves, out: Moves) -> None:
    """Writes the moves of these policy indices on the picked rows, in absolute squares; `NO_MOVE` for illegal moves."""
    buffer = np.empty(MAX_MOVES, np.uint16)
    for j in range(len(picked)):
        r, transform = picked[j], np.int64(transforms[j])
        # lc0 turns the squares of a move for canonical nets, and never exchanges files and ranks.
        turn = (56 if transform & 6 else 0) | (7 if transform & 5 else 0)
        move = np.int64(policy[indices[j]]) if indices[j] < len(policy) else 0
        origin, goal, promotion = (move & 63) ^ turn, (move >> 6 & 63) ^ turn, move >> 12
        king = rows[r, KINGS] >> np.uint64(origin) & ONE
        if king and not KING[origin] >> np.uint64(goal) & ONE:
            goal = 6 if goal > origin else 2
        if goal >= 56 and rows[r, US] & rows[r, PAWNS] & ONE << np.uint64(origin) and not promotion:
            promotion = 1
        move = origin | goal << 6 | promotion << 12
        out[j] = move ^ FLIP * black_to_move(rows, r) if is_legal(rows, r, move, buffer) else NO_MOVE


@kernel
def forcing_moves(rows: Boards, picked: Index, moves: Moves, out: NDArray[np.bool_]) -> None:
    """Writes whether moves[picked[j]], in absolute squares, is a capture (en passant too) or a promotion on its row."""
    for j in range(len(picked)):
        r = picked[j]
        move = np.int64(moves[r]) ^ FLIP * black_to_move(rows, r)
        origin, goal = move & 63, move >> 6 & 63
        captured = rows[r, THEM] >> np.uint64(goal) & ONE
        pawn = rows[r, PAWNS] >> np.uint64(origin) & ONE
        out[j] = bool(captured or (pawn and (origin ^ goal) & 7) or move >> 12)
