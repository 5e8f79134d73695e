"""Evaluations in PGN comments.

What is read comes out from the side to move of the evaluated position, whoever it was written for. An evaluation by an
engine that played stands in the comment of its own move and is of the position *before* that move; lichess's
``[%eval]`` is of the position *after* the move.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from valuerepair.archives.numbers import fits
from valuerepair.archives.recorded_options import CUTECHESS, EVAL, NONE_RECORDED, OTHER_KIND, TCEC
from valuerepair.positions import Recorded

# `0.17` in pawns or `#-3` in moves, perhaps with the depth behind a comma.
_EVAL = re.compile(r"\[%eval\s+(?:#(?P<mate>[+-]?\d+)|(?P<pawns>[+-]?\d*\.?\d+))(?:,\s*(?P<depth>\d+))?")
# `+0.65/12 1.2s`, `-M6/64 0.16s`: M counts plies. Pawns have decimals, or `{1/2-1/2 agreed}` would be one of them.
_CUTECHESS = re.compile(
    r"\s*(?P<sign>[+-]?)(?:M(?P<plies>\d+)|(?P<pawns>\d+\.\d+))/(?P<depth>\d+)(?:,?\s+(?P<seconds>\d+(?:\.\d+)?)s)?"
)
# `wv=-0.32`, `wv=M4`: M counts plies here too.
_TCEC = re.compile(r"\bwv=(?P<sign>[+-]?)(?:M(?P<plies>\d+)|(?P<pawns>\d+(?:\.\d+)?))")
_FIELD = re.compile(r"(?<![\w.])(d|sd|mt|n)=(\d+)")
_MARKS = {
    EVAL: re.compile(rb"\[%eval\s"),
    CUTECHESS: re.compile(rb"\{\s*[+-]?(?:M\d+|\d+\.\d+)/\d+"),
    TCEC: re.compile(rb"[{, ]wv=[+-]?M?\d"),
}


def kind_in(text: bytes, wanted: str | None = None) -> tuple[str, int] | None:
    """The kind of evaluation (or the wanted one) that comes first in PGN text, and where; None when there is none."""
    marks = [(kind, mark) for kind, mark in _MARKS.items() if wanted in (None, kind)]
    found = [(match.start(), kind) for kind, mark in marks if (match := mark.search(text))]
    return (min(found)[1], min(found)[0]) if found else None


def game_reject(text: bytes, kind: str) -> str | None:
    """Why a game has no evaluation of this kind; None when it has."""
    if kind in _MARKS and _MARKS[kind].search(text):
        return None
    return OTHER_KIND if any(mark.search(text) for mark in _MARKS.values()) else NONE_RECORDED


def read_comments(kind: str, comments: Iterable[str | None], signs: Iterable[int]) -> list[Recorded | None]:
    """What the comments say of their positions; a sign turns a score as written into the side to move's."""
    return [_read(kind, text, sign) if text else None for text, sign in zip(comments, signs, strict=True)]


def _read(kind: str, text: str, sign: int) -> Recorded | None:
    """What a comment says; None where it says nothing, or numbers that are none, as of five thousand digits."""
    try:
        found = _READERS[kind](text, sign)
    except (ValueError, OverflowError):
        return None
    return found if found is not None and fits(found) else None


def _read_eval(text: str, sign: int) -> Recorded | None:
    match = _EVAL.search(text)
    if match is None:
        return None
    depth = int(match["depth"] or 0)
    if match["mate"]:
        return Recorded(EVAL, mate=sign * int(match["mate"]), depth=depth)
    return Recorded(EVAL, cp=sign * round(100 * float(match["pawns"])), depth=depth)


def _read_cutechess(text: str, sign: int) -> Recorded | None:
    match = _CUTECHESS.match(text)
    if match is None:
        return None
    cp, mate = _score(match, sign)
    fields = dict(_FIELD.findall(text)) if "=" in text else {}
    return Recorded(
        CUTECHESS,
        cp,
        mate,
        depth=int(match["depth"]),
        seldepth=int(fields.get("sd", 0)),
        nodes=int(fields.get("n", 0)),
        time_ms=round(1000 * float(match["seconds"] or 0)),
    )


def _read_tcec(text: str, sign: int) -> Recorded | None:
    match = _TCEC.search(text)
    fields = dict(_FIELD.findall(text)) if match else {}
    # An engine that has only one move plays it without a search, and its 0.00 says nothing.
    if match is None or fields.get("n") == "0":
        return None
    cp, mate = _score(match, sign)
    numbers = (int(fields.get(name, 0)) for name in ("d", "sd", "n", "mt"))
    depth, seldepth, nodes, milliseconds = numbers
    return Recorded(TCEC, cp, mate, depth=depth, seldepth=seldepth, nodes=nodes, time_ms=milliseconds)


def _score(match: re.Match[str], sign: int) -> tuple[int | None, int | None]:
    """Centipawns, or moves to mate of a number of plies, from the side to move."""
    if match["sign"] == "-":
        sign = -sign
    if match["plies"]:
        return None, sign * ((int(match["plies"]) + 1) // 2)
    return sign * round(100 * float(match["pawns"])), None


_READERS = {EVAL: _read_eval, CUTECHESS: _read_cutechess, TCEC: _read_tcec}
