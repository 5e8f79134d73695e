"""Compilation of this package's kernels, cached on disk in a folder named by a hash of their sources.

Numba's own cache does not notice changes in other modules than the compiled function's (see `chess.jit`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from valuerepair.chess.jit import cache_root, open_cache, source_key

# Those that read boards are built on the kernels of the board.
SOURCES = (
    "archives/split.py",
    "archives/pgn.py",
    "archives/select.py",
    "archives/chunk_boards.py",
    "archives/evaluation_dump.py",
    "chess/*.py",
)

_numba: Any = numba  # its type hints know neither its settings nor that njit keeps the signature

F = TypeVar("F", bound=Callable[..., object])

try:
    _FOLDER = open_cache(cache_root(), source_key(patterns=SOURCES))
except (OSError, RuntimeError):  # unreadable sources (a zipped package), or no home folder
    _FOLDER = None


def kernel(function: F) -> F:
    """Compiles a function on its first call: no GIL, C division, cached where a folder can be written."""
    before = _numba.config.CACHE_DIR
    if _FOLDER is not None:
        _numba.config.CACHE_DIR = str(_FOLDER)
    try:
        compiled: F = _numba.njit(nogil=True, error_model="numpy", cache=_FOLDER is not None)(function)
    finally:
        _numba.config.CACHE_DIR = before
    return compiled
