"""The judge made of a pool of UCI engines."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import chess

from valuerepair.chess.positions import Position
from valuerepair.engines.kinds import JudgeSetup, by_content
from valuerepair.engines.pool import BadAnswer, EnginePool, PoolCounts, search_seconds
from valuerepair.engines.process import EngineFailure
from valuerepair.engines.uci import BadOption, SearchReport
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome, Judge, finished, game_over
from valuerepair.store.rows import DeepResult, JudgeIdentity

_PROBE = {"nodes": 1, "depth": 1, "movetime": 10}  # the limits of the first search, which tests the engine

# lc0's verbose statistics of one root move. The Q that it prints is inexact, but S - U is exact as long as the utility
# of moves left adds nothing (lc0: search/classic/search.cc, GetVerboseStats).
_LOSSY = 0.01
_ONE_NODE = re.compile(r"node\s+\(\s*\d+\s*\) N:\s+1 .*\(Q:\s*(-?[\d.]+)\)")
_MOVE_STATS = re.compile(r"(\S+)\s+\(\s*\d+\s*\) N:\s+(\d+) .*\(U:\s*(-?[\d.]+)\) \(S:\s*(-?[\d.]+)\)")


class UciJudge(Judge):
    """A pool of one-thread UCI engines that search positions with their history."""

    def __init__(self, setup: JudgeSetup, workers: int) -> None:
        """Starts the first engine. Raises ValueRepairError, or UsageError for an option the engine refuses."""
        self._setup, self._limits, self._kind = setup, setup.spec.limits, setup.spec.kind
        seconds = search_seconds(self._limits, setup.spec.timeout)
        probe = _go({name: min(value, _PROBE[name]) for name, value in self._limits.items()})
        try:
            self._pool = EnginePool(setup.engine, seconds, workers, probe=probe)
        except BadOption as error:
            raise UsageError(f"{setup.engine.path}: the engine {error}") from None
        except EngineFailure as error:
            raise ValueRepairError(f"{setup.engine.path}: the engine {error}") from None
        self.identity = self._make_identity()

    @property
    def workers(self) -> int:
        return self._pool.workers

    @property
    def counts(self) -> PoolCounts:
        """Searches, nodes, restarts and failed positions so far."""
        return self._pool.counts

    def submit(self, position: Position, nodes: int | None = None) -> Future[DeepOutcome]:
        """Queues a search; see `Judge`. A position where the game is over is a DeepFailure at once."""
        board = _board(position)
        if isinstance(board, DeepFailure):
            return finished(board)
        go = _go(self._limits if nodes is None else {**self._limits, "nodes": nodes})
        return self._pool.submit(
            position.uci, go, lambda report: self._result(report, board), DeepFailure, position.fen
        )

    def close(self, *, cancel: bool = False) -> None:
        """Cancels queued searches; finishes the searches in flight, or with `cancel` abandons them."""
        self._pool.close(cancel=cancel)

    def _result(self, report: SearchReport, board: chess.Board) -> DeepResult:
        if report.best_move is None:
            raise BadAnswer("found no best move although there are legal moves")
        try:
            best = board.parse_uci(report.best_move).uci()  # some engines write castling as king takes rook
        except ValueError:
            raise BadAnswer(f"gave the illegal best move {report.best_move}") from None
        if report.mate == 0:
            raise BadAnswer("says that the side to move is mated although there are legal moves")
        return DeepResult(
            None if report.mate is not None else report.cp,
            report.mate,
            report.wdl,
            exact_q(report.notes, best, board) if self._kind.own_q else None,
            report.depth,
            report.seldepth,
            report.nodes,
            report.time_ms,
            best,
            report.pv,
        )

    def _make_identity(self) -> JudgeIdentity:
        setup, pool = self._setup, self._pool
        folder = os.path.dirname(setup.engine.path)
        options: dict[str, str | None] = {name: by_content(value, folder) for name, value in pool.settings.items()}
        for offered in pool.offered.values():
            content_name = by_content(offered.default, folder)
            if offered.kind == "string" and offered.name not in options and content_name != offered.default:
                options[offered.name] = content_name
        for name in setup.recorded_defaults:
            if name not in options and name.lower() in pool.offered:
                options[name] = pool.offered[name.lower()].default
        options.update(setup.identity_options)
        set_options = {name: value for name, value in sorted(options.items()) if value is not None}
        return JudgeIdentity(
            self._kind.name, pool.name, setup.sha256, self._limits, set_options, setup.net, setup.plain, setup.net_path
        )


def _go(limits: Mapping[str, int]) -> str:
    return "go " + " ".join(f"{name} {value}" for name, value in limits.items())


def _board(position: Position) -> chess.Board | DeepFailure:
    """The position's board, or why it cannot be searched."""
    try:
        board = chess.Board(position.fen)
    except ValueError as error:
        return DeepFailure(f"not a legal FEN: {error}")
    reason = game_over(board)
    return board if reason is None else DeepFailure(reason)


def exact_q(notes: Sequence[str], move: str, board: chess.Board) -> float | None:
    """Q of a move (UCI) from lc0's verbose move statistics; None if they do not give it.

    After a search of one node, which visits no move, it is the net's Q of the position. In these statistics lc0 always
    writes castling as king takes rook.
    """
    names = {move, board.uci(chess.Move.from_uci(move), chess960=True)}
    position_q = None
    for note in reversed(notes):
        if (node := _ONE_NODE.match(note)) is not None:
            position_q = float(node[1])
        stats = _MOVE_STATS.match(note)
        if stats is not None and stats[1] in names:
            q = round(max(-1.0, min(1.0, float(stats[4]) - float(stats[3]))), 5)
            if int(stats[2]) > 0:
                return q
            # lc0 guesses that an unvisited move is worth as much as the position, unless the options say otherwise.
            return q if position_q is not None and abs(q - position_q) < _LOSSY else position_q
    return None
