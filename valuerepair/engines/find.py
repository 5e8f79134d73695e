"""Where engines are found."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from valuerepair.errors import UsageError

# Debian and its derivatives install games here, which is on the PATH of neither root nor services.
GAME_FOLDERS = ("/usr/games", "/usr/local/games")
# The path of the Stockfish to use, or `NO_STOCKFISH` to use none.
STOCKFISH_VARIABLE = "VALUEREPAIR_STOCKFISH"
NO_STOCKFISH = "none"


def find_engine(name: str) -> str | None:
    """Absolute path of the engine `name`, or None.

    A name with a slash is a path. Other names are looked up on PATH, next to the running Python (a virtual environment
    that is not activated), and in the folders for games. `STOCKFISH_VARIABLE` overrides which engine ``stockfish`` is,
    and whether there is one. Raises UsageError if it names an engine that does not exist.
    """
    chosen = os.environ.get(STOCKFISH_VARIABLE, "") if name == "stockfish" else ""
    if not chosen:
        return _located(name)
    if chosen == NO_STOCKFISH:
        return None
    if (path := _located(chosen)) is None:
        raise UsageError(f"{STOCKFISH_VARIABLE}={chosen}: no such engine; give its path, or {NO_STOCKFISH}")
    return path


def _located(name: str) -> str | None:
    if os.sep in name:
        path = Path(name).expanduser()
        return str(path.absolute()) if path.is_file() and os.access(path, os.X_OK) else None
    folders = [os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent), *GAME_FOLDERS]
    path_found = shutil.which(name, path=os.pathsep.join(folders))
    return str(Path(path_found).absolute()) if path_found else None
