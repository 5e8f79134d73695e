"""The result of a search, as a table for people and as a row for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import chess

from valuerepair.chess.positions import Position
from valuerepair.mcts.result import RootMove, SearchResult
from valuerepair.text import quantity, table_lines, wdl_words

if TYPE_CHECKING:
    from valuerepair.oracles.searching import Searched

_PROVEN = {1: "win", 0: "draw", -1: "loss"}
_LINE_MOVES = 10
_COLUMNS = "move:<13 | N:>8, | P:>8.2% | Q:>8 | W:>7 | D:>7 | L:>7 | proven:<7 | line:<"


def row(searched: Searched) -> dict[str, Any]:
    """One JSON object: the position, the root and every legal move. Values of moves without visits are None."""
    position, result = searched.position, searched.result
    about = {
        "fen": position.fen,
        "start_fen": position.start_fen,
        "moves": list(position.moves),
        "net": searched.net.name,
        "net_sha256": searched.net.sha256,
    }
    if result is None:
        return {**about, "error": searched.reason}
    return {
        **about,
        "nodes": result.nodes,
        "evaluations": result.evaluations,
        "seconds": round(searched.seconds, 4),
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


def table(searched: Searched) -> str:
    """The root and its visited or proven moves for a terminal; with none of these, all moves."""
    position, result = searched.position, searched.result
    if result is None:
        return f"{position.fen}\n  {searched.reason}\n"
    shown = [move for move in result.moves if move.visits or move.certain is not None] or list(result.moves)
    lines = [position.fen, *(f"  {line}" for line in root_lines(searched, result)), ""]
    lines += table_lines(_COLUMNS, (_cells(move, position) for move in shown), "  ")
    if hidden := len(result.moves) - len(shown):
        lines.append(f"  and {hidden} more without visits")
    return "\n".join(lines) + "\n"


def root_lines(searched: Searched, result: SearchResult) -> list[str]:
    """The position's value, its best move, and the effort of the search."""
    speed = f", {result.evaluations / searched.seconds:,.0f} a second" if searched.seconds > 0 else ""
    proven = f", proven {_PROVEN[result.certain]}" if result.certain is not None else ""
    mate = f", mate in {abs(result.mate)}" if result.mate is not None else ""
    return [
        f"Q {result.q:+.4f}   {wdl_words(result.value.wdl)}   "
        f"(mean over all visits {result.root_q:+.4f}, net alone {result.net_q:+.4f})",
        f"best {san_moves(searched.position, [result.best_move])[0]} ({result.best_move}){proven}{mate}",
        f"{searched.net.name}, {quantity(result.nodes, 'node')}, {quantity(result.evaluations, 'evaluation')}{speed}, "
        f"depth {result.depth}, seldepth {result.seldepth}",
    ]


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
