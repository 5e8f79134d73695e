"""Whether lc0 plays a game from a position: `valuerepair.books.rows.can_go_on`, of many positions at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from valuerepair.board import Boards, has_legal_move, insufficient_material, keys, parse_fens, replay
from valuerepair.books.lc0_reader import GAME_PLY_LIMIT

_FIFTY_MOVES = 100
_SHORTEST_THIRD = 8  # half-moves without capture or pawn move before a position can be there for the third time


def can_go_on(
    boards: Boards,
    fens: Sequence[str],
    start_fens: Sequence[str],
    moves: NDArray[np.uint16],
    begins: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """bool[n]: the game is not over, nor there for the third time, nor beyond lc0's limit of plies.

    Position i is `boards[i]`, ``fens[i]`` with its six fields, reached from `start_fens[i]` by
    ``moves[begins[i] : begins[i + 1]]``. Raises ValueError for a move that is not legal.
    """
    counts = np.array([fen.split(" ")[4:6] for fen in fens], np.int64).reshape(-1, 2)
    clocks, numbers = counts[:, 0], counts[:, 1]
    going = has_legal_move(boards) & ~insufficient_material(boards)
    going &= (clocks < _FIFTY_MOVES) & (numbers < GAME_PLY_LIMIT)
    back = np.minimum(clocks, np.diff(begins))
    rows = np.flatnonzero(going & (back >= _SHORTEST_THIRD))
    going[rows] = ~_third(boards[rows], [start_fens[i] for i in rows.tolist()], moves, begins, rows, back[rows])
    return going


def _third(
    boards: Boards,
    start_fens: Sequence[str],
    moves: NDArray[np.uint16],
    begins: NDArray[np.int64],
    rows: NDArray[np.int64],
    back: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """bool[m]: two of the `back[i]` boards before ``boards[i]``, which `rows[i]` leads to, were the same."""
    reached, ends = keys(boards), begins[rows + 1]
    lengths = ends - back - begins[rows]
    offsets = np.cumsum([0, *lengths.tolist()])
    before = np.repeat(begins[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    now = replay(parse_fens(start_fens), moves[before], offsets)
    alike, left = np.zeros(len(rows), np.int64), back.copy()
    while len(active := np.flatnonzero(left > 0)):
        alike[active] += keys(now[active]) == reached[active]
        now[active] = replay(now[active], moves[ends[active] - left[active]], np.arange(len(active) + 1))
        left[active] -= 1
    return alike >= 2
