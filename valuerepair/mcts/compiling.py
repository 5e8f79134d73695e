"""The first search on a machine compiles its kernels, which takes a while; this says so, and gets it over with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress

from valuerepair.board.jit import CACHE_FOLDER
from valuerepair.mcts.evaluator import Evaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.params import SearchParams
from valuerepair.positions import STARTPOS_FEN, Position


def warm_up(evaluator: Evaluator, params: SearchParams, input_format: int, say: Callable[[str], None]) -> None:
    """A search of two nodes, which compiles or loads all that searches need; `say` is told when it compiles.

    A mark beside the compiled kernels notes that it is done.
    """
    mark = None if CACHE_FOLDER is None else CACHE_FOLDER / f"searched-{sys.implementation.cache_tag}"
    if mark is None or not mark.exists():
        again = "; there is no folder to keep it in, so every start does it" if mark is None else ", only this once"
        say(f"compiling the search for this machine, which takes about a minute{again}")
    forest = Forest(evaluator, params, input_format=input_format, trees=1, nodes=2)
    forest.add(Position(STARTPOS_FEN), 2)
    while forest.busy:
        forest.step()
    if mark is not None:
        with suppress(OSError):
            mark.touch()
