"""Paired differences against published examples and statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.weightstats import zconfint

from valuerepair import intervals
from valuerepair.intervals import bootstrap, mean_interval, rare_changes, resampled, share_change, wilson
from valuerepair.judge.label_changes import label_changes


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
    dense = share_change(bootstrap(changes[:, None], ones, games)[0], ones, games)
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
