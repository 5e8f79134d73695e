"""The same comparison by a deeper judge: some positions judged again, drawn by known chances, and weighed by them.

Two-phase sampling (double sampling). The first judge's value is known of every position, the deeper one's of those
drawn alone: many of those where it may change a verdict, fewer of all others. See docs/methods/nets.md, "Judged again".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import NamedTuple

import numpy as np

from valuerepair.intervals import Flags, Floats, Ids, Interval, Rate, bootstrap, share_change, weighted
from valuerepair.judge.by_kind import BetterJudge, KindRow, kind_lines
from valuerepair.judge.two_phase import Deeper, estimated
from valuerepair.question import is_candidate

# A verdict is in doubt where |net Q - deep Q| lies so near to the threshold.
NEAR = 0.1
# In the order of the numbers that `strata_of` gives.
STRATA = ("two nets differ", f"within {NEAR:g} of the threshold", "all others")
# The least shares of what is drawn; what they leave is for the first, and what that leaves for the next.
_LEAST = (0.0, 0.2, 0.4)


@dataclass(frozen=True, slots=True)
class Stratum:
    """Positions that are drawn alike: `drawn` of `positions`, with the same chance; `judged` of these have a value."""

    name: str
    positions: int
    drawn: int
    judged: int
    chance: float


@dataclass(frozen=True, slots=True)
class RejudgedNet:
    """A net by the deeper judge, on positions of games: the rate of its candidates, with an interval by games.

    `precision` is the share of the first judge's candidates that are so by the deeper one, `recall` the share of the
    deeper one's that the first judge found.
    """

    name: str
    candidates: Rate
    precision: Rate
    recall: Rate


@dataclass(frozen=True, slots=True)
class RejudgedPair:
    """A second net against the first by the deeper judge, as in `judge.compare.Comparison`."""

    first: str
    second: str
    candidates: Interval
    mean_abs: Interval
    by_kind: list[KindRow]
    judge: BetterJudge


@dataclass(frozen=True, slots=True)
class Rejudged:
    """What a deeper `judge` says of a comparison. `drawn` of its `positions` were to be judged again, `judged` were."""

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
    """Which positions are judged again: the stratum [n] of each, as a number of `STRATA`, and whether it is drawn.

    Positions that stand for nothing have the stratum -1.
    """

    stratum: Ids
    drawn: Flags


def draw(position_id: Ids, disagreement: Floats, weight: Floats, threshold: float, count: int) -> Draw:
    """Draws `count` of the positions [n] by hashes of their numbers; `disagreement` [k, n] is that of each net.

    Of each stratum those with the smallest hashes are drawn, so that a larger count has the same ones and others.
    """
    stratum = np.where(weight > 0, strata_of(disagreement, threshold), -1)
    drawn = np.zeros(len(position_id), np.bool_)
    for number, share in enumerate(allocate(np.bincount(stratum[stratum >= 0], minlength=len(STRATA)).tolist(), count)):
        of = np.flatnonzero(stratum == number)
        drawn[sorted(of, key=lambda row: _hash(int(position_id[row])))[:share]] = True
    return Draw(stratum, drawn)


def _hash(number: int) -> bytes:
    return hashlib.blake2b(number.to_bytes(8, "little"), digest_size=16, person=b"rejudge").digest()


def strata_of(disagreement: Floats, threshold: float) -> Ids:
    """[n] the number of `STRATA` that each position belongs to, by the first judge's disagreement with the nets."""
    size = np.abs(disagreement)
    wrong = is_candidate(size, threshold)
    differ = wrong.any(0) & ~wrong.all(0)
    near = (np.abs(size - threshold) <= NEAR).any(0)
    return np.where(differ, 0, np.where(near, 1, 2))


def allocate(sizes: Sequence[int], count: int) -> list[int]:
    """How many of each of the strata are drawn, `count` in all, or everything where that is less.

    At least a fifth of them lies near the threshold and two fifths beyond, if there are enough positions. The
    others go to where the nets differ, then near the threshold, then beyond.
    """
    shares = [min(size, int(least * count)) for size, least in zip(sizes, _LEAST, strict=True)]
    left = count - sum(shares)
    for i, size in enumerate(sizes):
        more = min(size - shares[i], left)
        shares[i] += more
        left -= more
    return shares


def deeper_values(plan: Draw, deep_q: Floats) -> tuple[Deeper, list[Stratum]]:
    """The values of the deeper judge, `deep_q` [n] (NaN where it gave none), with the inverse chance of each.

    A search that failed is taken for one that was not drawn.
    """
    inverse, strata = np.zeros(len(deep_q)), []
    judged = plan.drawn & ~np.isnan(deep_q)
    for number, name in enumerate(STRATA):
        of = plan.stratum == number
        positions, drawn, usable = (int(np.count_nonzero(of & rows)) for rows in (of, plan.drawn, judged))
        chance = usable / positions if positions else nan
        if usable:
            inverse[of & judged] = 1 / chance
        strata.append(Stratum(name, positions, drawn, usable, chance))
    return Deeper(deep_q, inverse), strata


# -- estimating -------------------------------------------------------------------------------------------------------


def rejudged_net(
    name: str, net_q: Floats, deep_q: Floats, deeper: Deeper, stratum: Ids, weight: Floats, game: Ids, threshold: float
) -> RejudgedNet:
    """A net by the deeper judge; all are [n], `deep_q` the first judge's, `stratum` as in `Draw`."""
    first, second = (is_candidate(net_q - q, threshold) for q in (deep_q, deeper.deep_q))
    [mean] = bootstrap(deeper.corrected(first.astype(np.float64), second.astype(np.float64))[:, None], weight, game)
    mass = weight * deeper.inverse
    by_first, by_second = first & (mass > 0), second & (mass > 0)
    precision = weighted(second[by_first], mass[by_first], game[by_first])
    recall = weighted(first[by_second], mass[by_second], game[by_second])
    rate = estimated(mean, second[deeper.inverse > 0])
    return RejudgedNet(name, rate, precision, _unseen(recall, first, second, stratum, weight, mass, game))


def _unseen(recall: Rate, first: Flags, second: Flags, stratum: Ids, weight: Floats, mass: Floats, game: Ids) -> Rate:
    """The recall with a lower end for candidates that nobody saw because few positions were judged again.

    What the first judge missed has an upper end in each stratum; together they have that of MOVER (G. Y. Zou & A.
    Donner, Statistics in Medicine 27, 2008).
    """
    agreed = float(mass @ (first & second))
    missed = above = 0.0
    for number in range(len(STRATA)):
        of = (stratum == number) & ~first
        judged = of & (mass > 0)
        if judged.any():
            rate = weighted(second[judged], mass[judged], game[judged])
            there = float(weight[of].sum())
            missed += there * rate.rate
            above += (there * (rate.high - rate.rate)) ** 2
    if not agreed:
        return recall
    low = min(recall.low, agreed / (agreed + missed + sqrt(above)))
    return Rate(recall.count, recall.total, recall.rate, low, recall.high)


def rejudged_pair(
    net_q: tuple[Floats, Floats], deep_q: Floats, deeper: Deeper, weight: Floats, game: Ids, threshold: float
) -> tuple[Interval, Interval]:
    """The difference of the shares of candidates and of the mean |disagreement|, second net less first, by games."""
    columns = []
    for by in (deep_q, deeper.deep_q):
        sizes = [np.abs(q - by) for q in net_q]
        wrong = [1.0 * is_candidate(size, threshold) for size in sizes]
        columns.append((wrong[1] - wrong[0], sizes[1] - sizes[0]))
    both = [deeper.corrected(first, second) for first, second in zip(*columns, strict=True)]
    candidates, mean_abs = bootstrap(np.stack(both, 1), weight, game)
    return share_change(candidates, weight, game), mean_abs


# -- in words ---------------------------------------------------------------------------------------------------------


def rejudged_lines(rejudged: Rejudged) -> Iterator[str]:
    """For a terminal."""
    yield f"judged again by {rejudged.judge}: {rejudged.judged:,} of {rejudged.positions:,} positions"
    for stratum in rejudged.strata:
        if stratum.positions:
            yield f"  {stratum.name}: {stratum.judged:,} of {stratum.positions:,} (chance {stratum.chance:.3g})"
    if rejudged.judged < rejudged.drawn:
        yield f"  {rejudged.drawn - rejudged.judged:,} searches failed; they count as not drawn"
    yield (
        f"by that judge, at {rejudged.threshold:g}, each position weighed by its inverse chance (95 %: resampled games)"
    )
    width = max(len(net.name) for net in rejudged.nets)
    for net in rejudged.nets:
        yield f"  {net.name:{width}}  candidates {_of_rate(net.candidates)}"
        yield (
            f"  {'':{width}}  the first judge's candidates: precision {_of_rate(net.precision)}, "
            f"recall {_of_rate(net.recall)}"
        )
    for pair in rejudged.comparisons:
        yield f"A = {pair.first}, B = {pair.second} (B - A; below 0 is a repair)"
        yield f"  candidates             {pair.candidates.points}"
        yield f"  mean |disagreement|    {pair.mean_abs}"
        yield from kind_lines(pair.by_kind)
        yield pair.judge.sentence
        yield from (f"  {note}" for note in pair.judge.notes)


def _of_rate(rate: Rate) -> str:
    return rate.percent if rate.total else "none"
