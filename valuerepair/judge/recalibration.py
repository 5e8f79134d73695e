"""Two nets recalibrated: how much of what a second one repairs the first one's own curve would have repaired.

Both nets go through a calibration of their own (`calibration.py`), each position through a curve that its game did not
help to draw. What is left between them is more than scale. See docs/methods/nets.md, "Nets on the same positions".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from math import isnan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from valuerepair.calibration import CrossFit
from valuerepair.intervals import Flags, Floats, Ids, Interval, Rate, resampled, share_change, weighted, wilson
from valuerepair.question import is_candidate

Finding = Literal["fewer", "more", "not shown", "cannot tell"]

RESAMPLES = 400
FEWEST_RESAMPLES = 200
_DRAWS = 40_000_000  # rows in all resamples


@dataclass(frozen=True, slots=True)
class Recalibrated:
    """A net on all positions compared, its Q through its curve."""

    candidates: Rate
    mean_abs: float


@dataclass(frozen=True, slots=True)
class Recalibration:
    """A second net against the first, each recalibrated; differences are second less first.

    `share` is the difference of the shares of candidates, `mean_abs` that of the mean |disagreement|, with intervals of
    resampled games, the curves drawn anew for each. `of_first`: the first net's
    own candidates that it is right on once it is recalibrated. `repaired`: of what the second net repaired, as it is,
    what the first one's own curve leaves wrong; `newly`: of what is newly wrong, what the second one's own curve leaves
    wrong. `finding`: whether the second
    net, recalibrated, has ``fewer`` or ``more`` candidates than the first, whether that is ``not shown``, or one
    ``cannot tell``, because half of the first one's may be repaired all the same.
    """

    first: Recalibrated
    second: Recalibrated
    share: Interval
    mean_abs: Interval
    of_first: Rate
    repaired: Rate
    newly: Rate
    finding: Finding


def own_curve(net_q: Floats, deep_q: Floats, weight: Floats, game: Ids, like: Floats) -> CrossFit:
    """The curves of a net with `net_q` [n]; its values stand at the places of `like` [n], another net's, by rank.

    A curve cannot tell one from the other, but where it is drawn in steps: so two nets that order all positions alike
    come out alike to the last bit.
    """
    values, mass, at = _ranks(net_q, weight)
    others, their_mass, _ = _ranks(like, weight)
    placed = np.interp(mass, their_mass, others)[at] if values.size else net_q
    return CrossFit(np.sign(net_q) * placed, deep_q, weight, game)


def _ranks(net_q: Floats, weight: Floats) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """The different |net Q|, the weight below the middle of each, and which of them every row has."""
    values, at = np.unique(np.abs(net_q), return_inverse=True)
    mass = np.bincount(at, weight)
    return values, np.cumsum(mass) - mass / 2, at


def recalibrate(
    curves: tuple[CrossFit, CrossFit],
    disagreement: tuple[Floats, Floats],
    deep_q: Floats,
    weight: Floats,
    game: Ids,
    threshold: float,
    seed: int = 0,
) -> Recalibration:
    """Two nets by these curves, whose net Q less deep Q, as they are, is `disagreement`; all [n]."""
    first, second = (is_candidate(off, threshold) for off in disagreement)
    repaired, newly = first & ~second, ~first & second

    def counted(mass: Floats) -> Floats:
        """The differences and the shares, where rows have these weights."""
        size = [np.abs(curve.expected(mass) - deep_q) for curve in curves]
        wrong, others = (is_candidate(off, threshold) for off in size)
        columns = np.stack([1.0 * others - wrong, size[1] - size[0]], 1)
        hits = (first, ~wrong), (repaired, wrong), (newly, others)
        with np.errstate(invalid="ignore"):  # a draw without such rows says nothing
            parts = [mass @ (of & hit) / (mass @ of) for of, hit in hits]
        return np.array([*(mass @ columns / mass.sum()), *parts])

    size = [np.abs(curve.expected(weight) - deep_q) for curve in curves]
    wrong, others = (is_candidate(off, threshold) for off in size)
    nets = [
        Recalibrated(weighted(is_candidate(each, threshold), weight, game), float(np.average(each, weights=weight)))
        for each in size
    ]
    share, mean_abs, *parts = _by_games(counted, weight, game, seed)
    share = share_change(share, weight, game)
    of_first, of_repaired, of_newly = (
        _share(hit[of], weight[of], game[of], interval)
        for of, hit, interval in zip((first, repaired, newly), (~wrong, wrong, others), parts, strict=True)
    )
    return Recalibration(
        first=nets[0],
        second=nets[1],
        share=share,
        mean_abs=mean_abs,
        of_first=of_first,
        repaired=of_repaired,
        newly=of_newly,
        finding=_finding(share, nets[0].candidates.rate),
    )


def sentence(found: Recalibration) -> str:
    """Whether the second net, B, shows more than scale, in one sentence."""
    clear = []
    if found.share.clear:
        clear.append(f"{found.finding} candidates")
    if found.mean_abs.clear:
        clear.append(f"a {'smaller' if found.mean_abs.high < 0 else 'larger'} mean |disagreement|")
    if not clear:
        return (
            "too few games to tell whether B shows more than scale"
            if found.finding == "cannot tell"
            else "B shows nothing beyond scale: both intervals hold 0"
        )
    rest = {
        "cannot tell": "; there are too few games to tell whether it has fewer candidates",
        "not shown": "; its candidates may be as many as A's",
    }
    return f"B shows more than scale: recalibrated, it has {' and '.join(clear)} than A{rest.get(found.finding, '')}"


def _finding(change: Interval, rate: float) -> Finding:
    if change.clear:
        return "fewer" if change.high < 0 else "more"
    return "cannot tell" if isnan(change.low) or change.low <= -rate / 2 else "not shown"


def _share(hits: Flags, weight: Floats, game: Ids, games: Interval) -> Rate:
    """The share of `hits` by weight, with the wider of Wilson's interval and that of resampled games."""
    if not weight.any():
        return wilson(0, 0)
    rate = weighted(hits, weight, game)
    wide = _wider(Interval(rate.rate, rate.low, rate.high), games)
    return Rate(rate.count, rate.total, rate.rate, wide.low, wide.high)


def _wider(one: Interval, other: Interval) -> Interval:
    """The first with the outer bounds of both; a bound that is NaN is none."""
    return Interval(one.difference, float(np.fmin(one.low, other.low)), float(np.fmax(one.high, other.high)))


def _by_games(counted: Callable[[Floats], Floats], weight: Floats, game: Ids, seed: int) -> list[Interval]:
    """What is `counted` with the rows' weights, and the 95 % intervals of drawn games, which draw the curves too.

    Were the curves kept, intervals would hold the truth in some 88 of 100 cases instead of 95.
    """
    games, at = np.unique(np.where(weight > 0, game, -1), return_inverse=True)
    standing = np.flatnonzero(games >= 0)  # games of which all rows have the weight 0 would only dilute the draws
    rng = np.random.default_rng(seed)
    drawn = []
    times = np.zeros(len(games))
    resamples = int(np.clip(_DRAWS // len(game), FEWEST_RESAMPLES, RESAMPLES))
    for row in chain.from_iterable(resampled(len(standing), resamples, rng)):
        times[standing] = row
        drawn.append(counted(weight * times[at]))
    low, high = _percentiles(np.array(drawn))
    return [Interval(*map(float, each)) for each in zip(counted(weight), low, high, strict=True)]


def _percentiles(drawn: Floats) -> tuple[Floats, Floats]:
    """[k] 2.5 % and 97.5 % percentiles of the columns of `drawn`, NaN for one without numbers."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without numbers
        low, high = np.nanpercentile(drawn, [2.5, 97.5], axis=0)
    return low, high
