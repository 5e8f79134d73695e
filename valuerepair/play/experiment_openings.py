"""Openings for experiments: those of a book, or named lines that the net itself calls balanced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import chess
import numpy as np

from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.positions import STARTPOS_FEN, Position, PositionBatch
from valuerepair.errors import UsageError
from valuerepair.judge.openings import named_positions
from valuerepair.play.openings import Opening, read_openings

if TYPE_CHECKING:
    from valuerepair.nets.net import Net

PLIES = (6, 8)
BALANCED_Q = 0.1


def openings_for(book: str | None, net: Net, most: int) -> list[Opening]:
    """At most `most` lines of the book, or of the built-in ones, evenly from its beginning to its end.

    Raises UsageError where none are asked for, and ValueRepairError for a book that cannot be read.
    """
    if most < 1:
        raise UsageError(f"{most} openings: must be at least 1")
    every = read_openings(book) if book else balanced_openings(net)
    chosen = np.unique(np.linspace(0, len(every) - 1, min(most, len(every))).round().astype(int)).tolist()
    return [every[place] for place in chosen]


def balanced_openings(net: Net) -> list[Opening]:
    """Named openings of 6 to 8 plies whose value at one node of this net is at most 0.1 for either side, by ECO code.

    Of lines that lead to one position the first is taken. Material is even by the net's word only.
    """
    lines = sorted((eco, moves) for eco, _, moves in named_positions() if PLIES[0] <= len(moves) <= PLIES[1])
    boards = [_board(moves) for _, moves in lines]
    fens = [board.fen() for board in boards]
    found = keys(parse_fens(fens)).tolist()
    batch = PositionBatch.from_positions(
        [
            Position(fen, STARTPOS_FEN, moves, len(moves), key)
            for fen, (_, moves), key in zip(fens, lines, found, strict=True)
        ]
    )
    values = net.evaluate(batch).q
    openings: dict[int, Opening] = {}
    for (_, moves), fen, key, q in zip(lines, fens, found, values.tolist(), strict=True):
        if abs(q) <= BALANCED_Q:
            openings.setdefault(key, Opening(len(openings), STARTPOS_FEN, moves, fen, key))
    return list(openings.values())


def _board(moves: tuple[str, ...]) -> chess.Board:
    board = chess.Board()
    for move in moves:
        board.push_uci(move)
    return board
