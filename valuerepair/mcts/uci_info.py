"""``info`` lines: the result of a search so far, as lc0 writes it."""

from __future__ import annotations

import math

import chess
import numpy as np

from valuerepair.chess.board import parse_fens
from valuerepair.chess.positions import encode_moves
from valuerepair.mcts import fastmath
from valuerepair.mcts.outcome import unvisited_value
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import RootMove, SearchResult, Value, score_of
from valuerepair.mcts.uci_options import EngineSettings
from valuerepair.nets.policy import policy_indices


def info_lines(
    result: SearchResult, seconds: float, new_nodes: int, settings: EngineSettings, *, has_wdl: bool, room: int
) -> list[str]:
    """One line for each of the best moves, as many as the settings say.

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
