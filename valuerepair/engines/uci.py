"""UCI: an engine's lines about a search, its options, and one supervised engine with one search after another."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from valuerepair.engines.process import EngineFailure, EngineTimeout, LineProcess
from valuerepair.errors import nearest

log = logging.getLogger(__name__)
_UCIOK_SECONDS, _START_SECONDS = 20.0, 300.0
_OPTION = re.compile(r"option name (?P<name>.+?) type (?P<type>\w+)(?P<rest>.*)")
_MOVE = re.compile(r"[a-h][1-8][a-h][1-8][nbrqNBRQ]?\Z")
_NO_MOVE = ("(none)", "0000")
_ROUNDED = 3  # engines round win, draw and loss one by one
_DIGITS = 18  # at most; the store cannot hold larger numbers
_NUMBERS = ("depth", "seldepth", "multipv", "nodes", "time", "nps")


class BadOption(EngineFailure):
    """The engine does not have the option."""


class GarbledAnswer(EngineFailure):
    """The engine ended its search without a legal `bestmove` line, or without a score where one is required."""


@dataclass(frozen=True, slots=True)
class EngineOption:
    """An option as the engine offers it: `kind` is check, spin, combo, button or string; a combo has `choices`."""

    name: str
    kind: str
    default: str = ""
    choices: tuple[str, ...] = ()

    def spelled(self, value: str) -> str:
        """`value` as the engine spells it: UCI ignores upper and lower case, but some engines do not."""
        if self.kind == "check":
            return value.lower()
        if self.kind == "string" and self.default:
            return value or "<empty>"  # UCI's word for an empty text; lc0, whose defaults are empty, lacks it
        if value in self.choices:
            return value
        return next((choice for choice in self.choices if choice.lower() == value.lower()), value)

    def setting(self, value: str) -> str:
        """The line that sets the option, or presses the button, which has no value."""
        return f"setoption name {self.name}" + ("" if self.kind == "button" else f" value {value}")


def parse_option(line: str) -> EngineOption | None:
    """An ``option name ... type ...`` line of the handshake, or None."""
    match = _OPTION.match(" ".join(line.split()))  # the pattern takes quadratic time for runs of blanks
    if match is None:
        return None
    head, *choices = re.split(r"\s+var ", match["rest"])
    default = re.search(r"\bdefault ?(.*?)(?=\s+(?:min|max) -?\d+|$)", head)
    return EngineOption(
        match["name"], match["type"], default[1].strip() if default else "", tuple(c.strip() for c in choices)
    )


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """How to start an engine.

    The engine must offer all `options`; options in `if_offered` are set only if it offers them. `start_seconds` bounds
    the time to ``uciok``, and again the time from there to the first ``readyok``, in which nets are loaded; by default
    20 and 300 seconds.
    """

    path: str
    arguments: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    if_offered: Mapping[str, str] = field(default_factory=dict)
    start_seconds: float | None = None


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
    """The end of one search: the last exact score of the first variation, and the work of the search.

    `cp` (centipawns) or `mate` (moves; negative when the side to move is mated; 0 when it is mated already) and `wdl`
    (per mille) are from the side to move. `best_move` is as the engine wrote it, in lower case; None for ``(none)`` and
    ``0000``.
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
    """An `info` line, or None if it is a string, has no usable field, or is garbled."""
    words = iter(line.split())
    if next(words, None) != "info":
        return None
    numbers: dict[str, int] = {}
    fields: dict[str, Any] = {}
    try:
        word = next(words, None)
        while word is not None:
            if word in _NUMBERS:
                if (number := _int_of(next(words))) < 0:
                    return None
                numbers[word] = number
                word = next(words, None)
            else:
                word = _add_field(fields, word, words)
    except (ValueError, StopIteration):
        return None
    info = Info(numbers, **fields)
    return info if info.numbers or info.scored else None


def _add_field(fields: dict[str, Any], word: str, words: Iterator[str]) -> str | None:
    """Adds the field that begins with `word` to `fields`, by the names of `Info`; returns the word after it."""
    if word in ("cp", "mate"):
        fields[word] = _int_of(next(words))
    elif word in ("lowerbound", "upperbound"):
        fields["bounded"] = True
    elif word == "wdl":
        win, draw, loss = [_int_of(next(words)) for _ in range(3)]
        if min(win, draw, loss) < 0 or abs(win + draw + loss - 1000) > _ROUNDED:
            raise ValueError("not per mille")
        fields["wdl"] = (win, draw, loss)
    elif word == "pv":
        moves: list[str] = []
        following = next(words, None)
        while following is not None and _MOVE.match(following):
            moves.append(following.lower())
            following = next(words, None)
        fields["pv"] = tuple(moves)
        return following
    elif word == "string":
        return None
    return next(words, None)  # the next word also after the word "score", and after fields that we do not use


def _int_of(word: str) -> int:
    """Raises ValueError for text that is not a number, and for a number larger than any search gives."""
    if len(word.lstrip("+-")) > _DIGITS:
        raise ValueError("a number of more than eighteen digits")
    return int(word)


class SearchReader:
    """Collects the lines of one search and makes its report. Only the last lines are parsed, at the end."""

    def __init__(self) -> None:
        self._scored: deque[str] = deque(maxlen=1000)
        self._unscored = ""  # the last line with a node count that came after all scored ones
        self._notes: deque[str] = deque(maxlen=200)

    def add(self, line: str) -> None:
        """Adds a line other than `bestmove`; ignores lines that it does not understand."""
        if line.startswith("info string "):
            self._notes.append(line[12:])
        elif " score " in line:
            self._scored.append(line)
            self._unscored = ""
        elif " nodes " in line:
            self._unscored = line

    def report(self, bestmove: str, elapsed_ms: int, *, unscored: bool = False) -> SearchReport:
        """The report, given the `bestmove` line. Raises ValueError without a move, or without a score in any line.

        A bound counts as the score only if the engine never gave an exact one. With `unscored` no score is needed.
        """
        words = bestmove.split()
        if len(words) < 2 or not (_MOVE.match(words[1]) or words[1] in _NO_MOVE):
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
            None if words[1] in _NO_MOVE else words[1].lower(),
            info.pv,
            tuple(self._notes),
        )

    def _score(self, latest: dict[str, int]) -> Info | None:
        """The last exact score, else the last bound. Also writes the last value of each number to `latest`."""
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


class UciEngine:
    """A running engine. One thread uses it; but any thread may `kill` it.

    `start` it first; then its `name`, the options that it offers (`offered`, by lower-case name) and the `settings` are
    known. A search uses the hash tables of the searches since `clear`: after `clear` its outcome with one thread and a
    node limit does not depend on earlier searches. Any method may raise EngineFailure; then `kill` the engine.
    """

    def __init__(self, setup: EngineSetup) -> None:
        self.name = setup.path
        self.offered: dict[str, EngineOption] = {}
        self.settings: dict[str, str] = {}
        self._setup, self._ready = setup, False
        self._unanswered = 0  # isready lines without an answer yet
        self._error = ""  # the last line of this search, or of the start, that begins with "error"
        self._process = LineProcess([setup.path, *setup.arguments])
        self.pid = self._process.pid

    def start(self) -> None:
        """The handshake: ``uci``, options, ``isready``. Raises EngineFailure; BadOption for a refused option."""
        setup = self._setup
        self._process.send("uci")
        seconds = setup.start_seconds or _UCIOK_SECONDS
        deadline = time.monotonic() + seconds
        try:
            while (line := self._read_line(deadline)) != "uciok":
                if (words := line.split())[:2] == ["id", "name"]:
                    self.name = " ".join(words[2:]) or self.name
                elif (option := parse_option(line)) is not None:
                    self.offered[option.name.lower()] = option
                elif line.startswith("error "):
                    self._error = line[:200]
        except EngineTimeout:
            raise self._timeout(f"did not answer 'uci' with 'uciok' in {seconds:g} s: is it a UCI engine?") from None
        self._process.send(*self._option_lines(setup))
        self.clear()
        self.ready(setup.start_seconds or _START_SECONDS)
        chosen = " ".join(f"{name}={value}" for name, value in self.settings.items())
        log.debug("engine %d: %s is ready with %s", self.pid, self.name, chosen or "its defaults")

    def _option_lines(self, setup: EngineSetup) -> list[str]:
        requested = {k: v for k, v in setup.if_offered.items() if k.lower() in self.offered} | dict(setup.options)
        for name, value in requested.items():
            option = self.offered.get(name.lower())
            if option is None:
                offered = [offer.name for offer in self.offered.values()]
                raise BadOption(f"has no option {name!r}{nearest(name, offered)}")
            self.settings[option.name] = option.spelled(value)
        return [self.offered[name.lower()].setting(value) for name, value in self.settings.items()]

    def ready(self, seconds: float) -> None:
        """Waits until the engine is ready for a search, at most `seconds`; then raises EngineTimeout.

        Meanwhile it reads and drops lines that still belong to the previous search, such as a second ``bestmove``.
        """
        if self._ready:
            return
        if not self._unanswered:
            self._send_isready()
        deadline = time.monotonic() + seconds
        try:
            while self._unanswered:
                self._await("readyok", deadline)
                self._unanswered -= 1
        except EngineTimeout:
            raise self._timeout(f"was not ready in {seconds:g} s") from None
        self._ready = True

    def search(
        self, position: str, go: str, seconds: float, *, unscored: bool = False, advice: str = ""
    ) -> SearchReport:
        """Sends the ``position ...`` and ``go ...`` lines; returns the report of the search, or raises EngineFailure.

        Raises EngineTimeout if there is no best move after `seconds`, and GarbledAnswer if it is garbled or comes
        without a score; with `unscored` no score is needed. `advice` is added to the message of the timeout.
        """
        self.ready(max(seconds, 30.0))
        started, self._ready = time.monotonic(), False
        self._process.send(position, go)
        reader = SearchReader()
        try:
            line = self._await("bestmove", started + seconds, reader)
        except EngineTimeout:
            raise self._timeout(f"gave no best move in {seconds:.4g} s{advice}") from None
        self._error = ""
        try:
            return reader.report(line, round((time.monotonic() - started) * 1000), unscored=unscored)
        except ValueError as error:
            raise GarbledAnswer(str(error)) from None

    def probe(self, go: str, seconds: float, *, unscored: bool = False) -> SearchReport:
        """Searches the initial position, to see whether the engine works; see `search`."""
        advice = f" for {go!r}: does it know this limit?"
        return self.search("position startpos", go, seconds, unscored=unscored, advice=advice)

    def clear(self) -> None:
        """Clears the hash tables (``ucinewgame``). It returns at once; the next search waits for the engine."""
        self._send_isready("ucinewgame")
        self._ready = False

    def _send_isready(self, *before: str) -> None:
        """Sends the lines `before` and ``isready``, and counts one more answer to wait for."""
        self._process.send(*before, "isready")
        self._unanswered += 1

    def _await(self, word: str, deadline: float, reader: SearchReader | None = None) -> str:
        """Reads up to the line that begins with `word`. Raises EngineFailure if lc0 says that it cannot go on."""
        while True:
            line = self._read_line(deadline)
            first = line.split(" ", 1)[0]
            if first == word:
                return line
            if first == "error":  # unknown to UCI; lc0 answers nothing more
                self._error = line[:200]
                if self.name.startswith("Lc0 "):
                    raise EngineFailure(f"says: {self._error}")
            if reader is not None:
                reader.add(line)

    def _read_line(self, deadline: float) -> str:
        """The next line, with a blank for each tab: UCI allows any white space between words."""
        return self._process.read_line(deadline).replace("\t", " ").strip()

    def _timeout(self, reason: str) -> EngineTimeout:
        return EngineTimeout(reason + (f"; it says: {self._error}" if self._error else ""))

    def kill(self) -> None:
        """Ends the engine at once, even in the middle of a search, which then raises EngineFailure."""
        self._process.kill()

    def close(self, grace: float = 1.0) -> None:
        """Ends the engine: ``quit``, and after `grace` seconds a kill."""
        self._process.close("stop", "quit", grace=grace)
