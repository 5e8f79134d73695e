"""Compares nets on the same positions, by a judge's values: each later net with the first, by origin of the positions.

A net that learned from positions of games alone may have forgotten how bad moves are punished, and positions beside the
games are what a search mostly asks a net about. So each origin has its own rows. See docs/methods.md, "Comparing nets".
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from valuerepair.archives.select import salt, scrambled
from valuerepair.arrays import Ids
from valuerepair.chess import values
from valuerepair.chess.origins import GAME, KINDS, Kind
from valuerepair.engines.kinds import kind_of
from valuerepair.errors import ValueRepairError, check_least
from valuerepair.measure.compared_nets import ALL, TOGETHER, ComparedNet, ComparedPositions, read_values
from valuerepair.measure.q_scale import QScale, q_scale_of
from valuerepair.mining.again import alpha_beside, search_again
from valuerepair.mining.judges import open_deeper
from valuerepair.mining.screening import not_finished_by
from valuerepair.mining.summary import NOT_DONE
from valuerepair.progress import Progress
from valuerepair.question import DEFAULT_THRESHOLD, QFrom, Question, is_candidate, no_deep_score
from valuerepair.rates import FEWEST_GAMES, Interval, Rate, mean, rate_change, weighted
from valuerepair.store import view
from valuerepair.store.pairs import judge_of
from valuerepair.store.rows import StoredJudge
from valuerepair.store.store import Store
from valuerepair.text import json_fields, positions_of_games, table_lines

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

# The index is 2 * (the first net is wrong) + (the second net is wrong).
CATEGORIES = ("right both", "newly wrong", "repaired", "still wrong")
# Candidates are counted at these thresholds, and at the one of the question.
THRESHOLDS = (0.3, DEFAULT_THRESHOLD)
WORDS: Mapping[str, str] = {
    GAME: "in games",
    "random_move": "after a random legal move",
    "policy_move": "after the policy's 3rd to 6th move",
    "search_node": "in searches",
}
FEWEST = 100  # positions for a deeper judge: with fewer, intervals hold the true value less often than stated


@dataclass(frozen=True, slots=True)
class CandidatesAt:
    """The candidates of both nets at a threshold: their rates, and the change of the rate with its interval by games.

    `repaired` positions are candidates of the first net alone, `newly_wrong` ones of the second alone.
    """

    threshold: float
    first: Rate
    second: Rate
    repaired: int
    newly_wrong: int
    change: Interval


@dataclass(frozen=True, slots=True)
class OriginRow:
    """Two nets on the positions of one origin; differences are second less first, with 95 % intervals by games.

    `scale` has the number that each net's Q is multiplied by: least squares of deep Q through 0. `squared_error` has
    the weighted means of (scale · net Q - deep Q)²; `change` is their difference. Fewer than `rates.FEWEST_GAMES` games
    have no interval.
    """

    origin: Kind
    positions: int
    games: int
    scale: tuple[float, float]
    squared_error: tuple[float, float]
    change: Interval
    candidates: list[CandidatesAt]

    @property
    def finding(self) -> str:
        """What the change of the error says about the second net."""
        if isnan(self.change.low):
            return "too few games"
        return "better" if self.change.high < 0 else "worse" if self.change.low > 0 else "unclear"

    def at(self, threshold: float) -> CandidatesAt:
        """The candidates at one of the thresholds that were counted."""
        return next(candidates for candidates in self.candidates if candidates.threshold == threshold)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A second net against the first, with a row for each origin of the positions, in the order of `KINDS`.

    A search or a match with `q_scale` has the second net's Q on the first one's scale, by the positions of games; None
    if that cannot be determined.
    """

    first: str
    second: str
    q_scale: QScale | None
    by_origin: list[OriginRow]

    @property
    def is_better_judge(self) -> bool:
        """Whether the second net is shown to be the better judge: on the positions of every origin."""
        return all(row.finding == "better" for row in self.by_origin)

    @property
    def sentence(self) -> str:
        """Whether the second net is the better judge, and of which origins."""
        of_finding: dict[str, list[str]] = {}
        for row in self.by_origin:
            of_finding.setdefault(row.finding, []).append(WORDS[row.origin])
        if self.is_better_judge:
            return f"better judge: shown, {', '.join(of_finding['better'])}"
        findings = (f"{', '.join(words)}: {finding}" for finding, words in of_finding.items())
        return f"better judge: not shown; {'; '.join(findings)}"

    def as_json(self) -> dict[str, Any]:
        """For JSON; NaN is None."""
        return {**json_fields(self), "better_judge": self.is_better_judge, "sentence": self.sentence}


@dataclass(frozen=True)
class Compared:
    """Nets on the same `positions`, those that the judge has scored and all nets have a value of.

    `part` is the part that is held out in the store, or all of these; None without one. `left_out` has, by name of the
    net, the number of positions that it has no value of; `without_q` positions have no Q of the requested kind. Each
    position counts by its weight of screening. `cautions` are on the judges: whether screening is not finished, whose
    net one searches with. `deeper` is the same by a deeper judge on a plain random sample of the positions, None unless
    requested.
    """

    judge: str
    part: str | None
    alpha: values.Alpha
    q_from: QFrom
    threshold: float
    without_q: int
    left_out: dict[str, int]
    nets: list[ComparedNet]
    comparisons: list[Comparison]
    positions: ComparedPositions
    cautions: Sequence[str] = ()
    deeper: Compared | None = None

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def games(self) -> int:
        """The number of games that the positions are of, or beside."""
        return len(np.unique(self.positions.game_id))

    @property
    def which(self) -> str:
        """Which positions of the store these are, to follow their number; empty for all."""
        return "" if self.part is None else " held out" if self.part == TOGETHER else f" held out ({self.part})"

    @property
    def notes(self) -> list[str]:
        """What else a reader must know."""
        notes = [*self.cautions]
        if self.part is None:
            notes.append("training may have seen these positions: judge by those that vr split holds out")
        if {row.origin for pair in self.comparisons for row in pair.by_origin} == {GAME}:
            notes.append("positions beside the games were not looked at: vr mine --off-game 0.5 adds them to the store")
        return notes

    def lines(self) -> list[str]:
        """The comparisons with the first net, then those by the deeper judge, if there is one; the notes."""
        rule = "candidates as in vr stats: |net Q - deep Q| without the scale"
        lines = [*self._heading(), f"{rule}; B - A with 95 % intervals by games, below 0 is better", *self._pairs()]
        if self.deeper is not None:
            lines += ["", "by another judge, on a random sample of these positions:"]
            lines += [*self.deeper._heading(), *self.deeper._pairs(named=len(self.comparisons) > 1)]
        return [*lines, *(f"  {note}" for note in self.notes)]

    def _pairs(self, named: bool = True) -> Iterator[str]:
        """The comparisons with the first net, `named` by which nets are A and B."""
        for pair, net in zip(self.comparisons, self.nets[1:], strict=True):
            yield from ["", f"A = {pair.first}, B = {pair.second}"] if named else []
            if net.key == self.nets[0].key:
                yield "the same net: the files have the same content, so there is nothing to compare"
            else:
                yield from _table(pair)

    def _heading(self) -> Iterator[str]:
        count = positions_of_games(len(self.positions.weight), self.games)
        yield f"{count}{self.which}, scored by {self.judge}; deep Q from {self.alpha.source(self.q_from)}"
        for name, missing in self.left_out.items():
            yield f"  {name}: {missing:,} scored positions have no value of it; left out"
        if self.without_q:
            yield f"  {self.without_q:,} positions without a deep Q of the requested kind are left out"
        if np.ptp(self.positions.weight):
            yield "  screened: errors and rates are weighted by inverse probability"

    def as_json(self) -> dict[str, Any]:
        """All but the positions themselves, for JSON; NaN is None."""
        plain = {
            "judge": self.judge, "part": self.part, "alpha": json_fields(self.alpha), "q_from": self.q_from,
            "threshold": self.threshold, "positions": len(self.positions.weight), "games": self.games,
            "without_q": self.without_q, "left_out": self.left_out,
            "nets": [{"name": net.name, "sha256": net.key} for net in self.nets],
        }  # fmt: skip
        comparisons = [pair.as_json() for pair in self.comparisons]
        deeper = None if self.deeper is None else self.deeper.as_json()
        return plain | {"comparisons": comparisons, "notes": self.notes, "deeper": deeper}


def _table(pair: Comparison) -> Iterator[str]:
    """Two nets by origin, as text."""
    rows: list[tuple[object, ...]] = []
    for row in pair.by_origin:
        rows.append(("scale of Q", *(f"{scale:.2f}" for scale in row.scale)))
        rows.append(("squared error", *(f"{error:.4f}" for error in row.squared_error), row.change))
        for at in row.candidates:
            rates = (f"{100 * rate.rate:.2f} %" for rate in (at.first, at.second))
            rows.append((f"candidates at {at.threshold:g}", *rates, at.change.points, at.repaired, at.newly_wrong))
    head, *lines = table_lines(":< | A:>8 | B:>8 | B - A:< | repaired:>9, | newly wrong:>12,", rows, "  ")
    yield head
    for i, row in enumerate(pair.by_origin):
        yield f"{WORDS[row.origin]}, {positions_of_games(row.positions, row.games)}"
        size = len(lines) // len(pair.by_origin)
        yield from lines[i * size : (i + 1) * size]
    yield pair.sentence
    if pair.q_scale is not None and pair.q_scale.differs:
        scale, net = (pair.q_scale, "B") if pair.q_scale.value < 1 else (pair.q_scale.inverse, "A")
        yield f"  q_scale={scale} for {net} makes both nets' Q equally steep, and searches equally broad (vr match)"


# -- comparing --------------------------------------------------------------------------------------------------------


def compared(store: Store, nets: Sequence[ComparedNet], judge: StoredJudge, part: str, question: Question) -> Compared:
    """Compares each net with the first on the positions that the judge has scored and all nets have a value of.

    Raises ValueRepairError if there is no such position, or a net has no values in the store.
    """
    read, alpha = read_values(store, nets, judge, part, question)
    if part != ALL and not len(read.weight):
        raise ValueRepairError(
            f"{store.path}: {judge.label} has scored no position that is held out ({part}); vr split holds some out, "
            "and --part all compares on all"
        )
    missing = np.isnan(read.net_q)
    common = read.take(np.flatnonzero(~missing.any(0)))
    usable = common.take(np.flatnonzero(~np.isnan(common.deep_q)))
    without_q = len(common.weight) - len(usable.weight)
    if not len(usable.weight):
        raise ValueRepairError(
            no_deep_score(without_q, question.q_from)
            if without_q
            else f"no position in {store.path} scored by {judge.label} has a value of each of "
            f"{', '.join(net.name for net in nets)}; give the nets' files, so that what is missing can be computed"
        )
    return Compared(
        judge.label,
        None if part == ALL else part,
        alpha,
        question.q_from,
        question.threshold,
        without_q,
        {net.name: int(count) for net, count in zip(nets, missing.sum(1), strict=True) if count},
        list(nets),
        _comparisons(usable, nets, question.threshold),
        usable,
        [*filter(None, [not_finished_by(store, judge)]), *_favours(judge, nets)],
    )


def _favours(judge: StoredJudge, nets: Sequence[ComparedNet]) -> list[str]:
    """A caution for a judge that searches with one of the nets."""
    key = kind_of(judge.kind).net_of(judge)
    return [f"{judge.label} searches with {net.name}, and favours it" for net in nets if net.key == key][:1]


def _comparisons(positions: ComparedPositions, nets: Sequence[ComparedNet], threshold: float) -> list[Comparison]:
    thresholds = sorted({*THRESHOLDS, threshold})
    return [
        Comparison(nets[0].name, nets[i].name, _q_scale(positions, i), by_origin(positions, i, thresholds))
        for i in range(1, len(nets))
    ]


def _q_scale(positions: ComparedPositions, second: int) -> QScale | None:
    of_games = positions.of(GAME)
    with contextlib.suppress(ValueRepairError):
        return q_scale_of(of_games.net_q[second], of_games.net_q[0], of_games.game_id, of_games.weight)
    return None


def by_origin(positions: ComparedPositions, second: int, thresholds: Sequence[float]) -> list[OriginRow]:
    """Net `second` against net 0: a row for each origin that the positions have."""
    parts = {origin: positions.of(origin) for origin in KINDS}
    return [_row(origin, of, second, thresholds) for origin, of in parts.items() if len(of.weight)]


def _row(origin: Kind, of: ComparedPositions, second: int, thresholds: Sequence[float]) -> OriginRow:
    weight, game, net_q = of.weight, of.game_id, of.net_q[[0, second]]
    squares = net_q**2 @ weight
    # Where all net Q are 0, any scale would do.
    scale = np.divide(net_q * of.deep_q @ weight, squares, out=np.zeros(2), where=squares > 0)
    errors = (scale[:, None] * net_q - of.deep_q) ** 2
    games = len(np.unique(game))

    def of_enough(change: Interval) -> Interval:
        return change if games >= FEWEST_GAMES else Interval(change.difference, nan, nan)

    candidates = []
    for threshold in thresholds:
        one, other = (is_candidate(q - of.deep_q, threshold) for q in net_q)
        change = of_enough(rate_change(other.astype(np.float64) - one, weight, game))
        rates = weighted(one, weight, game), weighted(other, weight, game)
        repaired, newly_wrong = int((one & ~other).sum()), int((other & ~one).sum())
        candidates.append(CandidatesAt(threshold, *rates, repaired, newly_wrong, change))
    return OriginRow(
        origin,
        len(weight),
        games,
        (float(scale[0]), float(scale[1])),
        (float(np.average(errors[0], weights=weight)), float(np.average(errors[1], weights=weight))),
        of_enough(mean(errors[1] - errors[0], weight, game)),
        candidates,
    )


# -- a deeper judge ---------------------------------------------------------------------------------------------------


def judged_deeper(
    db: str, judge: StoredJudge, compared: Compared, deep: str, sample: int, *, command: str, quiet: bool
) -> Compared:
    """The comparison, with that by a deeper judge as `deeper`: searches, and stores, what the store lacks.

    `deep` is a text of ``--deep``. The judge looks at a plain random `sample` of the positions, or at all if they are
    fewer; its centipawns become Q by the alpha of the comparison. The same call resumes, and one for more positions
    adds to them. Raises KeyboardInterrupt after a signal, UsageError for fewer than `FEWEST` positions and a judge that
    is no deeper, ValueRepairError if it has a value of no position.
    """
    check_least("--sample", sample, FEWEST)
    drawn = compared.positions.take(sampled(compared.positions.position_id, sample))
    with (
        Store.open(db, write=True) as store,
        open_deeper(store, judge, deep, {"sha256": compared.nets[0].key}) as deeper,
        Progress("judging again", unit="positions", quiet=quiet) as progress,
    ):
        ids = drawn.position_id
        if search_again(store, judge, deeper, ids, progress, command, is_second_look=False).stopped:
            log.info(NOT_DONE)
            raise KeyboardInterrupt
        asked = Question(alpha=compared.alpha.value, q_from=compared.q_from)
        deep_judge = judge_of(store, store.add_judge(deeper.identity))
        read, _ = read_values(store, compared.nets, deep_judge, ALL, asked)
    read = read.take(np.flatnonzero(np.isin(read.position_id, drawn.position_id) & ~np.isnan(read.deep_q)))
    if not len(read.weight):
        raise ValueRepairError(f"{deep_judge.label} has no value of any of {len(drawn.weight):,} positions")
    # The weights stay those of the first judge's screening.
    judged = replace(drawn.take(np.flatnonzero(np.isin(drawn.position_id, read.position_id))), deep_q=read.deep_q)
    again = replace(
        compared,
        judge=deep_judge.label,
        alpha=alpha_beside(compared.alpha, deep_judge, compared.q_from),
        without_q=len(drawn.weight) - len(judged.weight),
        left_out={},
        comparisons=_comparisons(judged, compared.nets, compared.threshold),
        positions=judged,
    )
    cautions = [*compared.cautions, *_favours(deep_judge, compared.nets)]
    return replace(compared, deeper=again, cautions=list(dict.fromkeys(cautions)))


def sampled(position_id: Ids, count: int) -> Ids:
    """int64[m]: the rows of a plain random sample of the positions [n], ascending: those with the smallest hashes of
    their ids, so that a larger count draws the same ones and others."""
    order = np.argsort(scrambled(position_id.astype(np.uint64) ^ salt("judged again")), kind="stable")
    return np.sort(order[:count])


# -- positions --------------------------------------------------------------------------------------------------------


def categories(positions: ComparedPositions, threshold: float, second: int) -> Ids:
    """[n] indices into `CATEGORIES`, for net `second` against net 0."""
    wrong = is_candidate(positions.disagreement[[0, second]], threshold)
    return np.asarray(2 * wrong[0] + wrong[1], np.int64)


_COLUMNS = ("position_id", "fen", "side", "phase", "source", "game", "ply", "kind", "deep_q", "deep_best", "pv")


def wrong_positions(store: Store, judge: StoredJudge, result: Compared) -> pd.DataFrame:
    """One row for each position that any net is wrong on, by id; values are for the side to move.

    The columns are those of the store and ``weight``. Each net has a number N, in the order of the comparison, from 1,
    and the columns ``net_N`` (its name) and ``disagreement_N``; from the second net on also ``category_N``, against the
    first.
    """
    wrong = np.abs(result.positions.disagreement).max(0)
    positions = result.positions.take(np.flatnonzero(is_candidate(wrong, result.threshold)))
    alpha, first = result.alpha.value, result.nets[0].key
    asked = Question(net=first, oracle=judge.digest, alpha=alpha, q_from=result.q_from, beside=True)
    table: pd.DataFrame = view.frame(store, asked, only=_COLUMNS, ids=positions.position_id)
    table["weight"] = positions.weight
    in_words = np.array(CATEGORIES, object)
    for i, net in enumerate(result.nets):
        table[f"net_{i + 1}"] = net.name
        table[f"disagreement_{i + 1}"] = positions.disagreement[i]
        if i:
            table[f"category_{i + 1}"] = in_words[categories(positions, result.threshold, i)]
    return table
