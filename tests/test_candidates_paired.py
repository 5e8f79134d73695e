"""Paired differences against published examples, statsmodels and scipy."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.weightstats import zconfint

from valuerepair.intervals import Table, bootstrap, cross, mean_interval, newcombe, wilson
from valuerepair.judge.compare import label_changes

counts = st.integers(0, 60)


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        # R. G. Newcombe, Statistics in Medicine 17, 2635 (1998), method 10; first less second there.
        ((36, 12, 2, 0), 0.0569, 0.3404),
        ((18, 12, 2, 18), 0.0562, 0.3290),
        ((53, 0, 0, 1), -0.0729, 0.0729),
        ((0, 30, 0, 0), 0.8395, 1.0),
        # M. Fagerland, S. Lydersen, P. Laake, Statistical Analysis of Contingency Tables (2017), chapter 8.
        ((59, 6, 16, 80), -0.1186, -0.0046),
    ],
)
def test_newcombe_published(table: tuple[int, int, int, int], low: float, high: float) -> None:
    found = newcombe(Table(*table))
    assert (-found.high, -found.low) == pytest.approx((low, high), abs=6e-5)


@given(counts, counts, counts, counts)
def test_newcombe_is_the_same_from_the_other_side(both: int, first: int, second: int, neither: int) -> None:
    if both + first + second + neither == 0:
        assert math.isnan(newcombe(Table(both, first, second, neither)).difference)
        return
    one, other = newcombe(Table(both, first, second, neither)), newcombe(Table(both, second, first, neither))
    assert (one.difference, one.low, one.high) == pytest.approx((-other.difference, -other.high, -other.low))
    assert -1 - 1e-9 <= one.low <= one.difference <= one.high <= 1 + 1e-9
    # The event and its absence say the same: what one has more of the other has less of.
    absence = newcombe(Table(neither, second, first, both))
    assert (one.low, one.high) == pytest.approx((-absence.high, -absence.low), abs=1e-9)


def test_newcombe_covers_what_it_says() -> None:
    rng, inside, runs = np.random.default_rng(4), 0, 600
    shares = np.array([0.02, 0.015, 0.03, 0.935])
    for drawn in rng.multinomial(1000, shares, runs):
        found = newcombe(Table(*drawn.tolist()))
        inside += found.low <= shares[2] - shares[1] <= found.high
    assert 0.92 <= inside / runs <= 0.98


def test_means_agree_with_statsmodels() -> None:
    x = np.random.default_rng(1).normal(size=60)
    found = mean_interval(x)
    assert (found.difference, found.low, found.high) == pytest.approx((x.mean(), *zconfint(x)), rel=1e-9)
    assert math.isnan(mean_interval(x[:1]).low)


def test_tables_count_and_weigh() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 500)) < 0.3
    table = cross(first, second)
    assert (table.both, table.first, table.total) == ((first & second).sum(), (first & ~second).sum(), 500)
    assert cross(first, second, np.full(500, 7.0)) == table
    weights = np.where(np.arange(500) < 400, 1.0, 50.0)
    heavy = cross(first, second, weights)
    assert heavy.total == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert heavy.shares == pytest.approx((np.average(first, weights=weights), np.average(second, weights=weights)))
    # A single share's interval is the Wilson interval the rest of the project uses.
    alone = newcombe(Table(0, 0, 30, 170))
    assert alone.high == pytest.approx(wilson(30, 200).high, abs=1e-12)


def test_resampled_games() -> None:
    rng = np.random.default_rng(1)
    moved, ones, games = rng.normal(0.2, 1, (400, 1)), np.ones(400), np.arange(400)
    (found,) = bootstrap(moved, ones, games)
    half = 1.96 * moved.std() / math.sqrt(400)
    assert found.difference == pytest.approx(moved.mean())
    assert (found.low, found.high) == pytest.approx((moved.mean() - half, moved.mean() + half), abs=0.1 * half)
    # The same positions once more in the same games are no further evidence; as games of their own they would be.
    again = bootstrap(np.repeat(moved, 4, 0), np.ones(1600), np.repeat(games, 4))[0]
    assert (again.low, again.high) == pytest.approx((found.low, found.high))
    apart = bootstrap(np.repeat(moved, 4, 0), np.ones(1600), np.arange(1600))[0]
    assert apart.high - apart.low < 0.6 * (found.high - found.low)
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


def test_changes_by_label() -> None:
    weights = pd.Series(np.ones(100), np.arange(1, 101))
    first = {1: frozenset({"optimistic", "endgame"}), 2: frozenset({"optimistic"}), 3: frozenset({"family:Caro-Kann"})}
    second = {1: frozenset({"pessimistic", "endgame"}), 9: frozenset({"optimistic"})}
    changes = {change.label: change for change in label_changes(first, second, weights)}
    assert list(changes) == ["optimistic", "pessimistic", "endgame", "family:Caro-Kann"]
    optimistic = changes["optimistic"]
    assert (optimistic.first, optimistic.second, optimistic.both) == (2, 1, 0)
    assert (optimistic.repaired, optimistic.newly) == (2, 1)
    assert optimistic.change == newcombe(Table(0, 2, 1, 97))
    assert changes["endgame"].change.difference == 0
    weights.iloc[0] = 20.0  # position 1 stands for twenty
    heavy = {change.label: change for change in label_changes(first, second, weights)}
    assert heavy["pessimistic"].change.difference == pytest.approx(20 / 119)
