"""Lines of moves from lichess's evaluation dump as this project's moves: a kernel."""

from __future__ import annotations

import numpy as np

from valuerepair.archives.kernel import kernel
from valuerepair.board.bits import ONE
from valuerepair.board.make import black_to_move, make
from valuerepair.board.movegen import MAX_MOVES, legal
from valuerepair.board.rows import FLIP, KINGS, STRAIGHT, US, Boards, Moves


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
