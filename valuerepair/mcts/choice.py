"""Which move of a searched root is played: the best, or one drawn with a temperature (lc0's EnsureBestMoveKnown)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import RootMove, SearchResult


def temperature_at(params: SearchParams, ply: int) -> float:
    """The temperature `ply` half-moves into the game: cut off, or decaying linearly after a delay.

    From lc0's search/classic/search.cc, EnsureBestMoveKnown; moves are counted from 0 there.
    """
    move, temperature = ply // 2, params.temperature
    if params.temp_cutoff_move and move + 1 >= params.temp_cutoff_move:
        return params.temp_endgame
    if temperature and params.tempdecay_moves:
        late = move - params.tempdecay_delay_moves
        if late >= params.tempdecay_moves:
            temperature = 0.0
        elif late > 0:
            temperature *= (params.tempdecay_moves - late) / params.tempdecay_moves
        temperature = max(temperature, params.temp_endgame)
    return temperature


def choose_move(result: SearchResult, params: SearchParams, ply: int, seed: int) -> str:
    """The move to play (UCI). `ply` is the position's, `seed` that of the game: its moves are drawn independently.

    Without temperature the first of `result.moves`. With it, moves are drawn by (N + offset)^(1 / temperature) among
    those whose Q is not too far below that of the most visited (lc0's GetBestRootChildWithTemperature); but a proven
    win is always played, and a proven loss only if there is nothing else, and then the longest.
    """
    temperature = temperature_at(params, ply)
    moves = [m for m in result.moves if m.certain != -1]
    if temperature == 0 or result.best.certain == 1 or not moves:
        return result.best_move
    weights = _weights(moves, params, temperature, _unvisited_value(result, params))
    return moves[_drawn(weights, seed, ply)].move


def _unvisited_value(result: SearchResult, params: SearchParams) -> float:
    """Q of moves without visits, as the search takes it at the root (lc0's GetFpu)."""
    strategy, value = params.fpu_strategy_at_root, params.fpu_value_at_root
    if strategy == "same":
        strategy, value = params.fpu_strategy, params.fpu_value
    if strategy == "absolute":
        return value
    return result.root_q - value * math.sqrt(sum(m.prior for m in result.moves if m.visits))


def _weights(moves: Sequence[RootMove], params: SearchParams, temperature: float, unvisited: float) -> list[float]:
    most = max(moves, key=lambda m: (m.visits, m.prior))
    if most.visits + params.temp_visit_offset <= 0:
        bases = [m.prior for m in moves]
    else:
        values = [unvisited if math.isnan(m.q) else m.q for m in moves]
        least = values[moves.index(most)] - params.temp_value_cutoff / 50
        bases = [
            max(m.visits + params.temp_visit_offset, 0.0) if value >= least else 0.0
            for m, value in zip(moves, values, strict=True)
        ]
    highest = max(bases)
    if highest <= 0:
        return [1.0] * len(bases)
    return [(base / highest) ** (1 / temperature) for base in bases]


def _drawn(weights: Sequence[float], seed: int, ply: int) -> int:
    cumulative = np.cumsum(weights)
    toss = np.random.default_rng((seed, ply)).random() * cumulative[-1]
    return int(np.searchsorted(cumulative, toss, side="right").clip(0, len(weights) - 1))
