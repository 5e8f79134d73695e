"""One ``go``: how long it runs, what it says on the way, and the move it ends with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from valuerepair.mcts.choice import choose_move
from valuerepair.mcts.result import SearchResult
from valuerepair.mcts.search import Search
from valuerepair.mcts.uci.clock import TimeManager, is_settled
from valuerepair.mcts.uci.go import Go
from valuerepair.mcts.uci.info import Shown, info_lines, verbose_lines
from valuerepair.mcts.uci.options import EngineSettings
from valuerepair.positions import Position

_LOOK_S = 0.05  # between two looks at what the search has found
_ALL_LINES = 256
_SAY_S = 1.0  # between two `info` lines that say nothing new but the number of nodes


class Switch:
    """What the reader of commands tells a running search: to stop, or that the move it ponders on was played."""

    def __init__(self, go: Go) -> None:
        self.begun = time.monotonic()
        self.stopped, self.pondering = False, go.ponder
        self._endless = is_endless(go)
        self._changed = threading.Condition()

    def stop(self) -> None:
        with self._changed:
            self.stopped = True
            self._changed.notify_all()

    def ponderhit(self) -> None:
        """From now on the search has the time that `go` gave it."""
        with self._changed:
            if self.pondering:
                self.begun, self.pondering = time.monotonic(), False
            self._changed.notify_all()

    @property
    def is_endless(self) -> bool:
        """Nothing but ``stop`` ends the search, or ``ponderhit`` first."""
        return self._endless or self.pondering

    def wait_for_leave(self) -> None:
        """Waits until the best move may be said, which must not be while pondering or in an infinite search."""
        with self._changed:
            self._changed.wait_for(lambda: self.stopped or not self.is_endless)


def is_endless(go: Go) -> bool:
    """True where nothing but ``stop`` ends a search."""
    limits = (go.nodes, go.movetime, go.depth, go.mate, go.wtime, go.btime)
    return go.infinite or (not go.ponder and all(limit is None for limit in limits))


@dataclass(frozen=True)
class Task:
    """What is to be searched: `search` has its position set. `game` counts games, so that their moves differ."""

    search: Search
    position: Position
    go: Go
    settings: EngineSettings
    shown: Shown
    clock: TimeManager
    game: int = 0


class Thinking:
    """Runs a task. `write` takes the lines that it says."""

    def __init__(self, task: Task, switch: Switch, write: Callable[[str], None]) -> None:
        self._task, self._switch, self._write = task, switch, write
        go, position = task.go, task.position
        self._clock_budget = None
        if not go.infinite and go.movetime is None:
            self._clock_budget = task.clock.budget(
                go, white=position.white_to_move, ply=position.ply, overhead_ms=task.settings.move_overhead_ms
            )
        self._budget = self._clock_budget if go.movetime is None else go.movetime / 1000
        self._enough = False
        self._begun = time.monotonic()
        self._nodes_before = task.search.nodes
        self._said: tuple[int, int, str] | None = None
        self._said_at = 0.0

    def run(self) -> str:
        """Searches and says what it finds in ``info`` lines; returns the ``bestmove`` line."""
        task, go = self._task, self._task.go
        result = task.search.run(
            nodes=None if go.infinite else go.nodes,
            stop=self._is_over,
            on_info=self._look,
            info_seconds=_LOOK_S,
            root_moves=go.searchmoves,
            # With a temperature any move may be played, and its line says what to ponder on.
            lines=_ALL_LINES if task.settings.params.temperature > 0 else task.settings.multipv,
        )
        thought = time.monotonic() - self._switch.begun
        self._switch.wait_for_leave()
        self._say(result)
        if task.settings.verbose:
            self._lines(verbose_lines(result, task.position.fen, task.settings.params))
        if self._clock_budget is not None and not self._switch.pondering:
            task.clock.spent(self._clock_budget, thought)
        params = task.settings.params
        move = choose_move(result, params, task.position.ply, params.seed + task.game)
        line = next(m.pv for m in result.moves if m.move == move)
        return f"bestmove {move} ponder {line[1]}" if len(line) > 1 else f"bestmove {move}"

    def _is_over(self) -> bool:
        if self._switch.stopped or self._enough:
            return True
        return self._left() <= 0

    def _left(self) -> float:
        """Seconds that may still be used."""
        if self._switch.pondering or self._budget is None:
            return float("inf")
        return self._budget - (time.monotonic() - self._switch.begun)

    def _look(self, result: SearchResult) -> None:
        """Says what is new, and finds out whether what was asked for is reached."""
        now = time.monotonic()
        news = (result.depth, result.seldepth, result.best_move)
        if news != self._said or now - self._said_at >= _SAY_S:
            self._said, self._said_at = news, now
            self._say(result)
        go = self._task.go
        if go.depth is not None and result.depth >= go.depth:
            self._enough = True
        if go.mate is not None and result.mate is not None and 0 < result.mate <= go.mate:
            self._enough = True
        if self._clock_budget is not None and not self._switch.pondering:
            new = result.nodes - self._nodes_before
            factor = self._task.settings.smart_pruning
            self._enough |= is_settled(result, new, now - self._begun, self._left(), factor)

    def _say(self, result: SearchResult) -> None:
        new = result.nodes - self._nodes_before
        self._lines(info_lines(result, time.monotonic() - self._begun, new, self._task.shown))

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            self._write(line)
