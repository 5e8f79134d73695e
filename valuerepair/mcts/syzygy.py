"""Syzygy tables, through python-chess."""

from __future__ import annotations

import os
from pathlib import Path

from valuerepair.errors import UsageError


class Tables:
    """The tables in some folders; none for an empty path. `men` is the largest number of men they know."""

    def __init__(self, path: str) -> None:
        """`path` names folders separated as in PATH. Raises UsageError where there is none or no table in it."""
        self.men = 0
        if not path:
            return
        import chess.syzygy

        self._tables = chess.syzygy.Tablebase()
        for folder in path.split(os.pathsep):
            if not Path(folder).is_dir():
                raise UsageError(f"--syzygy {folder}: no such folder")
            self._tables.add_directory(folder, load_dtz=False)
        if not self._tables.wdl:
            raise UsageError(f"--syzygy {path}: no Syzygy tables (*.rtbw) there")
        # A table is named after its men, as in KRPvKR.
        self.men = max(len(name) - 1 for name in self._tables.wdl)

    def probe(self, fen: str) -> int | None:
        """1, 0 or -1 for the side to move; cursed wins and blessed losses are draws, as in lc0. None if unknown."""
        import chess.syzygy

        wdl = self._tables.get_wdl(chess.Board(fen))
        if wdl is None:
            return None
        return (wdl == 2) - (wdl == -2)
