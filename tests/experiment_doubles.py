"""Trials of an experiment, played by chance."""

from __future__ import annotations

from collections.abc import Sequence

from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.mcts.params import SearchParams
from valuerepair.play.experiment import (
    Conditions,
    Contestant,
    Played,
    Trial,
)
from valuerepair.play.openings import Opening
from valuerepair.play.referee import Rules

CONDITIONS = Conditions("a net", Rules(max_plies=12), seed=7, jobs=4)
TO_THE_END = Conditions("a net", Rules(max_plies=0), seed=7, jobs=4)
QUEEN_ODDS = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1"
BLACK_GIVES = "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


def openings(*firsts: str) -> list[Opening]:
    return [Opening(i, STARTPOS_FEN, (first,), "", i) for i, first in enumerate(firsts)]


def self_play(games: int, name: str = "a") -> Trial:
    side = Contestant(name, SearchParams(), 10)
    return Trial(name, (side,), openings("e2e4", "d2d4", "c2c4"), games)


def played(number: int, opening: int, result: str, moves: Sequence[str] = (), gaps: Sequence[float] = ()) -> Played:
    return Played(number, opening, "a", "b", result, "checkmate", tuple(moves), tuple(gaps), 1)
