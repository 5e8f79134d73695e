"""What a search found. All values are from the side to move at the root, in [-1, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

NAN = float("nan")  # one object, so that equal results compare as such


class Value(NamedTuple):
    """What a position is worth: `q` = wl + draw score * d, `wl` = W - L, `d` a draw, `m` plies to the end."""

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

    `move` is UCI (castling e1g1). `visits` N; `prior` P after policy temperature (and noise, if any), as good as 0 of a
    move that is proven to lose, as in lc0. `q` = wl + draw
    score * d is what the search compares, `wl` = W - L and `d` the share of draws, `m` the mean number of plies to the
    end of the lines below; all NaN for a move without visits that is not proven. `certain` is 1, 0 or -1 when
    the game is proven a win, draw or loss after the move, else None; `mate` full moves to mate (negative: we are mated)
    where the proven line ends in mate. `pv` begins with the move. `net_prior` is the net's own P after policy
    temperature: without noise, and whatever was proven since; NaN where it is not known any more (a proven loss in a
    tree kept from an earlier search).
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

    `nodes` is the root's visits N, its own evaluation and re-used visits included; `evaluations` how often the net was
    asked in this search. `value` and its `q` are what the search makes of the position. `root_q`, `root_wl`, `root_d`,
    `root_m` are lc0's means over all visits of the root, those of bad moves included: after a proof they can have the
    wrong sign. `net_q` is the root's own evaluation before search, with
    `net_d`, the share of draws, and `net_m`, plies to the end (0 of nets that do not say), which are both NaN where the
    net did not evaluate the root itself. `moves` are all legal moves in the order of root selection: certain wins
    (shortest first), then by visits, Q, prior, last certain losses; the first is `best_move`. `certain` and `mate` are
    those of the best move. `depth` is the mean and
    `seldepth` the largest depth of the leaves of this search.
    """

    nodes: int
    evaluations: int
    root_q: float
    root_wl: float
    root_d: float
    root_m: float
    net_q: float
    moves: tuple[RootMove, ...]
    depth: int
    seldepth: int
    net_d: float = NAN
    net_m: float = NAN

    @property
    def root(self) -> Value:
        """The means over all visits of the root."""
        return Value(self.root_q, self.root_wl, self.root_d, self.root_m)

    def value_of(self, move: RootMove) -> Value:
        """The root's value if this move is played, which counts as a ply: exact where that is proven.

        That is the root's mean for a move that is neither visited nor proven, as in lc0.
        """
        return self.root if math.isnan(move.q) else Value(move.q, move.wl, move.d, move.m + 1)

    @property
    def value(self) -> Value:
        """The value of the best move: what lc0's score and `best_q` are made of, and the deep Q of `--deep mcts`."""
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
