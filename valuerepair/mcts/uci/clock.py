"""How long to think: lc0's time manager, and the point at which more thinking changes nothing.

Both follow lc0 0.32.1: search/classic/stoppers/legacy.cc and SmartPruningStopper in stoppers.cc.
"""

from __future__ import annotations

from valuerepair.mcts.result import SearchResult
from valuerepair.mcts.uci.go import Go

_MIDPOINT, _STEEPNESS = 51.5, 7.0  # of the log-logistic distribution of game lengths, in moves
_FIRST_MOVE_BONUS, _BOOK_PLY_BONUS, _BOOK_PLIES = 1.8, 0.25, 12
_PRUNING_FROM_S = 0.2
_TOLERANCE_NODES = 300


class TimeManager:
    """Divides the time on the clock over the rest of a game. Time saved by early moves is spent on the next one."""

    def __init__(self) -> None:
        self._first, self._spared_ms = True, 0.0

    def budget(self, go: Go, *, white: bool, ply: int, overhead_ms: int) -> float | None:
        """Seconds for this move by the clock of the side to move; None where `go` names no clock of it."""
        left = go.wtime if white else go.btime
        if left is None:
            return None
        increment = max(0, (go.winc if white else go.binc) or 0)
        moves = moves_left(ply)
        if go.movestogo is not None and 0 < go.movestogo < moves:
            moves = go.movestogo
        total = max(0.0, left + increment * (moves - 1) - overhead_ms)
        squander = 0.0
        if self._spared_ms > 0:
            total = max(0.0, total - self._spared_ms)
            squander, self._spared_ms = self._spared_ms, 0.0
        share = total / moves
        if self._first:  # there is no tree yet to go on with
            share *= 1 + _FIRST_MOVE_BONUS + _BOOK_PLY_BONUS * min(_BOOK_PLIES, ply)
            self._first = False
        return max(0.0, min(share + squander, left - overhead_ms)) / 1000

    def spent(self, budget: float, seconds: float) -> None:
        """Notes how long a move with this budget took."""
        self._spared_ms += 1000 * (budget - seconds)


def moves_left(ply: int) -> float:
    """The median number of moves that a game at this ply still lasts."""
    move = ply / 2
    return float(_MIDPOINT * (1 + 2 * (move / _MIDPOINT) ** _STEEPNESS) ** (1 / _STEEPNESS) - move)


def is_settled(result: SearchResult, new_nodes: int, seconds: float, left: float, factor: float) -> bool:
    """Whether more thinking cannot change the move: `left` seconds remain after `new_nodes` in `seconds`.

    That is so for a single legal move, a proven win, when all moves but one lose, and when the second move cannot
    overtake the first by visits, at the speed so far divided by `factor`; 0 is never.
    """
    if factor <= 0:
        return False
    lost = sum(move.certain == -1 for move in result.moves)
    if len(result.moves) - lost <= 1 or result.certain == 1:
        return True
    if seconds < _PRUNING_FROM_S:
        return False
    to_come = left * (new_nodes + _TOLERANCE_NODES) / seconds / factor
    first, second = sorted((move.visits for move in result.moves), reverse=True)[:2]
    return to_come < first - second
