"""The result of a search. All values are from the side to move at the root, in [-1, 1]."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from valuerepair.mcts import fastmath

NAN = float("nan")  # one object: results with NaN in the same places compare as equal


class Value(NamedTuple):
    """The value of a position: `q` = wl + draw score * d, `wl` = W - L, `d` share of draws, `m` plies to the end."""

    q: float
    wl: float
    d: float
    m: float

    @property
    def wdl(self) -> tuple[float, float, float]:
        """Win, draw and loss probabilities."""
        return (1 + self.wl - self.d) / 2, self.d, (1 - self.wl - self.d) / 2


@dataclass(frozen=True, slots=True)
class RootMove:
    """One legal move of the root.

    `move` is UCI (castling e1g1). `visits` N; `prior` P after policy temperature (and noise, if any), almost 0 for a
    move that is proven to lose, as in lc0. `q` = wl + draw score * d is what the search compares, `wl` = W - L and `d`
    the share of draws, `m` the mean number of plies to the end of the lines below; all NaN for a move without visits
    that is not proven. `certain` is 1, 0 or -1 when the game is proven a win, draw or loss after the move, else None;
    `mate` full moves to mate (negative: we are mated) where the proven line ends in mate. `pv` begins with the move.
    `net_prior` is the net's own P after policy temperature, without noise, whatever was proven since.
    """

    move: str
    visits: int
    prior: float
    q: float
    wl: float
    d: float
    m: float
    certain: int | None
    mate: int | None
    pv: tuple[str, ...]
    net_prior: float = NAN

    @property
    def wdl(self) -> tuple[float, float, float]:
        """Win, draw and loss probabilities for the side to move at the root."""
        return Value(self.q, self.wl, self.d, self.m).wdl


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The outcome of the search of one root.

    `nodes` is the root's visits N, its own evaluation included; `evaluations` the number of the net's
    evaluations in this search. `value` and its `q` are the search's value of the position. `root_q`, `root_wl`,
    `root_d`, `root_m` are lc0's means over all visits of the root, bad moves included: after a proof they can have the
    wrong sign. `net_wl` is the root's own evaluation before search, W - L, with `net_d`, the share of draws, and
    `net_m`, plies to the end (0 for nets without that head).
    `draw_score` is what a draw is worth to the side to move. `moves` are all legal moves in the order of root
    selection: certain wins (shortest first), then by visits, Q, prior, last certain losses. The first is `best_move`:
    with certainty it is a proven draw if the one with most visits is valued below a draw. `certain` and `mate` are
    those of the best move. `depth` is the mean and `seldepth` the largest depth of the leaves of this search.
    """

    nodes: int
    evaluations: int
    root_q: float
    root_wl: float
    root_d: float
    root_m: float
    net_wl: float
    moves: tuple[RootMove, ...]
    depth: int
    seldepth: int
    net_d: float = NAN
    net_m: float = NAN
    draw_score: float = 0.0

    @property
    def net_q(self) -> float:
        """Q of the root's own evaluation, comparable with `q` and `root_q`."""
        return self.net_wl if math.isnan(self.net_d) else self.net_wl + self.draw_score * self.net_d

    @property
    def root(self) -> Value:
        """The means over all visits of the root."""
        return Value(self.root_q, self.root_wl, self.root_d, self.root_m)

    def value_of(self, move: RootMove) -> Value:
        """The root's value if this move, which counts as a ply, is played: exact where it is proven.

        For a move that is neither visited nor proven it is the root's mean, as in lc0.
        """
        return self.root if math.isnan(move.q) else Value(move.q, move.wl, move.d, move.m + 1)

    @property
    def value(self) -> Value:
        """The value of the best move: the source of lc0's score and `best_q`, and of the deep Q of `--deep mcts`."""
        return self.value_of(self.best)

    @property
    def q(self) -> float:
        """Q of `value`: ±1 where the best move is proven to win or lose."""
        return self.value.q

    @property
    def best(self) -> RootMove:
        return self.moves[0]

    @property
    def best_move(self) -> str:
        return self.moves[0].move

    @property
    def certain(self) -> int | None:
        return self.moves[0].certain

    @property
    def mate(self) -> int | None:
        return self.moves[0].mate

    @property
    def effective_moves(self) -> float:
        """The effective number of root moves: exp(-sum p log p) over their shares p of the visits, n for equal shares.

        NaN without a visit below the root.
        """
        visits = [move.visits for move in self.moves if move.visits]
        if not visits:
            return NAN
        total = sum(visits)
        return math.exp(-sum(n / total * math.log(n / total) for n in visits))


_LEAST_SHARE = 1e-4  # below it a win, draw or loss is too rare for the random-walk model
_DECIDED = 0.996
Real = Callable[[float], float]


class Score(NamedTuple):
    """The score of a move in `info`: centipawns or moves to mate (the other is None), and W, D, L per mille."""

    cp: int | None
    mate: int | None
    wdl: tuple[int, int, int]

    @property
    def text(self) -> str:
        """As UCI writes it: ``cp 35`` or ``mate -3``."""
        return f"mate {self.mate}" if self.mate is not None else f"cp {self.cp}"


def score_of(move: RootMove, result: SearchResult, *, has_wdl: bool = True, lc0_floats: bool = False) -> Score:
    """The score of a root move; for a move without visits by the root's own value, as in lc0.

    `has_wdl`: the net has a WDL head. `lc0_floats`: lc0's approximate logarithm and exponential, to the digit, which
    move its WDL by up to 3 %. Otherwise both are exact.
    """
    _, wl, d, _ = result.value_of(move)
    log, logistic = (fastmath.log, fastmath.logistic) if lc0_floats else (math.log, _logistic)
    mu, wl, d = _random_walk(wl, d, log, logistic)
    wdl = per_mille(wl, d)
    if move.mate is not None:
        return Score(None, move.mate, wdl)
    return Score(_centipawns(mu if has_wdl else 0.0, wl, d), None, wdl)


def _random_walk(wl: float, d: float, log: Real, logistic: Real) -> tuple[float, float, float]:
    """(mu, wl, d): mu is the mean of the logistic distribution that -1 and 1 cut into L, D and W.

    `wl` (W - L) and `d` are recomputed from its mean and spread: they change only by the errors of lc0's
    approximations. lc0's bound on the spread matters only with contempt.
    """
    win, loss = (1 + wl - d) / 2, (1 - wl - d) / 2
    if not all(_LEAST_SHARE < share < 1 - _LEAST_SHARE for share in (win, d, loss)):
        return 0.0, wl, d
    a, b = log(1 / loss - 1), log(1 / win - 1)
    spread, mu = 2 / (a + b), (a - b) / (a + b)
    win, loss = logistic((mu - 1) / spread), logistic((-mu - 1) / spread)
    return mu, win - loss, max(0.0, 1 - win - loss)


def _centipawns(mu: float, wl: float, d: float) -> int:
    """lc0's score type WDL_mu: mu where the model holds, otherwise a tangent of W - L. Cut to a whole number."""
    tangent = 45 * math.tan(1.56728071628 * wl)
    model = mu != 0 and abs(wl) + d < _DECIDED and (abs(mu) < 1 or abs(tangent) < abs(100 * mu))
    return int(100 * mu if model else tangent)


def per_mille(wl: float, d: float) -> tuple[int, int, int]:
    """W, D and L per mille, adding up to 1000."""
    win, loss = (max(0, math.floor(500 * (1 + sign * wl - d) + 0.5)) for sign in (1, -1))
    draw = 1000 - win - loss
    if draw < 0:
        win = min(1000, max(0, win + int(draw / 2)))
        return win, 0, 1000 - win
    return win, draw, loss


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0
