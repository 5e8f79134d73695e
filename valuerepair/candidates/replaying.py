"""Lines of many positions played side by side, ply by ply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.board import Boards, legal_moves, parse_fens, replay
from valuerepair.positions import encode_move


class Ply(NamedTuple):
    """The boards after so many plies, of the lines that go that far: `rows` [m] are the lines' numbers, ascending."""

    rows: NDArray[np.int64]
    boards: Boards


def plies(
    fens: Sequence[str],
    lines: Sequence[Sequence[str]],
    most: int | None = None,
    legal: NDArray[np.int64] | int = 0,
) -> Iterator[Ply]:
    """The boards of all lines after 0, 1, 2, … plies, at most `most`.

    Line i is `lines[i]` (UCI) from `fens[i]`. It ends before its first move that is not a legal one: expected lines
    are other programs' words. The first `legal` moves of each are known to be legal, as those of a
    game that was read are. Raises ValueError for a bad FEN.
    """
    rows, boards = np.arange(len(fens)), parse_fens(fens)
    moves, ends = _numbers(lines, most)
    at, sure = ends[:-1].copy(), ends[:-1] + legal
    while len(rows):
        yield Ply(rows, boards)
        going = np.flatnonzero(at[rows] < ends[rows + 1])
        rows, boards = rows[going], boards[going]
        rows, boards = _played(rows, boards, moves[at[rows]], at[rows] >= sure[rows])
        at[rows] += 1


def _played(
    rows: NDArray[np.int64], boards: Boards, moves: NDArray[np.int64], asked: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], Boards]:
    """The lines that go on, and their boards after one move each; moves of those `asked` may not be legal ones."""
    if not (asked & (moves < 0)).any():
        try:  # nearly always all are legal, which playing them finds out as well
            return rows, replay(boards, moves.astype(np.uint16), np.arange(len(rows) + 1))
        except ValueError:
            pass
    doubtful = np.flatnonzero(asked)
    going = np.delete(np.arange(len(rows)), doubtful[~_legal(boards[doubtful], moves[doubtful])])
    return rows[going], replay(boards[going], moves[going].astype(np.uint16), np.arange(len(going) + 1))


def _numbers(lines: Sequence[Sequence[str]], most: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The moves of all lines as numbers, -1 for what is no move, and where each line begins, with the end."""
    cut = [line[:most] for line in lines]
    number_of = {move: _number(move) for move in set(chain.from_iterable(cut))}
    flat = np.array([number_of[move] for move in chain.from_iterable(cut)], np.int64)
    return flat, np.cumsum([0, *map(len, cut)])


def _number(move: str) -> int:
    try:
        return encode_move(move)
    except ValueError:
        return -1


def _legal(boards: Boards, moves: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[n] whether each board's move is among its legal ones."""
    listed, offsets = legal_moves(boards)
    hits = np.flatnonzero(listed == np.repeat(moves, np.diff(offsets)))
    legal = np.zeros(len(boards), np.bool_)
    legal[np.searchsorted(offsets, hits, "right") - 1] = True
    return legal
