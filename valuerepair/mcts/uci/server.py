"""The UCI protocol: one thread reads commands, another loads the net and searches, so that a search can be stopped.

Whatever comes in, every ``go`` is answered by one ``bestmove`` (``0000`` where there is none to be had), and what is
not understood by an ``info string``. Commands that need a search to have ended wait for it; one without a limit ends.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import chess

from valuerepair import __version__
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.compiling import warm_up
from valuerepair.mcts.evaluator import Evaluator
from valuerepair.mcts.forest import forest_bytes
from valuerepair.mcts.search import Search
from valuerepair.mcts.uci.clock import TimeManager
from valuerepair.mcts.uci.go import Go, parse_go
from valuerepair.mcts.uci.info import Shown
from valuerepair.mcts.uci.options import EngineSettings, option_lines, with_option
from valuerepair.mcts.uci.thinking import Switch, Task, Thinking
from valuerepair.nets.position_text import read_position
from valuerepair.positions import STARTPOS_FEN, Position

_ENDING_S = 3.0  # a search is given so long to end when the engine quits
_SAMPLE_NODES = 10_000
_SHOWN_TEXT = 100
_NOTHING = "bestmove 0000"


@dataclass(frozen=True)
class OpenedNet:
    """A net that searches can use: `input_format` of its planes, whether it has a WDL head, how to close it.

    `minibatch` leaves of a tree at once are good for speed.
    """

    evaluator: Evaluator
    input_format: int
    has_wdl: bool
    close: Callable[[], None]
    minibatch: int = 1


NetOpener = Callable[[EngineSettings, Callable[[str], None]], OpenedNet]


class UciServer:
    """An engine that speaks UCI. `write` takes lines, and is called by one thread at a time."""

    def __init__(
        self, open_net: NetOpener, write: Callable[[str], None], settings: EngineSettings | None = None
    ) -> None:
        self._open_net, self._raw_write = open_net, write
        self._settings = self._defaults = settings or EngineSettings()
        self._writing, self._deaf = threading.Lock(), False
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._work, name="uci-search", daemon=True)
        self._switches: list[Switch] = []  # of the searches that are not answered yet
        # Below: the worker's own.
        self._net: OpenedNet | None = None
        self._net_settings: tuple[str, str, int, bool] | None = None
        self._search: Search | None = None
        self._search_settings: object = None
        self._position: Position | None = Position(STARTPOS_FEN)
        self._clock, self._game = TimeManager(), 0

    # -- the reader ---------------------------------------------------------------------------------------------------

    def run(self, lines: Iterable[str]) -> bool:
        """Answers commands until ``quit``, which stops a running search; at the end of the input one with a limit ends.

        False when the other thread still works: it compiles, or loads a net, and can be ended with the process only.
        """
        quitting = True
        self._worker.start()
        try:
            for line in lines:
                words = line.split()
                if self._deaf or (words and not self._take(words[0], words[1:])):
                    break
            else:
                quitting = False
        finally:
            self._stop(endless_only=not quitting)
            self._jobs.put(None)
            self._worker.join(_ENDING_S if quitting else None)
        return not self._worker.is_alive()

    def _take(self, command: str, words: list[str]) -> bool:
        """One command; False for the last one."""
        if command == "quit":
            return False
        if command == "uci":
            self._greet()
        elif command == "isready":
            self._be_ready()
        elif command == "stop":
            self._stop()
        elif command == "ponderhit":
            if self._switches:
                self._switches[-1].ponderhit()
        elif command == "go":
            self._go(words)
        elif command == "position":
            self._stop(endless_only=True)
            self._jobs.put(lambda: self._set_position(" ".join(words)))
        elif command == "ucinewgame":
            self._stop(endless_only=True)
            self._jobs.put(self._new_game)
        elif command == "setoption":
            self._queue_option(words)
        elif command not in ("debug", "register"):
            self._say(f"unknown command: {' '.join([command, *words])}")
        return True

    def _greet(self) -> None:
        self._write(f"id name valuerepair {__version__}")
        self._write("id author the valuerepair developers")
        for line in option_lines(self._defaults):
            self._write(line)
        self._write("uciok")

    def _be_ready(self) -> None:
        """At once while a search runs; otherwise when net and kernels are loaded."""
        if self._switches:
            self._write("readyok")
        else:
            self._jobs.put(self._load_and_say)

    def _stop(self, *, endless_only: bool = False) -> None:
        """Ends searches; with `endless_only` those that nothing else would end, for another command is to follow."""
        for switch in tuple(self._switches):
            if switch.is_endless or not endless_only:
                switch.stop()

    def _go(self, words: list[str]) -> None:
        self._stop(endless_only=True)  # the best move of a search that still runs comes first
        try:
            go = parse_go(words)
        except ValueError as error:
            reason = f"go: {error}"
            self._jobs.put(lambda: self._refuse(reason))
            return
        switch = Switch(go)
        self._switches.append(switch)
        self._jobs.put(lambda: self._think(go, switch))

    def _queue_option(self, words: list[str]) -> None:
        text = " ".join(words)
        name, _, value = text.removeprefix("name").strip().partition(" value")
        if words[:1] != ["name"] or not name:
            self._say(f"setoption {text}: must be setoption name NAME value VALUE")
            return
        if self._switches:
            self._say(f"option {name} is set when the search has ended")
        self._jobs.put(lambda: self._set_option(name.strip(), value.strip()))

    def _write(self, line: str) -> None:
        try:
            with self._writing:
                if not self._deaf:
                    self._raw_write(line)
        except (OSError, ValueError):  # the GUI is gone, and with it the pipe
            self._deaf = True
            self._stop()

    def _say(self, text: str) -> None:
        lines = text.splitlines() or [""]
        shown = "".join(c if c.isprintable() else "?" for c in lines[0])
        self._write(f"info string {shown if len(shown) <= 2 * _SHOWN_TEXT else shown[: 2 * _SHOWN_TEXT] + '...'}")

    def _say_error(self, error: Exception) -> None:
        self._say(
            f"error: {error}" if isinstance(error, ValueRepairError) else f"error: {type(error).__name__}: {error}"
        )

    # -- the worker ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # whatever it is, the engine goes on
                self._say_error(error)
        if self._net is not None:
            self._net.close()

    def _set_option(self, name: str, value: str) -> None:
        self._settings = with_option(self._settings, name, value)

    def _new_game(self) -> None:
        self._search = None
        self._clock = TimeManager()
        self._game += 1

    def _set_position(self, text: str) -> None:
        try:
            self._position = read_position(text)
        except ValueError as error:
            self._position = None
            self._say(f"position {text[:_SHOWN_TEXT]}: {error}")

    def _load_and_say(self) -> None:
        try:
            self._load()
        except Exception as error:  # told first, and ready it is all the same: for another net
            self._say_error(error)
        self._write("readyok")

    def _load(self) -> tuple[OpenedNet, Search, int]:
        """The net, the search of the settings as they are now, and its room in nodes."""
        settings = self._settings
        wanted = (settings.weights, settings.device, settings.threads, settings.winograd)
        if self._net is None or self._net_settings != wanted:
            if self._net is not None:
                self._net.close()
            self._net = self._search = None
            self._net, self._net_settings = self._open_net(settings, self._say), wanted
        net, room = self._net, room_of(settings.hash_mb)
        params = replace(settings.params, minibatch_size=settings.minibatch or net.minibatch)
        if self._search is None or self._search_settings != (params, room):
            self._search = None
            warm_up(net.evaluator, params, net.input_format, self._say)
            self._search = Search(net.evaluator, params, input_format=net.input_format, nodes=room)
            self._search_settings = (params, room)
        return net, self._search, room

    def _think(self, go: Go, switch: Switch) -> None:
        """Answers one ``go``. The search counts as ended before its move is said: then anything may come at once."""
        try:
            answer = self._think_on(go, switch)
        except Exception as error:
            self._say_error(error)
            self._search, answer = None, _NOTHING  # what is left of the tree is not to be trusted
        self._switches.remove(switch)
        self._write(answer)

    def _think_on(self, go: Go, switch: Switch) -> str:
        position = self._position
        if position is None:
            raise ValueRepairError("there is no legal position to search")
        if ended := game_over(position):
            self._write(f"info depth 0 score {ended}")
            switch.wait_for_leave()
            return "bestmove (none)"
        net, search, room = self._load()
        settings = self._settings
        search.set_position(position)
        shown = Shown(settings.multipv, settings.show_wdl, net.has_wdl, settings.params.lc0_floats, room)
        go = replace(go, searchmoves=self._legal_ones(go.searchmoves, position))
        task = Task(search, position, go, settings, shown, self._clock, self._game)
        return Thinking(task, switch, self._write).run()

    def _legal_ones(self, moves: tuple[str, ...], position: Position) -> tuple[str, ...]:
        """Those of some moves that are legal, in plain UCI; the others are told."""
        board, legal = chess.Board(position.fen), []
        for move in moves:
            try:
                legal.append(board.parse_uci(move).uci())
            except ValueError:
                self._say(f"searchmoves: {move} is not legal here")
        return tuple(dict.fromkeys(legal))

    def _refuse(self, reason: str) -> None:
        self._say(reason)
        self._write(_NOTHING)


def game_over(position: Position) -> str | None:
    """The score of a position without a legal move (``mate 0``, ``cp 0``), else None."""
    board = chess.Board(position.fen)
    if any(board.generate_legal_moves()):
        return None
    return "mate 0" if board.is_check() else "cp 0"


def room_of(hash_mb: int) -> int:
    """How many nodes fit into so much memory."""
    return max(2, int(hash_mb * 2**20 * _SAMPLE_NODES / forest_bytes(1, _SAMPLE_NODES)))
