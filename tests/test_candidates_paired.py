"""Paired differences against published examples and statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import zconfint

from valuerepair import intervals
from valuerepair.arrays import Floats, Ids
from valuerepair.intervals import (
    Interval,
    bootstrap,
    mean_interval,
    rare_changes,
    resampled,
    share_change,
    wilson,
)
from valuerepair.judge.by_kind import rows_by_kind
from valuerepair.judge.labels import label_changes


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        # R. G. Newcombe, Statistics in Medicine 17, 2635 (1998), method 10; first less second there.
        ((36, 12, 2, 0), 0.0569, 0.3404),
        ((18, 12, 2, 18), 0.0562, 0.3290),
        ((53, 0, 0, 1), -0.0729, 0.0729),
        # M. Fagerland, S. Lydersen, P. Laake, Statistical Analysis of Contingency Tables (2017), chapter 8.
        ((59, 6, 16, 80), -0.1186, -0.0046),
    ],
)
def test_resampled_rows_conclude_what_published_intervals_do(
    table: tuple[int, int, int, int], low: float, high: float
) -> None:
    """The paired difference of two shares, rows as games of their own: near the published bounds, as clear as these."""
    changes = np.repeat([0.0, -1.0, 1.0, 0.0], table)
    ones, games = np.ones(len(changes)), np.arange(len(changes))
    dense = share_change(bootstrap(changes[:, None], ones, games)[0], changes, ones, games)
    rows = np.flatnonzero(changes)
    (sparse,) = rare_changes(rows, np.zeros(len(rows), np.int64), changes[rows], 1, ones, games)
    for interval in (dense, sparse):
        assert (-interval.high, -interval.low) == pytest.approx((low, high), abs=0.015)
        assert interval.clear == (low > 0 or high < 0)


def test_means_agree_with_statsmodels() -> None:
    x = np.random.default_rng(1).normal(size=60)
    interval = mean_interval(x)
    assert (interval.difference, interval.low, interval.high) == pytest.approx((x.mean(), *zconfint(x)), rel=1e-9)
    assert math.isnan(mean_interval(x[:1]).low)


def test_resampled_games() -> None:
    rng = np.random.default_rng(1)
    moved, ones, games = rng.normal(0.2, 1, (400, 1)), np.ones(400), np.arange(400)
    (interval,) = bootstrap(moved, ones, games)
    half = 1.96 * moved.std() / math.sqrt(400)
    assert interval.difference == pytest.approx(moved.mean())
    assert (interval.low, interval.high) == pytest.approx((moved.mean() - half, moved.mean() + half), abs=0.1 * half)
    # The same positions once more in the same games are no further evidence; as games of their own they would be.
    again = bootstrap(np.repeat(moved, 4, 0), np.ones(1600), np.repeat(games, 4))[0]
    assert (again.low, again.high) == pytest.approx((interval.low, interval.high))
    apart = bootstrap(np.repeat(moved, 4, 0), np.ones(1600), np.arange(1600))[0]
    assert apart.high - apart.low < 0.6 * (interval.high - interval.low)
    # A weight is what as many rows would be.
    weighted = bootstrap(moved, np.where(games < 100, 3.0, 1.0), games)[0]
    assert weighted.difference == pytest.approx(np.concatenate([moved, moved[:100], moved[:100]]).mean())


def test_no_change_is_exactly_none() -> None:
    both = np.zeros((50, 2))
    assert all((x.difference, x.low, x.high) == (0, 0, 0) for x in bootstrap(both, np.ones(50), np.arange(50)))
    (alone,) = bootstrap(np.ones((5, 1)), np.ones(5), np.zeros(5, np.int64))
    assert alone.difference == 1
    assert math.isnan(alone.low)
    assert math.isnan(bootstrap(np.empty((0, 1)), np.empty(0), np.empty(0, np.int64))[0].difference)


def test_draws_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(resampled(30, 50, np.random.default_rng(3))))
    monkeypatch.setattr(intervals, "_BLOCK", 100)
    assert (np.concatenate(list(resampled(30, 50, np.random.default_rng(3)))) == whole).all()
    assert whole.shape == (50, 30)
    assert (whole.sum(1) == 30).all()
    rng = np.random.default_rng(3)
    assert (whole[0] == np.bincount(rng.choice(np.arange(30), 30), minlength=30)).all()


# -- screened stores --------------------------------------------------------------------------------------------------


def change_of(changes: Floats, weights: Floats, games: Ids) -> Interval:
    rows = np.flatnonzero(changes)
    (interval,) = rare_changes(rows, np.zeros(len(rows), np.int64), changes[rows], 1, weights, games)
    return interval


def screened(
    rng: np.random.Generator, games: int, rates: tuple[float, float], audit: float
) -> tuple[Floats, Floats, Ids]:
    """The changes of candidates from net A to B, weights and games, on a store that the ladder of A has screened.

    Five positions of each game. The rates are those of A's candidates and of B's; half of A's are also B's. The ladder
    keeps 98 % of A's candidates and 30 % of all other positions, and a cut one is audited with the chance `audit`.
    """
    game = np.repeat(np.arange(games), 5)
    errs = rng.gamma(2, 0.5, games)[game]  # in some games both err more
    both, only_a, only_b = (
        rng.random(len(game)) < errs * rate for rate in (rates[0] / 2, rates[0] / 2, rates[1] - rates[0] / 2)
    )
    wrong = both | only_a
    kept = rng.random(len(game)) < np.where(wrong, 0.98, 0.3)
    audited = ~kept & (rng.random(len(game)) < audit)
    weights = np.ones(len(game))
    weights[audited] = (~kept).sum() / audited.sum()
    searched = kept | audited
    changes = np.where(both | only_b, 1.0, 0.0) - wrong
    return np.asarray(changes[searched]), weights[searched], game[searched]


@pytest.mark.parametrize(("rates", "audit"), [((0.04, 0.04), 0.07), ((0.04, 0.04), 0.3), ((0.04, 0.08), 0.07)])
@pytest.mark.slow
def test_what_few_audits_cannot_see_is_in_the_interval(
    rates: tuple[float, float], audit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1,500 positions some 1,000 are cut; B's new errors among them show in the 70 or 300 audits alone. Percentiles
    of resampled games alone leave out the truth in 21, 4 and 9 of 100 stores, and mostly in favour of B."""
    monkeypatch.setattr(intervals, "RESAMPLES", 400)
    rng = np.random.default_rng(1)
    errs = np.random.default_rng(2).gamma(2, 0.5, 10**6)
    only_a, only_b = (1 - errs * (rate - rates[0] / 2) for rate in rates)
    truth = float(np.mean((1 - errs * rates[0] / 2) * (only_a - only_b)))
    changes = [change_of(*screened(rng, 300, rates, audit)) for _ in range(200)]
    held = [interval.low <= truth <= interval.high for interval in changes]
    assert np.mean(held) >= 0.95
    assert np.mean([interval.difference for interval in changes]) == pytest.approx(truth, abs=0.005)
    assert np.mean([interval.high - interval.low for interval in changes]) < 0.16


def test_audits_without_a_change_have_the_width_of_their_rates() -> None:
    """Joined as MOVER says; the bounds of both strata are those of statsmodels."""
    weights, games = np.repeat([1.0, 1000 / 67], [500, 67]), np.arange(567)
    none = change_of(np.zeros(567), weights, games)
    kept, drawn = (proportion_confint(0, n, method="wilson")[1] * n_all / 1500 for n, n_all in ((500, 500), (67, 1000)))
    assert none.difference == 0
    assert none.high == pytest.approx(math.hypot(kept, drawn))
    assert none.low == -none.high
    # Changes of kept positions alone leave as much open among the cut ones.
    changes = np.zeros(567)
    changes[:12] = -1
    (of_kept,) = bootstrap(changes[:, None], weights, games)
    joined = change_of(changes, weights, games)
    assert joined.difference == pytest.approx(-12 / 1500)
    assert joined.high - joined.difference == pytest.approx(math.hypot(of_kept.high - of_kept.difference, drawn))
    assert of_kept.high < 0 < joined.high
    # An audit that is newly wrong moves both ends.
    changes[500] = 1
    newly = change_of(changes, weights, games)
    assert newly.difference == pytest.approx((-12 + 1000 / 67) / 1500)
    low, high = proportion_confint(1, 67, method="wilson")
    above = math.hypot(of_kept.high - of_kept.difference, (high - 1 / 67) * 1000 / 1500)
    below = math.hypot(of_kept.difference - of_kept.low, (1 / 67 - low) * 1000 / 1500, drawn)
    assert (newly.low, newly.high) == pytest.approx((newly.difference - below, newly.difference + above), abs=1e-6)


def test_a_comparison_by_kind_has_that_width() -> None:
    """On positions where B differs from A among kept ones alone: by kind."""
    rng = np.random.default_rng(3)
    count, audits = 1000, 60
    game, deep = np.arange(count), np.tanh(rng.normal(0, 0.6, count))
    first = np.tanh(np.arctanh(deep) + rng.normal(0, 0.35, count))
    second = np.where(game < count - audits, np.tanh(np.arctanh(deep) + rng.normal(0, 0.25, count)), first)
    weights = np.where(game < count - audits, 1.0, 2000 / audits)
    least = proportion_confint(0, audits, method="wilson")[1] * 2000 / weights.sum()
    [row] = rows_by_kind((first, second), deep, weights, game, np.full(count, "game", object))
    change = row.candidates[0].change
    assert change.difference < 0
    assert change.high - change.difference >= 0.999 * least
    assert change.difference - change.low >= 0.999 * least


def test_changes_by_label() -> None:
    numbers, weights, games = np.arange(1, 101), np.ones(100), np.arange(100) // 2
    first = {1: frozenset({"optimistic", "endgame"}), 2: frozenset({"optimistic"}), 3: frozenset({"family:Caro-Kann"})}
    second = {1: frozenset({"pessimistic", "endgame"}), 9: frozenset({"optimistic"})}
    changes = {change.label: change for change in label_changes(first, second, numbers, weights, games)}
    assert list(changes) == ["optimistic", "pessimistic", "endgame", "family:Caro-Kann"]
    optimistic = changes["optimistic"]
    assert (optimistic.first, optimistic.second, optimistic.both) == (2, 1, 0)
    assert (optimistic.repaired, optimistic.newly) == (2, 1)
    moved = np.zeros((100, 1))
    moved[[0, 1, 8], 0] = -1, -1, 1
    (expected,) = bootstrap(moved, weights, games)
    interval = optimistic.change
    assert (interval.difference, interval.low, interval.high) == pytest.approx(
        (expected.difference, expected.low, expected.high)
    )
    assert changes["endgame"].change.difference == 0
    assert changes["endgame"].change.high == pytest.approx(wilson(0, 50).high)
    weights[0] = 20.0  # position 1 stands for twenty
    heavy = {change.label: change for change in label_changes(first, second, numbers, weights, games)}
    assert heavy["pessimistic"].change.difference == pytest.approx(20 / 119)
