"""The first search on a machine compiles its kernels, which takes a while; this says so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from valuerepair.board.jit import CACHE_FOLDER


@contextmanager
def compiling_announced(say: Callable[[str], None]) -> Iterator[None]:
    """Around the first search of a process: `say` is told when it compiles. A mark beside the kernels notes the end."""
    mark = None if CACHE_FOLDER is None else CACHE_FOLDER / f"searched-{sys.implementation.cache_tag}"
    if mark is None or not mark.exists():
        again = "; there is no folder to keep it in, so every start does it" if mark is None else ", only this once"
        say(f"compiling the search for this machine, which takes about a minute{again}")
    yield
    if mark is not None:
        with suppress(OSError):
            mark.touch()
