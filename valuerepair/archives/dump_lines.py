"""What of lichess's evaluation dump is worth compiling: castling fields of FENs, and lines of moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.kernel import kernel
from valuerepair.board.bits import ONE, popcount
from valuerepair.board.fen import SPACE, Bytes, skip
from valuerepair.board.make import black_to_move, make
from valuerepair.board.movegen import MAX_MOVES, legal
from valuerepair.board.rows import FLIP, KINGS, RIGHTS, STATE, STRAIGHT, US, Boards, Moves


@kernel
def standard_castling(text: Bytes, offsets: NDArray[np.int64], rows: Boards, standard: NDArray[np.bool_]) -> None:
    """Whether each FEN text[offsets[i]:offsets[i + 1]] has the castling rights of row i, read from it.

    Reading drops rights without king and rook at home: positions of Chess960 have such ones, or other letters.
    """
    for i in range(len(rows)):
        at, end = offsets[i], offsets[i + 1]
        for _ in range(2):
            at = skip(text, skip(text, at, end, False), end, True)
        letters, usual = 0, True
        while at < end and text[at] != SPACE:
            letter = text[at] & 0xDF
            if text[at] != 45:
                letters += 1
                usual = usual and (letter == 75 or letter == 81)  # K, Q
            at += 1
        standard[i] = usual and letters == popcount(rows[i, STATE] & RIGHTS)


@kernel
def play_line(rows: Boards, r: int, moves: Moves) -> int:
    """Plays a line in absolute squares on row r, which is changed; returns how many of its moves are legal.

    The dump writes castling as king takes own rook; such moves are rewritten in `moves` as the king's own.
    """
    buffer = np.empty(MAX_MOVES, np.uint16)
    for i in range(len(moves)):
        turn = FLIP * black_to_move(rows, r)
        move = np.int64(moves[i]) ^ turn
        origin, goal = move & 63, move >> 6 & 63
        own = rows[r, US] >> np.uint64(goal) & rows[r, STRAIGHT] >> np.uint64(goal) & ONE
        if own and rows[r, KINGS] >> np.uint64(origin) & ONE:
            move = origin | (6 if goal > origin else 2) << 6
        known = False
        for j in range(legal(rows, r, buffer, 0)):
            known |= np.int64(buffer[j]) == move
        if not known:
            return i
        moves[i] = move ^ turn
        make(rows, r, r, move)
    return len(moves)
