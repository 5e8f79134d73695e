"""The positions one, two, … plies before a candidate, from its known history.

KataGo does so with the positions it mines for training (`expensiveEvaluateMove` of cpp/command/startposes.cpp, in
``-surprise-mode``): beside a position of weight w it writes the position before it with 0.5 w and the one before that
with 0.25 w, so that self-play also learns to steer towards or away from what was misjudged.
"""

from __future__ import annotations

from dataclasses import dataclass

import chess

from valuerepair.errors import ValueRepairError


@dataclass(frozen=True, slots=True)
class Parent:
    """A position `plies_before` a candidate; `moves` (UCI) lead there from the candidate's start.

    `ply` counts half-moves since move 1 by the FEN's full-move number, like `Position.ply`.
    """

    fen: str
    moves: tuple[str, ...]
    ply: int
    plies_before: int


def parent_weight(weight: float, plies_before: int) -> float:
    """KataGo's share of the candidate's weight: a half one ply before, a quarter two plies before, and so on."""
    return weight * 0.5**plies_before


def parents_of(start_fen: str, moves: tuple[str, ...], plies: int) -> list[Parent]:
    """Up to `plies` parents, the nearest first; fewer where the known history is shorter.

    FENs name an e.p. square only where a capture is legal. Raises ValueRepairError for what is no move there.
    """
    board = _board(start_fen)
    first = max(0, len(moves) - plies)
    found: list[Parent] = []
    for number, uci in enumerate(moves):
        if number >= first:
            ply = 2 * (board.fullmove_number - 1) + (board.turn == chess.BLACK)
            found.append(Parent(board.fen(), moves[:number], ply, len(moves) - number))
        try:
            board.push_uci(uci)
        except ValueError as error:
            raise ValueRepairError(f"a recorded move cannot be played: {error}; mine its game again") from None
    return found[::-1]


def same_position(fen: str) -> str:
    """A text that two FENs share when placement, side to move, castling rights and legal e.p. captures agree."""
    return " ".join(_board(fen).fen().split()[:4])


def _board(fen: str) -> chess.Board:
    try:
        return chess.Board(fen)
    except ValueError as error:
        raise ValueRepairError(f"bad FEN in the store: {fen}: {error}") from None
