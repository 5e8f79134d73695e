"""Syzygy tables, through python-chess."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from valuerepair.errors import UsageError, ValueRepairError


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
            self._tables.add_directory(str(folder), load_dtz=False)
        if not self._tables.wdl:
            raise UsageError(f"--syzygy {path}: no Syzygy tables (*.rtbw) there")
        # A table is named after its men, as in KRPvKR.
        self.men = max(len(name) - 1 for name in self._tables.wdl)

    def probe(self, fen: str) -> int | None:
        """1, 0 or -1 for the side to move with no move counted towards the 50 yet; None if no table knows.

        Wins that the 50-move rule takes away ("cursed") and losses that it saves are draws, as in lc0. Raises
        ValueRepairError for a damaged table.
        """
        import chess.syzygy

        try:
            wdl = self._tables.get_wdl(chess.Board(fen))
        except (OSError, ValueError, IndexError, struct.error) as error:
            raise ValueRepairError(f"--syzygy: a damaged table, asked about {fen}: {error}") from None
        if wdl is None:
            return None
        return (wdl == 2) - (wdl == -2)
