"""Syzygy tables, through python-chess: the result of a position, and the root moves that preserve it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import chess
import chess.syzygy

from valuerepair.errors import UsageError, ValueRepairError, one_line

# DTZ before a zeroing move (a capture or a pawn move) by the WDL after it, as in lc0 (dtz_before_zeroing): win, cursed
# win, draw, blessed loss, loss.
_DTZ_BEFORE_ZEROING = {2: 1, 1: 101, 0: 0, -1: -101, -2: -1}


class Tables:
    """The tables in some folders; an empty path has no tables. `men` is the largest number of men that a table has."""

    def __init__(self, path: str) -> None:
        """`path` lists folders as PATH does. Raises UsageError if a folder is missing or no folder has a table."""
        self.men = 0
        folders = [Path(folder).expanduser() for folder in path.split(os.pathsep) if folder]
        if not folders:
            return
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
        """The result for the side to move, 1, 0 or -1, if the 50-move count is 0; None without a table.

        Cursed wins and blessed losses, which the 50-move rule turns into draws, are draws as in lc0. Raises
        ValueRepairError for a damaged table.
        """
        with _damage_reported(fen):
            wdl = self._tables.get_wdl(chess.Board(fen))
        if wdl is None:
            return None
        return (wdl == 2) - (wdl == -2)

    def may_have(self, fen: str) -> bool:
        """Whether a table may have this position: few enough men, and no castling rights."""
        if not self.men or sum(letter.isalpha() for letter in fen.split(" ", 1)[0]) > self.men:
            return False
        return not chess.Board(fen).castling_rights

    def root_moves(self, fen: str, *, nearest: bool) -> tuple[tuple[str, ...], bool] | None:
        """The moves (UCI) that preserve a position's result, and whether DTZ ranked them; None without a table.

        As in lc0's root_probe: in won positions, all moves that surely win within the 50-move rule; if no move does, or
        with `nearest` (as after a repetition), those with the shortest distance to the next capture or pawn move. In
        lost positions, all moves, or those with the longest distance if the 50-move rule may save the game. Without DTZ
        tables (.rtbz), all moves that keep the win, draw or loss.
        """
        board = chess.Board(fen)
        with _damage_reported(fen):
            for rank_move, by_dtz in ((self._rank_by_dtz, True), (self._rank_by_wdl, False)):
                try:
                    ranks = {move.uci(): rank_move(board, move, nearest) for move in board.legal_moves}
                except chess.syzygy.MissingTableError:
                    continue
                best = max(ranks.values())
                return tuple(move for move, rank in ranks.items() if rank == best), by_dtz
        return None

    def _rank_by_wdl(self, board: chess.Board, move: chess.Move, nearest: bool) -> int:
        """How good a move is by win, draw and loss alone; higher is better for its player."""
        board.push(move)
        try:
            return -self._tables.probe_wdl(board)
        finally:
            board.pop()

    def _rank_by_dtz(self, board: chess.Board, move: chess.Move, nearest: bool) -> int:
        """How good a move is, also by the plies to the next capture or pawn move; higher is better for its player."""
        clock = board.halfmove_clock
        board.push(move)
        try:
            if board.halfmove_clock == 0:
                plies = _DTZ_BEFORE_ZEROING[-self._tables.probe_wdl(board)]
            else:
                dtz = -self._tables.probe_dtz(board)
                plies = dtz + (dtz > 0) - (dtz < 0)  # the move itself is a ply more
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
def _damage_reported(fen: str) -> Iterator[None]:
    """Turns the errors of a damaged table into a ValueRepairError."""
    try:
        yield
    except _DAMAGE as error:
        raise ValueRepairError(f"--syzygy: a damaged table, probed for {fen}: {one_line(error)}") from None


# python-chess does not check the content of tables, so that reading a damaged one can raise any of these errors.
_DAMAGE = (OSError, ValueError, LookupError, ArithmeticError, AssertionError, RecursionError, struct.error)
