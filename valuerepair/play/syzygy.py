"""Syzygy tables, through python-chess: the result of a position."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import chess
import chess.syzygy

from valuerepair.errors import UsageError, ValueRepairError, one_line

# python-chess does not check the content of tables, so that reading a damaged one can raise any of these errors.
_DAMAGE = (OSError, ValueError, LookupError, ArithmeticError, AssertionError, RecursionError, struct.error)


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
                raise UsageError(f"syzygy={folder}: no such folder")
            self._tables.add_directory(str(folder))
        if not self._tables.wdl:
            raise UsageError(f"syzygy={path}: no Syzygy tables (*.rtbw) there")
        # A table is named after its men, as in KRPvKR.
        self.men = max(len(name) - 1 for name in self._tables.wdl)

    def probe(self, fen: str) -> int | None:
        """The result for the side to move, 1, 0 or -1, if the 50-move count is 0; None without a table.

        Cursed wins and blessed losses, which the 50-move rule turns into draws, are draws as in lc0. Raises
        ValueRepairError for a damaged table.
        """
        try:
            wdl = self._tables.get_wdl(chess.Board(fen))
        except _DAMAGE as error:
            raise ValueRepairError(f"syzygy: a damaged table, probed for {fen}: {one_line(error)}") from None
        return None if wdl is None else (wdl == 2) - (wdl == -2)
