"""Evaluations that archives already hold: the kinds there are, and how they stand in PGN comments.

What is read comes out from the side to move of the evaluated position, whoever it was written for. An evaluation by an
engine that played stands in the comment of its own move and is of the position *before* that move; lichess's
``[%eval]`` is of the position *after* the move.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from valuerepair.errors import UsageError
from valuerepair.positions import Recorded

View = Literal["white", "mover"]
VIEWS: tuple[View, ...] = ("white", "mover")

EVAL, CUTECHESS, TCEC, EPD, DUMP, CHUNKS = "eval", "cutechess", "tcec", "epd", "dump", "chunks"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record: what it is, for people, and whose view it is written in."""

    name: str
    what: str
    view: View


KINDS = {
    kind.name: kind
    for kind in (
        Kind(EVAL, "[%eval] comments of PGN files, as lichess writes them", "white"),
        Kind(CUTECHESS, "{+0.65/12 1.2s} comments of PGN files, as cutechess writes them", "mover"),
        Kind(TCEC, "{d=16, ..., wv=0.43, ...} comments of PGN files, as TCEC writes them", "white"),
        Kind(EPD, "ce, dm and bm #N of EPD files", "mover"),
        Kind(DUMP, "lichess's evaluation dump (.jsonl)", "white"),
        Kind(CHUNKS, "lc0 training chunks", "mover"),
    )
}
COMMENT_KINDS = (EVAL, CUTECHESS, TCEC)

# `0.17` in pawns or `#-3` in moves, perhaps with the depth behind a comma.
_EVAL = re.compile(r"\[%eval\s+(?:#(?P<mate>[+-]?\d+)|(?P<pawns>[+-]?\d*\.?\d+))(?:,\s*(?P<depth>\d+))?")
# `+0.65/12 1.2s`, `-M6/64 0.16s`: M counts plies.
_CUTECHESS = re.compile(
    r"\s*(?P<sign>[+-]?)(?:M(?P<plies>\d+)|(?P<pawns>\d+(?:\.\d+)?))/(?P<depth>\d+)(?:,?\s+(?P<seconds>\d+(?:\.\d+)?)s)?"
)
# `wv=-0.32`, `wv=M4`: M counts plies here too.
_TCEC = re.compile(r"\bwv=(?P<sign>[+-]?)(?:M(?P<plies>\d+)|(?P<pawns>\d+(?:\.\d+)?))")
_FIELD = re.compile(r"(?<![\w.])(d|sd|mt|n)=(\d+)")
_MARKS = {
    EVAL: re.compile(rb"\[%eval\s"),
    CUTECHESS: re.compile(rb"\{\s*[+-]?(?:M\d+|\d+(?:\.\d+)?)/\d+"),
    TCEC: re.compile(rb"[{, ]wv=[+-]?M?\d"),
}
OTHER_KIND = "evaluations of another kind"
NONE_RECORDED = "no recorded evaluation"


@dataclass(frozen=True, slots=True)
class RecordedOptions:
    """Which recorded evaluations to take: those of one kind; positions without such a one are not sampled.

    view: whose view they are written in, if not that of the kind. depth: whether they have a depth (None: it does not
    matter); those of the other sort are left out. min_depth (plies) and min_nodes leave out shallower ones, and those
    that do not say. by: a part of the name of the player whose evaluations to take (cutechess and tcec), in any case.
    """

    kind: str
    view: View | None = None
    depth: bool | None = None
    min_depth: int | None = None
    min_nodes: int | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"no kind {self.kind!r} of recorded evaluations; there are {', '.join(KINDS)}")
        if self.by is not None and self.kind not in (CUTECHESS, TCEC):
            raise UsageError(f"by={self.by}: only cutechess and tcec comments say which player evaluated")

    def sign(self, white_to_move: bool) -> int:
        """1 where a score as written is the side to move's, -1 where it is the other's."""
        return 1 if white_to_move or (self.view or KINDS[self.kind].view) == "mover" else -1

    def reject(self, found: Recorded | None) -> str | None:
        """Why an evaluation is not to be used; None when it is."""
        if found is None:
            return NONE_RECORDED
        if self.depth is not None and self.depth != (found.depth > 0):
            return "evaluation without a depth" if self.depth else "evaluation with a depth, unlike the first ones"
        if self.min_depth is not None and found.depth < self.min_depth:
            return f"evaluation of less than depth {self.min_depth}"
        if self.min_nodes is not None and found.nodes < self.min_nodes:
            return f"evaluation of fewer than {self.min_nodes:,} nodes"
        if self.by is not None and self.by.casefold() not in found.by.casefold():
            return "evaluation by another player"
        return None


def kind_in(text: bytes) -> tuple[str, int] | None:
    """The kind of evaluation that comes first in PGN text, and where; None when there is none."""
    found = [(match.start(), kind) for kind, mark in _MARKS.items() if (match := mark.search(text))]
    return (min(found)[1], min(found)[0]) if found else None


def game_reject(text: bytes, kind: str) -> str | None:
    """Why a game has no evaluation of this kind; None when it has."""
    if kind in _MARKS and _MARKS[kind].search(text):
        return None
    return OTHER_KIND if any(mark.search(text) for mark in _MARKS.values()) else NONE_RECORDED


def read_comments(kind: str, comments: Iterable[str | None], signs: Iterable[int]) -> list[Recorded | None]:
    """What the comments say of their positions; a sign turns a score as written into the side to move's."""
    read = {EVAL: _read_eval, CUTECHESS: _read_cutechess, TCEC: _read_tcec}[kind]
    return [read(text, sign) if text else None for text, sign in zip(comments, signs, strict=True)]


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
