"""Regret: how much Q a net loses by the moves that a short search with it chooses, and which of two nets loses less.

There is something to judge only where two nets choose differently. See docs/methods/nets.md, "Regret".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.calibration import FEWEST_GAMES
from valuerepair.chess.origins import GAME, KINDS
from valuerepair.chess.progress import format_duration
from valuerepair.intervals import Z95, Interval, Rate, bootstrap, weighted
from valuerepair.judge.by_kind import WORDS, Finding, finding_of
from valuerepair.text import table_lines

# For games between equal nets: how many moves each side makes after the opening, and the standard deviation of a result
# in [-1, 1], with three draws in ten.
MOVES = 58
RESULT_DEVIATION = 0.84


@dataclass(frozen=True, slots=True)
class RegretRow:
    """Two nets' moves in the positions of one kind, in Q of the mover; differences are second less first.

    Both nets have chosen a move in `positions` of `games`, and different moves in the share `different` of them;
    `judged` counts those with a value after each of the two moves. `regret` is how much each net loses on average
    against the better of the two moves, 0 where both choose the same one; `change` is the difference, with the 95 %
    interval of resampled games.
    """

    kind: str
    positions: int
    games: int
    different: Rate
    judged: int
    regret: tuple[float, float]
    change: Interval

    @property
    def finding(self) -> Finding:
        """Whether the second net chooses better moves."""
        return finding_of(self.change)


@dataclass(frozen=True, slots=True)
class EqualMatch:
    """The match that would be as informative: `games` of both nets at the same nodes. Their searches, one after the
    other, would take `seconds`; the searches and judgements of the positions of games took `seconds_of_regret`.
    `result` is the second net's result in [-1, 1] that the regret amounts to."""

    games: float
    seconds: float
    seconds_of_regret: float
    result: Interval


@dataclass(frozen=True, slots=True)
class Regret:
    """The moves of a second net against those of the first, by searches of `nodes` each, judged by `judge`.

    `q_scales` are what the Q of the first and of the second net was multiplied by in the search, at most 1. `match` is
    None without positions of enough games.
    """

    first: str
    second: str
    nodes: int
    q_scales: tuple[float, float]
    judge: str
    rows: list[RegretRow]
    match: EqualMatch | None


def sample(position_id: Ids, kind: NDArray[np.object_], count: int) -> Ids:
    """The numbers of at most `count` positions of each kind, ascending: those with the smallest hashes.

    So a larger sample contains the smaller one, and the sample of a store that has grown has much of the earlier one.
    """
    chosen = []
    for name in KINDS:
        ids = position_id[kind == name].tolist()
        chosen += sorted(ids, key=lambda number: hashlib.blake2b(number.to_bytes(8, "little")).digest())[:count]
    return np.sort(np.array(chosen, np.int64))


def regret_rows(
    different: Flags, after: tuple[Floats, Floats], weight: Floats, game: Ids, kind: NDArray[np.object_]
) -> list[RegretRow]:
    """A row for each kind; all are [n].

    `different`: the nets chose different moves; `after` is the judge's Q of the mover after either net's move, NaN
    where it is not known, and ignored where the moves are the same.
    """
    usable = ~different | ~np.isnan(after[0] + after[1])
    best = np.fmax(*after)
    lost = np.stack([np.where(different, best - q, 0.0) for q in after], 1)
    columns = np.column_stack([lost, lost[:, 1] - lost[:, 0]])
    rows = []
    for name in KINDS:
        mask = (kind == name) & usable
        if not mask.any():
            continue
        means = bootstrap(columns[mask], weight[mask], game[mask])
        games = len(np.unique(game[mask]))
        change = means[2] if games >= FEWEST_GAMES else Interval(means[2].difference, nan, nan)
        of_kind = kind == name
        rows.append(
            RegretRow(
                kind=name,
                positions=int(of_kind.sum()),
                games=games,
                different=weighted(different[of_kind], weight[of_kind], game[of_kind]),
                judged=int((different & mask).sum()),
                regret=(means[0].difference, means[1].difference),
                change=change,
            )
        )
    return rows


def equal_match(rows: Sequence[RegretRow], seconds_per_search: float, seconds_of_regret: float) -> EqualMatch | None:
    """The match that tells which net plays better as exactly as the regret in positions of games does.

    A result is Q at the beginning less all that one side loses by its moves, plus all that the other side loses. So a
    match tells the difference of both nets' regrets, times the moves of a game, with the error of a mean of results.
    """
    change = next((row.change for row in rows if row.kind == GAME), None)
    if change is None or isnan(change.low) or not change.low < change.high or not seconds_per_search > 0:
        return None
    error = MOVES * (change.high - change.low) / (2 * Z95)
    games = (RESULT_DEVIATION / error) ** 2
    result = Interval(-MOVES * change.difference, -MOVES * change.high, -MOVES * change.low)
    return EqualMatch(games, games * 2 * MOVES * seconds_per_search, seconds_of_regret, result)


_COLUMNS = "Q lost a move:<33 | positions:>9, | games:>6, | differ:>8 | judged:>6, | A:>7.4f | B:>7.4f | B - A:<"


def regret_lines(regret: Regret) -> Iterator[str]:
    """For a terminal."""
    scaled = " and ".join(f"Q of {net} times {s:g}" for net, s in zip("AB", regret.q_scales, strict=True) if s != 1)
    nodes = f"{regret.nodes:,} nodes{f', {scaled} (equal breadth)' if scaled else ''}"
    yield f"regret: moves of {nodes}, judged by {regret.judge} (B - A; below 0 is better)"
    yield f"A = {regret.first}, B = {regret.second}"
    rows = []
    for row in regret.rows:
        differ = f"{100 * row.different.rate:.1f} %"
        rows.append((WORDS[row.kind], row.positions, row.games, differ, row.judged, *row.regret, row.change))
    yield from table_lines(_COLUMNS, rows, "  ")
    if (match := regret.match) is not None:
        yield (
            f"  in games {format_duration(match.seconds_of_regret)} of searching; "
            f"a match of {match.games:,.0f} games, {format_duration(match.seconds)}, would be as exact"
        )
