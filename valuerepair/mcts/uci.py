"""The UCI protocol: one thread reads commands, another loads the net and searches, so that a search can be stopped.

Every ``go`` gets one ``bestmove`` (``(none)`` if the search failed). What is not understood gets an ``info string``.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from valuerepair.chess.position_text import read_position
from valuerepair.chess.positions import STARTPOS_FEN, Position
from valuerepair.errors import UsageError, ValueRepairError, nearest
from valuerepair.mcts.evaluator import LeafEvaluator, NetEvaluator, SplitEvaluator, good_minibatch
from valuerepair.mcts.forest import Forest, warm_up
from valuerepair.mcts.outcome import choose_move
from valuerepair.mcts.params import CHOICES, PARAMETER_NAMES, RANGES, SearchParams
from valuerepair.mcts.result import SearchResult, score_of
from valuerepair.nets.net import open_net
from valuerepair.progress import remarks_to
from valuerepair.version import __version__

log = logging.getLogger(__name__)

DEFAULT_NODES = 800  # of a search by the clock, or with any other limit than nodes, movetime and infinite
MOST_NODES = 1_000_000  # of a search by time or without a limit
_ENDING_S = 3.0  # the time for a search to end when the engine quits
_SHOWN_TEXT = 200  # characters
_NO_MOVE = "bestmove (none)"
_OWN_OPTIONS = {"WeightsFile": "weights", "Device": "device", "Threads": "threads", "MinibatchSize": "minibatch"}
_OWN_RANGE = (0, 1024)  # of those that are numbers
_MOST_SPIN = 2**31 - 1  # GUIs keep numbers in 32 bits
# By the name in lower case: its name, and the field of `EngineSettings` or the parameter of the search.
_OPTIONS = {
    name.lower(): (name, field)
    for name, field in [*_OWN_OPTIONS.items(), *((name, field) for field, name in PARAMETER_NAMES.items())]
}


@dataclass(frozen=True)
class EngineSettings:
    """What ``setoption`` changes: the net, where it runs, and the parameters of the search.

    `weights` is a net's name or file, empty for the default net. `threads` are those of the net, 0 for all cores.
    `minibatch` replaces the parameter `minibatch_size`: 0 is the fastest size, 1 the sequential search.
    """

    params: SearchParams = field(default_factory=SearchParams)
    weights: str = ""
    device: str = "auto"
    threads: int = 0
    minibatch: int = 0

    def with_option(self, name: str, value: str) -> EngineSettings:
        """The settings with one option changed. Raises UsageError for an unknown option or a value it cannot have."""
        if name.lower() not in _OPTIONS:
            raise UsageError(f"no option {name!r}{nearest(name, [name for name, _ in _OPTIONS.values()])}")
        name, setting = _OPTIONS[name.lower()]
        value = "" if value == "<empty>" else value
        if name not in _OWN_OPTIONS:
            value = "inf" if setting == "n_scl" and value == "0" else value
            return replace(self, params=self.params.with_settings({setting: value}, f"option {name}: "))
        change: dict[str, Any] = {setting: value}
        if isinstance(getattr(self, setting), int):
            if not value.isdecimal() or int(value) > _OWN_RANGE[1]:
                raise UsageError(f"option {name}={value}: must be a whole number from 0 to {_OWN_RANGE[1]}")
            change[setting] = int(value)
        return replace(self, **change)

    def lines(self) -> list[str]:
        """The ``option name ...`` lines of the handshake, with these settings as defaults."""
        settings = {**{name: getattr(self.params, name) for name in PARAMETER_NAMES}, **vars(self)}
        return [f"option name {name} type {_option_type(field, settings[field])}" for name, field in _OPTIONS.values()]


def _option_type(name: str, value: object) -> str:
    if isinstance(value, bool):
        return f"check default {str(value).lower()}"
    if name in CHOICES:
        return f"combo default {value} " + " ".join(f"var {choice}" for choice in CHOICES[name])
    if isinstance(value, int):
        low, high = RANGES.get(name, _OWN_RANGE)
        return f"spin default {value} min {low:.0f} max {min(high, _MOST_SPIN):.0f}"
    return f"string default {f'{value:.6f}' if isinstance(value, float) else value or '<empty>'}"


class OpenedNet(NamedTuple):
    """A net that searches can use, whether it has a WDL head, and what closes it.

    `minibatch` is the number of leaves of one tree in a batch with which a search is fastest.
    """

    evaluator: LeafEvaluator
    has_wdl: bool
    close: Callable[[], None]
    minibatch: int = 1


def open_settings_net(settings: EngineSettings) -> OpenedNet:
    """Opens the net of the settings. Raises ValueRepairError and UsageError."""
    net = open_net(settings.weights or None, device=settings.device, threads=settings.threads or None)
    evaluator = NetEvaluator(net)
    minibatch = good_minibatch(evaluator.streams, net.on_cpu)
    split = SplitEvaluator(evaluator, evaluator.streams if net.on_cpu else 1)
    log.info(f"{net.identity.name} on {net.where}; MinibatchSize 0 is {minibatch}")

    def close() -> None:
        split.close()
        net.close()

    return OpenedNet(split, net.identity.value_head == "wdl", close, minibatch)


class Go:
    """One ``go``: its limits, and `stop`, which ends it; without `nodes` and `seconds` only `stop` does."""

    def __init__(self, words: Sequence[str]) -> None:
        """Reads the words after ``go``. Raises ValueError for a limit that is not a number."""
        following = dict(zip(words, [*words, ""][1:], strict=True))
        self.stop = threading.Event()
        self.nodes = max(1, int(following["nodes"])) if "nodes" in following else None
        self.seconds = int(following["movetime"]) / 1000 if "movetime" in following else None
        self.is_endless = self.nodes is None and self.seconds is None and "infinite" in words
        if self.nodes is None and self.seconds is None and not self.is_endless:
            self.nodes = DEFAULT_NODES


class UciServer:
    """An engine that speaks UCI. `write` takes lines, and is called by one thread at a time."""

    def __init__(
        self,
        write: Callable[[str], None],
        settings: EngineSettings | None = None,
        open_net: Callable[[EngineSettings], OpenedNet] = open_settings_net,
    ) -> None:
        self._open_net, self._raw_write = open_net, write
        self._settings = self._defaults = settings or EngineSettings()
        self._writing, self._output_closed = threading.Lock(), False
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._going: list[Go] = []  # those without an answer yet
        # Only the second thread uses what follows.
        self._net: OpenedNet | None = None
        self._net_settings: tuple[str, str, int] | None = None
        self._forest: Forest | None = None
        self._position: Position | None = Position(STARTPOS_FEN)
        self._games = 0  # their moves differ where they are drawn by temperature

    def run(self, lines: Iterable[str]) -> None:
        """Answers commands until ``quit``, which stops a running search, or to the end of the input, which does not.

        If the other thread compiles or loads a net, this returns before that thread has ended; it ends with the
        process.
        """
        quitting, worker = True, threading.Thread(target=self._work, name="uci-search", daemon=True)
        worker.start()
        with remarks_to(self._say):
            try:
                for line in lines:
                    command, text = [*line.split(maxsplit=1), "", ""][:2]
                    if command == "quit" or self._output_closed:
                        break
                    self._obey(command, text.strip())
                else:
                    quitting = False
            finally:
                self._stop(endless_only=not quitting)
                self._jobs.put(None)
                worker.join(_ENDING_S if quitting else None)

    def _obey(self, command: str, text: str) -> None:
        """Executes a command, or queues it: what cannot run during a search waits for its end."""
        if command == "uci":
            about = [f"id name valuerepair {__version__}", "id author the valuerepair developers"]
            for line in [*about, *self._defaults.lines(), "uciok"]:
                self._write(line)
        elif command == "isready" and self._going:
            self._write("readyok")
        elif command == "isready":
            self._jobs.put(self._load_and_say)
        elif command == "stop":
            self._stop()
        elif command == "go":
            self._stop(endless_only=True)
            self._queue_search(text)
        elif command == "position":
            self._stop(endless_only=True)
            self._jobs.put(lambda: self._set_position(" ".join(text.split())))
        elif command == "ucinewgame":
            self._jobs.put(self._count_game)
        elif command == "setoption":
            self._jobs.put(lambda: self._set_option(text))
        elif command:
            self._say(f"unknown command: {command}")

    def _stop(self, *, endless_only: bool = False) -> None:
        """Stops searches; with `endless_only` those that nothing else ends."""
        for go in tuple(self._going):  # a copy: the other thread removes them
            if go.is_endless or not endless_only:
                go.stop.set()

    def _queue_search(self, text: str) -> None:
        try:
            go = Go(text.split())
        except ValueError:
            self._say(f"go {text}: nodes and movetime must be whole numbers")
            self._jobs.put(lambda: self._write(_NO_MOVE))
            return
        self._going.append(go)
        self._jobs.put(lambda: self._answer(go))

    def _write(self, line: str) -> None:
        try:
            with self._writing:
                if not self._output_closed:
                    self._raw_write(line)
        except (OSError, ValueError):  # the GUI has ended, and its pipe is closed
            self._output_closed = True
            self._stop()

    def _say(self, text: str) -> None:
        """Writes `text`, shortened, as an ``info string``."""
        self._write("info string " + "".join(c if c.isprintable() else " " for c in text)[:_SHOWN_TEXT])

    # -- the second thread --------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # no error ends the engine
                self._say(f"error: {error}")
        if self._net is not None:
            self._net.close()

    def _set_option(self, text: str) -> None:
        """Sets ``name NAME value VALUE``; a value may have any blanks, as the name of a file has."""
        words = re.fullmatch(r"name\s+(.+?)(?:\s+value(?:\s+(.*))?)?", text)
        if words is None:
            raise UsageError(f"setoption {text}: must be setoption name NAME value VALUE")
        self._settings, self._forest = self._settings.with_option(words[1], words[2] or ""), None

    def _count_game(self) -> None:
        self._games += 1

    def _set_position(self, text: str) -> None:
        self._position = None
        try:
            self._position = read_position(text)
        except ValueError as error:
            raise UsageError(f"position {text[: _SHOWN_TEXT // 2]}: {error}") from None

    def _load_and_say(self) -> None:
        """Answers ``isready`` when net and kernels are loaded, or cannot be: the GUI can set another net."""
        try:
            self._load()
        except Exception as error:
            self._say(f"error: {error}")
        self._write("readyok")

    def _load(self) -> tuple[OpenedNet, Forest]:
        """The net, and an empty forest for its searches, by the present settings."""
        settings = self._settings
        net_settings = (settings.weights, settings.device, settings.threads)
        if self._net is None or self._net_settings != net_settings:
            if self._net is not None:
                self._net.close()
            self._net = self._forest = None
            self._net, self._net_settings = self._open_net(settings), net_settings
        if self._forest is None:
            params = replace(settings.params, minibatch_size=settings.minibatch or self._net.minibatch)
            warm_up(self._net.evaluator, params)
            self._forest = Forest(self._net.evaluator, params, trees=1)
        return self._net, self._forest

    def _answer(self, go: Go) -> None:
        """Answers one ``go``, which it then forgets before it writes, as the next command may come at once."""
        line = _NO_MOVE
        try:
            line = f"bestmove {self._best_move(go)}"
        except Exception as error:
            self._say(f"error: {error}")
            self._forest = None  # the tree may be broken
        self._going.remove(go)
        self._write(line)

    def _best_move(self, go: Go) -> str:
        """Searches, and writes ``info`` lines; an endless search waits for ``stop`` even if its tree is full."""
        position = self._position
        if position is None:
            raise ValueRepairError("there is no legal position to search")
        net, forest = self._load()
        started = time.monotonic()

        def show(result: SearchResult) -> None:
            self._write(info_line(result, time.monotonic() - started, net, forest.params))

        nodes = MOST_NODES if go.nodes is None else go.nodes
        result = forest.search_one(position, nodes, seconds=go.seconds, stop=go.stop.is_set, on_info=show)
        if go.is_endless:
            go.stop.wait()
        show(result)
        return choose_move(result, forest.params, position.ply, forest.params.seed + self._games)


def info_line(result: SearchResult, seconds: float, net: OpenedNet, params: SearchParams) -> str:
    """The line of the best move."""
    score = score_of(result.best, result, has_wdl=net.has_wdl, lc0_floats=params.lc0_floats)
    nps = f" nps {result.nodes / seconds:.0f}" if seconds >= 0.001 else ""
    return (
        f"info depth {max(result.depth, 1)} seldepth {result.seldepth} time {1000 * seconds:.0f} nodes {result.nodes} "
        f"score {score.text} wdl {score.wdl[0]} {score.wdl[1]} {score.wdl[2]}{nps} pv {' '.join(result.best.pv)}"
    )
