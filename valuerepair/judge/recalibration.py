"""Two nets recalibrated: how much of a second net's repair could be achieved by recalibrating the first one.

Each net gets its own calibration curve (`calibration.py`), fitted for each position without that position's game. The
difference that is left is more than a change of scale. See docs/methods/nets.md, "Nets on the same positions".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.calibration import CrossFit
from valuerepair.intervals import (
    Interval,
    Rate,
    resampled_bounds,
    resamples_within,
    share_change,
    single_changes,
    weighted,
)
from valuerepair.question import is_candidate

Finding = Literal["fewer", "more", "not shown", "cannot tell"]

RESAMPLES = 400
_DRAWS = 40_000_000  # rows of all resamples together


@dataclass(frozen=True, slots=True)
class Recalibrated:
    """A net on all compared positions, with its Q mapped by its curve: candidates, mean |disagreement|."""

    candidates: Rate
    mean_abs: float


@dataclass(frozen=True, slots=True)
class Recalibration:
    """A second net against the first, both recalibrated; differences are second minus first.

    `share` is the difference of the shares of candidates, `mean_abs` that of the mean |disagreement|; their intervals
    are from resampled games, with the curves refitted each time. Three shares compare recalibrated nets with nets as
    they are. `of_first`: of the first net's candidates, those that its curve repairs. `repaired`: of the candidates
    that the second net repairs, those that the first net's curve leaves wrong. `newly`: of the second net's new
    candidates, those that its curve leaves wrong. `finding`: the second net, recalibrated, has ``fewer`` or ``more``
    candidates than the first; or no difference is shown (``not shown``); or the interval includes a repair of half of
    them (``cannot tell``).
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
    """The curves of a net with `net_q` [n], after |net Q| is replaced by the value of equal rank in `like` [n].

    `like` is another net's Q. A curve depends only on the order of the values, except for its steps; with the same
    values two nets that order all positions equally get equal curves, to the last bit.
    """
    values, mass, index = _ranks(net_q, weight)
    like_values, like_mass, _ = _ranks(like, weight)
    size = np.interp(mass, like_mass, like_values)[index] if values.size else net_q
    return CrossFit(np.sign(net_q) * size, deep_q, weight, game)


def _ranks(net_q: Floats, weight: Floats) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """The distinct |net Q|, ascending, the weight below the middle of each, and the index into them of each row."""
    values, index = np.unique(np.abs(net_q), return_inverse=True)
    mass = np.bincount(index, weight)
    return values, np.cumsum(mass) - mass / 2, index


def recalibrate(
    curves: tuple[CrossFit, CrossFit],
    disagreement: tuple[Floats, Floats],
    deep_q: Floats,
    weight: Floats,
    game: Ids,
    threshold: float,
) -> Recalibration:
    """Compares two nets by their curves; `disagreement` is net Q - deep Q as the nets are, all arrays [n]."""
    first, second = (is_candidate(difference, threshold) for difference in disagreement)
    repaired, newly = first & ~second, ~first & second

    def after_curves(mass: Floats) -> tuple[list[Floats], list[Flags]]:
        """Both nets' |disagreement| after their curves for rows with the weights `mass` [n], and their candidates."""
        errors = [np.abs(curve.expected(mass) - deep_q) for curve in curves]
        return errors, [is_candidate(difference, threshold) for difference in errors]

    def counted(mass: Floats) -> Floats:
        """The two differences and three shares of `Recalibration`, for rows with the weights `mass` [n]."""
        errors, (first_wrong, second_wrong) = after_curves(mass)
        columns = np.stack([single_changes(1.0 * second_wrong - first_wrong, weight), errors[1] - errors[0]], 1)
        hits = (first, ~first_wrong), (repaired, first_wrong), (newly, second_wrong)
        with np.errstate(invalid="ignore"):  # a resample may have no such rows
            parts = [mass @ (group & hit) / (mass @ group) for group, hit in hits]
        return np.array([*(mass @ columns / mass.sum()), *parts])

    errors, (first_wrong, second_wrong) = after_curves(weight)
    nets = [
        Recalibrated(weighted(hits, weight, game), float(np.average(difference, weights=weight)))
        for hits, difference in zip((first_wrong, second_wrong), errors, strict=True)
    ]
    share, mean_abs, *parts = _by_games(counted, weight, game)
    share = share_change(share, 1.0 * second_wrong - first_wrong, weight, game)
    of_first, of_repaired, of_newly = (
        _share(hit[group], weight[group], game[group], interval)
        for group, hit, interval in zip(
            (first, repaired, newly), (~first_wrong, first_wrong, second_wrong), parts, strict=True
        )
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


def sentence(recalibration: Recalibration) -> str:
    """One sentence on whether the second net, B, shows more than a change of scale."""
    clear = []
    if recalibration.share.clear:
        clear.append(f"{recalibration.finding} candidates")
    if recalibration.mean_abs.clear:
        clear.append(f"a {'smaller' if recalibration.mean_abs.high < 0 else 'larger'} mean |disagreement|")
    if not clear:
        return (
            "too few games to tell whether B shows more than scale"
            if recalibration.finding == "cannot tell"
            else "B shows nothing beyond scale in candidates and mean |disagreement|, each net by its own curve: both "
            "intervals contain 0"
        )
    qualification = {
        "cannot tell": "; there are too few games to tell whether it has fewer candidates",
        "not shown": "; it may have as many candidates as A",
    }
    return (
        f"B shows more than scale: recalibrated, it has {' and '.join(clear)} than A"
        f"{qualification.get(recalibration.finding, '')}"
    )


def _finding(change: Interval, rate: float) -> Finding:
    if change.clear:
        return "fewer" if change.high < 0 else "more"
    return "cannot tell" if isnan(change.low) or change.low <= -rate / 2 else "not shown"


def _share(hits: Flags, weight: Floats, game: Ids, games: Interval) -> Rate:
    """The share of `hits` by weight, with the wider of Wilson's interval and that of resampled games."""
    rate = weighted(hits, weight, game)
    # A bound that is NaN does not count.
    low, high = float(np.fmin(rate.low, games.low)), float(np.fmax(rate.high, games.high))
    return Rate(rate.count, rate.total, rate.rate, low, high)


def _by_games(counted: Callable[[Floats], Floats], weight: Floats, game: Ids) -> list[Interval]:
    """The figures of `counted` for these weights, with 95 % intervals from resampled games and refitted curves.

    With the same curves for all resamples only some 88 of 100 intervals would contain the true value instead of 95.
    """
    games, game_of_row = np.unique(np.where(weight > 0, game, -1), return_inverse=True)
    counted_games = np.flatnonzero(games >= 0)  # games whose rows all weigh 0 would only dilute the draws

    def figures(drawn: Ids) -> Floats:
        times = np.zeros((len(drawn), len(games)))
        times[:, counted_games] = drawn
        return np.stack([counted(weight * row[game_of_row]) for row in times])

    bounds = resampled_bounds(figures, len(counted_games), resamples_within(_DRAWS, len(game), RESAMPLES))
    return [Interval(*map(float, figure)) for figure in zip(counted(weight), *bounds, strict=True)]
