"""Which opening a position comes from: ECO code and name, by the boards on its way.

The names are lichess's (CC0, see openings.LICENSE.txt): 3,523 named positions. As lichess does, a line of moves gets
the name of the last of its boards that has one; boards are found by their key, so the order of moves does not matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from valuerepair.board import keys
from valuerepair.candidates.replaying import plies
from valuerepair.positions import STARTPOS_FEN

UNKNOWN = "unknown"
# The longest named line has 36 plies; some more for those that lose a move on the way there.
MAX_PLIES = 44

_ANSWER = re.compile(r" (Accepted|Declined)$")
_ECO = re.compile(r"\s*([A-Ea-e][0-9]{2})(?![0-9])")


class Opening(NamedTuple):
    """An ECO code (``B90``) and lichess's name (``Sicilian Defense: Najdorf Variation``); empty where unknown."""

    eco: str = ""
    name: str = ""


class _Named(NamedTuple):
    """The named positions by ascending key [n]; `openings` in the same order."""

    keys: NDArray[np.uint64]
    openings: list[Opening]


def opening_of(eco_header: str | None, start_fen: str, moves: Sequence[str]) -> Opening:
    """The opening of a game up to one of its positions.

    `eco` is that of the game's header ``ECO`` where it is a code (``C42``, ``C42/03``, ``c42a``: then ``C42``); else
    that of the last named board among those after 0, 1, … moves (UCI) from `start_fen`. `name` is always that board's,
    as headers name openings in every language; so a header may say another code than the name has.
    Raises ValueError for a bad FEN.
    """
    return openings_of([eco_header], [start_fen], [moves])[0]


def openings_of(
    eco_headers: Sequence[str | None], start_fens: Sequence[str], moves: Sequence[Sequence[str]]
) -> list[Opening]:
    """`opening_of` of many games at once."""
    found = _by_position(start_fens, moves)
    codes = [eco_code(header) for header in eco_headers]
    return [
        Opening(code, opening.name) if code and code != opening.eco else opening
        for code, opening in zip(codes, found, strict=True)
    ]


def first_moves(texts: Sequence[Any]) -> list[list[str]]:
    """The moves that an opening can depend on, of lines of moves joined by blanks; none of what is no text."""
    return [text.split(None, MAX_PLIES)[:MAX_PLIES] if isinstance(text, str) else [] for text in texts]


@lru_cache(4096)
def eco_code(header: str | None) -> str:
    """The ECO code that a header begins with, in capitals; empty for anything else. Headers are anybody's text."""
    match = _ECO.match(header or "")
    return match[1].upper() if match else ""


def family(eco: str) -> str:
    """What the name of this ECO code's shortest line begins with: B90 and B22 are ``Sicilian Defense``.

    Accepted and declined gambits are one family: C33 is ``King's Gambit``, D20 and D30 are ``Queen's Gambit``.
    Of lines of one length the beginning that most names of the code share counts. `UNKNOWN` for what is no code and for
    codes without a named position.
    """
    return _families().get(eco, UNKNOWN)


def named_positions() -> list[tuple[str, str, tuple[str, ...]]]:
    """(ECO code, name, moves in UCI) of every named position."""
    packed = resources.files("valuerepair.candidates").joinpath("openings.tsv.zst").read_bytes()
    rows = (line.split("\t") for line in zstandard.ZstdDecompressor().decompress(packed).decode().splitlines())
    return [(eco, name, tuple(moves.split(" "))) for eco, name, moves in rows]


def _by_position(start_fens: Sequence[str], moves: Sequence[Sequence[str]]) -> list[Opening]:
    """The last named board's opening of each line."""
    named, found = _named(), np.full(len(start_fens), -1)
    for rows, boards in plies(start_fens, moves, MAX_PLIES):
        reached = keys(boards)
        places = np.minimum(np.searchsorted(named.keys, reached), len(named.keys) - 1)
        hits = named.keys[places] == reached
        found[rows[hits]] = places[hits]
    unknown = Opening()
    return [named.openings[place] if place >= 0 else unknown for place in found.tolist()]


@cache
def _named() -> _Named:
    rows = named_positions()
    lines = [moves for _, _, moves in rows]
    reached = np.zeros(len(rows), np.uint64)
    for numbers, boards in plies([STARTPOS_FEN] * len(rows), lines):
        reached[numbers] = keys(boards)
    order = np.argsort(reached)
    return _Named(reached[order], [Opening(*rows[i][:2]) for i in order.tolist()])


@cache
def _families() -> dict[str, str]:
    shortest: dict[str, tuple[int, int, str]] = {}
    rows = [(eco, _ANSWER.sub("", name.split(":")[0]), len(moves)) for eco, name, moves in named_positions()]
    often = Counter((eco, first) for eco, first, _ in rows)
    for eco, first, length in rows:
        found = (length, -often[eco, first], first)
        shortest[eco] = min(found, shortest.get(eco, found))
    return {eco: first for eco, (_, _, first) in shortest.items()}
