"""Compares two nets by kind of position: in games, and beside them, which is what a search mostly asks a net about.

A net that learned from positions of games alone may have forgotten how bad moves are punished. So each kind has its own
row: the squared error of net Q against deep Q, with each net's Q multiplied by one number that was fitted to other
games, and the candidates that remain. See docs/methods.md, "By origin of the position".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats, Ids
from valuerepair.chess.origins import GAME, KINDS
from valuerepair.intervals import (
    FEWEST_GAMES,
    FOLDS,
    Interval,
    Rate,
    bootstrap,
    fold_of,
    resampled_bounds,
    resamples_within,
    share_change,
    single_changes,
    weighted,
)
from valuerepair.question import is_candidate
from valuerepair.text import quantity, table_lines

Finding = Literal["better", "worse", "not shown", "too few games"]

# Most figures in the documentation are for the first threshold; the second is the default.
THRESHOLDS = (0.3, 0.55)
WORDS: Mapping[str, str] = {
    GAME: "in games",
    "random_move": "after a random legal move",
    "policy_move": "after the policy's 3rd to 6th move",
    "search_node": "in searches",
}
_DRAWS = 100_000_000  # games in all resamples


def finding_of(change: Interval) -> Finding:
    """What the change of an error says about the second net; NaN bounds mean too few games."""
    if isnan(change.low):
        return "too few games"
    return "better" if change.high < 0 else "worse" if change.low > 0 else "not shown"


@dataclass(frozen=True, slots=True)
class CandidatesAt:
    """The candidates of both nets at a threshold, each net's Q scaled, and the difference of their shares, by games."""

    threshold: float
    first: Rate
    second: Rate
    change: Interval


@dataclass(frozen=True, slots=True)
class KindRow:
    """Two nets on the positions of one kind; differences are second less first, with 95 % intervals of resampled games.

    `scale` has the number that each net's Q is multiplied by: least squares through 0, over all games of the kind.
    `squared_error` has the weighted means of (scale · net Q - deep Q)², where each position's scale is fitted without
    its own game; `change` is their difference.
    """

    kind: str
    positions: int
    games: int
    scale: tuple[float, float]
    squared_error: tuple[float, float]
    change: Interval
    candidates: list[CandidatesAt]

    @property
    def finding(self) -> Finding:
        """Whether the second net is a better judge of this kind."""
        return finding_of(self.change)


@dataclass(frozen=True, slots=True)
class BetterJudge:
    """Whether the second net is the better judge: `shown` if that holds for every kind of position compared.

    `kinds` has the finding of each kind. `beside`: there are positions beside the games; `held_out`: all positions are
    held out from training. `sentence` says whether it is shown, `notes` what else a reader must know.
    """

    shown: bool
    kinds: dict[str, Finding]
    beside: bool
    held_out: bool
    sentence: str
    notes: list[str]


def rows_by_kind(
    net_q: tuple[Floats, Floats],
    deep_q: Floats,
    weight: Floats,
    game: Ids,
    kind: NDArray[np.object_],
) -> list[KindRow]:
    """A row for each kind of position among `kind` [n], in the order of `chess.origins.KINDS`; all are [n].

    Q is that of the side to move, `weight` how many positions each represents, `game` the number of its game.
    """
    rows = []
    for name in KINDS:
        mask = (kind == name) & (weight > 0)
        if not mask.any():
            continue
        rows.append(_row(name, (net_q[0][mask], net_q[1][mask]), deep_q[mask], weight[mask], game[mask]))
    return rows


def _row(
    name: str,
    net_q: tuple[Floats, Floats],
    deep_q: Floats,
    weight: Floats,
    game: Ids,
) -> KindRow:
    names, game_of_row = np.unique(game, return_inverse=True)
    fold = fold_of(names)
    sums = [_GameSums.of_games(q, deep_q, weight, game_of_row, len(names)) for q in net_q]
    ones = np.ones((1, len(names)))
    first, second = (float(net_sums.error(ones, fold)[0]) for net_sums in sums)
    change = Interval(second - first, *_bounds(sums, fold))
    scaled = [q * net_sums.scales(ones, fold)[0, fold][game_of_row] for q, net_sums in zip(net_q, sums, strict=True)]
    return KindRow(
        kind=name,
        positions=len(deep_q),
        games=len(names),
        scale=(sums[0].scale, sums[1].scale),
        squared_error=(first, second),
        change=change,
        candidates=[_candidates(threshold, scaled, deep_q, weight, game) for threshold in THRESHOLDS],
    )


def _candidates(
    threshold: float,
    scaled: Sequence[Floats],
    deep_q: Floats,
    weight: Floats,
    game: Ids,
) -> CandidatesAt:
    hits = [is_candidate(q - deep_q, threshold) for q in scaled]
    changes = hits[1].astype(np.float64) - hits[0]
    (share,) = bootstrap(single_changes(changes, weight)[:, None], weight, game)
    change = share_change(share, changes, weight, game)
    if len(np.unique(game)) < FEWEST_GAMES:
        change = Interval(change.difference, float("nan"), float("nan"))
    first, second = (weighted(hit, weight, game) for hit in hits)
    return CandidatesAt(threshold, first, second, change)


@dataclass(frozen=True, slots=True, eq=False)
class _GameSums:
    """By game [games]: the sums of weights, and of weighted squares and products of net Q and deep Q.

    The scale, and the error that it leaves, depend on nothing else, so a resample of games is a few sums.
    """

    mass: Floats
    qq: Floats
    qd: Floats
    dd: Floats

    @classmethod
    def of_games(
        cls,
        net_q: Floats,
        deep_q: Floats,
        weight: Floats,
        game_of_row: NDArray[np.intp],
        games: int,
    ) -> _GameSums:
        columns = (weight, weight * net_q**2, weight * net_q * deep_q, weight * deep_q**2)
        return cls(*(np.bincount(game_of_row, column, games).astype(np.float64) for column in columns))

    @property
    def scale(self) -> float:
        """The scale by all games."""
        return float(_ratio(self.qd.sum(), self.qq.sum()))

    def scales(self, times: Floats, fold: Ids) -> Floats:
        """[resamples, folds] the scales by the games of the other folds; games count `times` [resamples, games]."""
        qd, qq = (_of_other_folds(self._of_folds(times, sums, fold)) for sums in (self.qd, self.qq))
        return _ratio(qd, qq)

    def error(self, times: Floats, fold: Ids) -> Floats:
        """[resamples] the weighted mean of the squared errors, each game scaled by the scale of the other folds."""
        mass, qq, qd, dd = (self._of_folds(times, sums, fold) for sums in (self.mass, self.qq, self.qd, self.dd))
        scale = _ratio(_of_other_folds(qd), _of_other_folds(qq))
        errors: Floats = (scale**2 * qq - 2 * scale * qd + dd).sum(1) / mass.sum(1)
        return errors

    @staticmethod
    def _of_folds(times: Floats, sums: Floats, fold: Ids) -> Floats:
        """[resamples, folds] sums of the games of each fold."""
        return np.stack([times[:, fold == number] @ sums[fold == number] for number in range(FOLDS)], 1)


def _of_other_folds(by_fold: Floats) -> Floats:
    """[resamples, folds] for each fold the sum of all other folds."""
    others: Floats = by_fold.sum(1, keepdims=True) - by_fold
    return others


def _ratio(qd: Floats, qq: Floats) -> Floats:
    """The scales qd / qq; 0 where all net Q are 0 and any scale would do."""
    return np.divide(qd, qq, out=np.zeros_like(np.asarray(qd, np.float64)), where=np.asarray(qq) > 0)


def _bounds(sums: Sequence[_GameSums], fold: Ids) -> tuple[float, float]:
    """The 95 % bounds of the difference of the errors, by resampled games, with both scales fitted again."""
    games = len(fold)
    if games < FEWEST_GAMES:
        return float("nan"), float("nan")

    def changes(times: Ids) -> Floats:
        first, second = (net_sums.error(times.astype(np.float64), fold) for net_sums in sums)
        return second - first

    low, high = resampled_bounds(changes, games, resamples_within(_DRAWS, games))
    return float(low), float(high)


# -- in words ---------------------------------------------------------------------------------------------------------


def better_judge(rows: Sequence[KindRow], *, held_out: bool) -> BetterJudge:
    """The conclusion from all rows."""
    kinds = {row.kind: row.finding for row in rows}
    is_better = bool(rows) and all(finding == "better" for finding in kinds.values())
    beside = any(kind != GAME for kind in kinds)
    doubts = ", ".join(f"{WORDS[row.kind]} ({_doubt(row)})" for row in rows if row.finding != "better")
    scope = "for each kind of position" if beside else f"for positions {WORDS[GAME]}"
    sentence = f"better judge: shown {scope}" if is_better else f"better judge: not shown for positions {doubts}"
    notes = []
    if not held_out:
        notes.append("training may have seen these positions: vr split holds some out, and vr compare judges by these")
    if not beside:
        notes.append("positions beside the games were not looked at: vr mine --off-game 0.5 adds them to the store")
    return BetterJudge(is_better, kinds, beside, held_out, sentence, notes)


def _doubt(row: KindRow) -> str:
    if row.finding == "too few games":
        return f"{quantity(row.games, 'game')}, {FEWEST_GAMES} are needed"
    return f"{'worse: ' if row.finding == 'worse' else ''}{row.change.for_brackets}"


_COLUMNS = "positions:>9, | games:>7, | A times:>7.2f | B times:>7.2f | A:>7.4f | B:>7.4f | B - A:<"


def kind_lines(rows: Sequence[KindRow]) -> Iterator[str]:
    """The rows as two tables for a terminal."""
    yield "by kind of position, each net's Q times one number that was fitted to other games (B - A; below 0 is better)"
    errors = ((WORDS[row.kind], row.positions, row.games, *row.scale, *row.squared_error, row.change) for row in rows)
    yield from table_lines(f"squared error:<33 | {_COLUMNS}", errors, "  ")
    for i, threshold in enumerate(THRESHOLDS):
        columns = f"candidates at {threshold:g}:<33 | A:>8 | B:>8 | B - A:<"
        rates = (
            (WORDS[kind], f"{100 * both.first.rate:.2f} %", f"{100 * both.second.rate:.2f} %", both.change.points)
            for kind, both in ((row.kind, row.candidates[i]) for row in rows)
        )
        yield from table_lines(columns, rates, "  ")
