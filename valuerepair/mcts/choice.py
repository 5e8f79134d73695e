"""Which move of a searched root is played: the best, or one drawn with a temperature (lc0's EnsureBestMoveKnown)."""

from __future__ import annotations

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
    """The move to play (UCI). `ply` is the position's, `seed` that of this draw.

    Without temperature the first of `result.moves`. With it, moves are drawn by (N + offset)^(1 / temperature) among
    those whose Q is not too far below that of the most visited; but a proven win is always played, and a proven loss
    only if there is nothing else.
    """
    temperature = temperature_at(params, ply)
    if temperature == 0 or result.best.certain == 1:
        return result.best_move
    moves = [m for m in result.moves if m.certain != -1] or list(result.moves)
    return moves[_drawn(_weights(moves, params, temperature), seed)].move


def _weights(moves: list[RootMove], params: SearchParams, temperature: float) -> list[float]:
    visits = np.array([m.visits for m in moves], float) + params.temp_visit_offset
    most = visits.max()
    if most <= 0:
        base = np.array([m.prior for m in moves])
    else:
        base = np.maximum(visits / most, 0.0)
        values = np.array([-1.0 if np.isnan(m.q) else m.q for m in moves])
        base[values < values[int(visits.argmax())] - params.temp_value_cutoff / 50] = 0.0
    weights: list[float] = (base ** (1 / temperature)).tolist()
    return weights


def _drawn(weights: list[float], seed: int) -> int:
    cumulative = np.cumsum(weights)
    toss = np.random.default_rng(seed).random() * cumulative[-1]
    return int(np.searchsorted(cumulative, toss, side="right").clip(0, len(weights) - 1))
