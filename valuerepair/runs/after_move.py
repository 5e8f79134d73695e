"""The position after a move, for searches of what a move leads to."""

from __future__ import annotations

import chess

from valuerepair.chess.positions import Position
from valuerepair.store.rows import DeepResult

_CHECKMATED = DeepResult(mate=0)
_DRAWN = DeepResult(cp=0, wdl=(0, 1000, 0))


def after(position: Position, uci: str) -> Position | DeepResult | None:
    """The position after a move (UCI); a result if the move ends the game; None if the move is not legal.

    The result is as an engine gives it: ``mate 0`` for the side that is mated; 0 centipawns for stalemate, insufficient
    material, the third occurrence and the 50-move rule, counted with the known history.
    """
    board = chess.Board(position.start_fen)
    for move in position.moves:
        board.push_uci(move)
    try:
        chosen = board.parse_uci(uci)
    except ValueError:
        return None
    board.push(chosen)
    if board.is_checkmate():
        return _CHECKMATED
    drawn = board.is_stalemate() or board.is_insufficient_material() or board.is_fifty_moves()
    if drawn or board.is_repetition(3):
        return _DRAWN
    return Position(
        board.fen(),
        position.start_fen,
        (*position.moves, chosen.uci()),
        position.ply + 1,
        history_known=position.history_known,
    )
