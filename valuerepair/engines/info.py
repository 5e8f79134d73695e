"""What an engine says of a search: UCI `info` and `bestmove` lines, whatever order their fields come in."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_MOVE = re.compile(r"[a-h][1-8][a-h][1-8][nbrqk]?\Z|0000\Z")
_DIGITS = 18  # of a number at most: the store has room for no more
_NUMBERS = ("depth", "seldepth", "multipv", "nodes", "time", "nps")


@dataclass(frozen=True, slots=True)
class Info:
    """One `info` line. Score and WDL (per mille) are from the side to move; `bounded` marks a lower or upper bound."""

    numbers: dict[str, int] = field(default_factory=dict)
    cp: int | None = None
    mate: int | None = None
    wdl: tuple[int, int, int] | None = None
    bounded: bool = False
    pv: tuple[str, ...] = ()

    @property
    def scored(self) -> bool:
        return self.cp is not None or self.mate is not None


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The end of one search: the last exact score of the first variation, and how much work it took.

    `cp` (centipawns) or `mate` (moves; negative when the side to move is mated; 0 when it is mated already) and `wdl`
    (per mille) are from the side to move. `best_move` is as the engine wrote it, None for ``(none)`` and ``0000``.
    `notes` are the texts of its ``info string`` lines, the last two hundred.
    """

    cp: int | None
    mate: int | None
    wdl: tuple[int, int, int] | None
    depth: int
    seldepth: int
    nodes: int
    time_ms: int
    best_move: str | None
    pv: tuple[str, ...]
    notes: tuple[str, ...] = ()


def parse_info(line: str) -> Info | None:
    """An `info` line, or None when it is a string, has nothing of use, or is garbled."""
    words = iter(line.split())
    if next(words, None) != "info":
        return None
    numbers: dict[str, int] = {}
    found: dict[str, Any] = {}
    try:
        word = next(words, None)
        while word is not None:
            if word in _NUMBERS:
                numbers[word] = _whole(next(words))
                word = next(words, None)
            else:
                word = _take_field(found, word, words)
    except (ValueError, StopIteration):
        return None
    info = Info(numbers, **found)
    return info if info.numbers or info.scored else None


def _take_field(found: dict[str, Any], word: str, words: Iterator[str]) -> str | None:
    """Takes the field that begins with `word` into `found`, by the names of `Info`; returns the word after it."""
    if word in ("cp", "mate"):
        found[word] = _whole(next(words))
    elif word in ("lowerbound", "upperbound"):
        found["bounded"] = True
    elif word == "wdl":
        win, draw, loss = [_whole(next(words)) for _ in range(3)]
        found["wdl"] = (win, draw, loss)
    elif word == "pv":
        moves: list[str] = []
        following = next(words, None)
        while following is not None and _MOVE.match(following):
            moves.append(following)
            following = next(words, None)
        found["pv"] = tuple(moves)
        return following
    elif word == "string":
        return None
    return next(words, None)  # after "score" itself too, and fields we do not use


def _whole(word: str) -> int:
    """Raises ValueError for what is no number, or one that no search comes to."""
    if len(word.lstrip("+-")) > _DIGITS:
        raise ValueError("a number of more than eighteen digits")
    return int(word)


class SearchReader:
    """Takes the lines of one search and makes its report. Only the last lines are ever parsed, at the end."""

    def __init__(self) -> None:
        self._scored: deque[str] = deque(maxlen=1000)
        self._unscored = ""  # the last line with a node count that came after all scored ones
        self._notes: deque[str] = deque(maxlen=200)

    def take(self, line: str) -> None:
        """Takes one line that is not `bestmove`; what is not understood is passed over."""
        if line.startswith("info string "):
            self._notes.append(line[12:])
        elif " score " in line:
            self._scored.append(line)
            self._unscored = ""
        elif " nodes " in line:
            self._unscored = line

    def report(self, bestmove: str, elapsed_ms: int, *, unscored: bool = False) -> SearchReport:
        """The report, given the `bestmove` line. Raises ValueError when there is no move or no score in it all.

        A bound counts as the score only when the engine never gave an exact one. With `unscored` a move will do.
        """
        words = bestmove.split()
        if len(words) < 2 or not (_MOVE.match(words[1]) or words[1] == "(none)"):
            raise ValueError(f"garbled answer {bestmove[:60]!r}")
        latest: dict[str, int] = {}
        info = self._score(latest)
        if info is None:
            if not unscored:
                raise ValueError("gave a best move without a score")
            info = Info()
        return SearchReport(
            info.cp,
            info.mate,
            info.wdl,
            info.numbers.get("depth", latest.get("depth", 0)),
            info.numbers.get("seldepth", latest.get("seldepth", 0)),
            latest.get("nodes", 0),
            latest.get("time", elapsed_ms),
            None if words[1] in ("(none)", "0000") else words[1],
            info.pv,
            tuple(self._notes),
        )

    def _score(self, latest: dict[str, int]) -> Info | None:
        """The last exact score, else the last bound. Notes in `latest` the last value of every number on the way."""
        bound = None
        for line in (self._unscored, *reversed(self._scored)):
            info = parse_info(line)
            if info is None or info.numbers.get("multipv", 1) != 1:
                continue
            latest.update({name: value for name, value in info.numbers.items() if name not in latest})
            if info.scored and not info.bounded:
                return info
            if info.scored and bound is None:
                bound = info
        return bound
