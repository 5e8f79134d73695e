"""Lines of many positions played side by side, ply by ply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.board import Boards, legal_moves, parse_fens, replay
from valuerepair.positions import encode_move


class Ply(NamedTuple):
    """The boards after so many plies, of the lines that go that far: `rows` [m] are the lines' numbers, ascending."""

    rows: NDArray[np.int64]
    boards: Boards


def plies(fens: Sequence[str], lines: Sequence[Sequence[str]], most: int | None = None) -> Iterator[Ply]:
    """The boards of all lines after 0, 1, 2, … plies, at most `most`.

    Line i is `lines[i]` (UCI) from `fens[i]`. It ends before its first move that is not a legal one: expected lines
    are other programs' words. Raises ValueError for a bad FEN.
    """
    rows, boards = np.arange(len(fens)), parse_fens(fens)
    depth = 0
    while len(rows):
        yield Ply(rows, boards)
        if most is not None and depth >= most:
            return
        moves = np.array([_move(lines[i], depth) for i in rows.tolist()], np.int64)
        going = np.flatnonzero(_legal(boards, moves))
        rows = rows[going]
        boards = replay(boards[going], moves[going].astype(np.uint16), np.arange(len(going) + 1))
        depth += 1


def _move(line: Sequence[str], ply: int) -> int:
    """The line's move as its number, -1 where it has none."""
    if ply >= len(line):
        return -1
    try:
        return encode_move(line[ply])
    except ValueError:
        return -1


def _legal(boards: Boards, moves: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[n] whether each board's move is among its legal ones."""
    listed, offsets = legal_moves(boards)
    hits = np.flatnonzero(listed == np.repeat(moves, np.diff(offsets)))
    legal = np.zeros(len(boards), np.bool_)
    legal[np.searchsorted(offsets, hits, "right") - 1] = True
    return legal
