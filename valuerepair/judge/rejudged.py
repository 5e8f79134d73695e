"""A comparison of nets repeated by a deeper judge, which judges some of the positions again.

The method is two-phase sampling (double sampling): the first judge's value is known for every position, the deeper
judge's only for those drawn. Positions where it may change a verdict have a larger chance to be drawn than others, and
each counts by its inverse chance. See docs/methods.md, "Judged again".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import NamedTuple

import numpy as np

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.judge.by_kind import BetterJudge, KindRow, kind_lines
from valuerepair.judge.two_phase import DeeperValues, estimated
from valuerepair.question import is_candidate
from valuerepair.rates import Interval, Rate, mean, rate_change, weighted

# A verdict is in doubt if |net Q - deep Q| differs from the threshold by at most this.
NEAR = 0.1
# The index of each is its number in `strata_of`.
STRATA = ("two nets differ", f"within {NEAR:g} of the threshold", "all others")
# The least share of all draws for each stratum; draws beyond these go to the first stratum, then to the next.
_LEAST = (0.0, 0.2, 0.4)


@dataclass(frozen=True, slots=True)
class Stratum:
    """Positions with the same `chance`: `drawn` of `positions` were drawn, `judged` of these have a deeper value.

    `chance` is judged / positions, NaN without positions.
    """

    name: str
    positions: int
    drawn: int
    judged: int
    chance: float


@dataclass(frozen=True, slots=True)
class RejudgedNet:
    """A net by the deeper judge, on positions of games: the rate of its candidates; intervals are by games.

    `precision` is the share of the first judge's candidates that are also the deeper judge's, `recall` the share of the
    deeper judge's candidates that are also the first judge's.
    """

    name: str
    candidates: Rate
    precision: Rate
    recall: Rate


@dataclass(frozen=True, slots=True)
class RejudgedPair:
    """A second net against the first by the deeper judge; differences are second minus first.

    `candidates` is the difference of the shares of candidates, `mean_abs` that of the mean |disagreement|; `by_kind`
    and `judge` are as in `judge.compare.Comparison`.
    """

    first: str
    second: str
    candidates: Interval
    mean_abs: Interval
    by_kind: list[KindRow]
    judge: BetterJudge


@dataclass(frozen=True, slots=True)
class Rejudged:
    """A comparison by a deeper `judge`: `drawn` of `positions` were drawn, `judged` of these have its value."""

    judge: str
    threshold: float
    positions: int
    drawn: int
    judged: int
    strata: list[Stratum]
    nets: list[RejudgedNet]
    comparisons: list[RejudgedPair]


# -- drawing ----------------------------------------------------------------------------------------------------------


class Draw(NamedTuple):
    """Which positions are judged again: the stratum [n] of each, an index into `STRATA`, and whether it is drawn [n].

    Positions of weight 0 have the stratum -1 and are not drawn.
    """

    stratum: Ids
    drawn: Flags


def draw(position_id: Ids, disagreement: Floats, weight: Floats, threshold: float, count: int) -> Draw:
    """Draws `count` of the positions [n] by hashes of their ids; `disagreement` [k, n] is that of k nets.

    Those with the smallest hashes of each stratum are drawn, so a larger count draws the same positions and others.
    """
    stratum = np.where(weight > 0, strata_of(disagreement, threshold), -1)
    drawn = np.zeros(len(position_id), np.bool_)
    sizes = np.bincount(stratum[stratum >= 0], minlength=len(STRATA)).tolist()
    for number, size in enumerate(allocate(sizes, count)):
        rows = np.flatnonzero(stratum == number)
        drawn[sorted(rows, key=lambda row: _hash(int(position_id[row])))[:size]] = True
    return Draw(stratum, drawn)


def _hash(number: int) -> bytes:
    return hashlib.blake2b(number.to_bytes(8, "little"), digest_size=16, person=b"rejudge").digest()


def strata_of(disagreement: Floats, threshold: float) -> Ids:
    """[n] the stratum of each position, an index into `STRATA`; `disagreement` [k, n] is by the first judge."""
    size = np.abs(disagreement)
    wrong = is_candidate(size, threshold)
    differ = wrong.any(0) & ~wrong.all(0)
    near = (np.abs(size - threshold) <= NEAR).any(0)
    return np.where(differ, 0, np.where(near, 1, 2))


def allocate(sizes: Sequence[int], count: int) -> list[int]:
    """How many positions of each stratum are drawn: `count` in total, or all positions if they are fewer.

    At least a fifth of the draws is for positions near the threshold and two fifths for all others, if there are enough
    of them. The remaining draws go to the strata in the order of `STRATA`.
    """
    drawn = [min(size, int(least * count)) for size, least in zip(sizes, _LEAST, strict=True)]
    remaining = count - sum(drawn)
    for i, size in enumerate(sizes):
        more = min(size - drawn[i], remaining)
        drawn[i] += more
        remaining -= more
    return drawn


def deeper_values(plan: Draw, deep_q: Floats) -> tuple[DeeperValues, list[Stratum]]:
    """The values of the deeper judge with their inverse chances, and the strata.

    `deep_q` [n] is NaN where the judge gave no value. A position whose search failed counts as not drawn.
    """
    inverse, strata = np.zeros(len(deep_q)), []
    judged = plan.drawn & ~np.isnan(deep_q)
    for number, name in enumerate(STRATA):
        in_stratum = plan.stratum == number
        positions, drawn, usable = (
            int(np.count_nonzero(in_stratum & rows)) for rows in (in_stratum, plan.drawn, judged)
        )
        chance = usable / positions if positions else nan
        if usable:
            inverse[in_stratum & judged] = 1 / chance
        strata.append(Stratum(name, positions, drawn, usable, chance))
    return DeeperValues(deep_q, inverse), strata


# -- estimating -------------------------------------------------------------------------------------------------------


def rejudged_net(
    name: str,
    net_q: Floats,
    deep_q: Floats,
    deeper: DeeperValues,
    stratum: Ids,
    weight: Floats,
    game: Ids,
    threshold: float,
) -> RejudgedNet:
    """A net by the deeper judge. All arrays are [n]; `deep_q` is the first judge's, `stratum` as in `Draw`."""
    first, second = (is_candidate(net_q - q, threshold) for q in (deep_q, deeper.deep_q))
    average = mean(deeper.corrected(first.astype(np.float64), second.astype(np.float64)), weight, game)
    mass = weight * deeper.inverse  # the positions that each judged position stands for, 0 for the others
    by_first, by_second = first & (mass > 0), second & (mass > 0)
    precision = weighted(second[by_first], mass[by_first], game[by_first])
    recall = weighted(first[by_second], mass[by_second], game[by_second])
    rate = estimated(average, second[deeper.inverse > 0])
    return RejudgedNet(name, rate, precision, _lowered(recall, first, second, stratum, weight, mass, game))


def _lowered(recall: Rate, first: Flags, second: Flags, stratum: Ids, weight: Floats, mass: Floats, game: Ids) -> Rate:
    """The recall with a lower bound that allows for missed candidates among positions that were not judged again.

    The number of candidates that the first judge missed has an upper bound in each stratum; MOVER combines these to a
    bound of the sum (G. Y. Zou & A. Donner, Statistics in Medicine 27, 2008).
    """
    agreed = float(mass @ (first & second))
    missed = squares_above = 0.0
    for number in range(len(STRATA)):
        not_first = (stratum == number) & ~first
        judged = not_first & (mass > 0)
        if judged.any():
            rate = weighted(second[judged], mass[judged], game[judged])
            positions = float(weight[not_first].sum())
            missed += positions * rate.rate
            squares_above += (positions * (rate.high - rate.rate)) ** 2
    if not agreed:
        return recall
    low = min(recall.low, agreed / (agreed + missed + sqrt(squares_above)))
    return Rate(recall.count, recall.total, recall.rate, low, recall.high)


def rejudged_pair(
    net_q: tuple[Floats, Floats], deep_q: Floats, deeper: DeeperValues, weight: Floats, game: Ids, threshold: float
) -> tuple[Interval, Interval]:
    """The differences of the shares of candidates and of the mean |disagreement|, second net minus first, by games.

    `net_q` are both nets' Q [n], `deep_q` [n] is the first judge's.
    """
    by_judge = []
    for judge_q in (deep_q, deeper.deep_q):
        sizes = [np.abs(q - judge_q) for q in net_q]
        wrong = [1.0 * is_candidate(size, threshold) for size in sizes]
        by_judge.append((wrong[1] - wrong[0], sizes[1] - sizes[0]))
    differences = [deeper.corrected(first, second) for first, second in zip(*by_judge, strict=True)]
    changes = by_judge[0][0]
    return rate_change(changes, weight, game, differences[0] - changes), mean(differences[1], weight, game)


# -- in words ---------------------------------------------------------------------------------------------------------


def rejudged_lines(rejudged: Rejudged) -> Iterator[str]:
    """Text for a terminal: the strata, each net, each comparison."""
    yield f"judged again by {rejudged.judge}: {rejudged.judged:,} of {rejudged.positions:,} positions"
    for stratum in rejudged.strata:
        if stratum.positions:
            yield f"  {stratum.name}: {stratum.judged:,} of {stratum.positions:,} (chance {stratum.chance:.3g})"
    if rejudged.judged < rejudged.drawn:
        yield f"  {rejudged.drawn - rejudged.judged:,} searches failed; they count as not drawn"
    yield (f"by that judge, at {rejudged.threshold:g}, each position weighed by its inverse chance (95 %, by games)")
    width = max(len(net.name) for net in rejudged.nets)
    for net in rejudged.nets:
        yield f"  {net.name:{width}}  candidates {_rate_text(net.candidates)}"
        yield (
            f"  {'':{width}}  the first judge's candidates: precision {_rate_text(net.precision)}, "
            f"recall {_rate_text(net.recall)}"
        )
    for pair in rejudged.comparisons:
        yield f"A = {pair.first}, B = {pair.second} (B - A; below 0 is a repair)"
        yield f"  candidates             {pair.candidates.points}"
        yield f"  mean |disagreement|    {pair.mean_abs}"
        yield from kind_lines(pair.by_kind)
        yield pair.judge.sentence
        yield from (f"  {note}" for note in pair.judge.notes)


def _rate_text(rate: Rate) -> str:
    return rate.percent if rate.total else "none"
