"""One supervised UCI engine: handshake, options, one search after another, each with a time limit."""

from __future__ import annotations

import difflib
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from valuerepair.engines.info import SearchReader, SearchReport
from valuerepair.engines.process import EngineFailure, EngineTimeout, LineProcess

log = logging.getLogger(__name__)
UCIOK_SECONDS = 20.0
_OPTION = re.compile(r"option name (?P<name>.+?) type (?P<type>\w+)(?P<rest>.*)")
_RANGE = re.compile(r"\b(min|max) (-?\d{1,18})\b")  # Python reads no more than 4,300 digits, and engines mean fewer


class BadOption(EngineFailure):
    """The engine has no such option, or not that value of it."""


class GarbledAnswer(EngineFailure):
    """The engine ended its search with a line that is no best move, or said nothing of the value where it must."""


@dataclass(frozen=True, slots=True)
class EngineOption:
    """An option as the engine offers it: `kind` is check, spin, combo, button or string."""

    name: str
    kind: str
    default: str = ""
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()

    def problem(self, value: str) -> str | None:
        """Why `value` will not do, or None. Engines pass over bad values without a word."""
        if self.kind == "check" and value not in ("true", "false"):
            return "is true or false"
        if self.kind == "combo" and self.choices and value not in self.choices:
            return f"is one of {', '.join(self.choices)}"
        if self.kind == "spin":
            number = int(value) if re.fullmatch(r"-?\d{1,18}", value) else None
            if number is None or not (self.low or 0) <= number <= (self.high or number):
                return f"is a number from {self.low} to {self.high}"
        return None


def parse_option(line: str) -> EngineOption | None:
    """An ``option name ... type ...`` line of the handshake, or None."""
    match = _OPTION.match(" ".join(line.split()))  # runs of blanks would be looked at from each of them
    if match is None:
        return None
    rest, *choices = re.split(r"\s+var ", match["rest"])
    default = re.search(r"\bdefault ?(.*?)(?=\s+(?:min|max) -?\d+|$)", rest)
    limits = {name: int(number) for name, number in _RANGE.findall(rest)} if match["type"] == "spin" else {}
    return EngineOption(
        match["name"],
        match["type"],
        default[1].strip() if default else "",
        limits.get("min"),
        limits.get("max"),
        tuple(c.strip() for c in choices),
    )


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """How to start an engine.

    `options` must be offered by it; `if_offered` are set where they are. `start_seconds` bounds the time from the
    handshake to the first ``readyok``, in which nets are loaded.
    """

    path: str
    arguments: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    if_offered: Mapping[str, str] = field(default_factory=dict)
    start_seconds: float = 300.0


class UciEngine:
    """A running engine, used by the thread that made it, which must outlive it; any thread may `kill` it.

    `start` it first: then `name`, the options it offers (by lower-case name) and the `settings` made are known.
    A search goes on with the hash tables of those since `clear`: cleared before, its outcome with one thread and a node
    limit does not depend on what was searched before. Raises EngineFailure from any method; then `kill` it.
    """

    def __init__(self, setup: EngineSetup) -> None:
        self.name = setup.path
        self.offered: dict[str, EngineOption] = {}
        self.settings: dict[str, str] = {}
        self._setup, self._ready = setup, False
        self._process = LineProcess([setup.path, *setup.arguments])
        self.pid = self._process.pid

    def start(self) -> None:
        """The handshake: ``uci``, options, ``isready``. Raises EngineFailure; BadOption for an option refused."""
        setup = self._setup
        self._process.send("uci")
        seconds = min(UCIOK_SECONDS, setup.start_seconds)
        deadline = time.monotonic() + seconds
        try:
            while (line := self._process.read_line(deadline).strip()) != "uciok":
                if line.startswith("id name "):
                    self.name = line[8:].strip()
                elif (option := parse_option(line)) is not None:
                    self.offered[option.name.lower()] = option
        except EngineTimeout:
            raise EngineTimeout(f"did not answer 'uci' with 'uciok' in {seconds:g} s: is it a UCI engine?") from None
        self._process.send(*self._option_lines(setup), "ucinewgame", "isready")
        try:
            self._await("readyok", time.monotonic() + setup.start_seconds)
        except EngineTimeout:
            raise EngineTimeout(f"was not ready in {setup.start_seconds:g} s") from None
        self._ready = True
        chosen = " ".join(f"{name}={value}" for name, value in self.settings.items())
        log.info("engine %d: %s is ready with %s", self.pid, self.name, chosen or "its defaults")

    def _option_lines(self, setup: EngineSetup) -> list[str]:
        wanted = {k: v for k, v in setup.if_offered.items() if k.lower() in self.offered} | dict(setup.options)
        for name, value in wanted.items():
            option = self.offered.get(name.lower())
            if option is None:
                close = difflib.get_close_matches(name.lower(), self.offered, 1)
                hint = f"; did you mean {self.offered[close[0]].name}?" if close else ""
                raise BadOption(f"has no option {name!r}{hint}")
            if problem := option.problem(value):
                raise BadOption(f"option {option.name}={value}: it {problem}")
            self.settings[option.name] = value
        return [f"setoption name {name} value {value}" for name, value in self.settings.items()]

    def ready(self, seconds: float) -> None:
        """Waits until what `clear` began is done, at most `seconds`: then EngineTimeout."""
        if not self._ready:
            self._await("readyok", time.monotonic() + seconds)
            self._ready = True

    def search(self, position: str, go: str, seconds: float, *, unscored: bool = False) -> SearchReport:
        """Sends the ``position ...`` and ``go ...`` lines; the report of the search, or EngineFailure.

        Raises EngineTimeout when there is no best move after `seconds`, and GarbledAnswer when it is garbled or comes
        without a score; with `unscored` a move will do.
        """
        self.ready(max(seconds, 30.0))
        started = time.monotonic()
        self._process.send(position, go)
        reader = SearchReader()
        try:
            line = self._await("bestmove", started + seconds, reader)
        except EngineTimeout:
            raise EngineTimeout(f"gave no best move in {seconds:.4g} s") from None
        try:
            report = reader.report(line, round((time.monotonic() - started) * 1000), unscored=unscored)
        except ValueError as error:
            raise GarbledAnswer(str(error)) from None
        return report

    def clear(self) -> None:
        """Empties the hash tables (``ucinewgame``). It returns at once; the next search waits until that is done."""
        self._process.send("ucinewgame", "isready")
        self._ready = False

    def _await(self, word: str, deadline: float, reader: SearchReader | None = None) -> str:
        """Reads up to the line that begins with `word`. lc0 says ``error TEXT`` and waits on."""
        while True:
            line = self._process.read_line(deadline).strip()
            first = line.split(" ", 1)[0]
            if first == word:
                return line
            if first == "error":
                raise EngineFailure(f"says: {line[:200]}")
            if reader is not None:
                reader.take(line)

    def kill(self) -> None:
        """Ends it at once, also in the middle of a search. Searching then raises EngineFailure."""
        self._process.kill()

    def close(self, grace: float = 1.0) -> None:
        """Ends it: ``quit``, and after `grace` seconds a kill."""
        self._process.close("stop", "quit", grace=grace)
