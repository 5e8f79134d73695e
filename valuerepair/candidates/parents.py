"""The positions one, two, … plies before a candidate, from its known history.

KataGo does so with the positions it mines for training (`expensiveEvaluateMove` of cpp/command/startposes.cpp, in
``-surprise-mode``): beside a position of weight w it writes the position before it with 0.5 w and the one before that
with 0.25 w, so that self-play also learns to steer towards or away from what was misjudged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from valuerepair.board import Boards, fens, keys, parse_fens, replay
from valuerepair.errors import ValueRepairError
from valuerepair.positions import encode_moves


@dataclass(frozen=True, slots=True)
class Parent:
    """A position `plies_before` a candidate; `moves` (UCI) lead there from the candidate's start.

    `ply` counts half-moves since move 1 by the FEN's full-move number, like `Position.ply`; `key` is the board's, as
    `same_positions` gives it. The FEN names an e.p. square only where a capture is legal.
    """

    fen: str
    moves: tuple[str, ...]
    ply: int
    key: int
    plies_before: int


def parent_weight(weight: float, plies_before: int) -> float:
    """KataGo's share of the candidate's weight: a half one ply before, a quarter two plies before, and so on."""
    return weight * 0.5**plies_before


def parents_of(start_fens: Sequence[str], lines: Sequence[Sequence[str]], plies: int) -> list[list[Parent]]:
    """Of each of n candidates up to `plies` parents, the nearest first; fewer where the known history is shorter.

    Candidate i is reached from `start_fens[i]` by `lines[i]` (UCI). Raises ValueRepairError for what is no FEN and no
    legal move.
    """
    found: list[list[Parent]] = [[] for _ in start_fens]
    for before in range(1, plies + 1):
        rows = [i for i, line in enumerate(lines) if len(line) >= before]
        histories = [tuple(lines[i][: len(lines[i]) - before]) for i in rows]
        boards = _replayed([start_fens[i] for i in rows], histories)
        for i, history, fen, key in zip(rows, histories, fens(boards), keys(boards).tolist(), strict=True):
            found[i].append(Parent(fen, history, _ply(fen), key, before))
    return found


def same_positions(positions: Sequence[str]) -> list[int]:
    """A key of each FEN; two share it when placement, side to move, castling rights and legal e.p. captures agree."""
    found: list[int] = keys(_replayed(positions, [()] * len(positions))).tolist()
    return found


def _replayed(start_fens: Sequence[str], lines: Sequence[Sequence[str]]) -> Boards:
    offsets = np.cumsum([0, *map(len, lines)], dtype=np.int64)
    try:
        return replay(parse_fens(start_fens), encode_moves([move for line in lines for move in line]), offsets)
    except ValueError as error:
        raise ValueRepairError(f"a recorded move or FEN is wrong: {error}; mine its game again") from None


def _ply(fen: str) -> int:
    side, number = fen.split()[1], int(fen.split()[5])
    return 2 * (number - 1) + (side == "b")
