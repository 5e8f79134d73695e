"""A game in progress: its board, its moves, and whether the rules of chess end it."""

from __future__ import annotations

import numpy as np

from valuerepair.chess.board import fens, in_check, insufficient_material, keys, legal_moves, parse_fens, piece_counts
from valuerepair.chess.make import black_to_move, clock, make, mark_repetition
from valuerepair.chess.positions import STARTPOS_FEN, Position, encode_move
from valuerepair.chess.rows import FLIP, REPETITION, RIGHTS, ROW, SIXTEEN_BITS, STATE, Boards
from valuerepair.errors import ValueRepairError
from valuerepair.play.openings import Opening
from valuerepair.play.record import CHECKMATE, FIFTY_MOVES, MATERIAL, STALEMATE
from valuerepair.play.record import REPETITION as THREE_FOLD

FIFTY_MOVES_PLIES = 100
_ROOM = 128


class Game:
    """The position after the moves so far, by the compiled rules; repetitions count within the known history.

    As lc0 ends games (chess/position.cc, PositionHistory::ComputeGameResult): checkmate, stalemate, neither side can
    mate, the third occurrence of a position, 100 plies without capture or pawn move. Two positions are the same when
    lc0 says so, its e.p. flag (a pawn that could capture, pinned or not) included.
    """

    def __init__(self, opening: Opening) -> None:
        """Raises ValueRepairError for an opening with an illegal move."""
        self.opening = opening
        self.moves: list[str] = []
        self._rows: Boards = np.zeros((_ROOM, ROW), np.uint64)
        self._rows[:1] = parse_fens([opening.start_fen])
        self._legal = self._legal_moves()
        for move in opening.moves:
            if not self.push(move):
                raise ValueRepairError(f"opening {opening.number + 1}: {move} is illegal in {self.fen}")

    @property
    def white_to_move(self) -> bool:
        return not black_to_move(self._rows, len(self.moves))

    @property
    def fen(self) -> str:
        """Six fields, the e.p. square only where a capture is legal."""
        return fens(self._last)[0]

    @property
    def men(self) -> int:
        return int(piece_counts(self._last)[0])

    @property
    def fresh(self) -> bool:
        """Right after a capture or a pawn move, and nobody may castle: where a tablebase knows the value."""
        at = len(self.moves)
        return clock(self._rows, at) == 0 and not self._rows[at, STATE] & RIGHTS

    def push(self, uci: str) -> bool:
        """Plays a move (UCI, castling e1g1); False, and nothing changes, where it is not legal."""
        try:
            move = encode_move(uci)
        except ValueError:
            return False
        if move not in self._legal:
            return False
        at = len(self.moves)
        if at + 2 > len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        make(self._rows, at, at + 1, move ^ FLIP * black_to_move(self._rows, at))
        mark_repetition(self._rows, 0, at + 1)
        self.moves.append(uci)
        self._legal = self._legal_moves()
        return True

    def ending(self) -> tuple[str, str] | None:
        """(result, how) where the rules end the game at this position, else None."""
        at = len(self.moves)
        if not self._legal:
            if not in_check(self._last)[0]:
                return "1/2-1/2", STALEMATE
            return "0-1" if self.white_to_move else "1-0", CHECKMATE
        if insufficient_material(self._last)[0]:
            return "1/2-1/2", MATERIAL
        if int(self._rows[at, REPETITION] & SIXTEEN_BITS) >= 2:
            return "1/2-1/2", THREE_FOLD
        if clock(self._rows, at) >= FIFTY_MOVES_PLIES:
            return "1/2-1/2", FIFTY_MOVES
        return None

    def position(self) -> Position:
        """The position with its whole history."""
        fen, number = self.fen, len(self.moves)
        return Position(
            fen=fen,
            start_fen=self.opening.start_fen,
            moves=tuple(self.moves),
            ply=2 * (int(fen.rsplit(" ", 1)[1]) - 1) + (not self.white_to_move),
            key=int(keys(self._last)[0]),
            history_known=number > 0 or self.opening.start_fen == STARTPOS_FEN,
        )

    @property
    def _last(self) -> Boards:
        return self._rows[len(self.moves) : len(self.moves) + 1]

    def _legal_moves(self) -> frozenset[int]:
        return frozenset(legal_moves(self._last)[0].tolist())
