"""Searches whose results people read: one position by all cores, many together as a forest; their table."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import chess

from valuerepair.chess.positions import Position
from valuerepair.mcts.evaluator import NetEvaluator, SplitEvaluator
from valuerepair.mcts.forest import Forest, forest_bytes, warm_up
from valuerepair.mcts.layout import MOST_MOVES
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.pool import ForestPool
from valuerepair.mcts.result import RootMove, SearchResult
from valuerepair.nets.net import Net, NetIdentity
from valuerepair.oracles.mcts_oracle import cannot_be_searched
from valuerepair.oracles.oracle import finished
from valuerepair.text import quantity, table_lines, wdl_words

_TREES_BYTES = 1 << 31
_PROVEN = {1: "win", 0: "draw", -1: "loss"}
_LINE_MOVES = 10
_COLUMNS = "move:<13 | N:>8, | P:>8.2% | Q:>8 | W:>7 | D:>7 | L:>7 | proven:<7 | line:<"


@dataclass(frozen=True)
class Searched:
    """A position with the result of its search, or the `reason` why it has none; `seconds` is its share of the time."""

    position: Position
    net: NetIdentity
    result: SearchResult | None
    reason: str = ""
    seconds: float = math.nan

    def lines(self) -> list[str]:
        """Lines for a terminal: the root, its visited or proven moves (or else all moves), and an empty line."""
        position, result = self.position, self.result
        if result is None:
            return [position.fen, f"  {self.reason}", ""]
        known_moves = [move for move in result.moves if move.visits or move.certain is not None]
        table_moves = known_moves or list(result.moves)
        lines = [position.fen, *(f"  {line}" for line in self.root_lines(result)), ""]
        lines += table_lines(_COLUMNS, (_cells(move, position) for move in table_moves), "  ")
        if hidden := len(result.moves) - len(table_moves):
            lines.append(f"  and {hidden} more without visits")
        return [*lines, ""]

    def root_lines(self, result: SearchResult) -> list[str]:
        """The position's value, its best move, and the effort of the search."""
        speed = f", {result.evaluations / self.seconds:,.0f} a second" if self.seconds > 0 else ""
        proven = f", proven {_PROVEN[result.certain]}" if result.certain is not None else ""
        mate = f", mate in {abs(result.mate)}" if result.mate is not None else ""
        return [
            f"Q {result.q:+.4f}   {wdl_words(result.value.wdl)}   "
            f"(mean over all visits {result.root_q:+.4f}, net alone {result.net_q:+.4f})",
            f"best {san_moves(self.position, [result.best_move])[0]} ({result.best_move}){proven}{mate}",
            f"{self.net.name}, {quantity(result.nodes, 'node')}, {quantity(result.evaluations, 'evaluation')}{speed}, "
            f"depth {result.depth}, seldepth {result.seldepth}",
        ]

    def as_json(self) -> dict[str, Any]:
        """The position, the root and every legal move; values of moves without visits are None."""
        position, result = self.position, self.result
        about = {
            "fen": position.fen,
            "start_fen": position.start_fen,
            "moves": list(position.moves),
            "net": self.net.name,
            "net_sha256": self.net.sha256,
        }
        if result is None:
            return {**about, "error": self.reason}
        return {
            **about,
            "nodes": result.nodes,
            "evaluations": result.evaluations,
            "seconds": round(self.seconds, 4),
            "depth": result.depth,
            "seldepth": result.seldepth,
            "net_q": result.net_q,
            "q": result.q,
            "wdl": list(result.value.wdl),
            "moves_left": result.value.m,
            "root_q": result.root_q,
            "root_wdl": list(result.root.wdl),
            "best": result.best_move,
            "certain": result.certain,
            "mate": result.mate,
            "root_moves": [_move_row(move, position) for move in result.moves],
        }


def search_positions(net: Net, params: SearchParams, positions: Iterable[Position], nodes: int) -> Iterator[Searched]:
    """Searches positions, in their order, each up to `nodes` visits of its root; they are read when needed.

    A single position is searched by all cores, many are searched at once. Raises ValueRepairError and UsageError.
    """
    remaining = iter(positions)
    first_two = list(islice(remaining, 2))
    evaluator = NetEvaluator(net)
    warm_up(evaluator, params)
    if len(first_two) < 2:
        yield from (_alone(net, evaluator, params, position, nodes) for position in first_two)
    else:
        yield from _many_at_once(net, evaluator, params, chain(first_two, remaining), nodes)


def _alone(net: Net, evaluator: NetEvaluator, params: SearchParams, position: Position, nodes: int) -> Searched:
    if reason := cannot_be_searched(position):
        return Searched(position, net.identity, None, reason)
    with closing(SplitEvaluator(evaluator, evaluator.streams if net.session.on_cpu else 1)) as split:
        forest = Forest(split, params, trees=1, nodes=nodes, lines=MOST_MOVES)
        started = time.perf_counter()
        result = forest.search_one(position, nodes)
        return Searched(position, net.identity, result, seconds=time.perf_counter() - started)


def _many_at_once(
    net: Net, evaluator: NetEvaluator, params: SearchParams, positions: Iterable[Position], nodes: int
) -> Iterator[Searched]:
    trees = max(1, min(net.batch_size, _TREES_BYTES // evaluator.streams // forest_bytes(1, nodes, params)))
    forests = [Forest(evaluator, params, trees=trees, nodes=nodes, lines=MOST_MOVES) for _ in range(evaluator.streams)]
    pool = ForestPool(forests)
    ahead: deque[Future[Searched]] = deque()
    is_complete = False
    try:
        for position in positions:
            ahead.append(_submit(pool, net.identity, position, nodes))
            # A few more positions than trees, so that no tree waits for the oldest position.
            while len(ahead) > 3 * trees * len(forests) or (ahead and ahead[0].done()):
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
        is_complete = True
    finally:
        pool.close(cancel=not is_complete)


def _submit(pool: ForestPool, net: NetIdentity, position: Position, nodes: int) -> Future[Searched]:
    if reason := cannot_be_searched(position):
        return finished(Searched(position, net, None, reason))
    return pool.submit(
        position,
        nodes,
        lambda result, seconds: Searched(position, net, result, seconds=seconds),
        lambda reason: Searched(position, net, None, reason),
    )


def _move_row(move: RootMove, position: Position) -> dict[str, Any]:
    has_q = not math.isnan(move.q)
    return {
        "uci": move.move,
        "san": san_moves(position, [move.move])[0],
        "n": move.visits,
        "p": move.net_prior,
        "q": move.q if has_q else None,
        "wdl": list(move.wdl) if has_q else None,
        "certain": move.certain,
        "mate": move.mate,
        "pv": list(move.pv),
    }


def _cells(move: RootMove, position: Position) -> tuple[object, ...]:
    values = ["-"] * 4 if math.isnan(move.q) else [f"{move.q:+.4f}", *(f"{100 * share:.1f} %" for share in move.wdl)]
    proven = "" if move.certain is None else _PROVEN[move.certain]
    if move.mate is not None:
        proven = f"mate {move.mate}"
    line = san_moves(position, move.pv[:_LINE_MOVES])
    text = " ".join(line) + (" ..." if len(move.pv) > _LINE_MOVES else "")
    return (f"{line[0]:7} {move.move:5}", move.visits, move.net_prior, *values, proven, text)


def san_moves(position: Position, line: Sequence[str]) -> list[str]:
    """A line of UCI moves from a position in SAN."""
    board = chess.Board(position.fen)
    return [board.san_and_push(chess.Move.from_uci(move)) for move in line]
