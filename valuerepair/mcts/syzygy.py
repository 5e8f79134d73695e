"""Syzygy tables, through python-chess: what a position is worth, and which moves of a root keep that."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from valuerepair.errors import UsageError, ValueRepairError, one_line

if TYPE_CHECKING:
    import chess

# Win, cursed win, draw, blessed loss, loss right after a move that counts anew: plies to it.
_ZEROING = {2: 1, 1: 101, 0: 0, -1: -101, -2: -1}


class Tables:
    """The tables in some folders; none for an empty path. `men` is the largest number of men they know."""

    def __init__(self, path: str) -> None:
        """`path` names folders separated as in PATH. Raises UsageError where there is none or no table in it."""
        self.men = 0
        folders = [Path(folder).expanduser() for folder in path.split(os.pathsep) if folder]
        if not folders:
            return
        import chess.syzygy

        self._tables = chess.syzygy.Tablebase()
        for folder in folders:
            if not folder.is_dir():
                raise UsageError(f"--syzygy {folder}: no such folder")
            self._tables.add_directory(str(folder))
        if not self._tables.wdl:
            raise UsageError(f"--syzygy {path}: no Syzygy tables (*.rtbw) there")
        # A table is named after its men, as in KRPvKR.
        self.men = max(len(name) - 1 for name in self._tables.wdl)

    def probe(self, fen: str) -> int | None:
        """1, 0 or -1 for the side to move with no move counted towards the 50 yet; None if no table knows.

        Wins that the 50-move rule takes away ("cursed") and losses that it saves are draws, as in lc0. Raises
        ValueRepairError for a damaged table.
        """
        import chess

        with _damage_told(fen):
            wdl = self._tables.get_wdl(chess.Board(fen))
        if wdl is None:
            return None
        return (wdl == 2) - (wdl == -2)

    def know(self, fen: str) -> bool:
        """There may be a table of these men, and nobody can castle."""
        import chess

        if not self.men or sum(letter.isalpha() for letter in fen.split(" ", 1)[0]) > self.men:
            return False
        return not chess.Board(fen).castling_rights

    def root_moves(self, fen: str, *, nearest: bool) -> tuple[tuple[str, ...], bool] | None:
        """The moves (UCI) that keep a position's value, and whether by distance to zeroing; None if no table knows.

        lc0's root_probe: of moves that surely win within the 50 moves all, where there are none, or only the `nearest`
        are asked for (as after a repetition), those nearest to the next capture or pawn move; of lost positions all,
        unless 50 moves can be reached. Without tables of distances (.rtbz) all moves that keep win, draw or loss.
        """
        import chess
        import chess.syzygy

        board = chess.Board(fen)
        with _damage_told(fen):
            for rank, by_distance in ((self._rank_by_distance, True), (self._rank, False)):
                try:
                    ranks = {move.uci(): rank(board, move, nearest) for move in board.legal_moves}
                except chess.syzygy.MissingTableError:
                    continue
                best = max(ranks.values())
                return tuple(move for move, found in ranks.items() if found == best), by_distance
        return None

    def _rank(self, board: chess.Board, move: chess.Move, nearest: bool) -> int:
        """How good a move is by win, draw and loss."""
        board.push(move)
        try:
            return -self._tables.probe_wdl(board)
        finally:
            board.pop()

    def _rank_by_distance(self, board: chess.Board, move: chess.Move, nearest: bool) -> int:
        """How good a move is, its plies to the next capture or pawn move counted."""
        clock = board.halfmove_clock
        board.push(move)
        try:
            if board.halfmove_clock == 0:
                plies = _ZEROING[-self._tables.probe_wdl(board)]
            else:
                left = -self._tables.probe_dtz(board)
                plies = left + (left > 0) - (left < 0)
            if plies == 2 and board.is_checkmate():
                plies = 1
        finally:
            board.pop()
        if plies > 0:
            return 1000 if plies + clock <= 99 and not nearest else 1000 - (plies + clock)
        if plies < 0:
            return -1000 if -2 * plies + clock < 100 else -1000 + (-plies + clock)
        return 0


@contextmanager
def _damage_told(fen: str) -> Iterator[None]:
    """A damaged table is a ValueRepairError."""
    try:
        yield
    except _DAMAGE as error:
        raise ValueRepairError(f"--syzygy: a damaged table, asked about {fen}: {one_line(error)}") from None


# python-chess believes a table: its sizes, links and pieces lead anywhere in one that is damaged.
_DAMAGE = (OSError, ValueError, LookupError, ArithmeticError, AssertionError, RecursionError, struct.error)
