"""The ``go`` command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_NUMBERS = ("wtime", "btime", "winc", "binc", "movestogo", "depth", "nodes", "mate", "movetime")
_FLAGS = ("infinite", "ponder")
# GUIs send times below 0 when a flag has fallen.
_MAY_BE_NEGATIVE = ("wtime", "btime", "winc", "binc", "movestogo")
_MOST = 2**62


@dataclass(frozen=True)
class Go:
    """Limits of one search; None where there is none. Times are in ms; without any limit a search is infinite."""

    nodes: int | None = None
    movetime: int | None = None
    wtime: int | None = None
    btime: int | None = None
    winc: int | None = None
    binc: int | None = None
    movestogo: int | None = None
    depth: int | None = None
    mate: int | None = None
    infinite: bool = False
    ponder: bool = False
    searchmoves: tuple[str, ...] = ()


def parse_go(words: Sequence[str]) -> Go:
    """What follows ``go``. Raises ValueError, with the reason, for anything that is not understood."""
    found: dict[str, Any] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word in _FLAGS:
            found[word] = True
        elif word in _NUMBERS:
            text = words[at] if at < len(words) else ""
            at += 1
            found[word] = _number(word, text)
        elif word == "searchmoves":
            end = at
            while end < len(words) and words[end] not in (*_FLAGS, *_NUMBERS):
                end += 1
            if end == at:
                raise ValueError("searchmoves: no moves follow")
            found[word] = tuple(words[at:end])
            at = end
        else:
            raise ValueError(f"{word[:40]!r} is not understood")
    return Go(**found)


def _number(word: str, text: str) -> int:
    number = int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
    least = -_MOST if word in _MAY_BE_NEGATIVE else 0 if word == "movetime" else 1
    if number is None or number < least:
        wanted = "a whole number" if least < 0 else f"a whole number of at least {least}"
        raise ValueError(f"{word} {text[:40]}: must be {wanted}")
    return number
