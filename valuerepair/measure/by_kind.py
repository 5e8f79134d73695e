"""Compares two nets by kind of position: in games, and beside them, which is what a search mostly asks a net about.

A net that learned from positions of games alone may have forgotten how bad moves are punished. So each kind has its own
row: the squared error of net Q against deep Q, with each net's Q multiplied by one number, and the candidates that
remain. See docs/methods.md, "By origin of the position".
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
from valuerepair.question import is_candidate
from valuerepair.rates import FEWEST_GAMES, Interval, Rate, mean, rate_change, weighted
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
    """Two nets on the positions of one kind; differences are second less first, with 95 % intervals by games.

    `scale` has the number that each net's Q is multiplied by: least squares through 0, over all games of the kind.
    `squared_error` has the weighted means of (scale · net Q - deep Q)²; `change` is their difference. That the scale is
    fitted to the same games moves it by a few in ten thousand.
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


def _row(name: str, net_q: tuple[Floats, Floats], deep_q: Floats, weight: Floats, game: Ids) -> KindRow:
    scales = [_ratio(float(weight @ (q * deep_q)), float(weight @ q**2)) for q in net_q]
    scaled = [scale * q for scale, q in zip(scales, net_q, strict=True)]
    first, second = ((q - deep_q) ** 2 for q in scaled)
    return KindRow(
        kind=name,
        positions=len(deep_q),
        games=len(np.unique(game)),
        scale=(scales[0], scales[1]),
        squared_error=(float(np.average(first, weights=weight)), float(np.average(second, weights=weight))),
        change=_of_enough(mean(second - first, weight, game), game),
        candidates=[_candidates(threshold, scaled, deep_q, weight, game) for threshold in THRESHOLDS],
    )


def _ratio(product: float, square: float) -> float:
    """The scale; 0 where all net Q are 0 and any scale would do."""
    return product / square if square > 0 else 0.0


def _of_enough(change: Interval, game: Ids) -> Interval:
    """Without bounds if there are too few games."""
    return change if len(np.unique(game)) >= FEWEST_GAMES else Interval(change.difference, float("nan"), float("nan"))


def _candidates(threshold: float, scaled: Sequence[Floats], deep_q: Floats, weight: Floats, game: Ids) -> CandidatesAt:
    hits = [is_candidate(q - deep_q, threshold) for q in scaled]
    change = _of_enough(rate_change(hits[1].astype(np.float64) - hits[0], weight, game), game)
    first, second = (weighted(hit, weight, game) for hit in hits)
    return CandidatesAt(threshold, first, second, change)


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
    yield "by kind of position, each net's Q times one number (B - A; below 0 is better)"
    errors = ((WORDS[row.kind], row.positions, row.games, *row.scale, *row.squared_error, row.change) for row in rows)
    yield from table_lines(f"squared error:<33 | {_COLUMNS}", errors, "  ")
    for i, threshold in enumerate(THRESHOLDS):
        columns = f"candidates at {threshold:g}:<33 | A:>8 | B:>8 | B - A:<"
        rates = (
            (WORDS[kind], f"{100 * both.first.rate:.2f} %", f"{100 * both.second.rate:.2f} %", both.change.points)
            for kind, both in ((row.kind, row.candidates[i]) for row in rows)
        )
        yield from table_lines(columns, rates, "  ")
