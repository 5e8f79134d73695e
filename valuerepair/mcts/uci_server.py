"""The UCI protocol: one thread reads commands, another loads the net and searches, so that a search can be stopped.

Every ``go`` gets one ``bestmove`` (``0000`` if the search failed). A command that is not understood gets an ``info
string``. A command that cannot run during a search waits for the search to end; a search without a limit is stopped.
"""

from __future__ import annotations

import math
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import chess
import numpy as np

from valuerepair.chess.board import parse_fens
from valuerepair.chess.position_text import read_position
from valuerepair.chess.positions import STARTPOS_FEN, Position, encode_moves
from valuerepair.chess.progress import remarks_to
from valuerepair.errors import ValueRepairError
from valuerepair.mcts import fastmath
from valuerepair.mcts.evaluator import LeafEvaluator
from valuerepair.mcts.forest import forest_bytes, warm_up
from valuerepair.mcts.layout import MOST_MOVES
from valuerepair.mcts.outcome import choose_move, unvisited_value
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import RootMove, SearchResult, Value, score_of
from valuerepair.mcts.search import Search
from valuerepair.mcts.uci_options import EngineSettings, option_lines, with_option
from valuerepair.nets.policy import policy_indices
from valuerepair.version import __version__

_ENDING_S = 3.0  # the time for a search to end when the engine quits
_SAMPLE_NODES = 10_000  # of the tree by which the size of a node is measured
_SHOWN_TEXT = 100  # characters
_NO_MOVE = "bestmove 0000"


@dataclass(frozen=True)
class OpenedNet:
    """A net that searches can use, whether it has a WDL head, and what closes it.

    `minibatch` is the number of leaves of one tree in a batch with which a search is fastest.
    """

    evaluator: LeafEvaluator
    has_wdl: bool
    close: Callable[[], None]
    minibatch: int = 1


NetOpener = Callable[[EngineSettings], OpenedNet]


class UciServer:
    """An engine that speaks UCI. `write` takes lines, and is called by one thread at a time."""

    def __init__(
        self, open_net: NetOpener, write: Callable[[str], None], settings: EngineSettings | None = None
    ) -> None:
        self._open_net, self._raw_write = open_net, write
        self._settings = self._defaults = settings or EngineSettings()
        self._writing, self._output_closed = threading.Lock(), False
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._work, name="uci-search", daemon=True)
        self._switches: list[Switch] = []  # of the searches without an answer yet
        # Only the worker uses what follows.
        self._net: OpenedNet | None = None
        self._net_settings: tuple[str, str, int] | None = None
        self._search: Search | None = None
        self._search_settings: object = None
        self._position: Position | None = Position(STARTPOS_FEN)
        self._clock, self._games = TimeManager(), 0

    # -- the reader ---------------------------------------------------------------------------------------------------

    def run(self, lines: Iterable[str]) -> None:
        """Answers commands until ``quit``, which stops a running search, or to the end of the input, which does not.

        If the other thread compiles or loads a net, this returns before that thread has ended; it ends with the
        process.
        """
        quitting = True
        self._worker.start()
        with remarks_to(self._say):
            try:
                for line in lines:
                    command, text = [*line.split(maxsplit=1), "", ""][:2]
                    if self._output_closed or (command and not self._obey(command, text)):
                        break
                else:
                    quitting = False
            finally:
                self._stop(endless_only=not quitting)
                self._jobs.put(None)
                self._worker.join(_ENDING_S if quitting else None)

    def _obey(self, command: str, text: str) -> bool:
        """Executes or queues a command; returns False if it is ``quit``."""
        if command == "quit":
            return False
        if command == "uci":
            self._greet()
        elif command == "isready":
            if self._switches:  # a search runs
                self._write("readyok")
            else:
                self._jobs.put(self._load_and_say)
        elif command == "stop":
            self._stop()
        elif command == "ponderhit":
            for switch in tuple(self._switches)[-1:]:  # a copy: the other thread removes switches
                switch.ponderhit()
        elif command == "go":
            self._go(text.split())
        elif command == "position":
            self._stop(endless_only=True)
            self._jobs.put(lambda: self._set_position(" ".join(text.split())))
        elif command == "ucinewgame":
            self._stop(endless_only=True)
            self._jobs.put(self._new_game)
        elif command == "setoption":
            self._queue_option(text)
        elif command not in ("debug", "register"):
            self._say(f"unknown command: {' '.join([command, *text.split()])}")
        return True

    def _greet(self) -> None:
        self._write(f"id name valuerepair {__version__}")
        self._write("id author the valuerepair developers")
        for line in option_lines(self._defaults):
            self._write(line)
        self._write("uciok")

    def _stop(self, *, endless_only: bool = False) -> None:
        """Stops searches; with `endless_only` only those without a limit, which never end by themselves."""
        for switch in tuple(self._switches):
            if switch.is_endless or not endless_only:
                switch.stop()

    def _go(self, words: list[str]) -> None:
        self._stop(endless_only=True)  # the running search gives its best move first
        go, remarks = parse_go(words)
        for remark in remarks:
            self._say(f"go: {remark}")
        switch = Switch(go)
        self._switches.append(switch)
        self._jobs.put(lambda: self._think(go, switch))

    def _queue_option(self, text: str) -> None:
        """Queues ``name NAME value VALUE``; the value is taken as it is, as the name of a file may have any blanks."""
        head, *values = re.split(r"\svalue(?!\S)", text, maxsplit=1)
        words, value = head.split(), "".join(values).strip()
        if words[:1] != ["name"] or len(words) == 1:
            self._say(f"setoption {' '.join(text.split())}: must be setoption name NAME value VALUE")
            return
        name = " ".join(words[1:])
        if self._switches:
            self._say(f"option {name} will be set when the search has ended")
        self._jobs.put(lambda: self._set_option(name, value))

    def _write(self, line: str) -> None:
        try:
            with self._writing:
                if not self._output_closed:
                    self._raw_write(line)
        except (OSError, ValueError):  # the GUI has ended, and its pipe is closed
            self._output_closed = True
            self._stop()

    def _say(self, text: str) -> None:
        """Writes the first line of `text`, shortened, as an ``info string``."""
        lines = text.splitlines() or [""]
        safe = "".join(c if c.isprintable() else "?" for c in lines[0])
        self._write(f"info string {safe if len(safe) <= 2 * _SHOWN_TEXT else safe[: 2 * _SHOWN_TEXT] + '...'}")

    def _say_error(self, error: Exception) -> None:
        error_type = "" if isinstance(error, ValueRepairError) else f"{type(error).__name__}: "
        self._say(f"error: {error_type}{error}")

    # -- the worker ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # no error ends the engine
                self._say_error(error)
        if self._net is not None:
            self._net.close()

    def _set_option(self, name: str, value: str) -> None:
        self._settings = with_option(self._settings, name, value)

    def _new_game(self) -> None:
        self._search = None
        self._clock = TimeManager()
        self._games += 1

    def _set_position(self, text: str) -> None:
        words = text.split()
        if impossible := impossible_rights(words[1:]) if words[:1] == ["fen"] else "":
            remaining = "".join(right for right in words[3] if right not in impossible) or "-"
            self._say(f"castling {words[3]} is {remaining} here: king or rook is not at home")
            words[3] = remaining
        try:
            self._position = read_position(" ".join(words))
        except ValueError as error:
            self._position = None
            self._say(f"position {text[:_SHOWN_TEXT]}: {error}")

    def _load_and_say(self) -> None:
        """Answers ``isready`` when net and kernels are loaded."""
        try:
            self._load()
        except Exception as error:  # the engine is ready nevertheless: the GUI can set another net
            self._say_error(error)
        self._write("readyok")

    def _load(self) -> tuple[OpenedNet, Search]:
        """The net and the search for the present settings."""
        settings = self._settings
        net_settings = (settings.weights, settings.device, settings.threads)
        if self._net is None or self._net_settings != net_settings:
            if self._net is not None:
                self._net.close()
            self._net = self._search = None
            self._net, self._net_settings = self._open_net(settings), net_settings
        net, room = self._net, room_of(settings.hash_mb)
        params = replace(settings.params, minibatch_size=settings.minibatch or net.minibatch)
        if self._search is None or self._search_settings != (params, room):
            self._search = None
            warm_up(net.evaluator, params)
            self._search = Search(net.evaluator, params, nodes=room)
            self._search_settings = (params, room)
        return net, self._search

    def _think(self, go: Go, switch: Switch) -> None:
        """Answers one ``go``. Removes its switch before it writes the answer, as the next command may come at once."""
        try:
            answer = self._think_on(go, switch)
        except Exception as error:
            self._say_error(error)
            self._search, answer = None, _NO_MOVE  # the tree may be broken
        self._switches.remove(switch)
        self._write(answer)

    def _think_on(self, go: Go, switch: Switch) -> str:
        position = self._position
        if position is None:
            raise ValueRepairError("there is no legal position to search")
        if score := game_over(position):
            self._write(f"info depth 0 score {score}")
            switch.wait_for_leave()
            return "bestmove (none)"
        net, search = self._load()
        search.set_position(position)
        go = replace(go, searchmoves=self._legal_moves(go.searchmoves, position))
        return Thinking(net, search, position, go, self._settings, self._clock, self._games, switch, self._write).run()

    def _legal_moves(self, moves: tuple[str, ...], position: Position) -> tuple[str, ...]:
        """The legal moves among `moves`, in UCI, each once; reports the others."""
        board, legal = chess.Board(position.fen), []
        for text in moves:
            try:
                move = board.parse_uci(text)
            except ValueError:
                move = chess.Move.null()
            if move:
                legal.append(move.uci())
            else:  # python-chess parses 0000 as the null move
                self._say(f"searchmoves: {text} is not legal here")
        return tuple(dict.fromkeys(legal))


def impossible_rights(fen: Sequence[str]) -> str:
    """The castling rights in a FEN's fields whose king or rook is not at home; some board editors send such FENs."""
    board = chess.Board(None)
    try:
        board.set_board_fen(fen[0])
        rights = set(fen[2]) & set("KQkq")
    except (ValueError, IndexError):
        return ""  # `read_position` reports the error
    board.castling_rights = chess.BB_CORNERS
    homes = {"K": chess.BB_H1, "Q": chess.BB_A1, "k": chess.BB_H8, "q": chess.BB_A8}
    return "".join(right for right in sorted(rights) if not board.clean_castling_rights() & homes[right])


def game_over(position: Position) -> str | None:
    """The score of a position without a legal move (``mate 0``, ``cp 0``), else None."""
    board = chess.Board(position.fen)
    if any(board.generate_legal_moves()):
        return None
    return "mate 0" if board.is_check() else "cp 0"


def room_of(hash_mb: int) -> int:
    """How many nodes fit into `hash_mb` MiB."""
    return max(2, int(hash_mb * 2**20 * _SAMPLE_NODES / forest_bytes(1, _SAMPLE_NODES)))


_LOOK_S = 0.05  # between two checks of the search
_SAY_S = 1.0  # between two `info` lines in which only the number of nodes is new


class Switch:
    """Passes ``stop`` and ``ponderhit`` (the move that it ponders on was played) to a running search.

    `begun` is when the search's clock began, in seconds of the monotonic clock.
    """

    def __init__(self, go: Go) -> None:
        self.begun = time.monotonic()
        self.stopped, self.pondering = False, go.ponder
        self._endless = go.is_endless
        self._changed = threading.Condition()

    def stop(self) -> None:
        with self._changed:
            self.stopped = True
            self._changed.notify_all()

    def mark_endless(self) -> None:
        """Records that the search has no limit, as when only the other side's clock is given."""
        self._endless = True

    def ponderhit(self) -> None:
        """Starts the clock of the search."""
        with self._changed:
            if self.pondering:
                self.begun, self.pondering = time.monotonic(), False
            self._changed.notify_all()

    @property
    def is_endless(self) -> bool:
        """Whether the search has no limit now; while pondering, its limit counts only from ``ponderhit`` on."""
        return self._endless or self.pondering

    def wait_for_leave(self) -> None:
        """Waits until UCI allows the best move: not while pondering or in an infinite search."""
        with self._changed:
            self._changed.wait_for(lambda: self.stopped or not self.is_endless)


@dataclass(eq=False)
class Thinking:
    """The search for one ``go``. `search` has its position set. `write` writes a line.

    `game` is the number of the game, by which moves that are drawn by temperature differ between games; `clock` is that
    of the game.
    """

    net: OpenedNet
    search: Search
    position: Position
    go: Go
    settings: EngineSettings
    clock: TimeManager
    game: int
    switch: Switch
    write: Callable[[str], None]

    def __post_init__(self) -> None:
        self._clock_budget = None
        if not self.go.infinite and self.go.movetime is None:
            self._clock_budget = self.clock.budget(
                self.go,
                white=self.position.white_to_move,
                ply=self.position.ply,
                overhead_ms=self.settings.move_overhead_ms,
            )
        self._budget = self._clock_budget if self.go.movetime is None else self.go.movetime / 1000  # seconds
        if self._budget is None and self.go.nodes is None and self.go.depth is None and self.go.mate is None:
            self.switch.mark_endless()
        self._enough = False
        self._begun = time.monotonic()
        self._shown_news: tuple[int, int, str] | None = None
        self._shown_at = 0.0

    def run(self) -> str:
        """Searches, writes ``info`` lines, and returns the ``bestmove`` line."""
        go, params = self.go, self.settings.params
        result = self.search.run(
            nodes=None if go.infinite else go.nodes,
            stop=self._is_over,
            on_info=self._look,
            info_seconds=_LOOK_S,
            root_moves=go.searchmoves,
            # With a temperature any move may be played, and the move to ponder on is in the line of that move.
            lines=MOST_MOVES if params.temperature > 0 else self.settings.multipv,
        )
        if result.nodes >= self.search.room and (go.infinite or go.nodes is None or go.nodes > result.nodes):
            self.write(f"info string the tree is full at {result.nodes} nodes; raise Hash for more")
        # Wait before reading the clock: if the search ended while pondering, its time begins with `ponderhit`.
        self.switch.wait_for_leave()
        seconds = time.monotonic() - self.switch.begun
        self._say(result)
        if self.settings.verbose:
            has_moves_left = self.net.evaluator.moves_left
            self._write_lines(verbose_lines(result, self.position.fen, params, moves_left=has_moves_left))
        if self._clock_budget is not None and not self.switch.pondering:
            self.clock.spent(self._clock_budget, seconds)
        chosen_move = choose_move(result, params, self.position.ply, params.seed + self.game)
        line = next(move.pv for move in result.moves if move.move == chosen_move)
        return f"bestmove {chosen_move} ponder {line[1]}" if len(line) > 1 else f"bestmove {chosen_move}"

    def _is_over(self) -> bool:
        return self.switch.stopped or self._enough or self._seconds_left() <= 0

    def _seconds_left(self) -> float:
        """Seconds that the search may still use."""
        if self.switch.pondering or self._budget is None:
            return float("inf")
        return self._budget - (time.monotonic() - self.switch.begun)

    def _look(self, result: SearchResult) -> None:
        """Writes an ``info`` line if there is news, and checks whether a limit of `go` is reached."""
        now = time.monotonic()
        news = (result.depth, result.seldepth, result.best_move)
        if news != self._shown_news or now - self._shown_at >= _SAY_S:
            self._shown_news, self._shown_at = news, now
            self._say(result)
        go = self.go
        if go.depth is not None and result.depth >= go.depth:
            self._enough = True
        if go.mate is not None and result.mate is not None and 0 < result.mate <= go.mate:
            self._enough = True
        if self._clock_budget is not None and not self.switch.pondering:
            new = result.nodes - self.search.nodes_before
            factor = self.settings.smart_pruning
            self._enough |= is_settled(result, new, now - self._begun, self._seconds_left(), factor)

    def _say(self, result: SearchResult) -> None:
        new, seconds = result.nodes - self.search.nodes_before, time.monotonic() - self._begun
        has_wdl, room = self.net.has_wdl, self.search.room
        self._write_lines(info_lines(result, seconds, new, self.settings, has_wdl=has_wdl, room=room))

    def _write_lines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)


_MIDPOINT, _STEEPNESS = 51.5, 7.0  # of the log-logistic distribution of game lengths, in moves
_FIRST_MOVE = 2.8  # shares of the time for the first move, which has no tree to resume
_MOST_OF_CLOCK = 0.5  # the largest share that a move may take, unless it is the last before more time
_PRUNING_FROM_S = 0.2  # of search, before its speed may end it
_TOLERANCE_NODES = 300  # added to the nodes so far when their speed is computed


class TimeManager:
    """Divides the time on the clock over the rest of a game. Time that a move did not use is spent on the next move.

    Like lc0's "legacy" manager (src/search/classic/stoppers/legacy.cc), with two differences. lc0 gives a first move
    0.25 shares more for each ply of a book, up to 5.8; here it always gets 2.8. lc0 may give a move the whole clock;
    here a move gets no more than half, unless its share of the time is larger.
    """

    def __init__(self) -> None:
        self._is_first, self._spared_ms = True, 0.0

    def budget(self, go: Go, *, white: bool, ply: int, overhead_ms: int) -> float | None:
        """Seconds for this move by the clock of the side to move; None if `go` has no clock for that side."""
        clock_ms = go.wtime if white else go.btime
        if clock_ms is None:
            return None
        increment = max(0, (go.winc if white else go.binc) or 0)
        moves = moves_left(ply)
        if go.movestogo is not None and 0 < go.movestogo < moves:
            moves = go.movestogo
        total = max(0.0, clock_ms + increment * (moves - 1) - overhead_ms)
        extra_ms, self._spared_ms = min(max(0.0, self._spared_ms), total), min(0.0, self._spared_ms)
        share = (total - extra_ms) / moves
        target_ms = share * (_FIRST_MOVE if self._is_first else 1) + extra_ms
        self._is_first = False
        usable = max(0.0, clock_ms - overhead_ms)
        return min(target_ms, usable if moves <= 1 else max(share, _MOST_OF_CLOCK * usable), usable) / 1000

    def spent(self, budget: float, seconds: float) -> None:
        """Records how many seconds a move with this budget took."""
        self._spared_ms += 1000 * (budget - seconds)


def moves_left(ply: int) -> float:
    """The median number of moves that a game still lasts from this ply on."""
    move = ply / 2
    return float(_MIDPOINT * (1 + 2 * (move / _MIDPOINT) ** _STEEPNESS) ** (1 / _STEEPNESS) - move)


def is_settled(result: SearchResult, new_nodes: int, seconds: float, seconds_left: float, factor: float) -> bool:
    """Whether more search cannot change the move: `seconds_left` remain after `new_nodes` in `seconds`.

    That is so with a single legal move, with a proven win, if all moves but one lose, and if the second move cannot
    overtake the first by visits at the speed so far divided by `factor`. With a factor of 0 no search is settled.
    """
    if factor <= 0:
        return False
    losing_moves = sum(move.certain == -1 for move in result.moves)
    if len(result.moves) - losing_moves <= 1 or result.certain == 1:
        return True
    if seconds < _PRUNING_FROM_S:
        return False
    remaining_nodes = seconds_left * (new_nodes + _TOLERANCE_NODES) / seconds / factor
    first, second = sorted((move.visits for move in result.moves), reverse=True)[:2]
    return remaining_nodes < first - second


_NUMBERS = ("wtime", "btime", "winc", "binc", "movestogo", "depth", "nodes", "mate", "movetime")
_FLAGS = ("infinite", "ponder")
_KEYWORDS = (*_NUMBERS, *_FLAGS, "searchmoves")
_SHORT_NODES = 100  # of a search whose limits are not understood
# GUIs send negative times when a flag has fallen.
_MAY_BE_NEGATIVE = ("wtime", "btime", "winc", "binc", "movestogo")
_MOST = 2**62


@dataclass(frozen=True)
class Go:
    """Limits of one search, None for those not set. Times are in ms; without any limit a search is infinite."""

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

    @property
    def is_endless(self) -> bool:
        """Whether only ``stop`` ends the search."""
        limits = (self.nodes, self.movetime, self.depth, self.mate, self.wtime, self.btime)
        return self.infinite or all(limit is None for limit in limits)


def parse_go(words: Sequence[str]) -> tuple[Go, list[str]]:
    """Reads the words after ``go``; also returns remarks on words that are not understood, which UCI says to ignore.

    If there are words and none is understood, the search is short, because without a limit it would never end.
    """
    limits: dict[str, Any] = {}
    remarks = []
    start = 0
    while start < len(words):
        word, end = words[start], start + 1
        if word in _FLAGS:
            limits[word] = True
        elif word in _NUMBERS:
            end += words[end : end + 1] != [] and words[end] not in _KEYWORDS
            text = " ".join(words[start + 1 : end])
            number = _number(word, text)
            if isinstance(number, str):
                remarks.append(f"{f'{word} {text[:40]}'.strip()}: {number}")
            else:
                limits[word] = number
        elif word == "searchmoves":
            while end < len(words) and words[end] not in _KEYWORDS:
                end += 1
            if end > start + 1:
                limits[word] = tuple(words[start + 1 : end])
            else:
                remarks.append("searchmoves: no moves follow")
        else:
            remarks.append(f"{word[:40]!r} is not understood")
        start = end
    if words and not limits:
        remarks.append(f"no limit is understood; a search of {_SHORT_NODES} nodes")
        limits["nodes"] = _SHORT_NODES
    return Go(**limits), remarks


def _number(word: str, text: str) -> int | str:
    """The number, or a remark on what it must be."""
    number = int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
    least = -_MOST if word in _MAY_BE_NEGATIVE else 0 if word == "movetime" else 1
    if number is None or number < least:
        return "must be a whole number" if least < 0 else f"must be a whole number of at least {least}"
    return number


def info_lines(
    result: SearchResult, seconds: float, new_nodes: int, settings: EngineSettings, *, has_wdl: bool, room: int
) -> list[str]:
    """One line for each of the best moves; their number is `multipv` of the settings.

    `new_nodes` are the visits of this search, in `seconds`; `has_wdl`: the net has a WDL head; `room` is the tree's, in
    nodes.
    """
    nps = f"nps {new_nodes / seconds:.0f} " if seconds >= 0.001 else ""
    full = min(1000, 1000 * result.nodes // room)
    lines = []
    for number, move in enumerate(result.moves[: settings.multipv], 1):
        score = score_of(move, result, has_wdl=has_wdl, lc0_floats=settings.params.lc0_floats)
        wdl = "wdl {} {} {} ".format(*score.wdl) if settings.show_wdl else ""
        lines.append(
            f"info depth {max(result.depth, 1)} seldepth {result.seldepth} time {1000 * seconds:.0f} "
            f"nodes {result.nodes} score {score.text} {wdl}{nps}hashfull {full} "
            f"multipv {number} pv {' '.join(move.pv)}"
        )
    return lines


def verbose_lines(result: SearchResult, fen: str, params: SearchParams, *, moves_left: bool = False) -> list[str]:
    """lc0's VerboseMoveStats: one line per move, ascending by visits, then the root's (lc0 GetVerboseStats).

    U and S are those of the last selection; with `moves_left` S has the utility of shorter wins. V shows dashes, as the
    tree does not keep the net's value of a move's position.
    """
    board = chess.Board(fen)
    exploration = _exploration(params, result.nodes)
    visited = sum(move.prior for move in result.moves if move.visits)
    fpu = unvisited_value(result, params)
    moves = encode_moves([move.move for move in result.moves])
    indices = policy_indices(parse_fens([fen]), moves, np.array([0, len(moves)], np.int64)).tolist()
    rows = []
    for move, index in zip(result.moves, indices, strict=True):
        q = fpu if math.isnan(move.q) else move.q
        u = exploration * move.prior / (1 + move.visits)
        s = q + u + (_left_utility(params, result, move) if moves_left else 0.0)
        rows.append((move.visits, q + u, _move_line(move, index, board, q, u, s)))
    lines = [text for *_, text in sorted(rows, key=lambda row: row[:2])]
    node = (
        f"node  ({len(rows):4}) N: {result.nodes:7} (+ 0) (P: {100 * visited:5.2f}%) {_values(result.root)}(V: "
        f"{result.net_wl:7.4f}) "
    )
    return [f"info string {line}" for line in (*lines, node)]


def _move_line(move: RootMove, index: int, board: chess.Board, q: float, u: float, s: float) -> str:
    text = board.uci(chess.Move.from_uci(move.move), chess960=True)  # castling as king takes rook
    values = f"(WL:  -.-----) (D: -.---) (M:  -.-) (Q: {q:8.5f}) " if math.isnan(move.q) else _values(move)
    proven = "" if move.certain is None else "(T) "
    return (
        f"{text:5} ({index:<4}) N: {move.visits:7} (+ 0) (P: {100 * move.prior:5.2f}%) {values}"
        f"(U: {u:6.5f}) (S: {s:8.5f}) (V:  -.----) {proven}"
    )


def _values(value: RootMove | Value) -> str:
    return f"(WL: {value.wl:8.5f}) (D: {value.d:5.3f}) (M: {value.m:4.1f}) (Q: {value.q:8.5f}) "


def _exploration(params: SearchParams, nodes: int) -> float:
    """The factor of a move's prior: cpuct times the square root of the moves' visits, as in lc0."""
    own = params.root_has_own_cpuct_params
    start = params.cpuct_at_root if own else params.cpuct
    base = params.cpuct_base_at_root if own else params.cpuct_base
    factor = params.cpuct_factor_at_root if own else params.cpuct_factor
    log = fastmath.log if params.lc0_floats else math.log
    return (start + factor * log((nodes + base) / base)) * math.sqrt(max(nodes - 1, 1))


def _left_utility(params: SearchParams, result: SearchResult, move: RootMove) -> float:
    """What the plies left after a root move add to its Q (`select.moves_left_utility`)."""
    threshold, most = params.moves_left_threshold, params.moves_left_max_effect
    if abs(result.root_wl) <= threshold or math.isnan(move.q):
        return 0.0
    longer = min(max(params.moves_left_slope * (move.m - result.root_m), -most), most) * math.copysign(1.0, -move.q)
    size = max(0.0, abs(move.q) - threshold) / (1 - threshold) if 0 < threshold < 1 else abs(move.q)
    constant, linear = params.moves_left_constant_factor, params.moves_left_scaled_factor
    return longer * (constant + linear * size + params.moves_left_quadratic_factor * size * size)
