"""Comparisons of recalibrated nets whose errors are known: scale alone, errors of one size, errors repaired."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from valuerepair.arrays import Floats
from valuerepair.calibration import CrossFit, fit, fold_of
from valuerepair.judge import recalibration as module
from valuerepair.judge.recalibration import Recalibration, own_curve, recalibrate, sentence

THRESHOLD = 0.4
SEEDS = 60


class Pair(NamedTuple):
    """Two nets on the same positions."""

    first: Floats
    second: Floats
    deep: Floats
    game: NDArray[np.int64]


def pair(seed: int, positions: int, *, repaired: float = 0.0, alike: bool = True) -> Pair:
    """Four positions a game, whose deep Q and whose errors are correlated.

    The first net's Q is tanh(0.6 (artanh(deep) + error)), the second one's tanh(k artanh(…)) of the same with another
    k; `alike` its errors are the same, but for the share `repaired`, which has none; else they are other ones of the
    same kind.
    """
    rng = np.random.default_rng(seed)
    game = np.arange(positions) // 4

    def drawn(size: float, of_game: float) -> Floats:
        together = rng.normal(0, of_game, positions)[game]
        return rng.normal(0, size, positions) + together

    deep, error, other = drawn(1.0, 0.4), drawn(0.5, 0.3), drawn(0.5, 0.3)
    theirs = np.where(rng.random(positions) < repaired, 0.0, error if alike else other)
    return Pair(np.tanh(0.6 * (deep + error)), np.tanh(1.3 * (deep + theirs)), np.tanh(deep), game)


def curves(of: Pair, weight: Floats) -> tuple[CrossFit, CrossFit]:
    first = CrossFit(of.first, of.deep, weight, of.game)
    return first, own_curve(of.second, of.deep, weight, of.game, like=of.first)


def judged(of: Pair, weight: Floats | None = None, threshold: float = THRESHOLD) -> Recalibration:
    mass = np.ones(len(of.deep)) if weight is None else weight
    off = of.first - of.deep, of.second - of.deep
    return recalibrate(curves(of, mass), off, of.deep, mass, of.game, threshold)


def test_a_curve_of_a_fold_is_that_of_the_calibration() -> None:
    of = pair(1, 2000)
    weight = np.random.default_rng(2).choice([1.0, 5.0], 2000)
    found = CrossFit(of.first, of.deep, weight, of.game).expected(weight)
    assert found == pytest.approx(
        fit(of.first, of.deep, weight, of.game).expected(of.first, fold_of(of.game)), abs=1e-9
    )


def test_curves_drawn_again_follow_the_weights() -> None:
    of = pair(1, 2000)
    ones = np.ones(2000)
    twice = np.where(of.game % 3 == 0, 2.0, 0.0)
    again = CrossFit(of.first, of.deep, ones, of.game).expected(twice)
    rows = twice > 0
    alone = CrossFit(of.first[rows], of.deep[rows], ones[rows], of.game[rows]).expected(ones[rows])
    assert np.abs(again[rows] - alone).max() < 0.05  # the method may be another, the rows are the same
    assert again[rows] != pytest.approx(CrossFit(of.first, of.deep, ones, of.game).expected(ones)[rows], abs=1e-3)


@pytest.mark.parametrize("positions", [400, 4000])
def test_a_net_that_is_only_scaled_otherwise_shows_nothing(positions: int) -> None:
    of = pair(3, positions)
    off = np.abs(of.first - of.deep) >= THRESHOLD, np.abs(of.second - of.deep) >= THRESHOLD
    assert (off[0] != off[1]).mean() > 0.03  # as it is, it looks like another net
    found = judged(of)
    assert found.first == found.second
    assert found.share.difference == found.mean_abs.difference == 0
    assert found.mean_abs.low == found.mean_abs.high == 0
    assert found.share.low < 0 < found.share.high  # equal so far: no interval of zero width from nothing
    assert found.finding == "not shown"
    assert sentence(found) == (
        "B shows nothing beyond scale in candidates and mean |disagreement|, each net by its own curve: both intervals "
        "contain 0"
    )


def test_what_scale_repairs_is_told_from_what_only_the_second_net_does() -> None:
    of = pair(4, 8000, repaired=0.3)
    weight = np.random.default_rng(5).choice([1.0, 4.0], 8000)
    found = judged(of, weight)
    after = [np.abs(curve.expected(weight) - of.deep) >= THRESHOLD for curve in curves(of, weight)]
    raw = [np.abs(net - of.deep) >= THRESHOLD for net in (of.first, of.second)]
    repaired, newly = raw[0] & ~raw[1], raw[1] & ~raw[0]
    for rate, of_rows, hits in (
        (found.of_first, raw[0], ~after[0]),
        (found.repaired, repaired, after[0]),
        (found.newly, newly, after[1]),
    ):
        assert (rate.count, rate.total) == ((hits & of_rows).sum(), of_rows.sum())
        assert rate.rate == pytest.approx(np.average(hits[of_rows], weights=weight[of_rows]))
        assert rate.low < rate.rate < rate.high
    assert found.share.difference == pytest.approx(np.average(1.0 * after[1] - after[0], weights=weight))
    assert found.finding == "fewer"
    assert sentence(found).startswith(
        "B shows more than scale: recalibrated, it has fewer candidates and a smaller mean"
    )
    turned = judged(of._replace(first=of.second, second=of.first), weight)
    assert (turned.newly.count, turned.newly.total) == pytest.approx(
        (found.repaired.count, found.repaired.total), rel=0.02
    )
    assert turned.finding == "more"
    assert "more candidates and a larger mean" in sentence(turned)


def test_few_games_cannot_tell() -> None:
    found = judged(pair(6, 320, alike=False), threshold=1.2)
    assert found.finding == "cannot tell"
    assert "too few games" in sentence(found)


def test_positions_that_stand_for_nothing_play_no_part() -> None:
    of = pair(7, 1200, repaired=0.2)
    weight = np.where(np.arange(1200) % 3 == 0, 0.0, 1.0)
    kept = weight > 0
    with_them, without = judged(of, weight), judged(Pair(of.first[kept], of.second[kept], of.deep[kept], of.game[kept]))
    assert with_them.mean_abs.low == pytest.approx(without.mean_abs.low, abs=1e-9)
    assert with_them.mean_abs.high == pytest.approx(without.mean_abs.high, abs=1e-9)
    assert (with_them.share, with_them.finding) == (without.share, without.finding)
    assert with_them.first.candidates.count > without.first.candidates.count  # but it is counted
    assert with_them.first.candidates.rate == pytest.approx(without.first.candidates.rate)


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESAMPLES", 100)


@pytest.mark.slow
def test_errors_of_one_size_are_taken_for_repair_as_rarely_as_intervals_say(few_resamples: None) -> None:
    """Another scale, other errors of the same kind: nothing is better in truth."""
    alarms = np.zeros(2, int)
    for seed in range(SEEDS):
        found = judged(pair(seed, 600, alike=False))
        alarms += [found.share.clear, found.mean_abs.clear]
    assert [binomtest(int(count), SEEDS, 0.05, "greater").pvalue > 0.01 for count in alarms] == [True, True], alarms


@pytest.mark.slow
def test_intervals_hold_what_was_repaired(few_resamples: None) -> None:
    large = pair(10**6, 1_000_000, repaired=0.15)
    ones = np.ones(len(large.deep))
    size = [np.abs(curve.expected(ones) - large.deep) for curve in curves(large, ones)]
    share = float((size[1] >= THRESHOLD).mean() - (size[0] >= THRESHOLD).mean())
    mean = float(size[1].mean() - size[0].mean())
    rows = (np.abs(large.first - large.deep) >= THRESHOLD) & (np.abs(large.second - large.deep) < THRESHOLD)
    only_second = float((size[0][rows] >= THRESHOLD).mean())
    held = np.zeros(3, int)
    for seed in range(SEEDS):
        found = judged(pair(seed, 600, repaired=0.15))
        held += [
            found.share.low <= share <= found.share.high,
            found.mean_abs.low <= mean <= found.mean_abs.high,
            found.repaired.low <= only_second <= found.repaired.high,
        ]
    assert [binomtest(int(count), SEEDS, 0.95, "less").pvalue > 0.01 for count in held] == [True] * 3, held
