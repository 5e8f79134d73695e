"""A UCI engine as a player: a process for each running game, reused for later games, replaced when it fails."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import chess

from valuerepair.chess.positions import Position
from valuerepair.engines.pool import PROBE_SECONDS, started_again
from valuerepair.engines.process import EngineFailure, EngineTimeout
from valuerepair.engines.uci import BadOption, EngineSetup, GarbledAnswer, SearchReport, UciEngine
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.game import CRASHED, ILLEGAL_MOVE, OUT_OF_TIME, Fault, Thought

log = logging.getLogger(__name__)

# How far an engine may exceed its time: delays of our own threads on a busy machine are not its fault.
MARGIN_MS = 100
_READY_SECONDS = 60.0
_PROBE = {"nodes": 1, "depth": 1, "movetime": 10}


class UciPlayer:
    """Plays with processes of one engine, one for each running game.

    `name` is the given one, or the engine's own (`engine_name`); `settings` are the options that were set. `limits` are
    those of ``go`` (nodes, depth, movetime in ms). An engine may exceed its movetime by `MARGIN_MS`; then it loses the
    game, and is killed if it has not answered. Without a time, a search of more than `seconds` counts as hung. A
    crash also loses the game. A failed engine is restarted for its next game. Engines get ``ucinewgame`` between games.
    """

    def __init__(
        self,
        setup: EngineSetup,
        limits: Mapping[str, int],
        seconds: float,
        *,
        name: str | None = None,
    ) -> None:
        """Starts one engine and lets it search the initial position briefly.

        Raises ValueRepairError if that fails, UsageError for an option that the engine refuses.
        """
        self.setup, self._limits, self.seconds = setup, dict(limits), seconds
        self._lock = threading.Lock()
        self.name, self.given_up = name or setup.path, threading.Event()
        first = _EngineThread(self)
        self._free, self._games, self._workers = [first], dict[int, _EngineThread](), [first]
        try:
            engine = first.thread.submit(first.begin, _go(self._limits, _PROBE)).result()
        except BaseException as error:
            self.close(cancel=True)
            if isinstance(error, BadOption):
                raise UsageError(f"{setup.path} {error}") from None
            if isinstance(error, EngineFailure):
                raise ValueRepairError(f"{setup.path}: the engine {error}") from None
            raise
        self.engine_name, self.settings = engine.name, dict(engine.settings)
        self.name = name or engine.name

    def think(self, game: int, position: Position, seed: int) -> Future[Thought]:
        """Queues the search of a move; see `Player`. The seed is not used: UCI has none."""
        if (worker := self._games.get(game)) is None:
            if not self._free:
                self._workers.append(worker := _EngineThread(self))
            else:
                worker = self._free.pop()
            self._games[game] = worker
        return worker.thread.submit(worker.find_move, position, _go(self._limits), self._limits.get("movetime"))

    def forget(self, game: int) -> None:
        """Frees the engine of a game that is over for another game."""
        worker = self._games.pop(game, None)
        if worker is not None:
            worker.thread.submit(worker.prepare)
            self._free.append(worker)

    def close(self, *, cancel: bool = False) -> None:
        """Ends all engines after the searches in flight; with `cancel` these are abandoned and raise CancelledError."""
        if cancel:
            self.given_up.set()
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.end(kill=cancel)
        for worker in workers:
            worker.thread.shutdown()


class _EngineThread:
    """A thread with an engine process, which must not outlive the thread that started it.

    All methods but `end` run in `thread`.
    """

    def __init__(self, player: UciPlayer) -> None:
        self._player = player
        self.thread = ThreadPoolExecutor(1, "player")
        self._engine: UciEngine | None = None
        self._lock = threading.Lock()

    def end(self, *, kill: bool) -> None:
        """Ends the engine after all queued work; with `kill` the search in flight fails at once."""
        self.thread.submit(self._drop, 0.0 if kill else 1.0)
        with self._lock:
            engine = self._engine
        if kill and engine is not None:
            engine.kill()

    def begin(self, probe: str) -> UciEngine:
        """Starts the engine, and searches briefly; raises EngineFailure."""
        try:
            engine = self._start()
            _legal_move(chess.STARTING_FEN, engine.probe(probe, PROBE_SECONDS, unscored=True))
            engine.clear()
            engine.ready(_READY_SECONDS)
        except BaseException:
            self._drop()
            raise
        return engine

    def find_move(self, position: Position, go: str, milliseconds: int | None) -> Thought:
        """The engine's answer to a ``go`` line; without `milliseconds` it may take the player's `seconds`."""
        engine = self._engine or started_again(self._start, self._player.given_up, self._player.setup.path)
        allowed = None if milliseconds is None else milliseconds + MARGIN_MS
        limit = self._player.seconds if allowed is None else allowed / 1000
        try:
            engine.ready(_READY_SECONDS)  # before its time starts
            started = time.monotonic()
            report = engine.search(position.uci, go, limit, unscored=True)
        except EngineFailure as error:
            self._drop()
            if self._player.given_up.is_set():
                raise CancelledError from None
            log.info(f"{self._player.name} {error}; restarted for its next game")
            raise Fault(_ending(error), str(error)) from None
        seconds = time.monotonic() - started
        if allowed is not None and round(1000 * seconds) > allowed:
            raise Fault(OUT_OF_TIME, f"took {seconds:.3f} s")
        return _thought(position, report, seconds)

    def prepare(self) -> None:
        """Prepares for the next game, which then does not wait for the restart of an engine that failed."""
        if self._player.given_up.is_set():
            return
        try:
            if self._engine is None:
                self._start()
            else:
                self._engine.clear()
            assert self._engine is not None
            self._engine.ready(_READY_SECONDS)
        except (EngineFailure, OSError, CancelledError) as error:
            self._drop()
            if not self._player.given_up.is_set():
                log.info(f"{self._player.name} {error} between games")

    def _start(self) -> UciEngine:
        engine = UciEngine(self._player.setup)  # in the thread that uses it
        with self._lock:
            self._engine = engine  # from here on it can be killed
        if self._player.given_up.is_set():
            raise CancelledError
        try:
            engine.start()
        except BaseException:
            self._drop()
            raise
        return engine

    def _drop(self, grace: float = 0.0) -> None:
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            with contextlib.suppress(EngineFailure):
                engine.close(grace)


def _go(limits: Mapping[str, int], most: Mapping[str, int] | None = None) -> str:
    values = {name: min(value, most[name]) if most else value for name, value in limits.items()}
    return "go " + " ".join(f"{name} {value}" for name, value in values.items())


def _ending(error: EngineFailure) -> str:
    if isinstance(error, EngineTimeout):
        return OUT_OF_TIME
    if isinstance(error, GarbledAnswer):
        return ILLEGAL_MOVE
    return CRASHED


def _legal_move(fen: str, report: SearchReport) -> str:
    """The engine's move, with castling as e1g1 even if it wrote king takes rook.

    Raises GarbledAnswer if there is no legal move.
    """
    last_note = f"; it says: {report.notes[-1][:200]}" if report.notes else ""
    if report.best_move is None:
        raise GarbledAnswer(f"gave no move although there are legal ones{last_note}")
    try:
        return chess.Board(fen).parse_uci(report.best_move).uci()
    except ValueError:
        raise GarbledAnswer(f"gave the illegal move {report.best_move}{last_note}") from None


def _thought(position: Position, report: SearchReport, seconds: float) -> Thought:
    """The engine's answer. Raises Fault for an illegal move."""
    try:
        move = _legal_move(position.fen, report)
    except GarbledAnswer as error:
        raise Fault(ILLEGAL_MOVE, str(error)) from None
    wdl = report.wdl
    return Thought(
        move,
        q=(wdl[0] - wdl[2]) / 1000 if wdl is not None else None,
        wdl=wdl,
        cp=None if report.mate is not None else report.cp,
        mate=report.mate,
        depth=report.depth,
        nodes=report.nodes,
        seconds=seconds,
        pv=report.pv,
    )
