"""The weighted lowess line against statsmodels on repeated rows, a brute-force fit, and the rows that were left out."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.nonparametric.smoothers_lowess import lowess

from valuerepair.arrays import Floats
from valuerepair.report.drawing import LOWESS_FRACTION, copied, lowess_line


def curve(n: int, seed: int = 0) -> tuple[Floats, Floats]:
    """x in [-1, 1] and a bent y with noise and outliers."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    y = np.tanh(2 * x) - 0.3 * x**2 + rng.normal(0, 0.1, n)
    y[rng.random(n) < 0.05] += 1.0
    return x, y


def at(line: tuple[Floats, Floats] | None, places: Floats) -> Floats:
    assert line is not None
    return np.asarray(np.interp(places, *line))


def test_whole_weights_are_rows_repeated() -> None:
    x, y = curve(400)
    weights = np.random.default_rng(1).integers(1, 9, 400).astype(float)
    rows = np.repeat(np.arange(400), weights.astype(int))
    exact = lowess(y[rows], x[rows], LOWESS_FRACTION, it=3, delta=0.0)
    places, first = np.unique(exact[:, 0], return_index=True)
    grid = np.linspace(-0.95, 0.95, 80)
    np.testing.assert_allclose(
        at(lowess_line(x, y, weights), grid), np.interp(grid, places, exact[first, 1]), atol=0.01
    )


def brute_force(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Cleveland's algorithm with case weights, one WLS of statsmodels a place: fitted values at x [n]."""
    robust, fitted = np.ones_like(x), np.zeros_like(x)
    for _ in range(4):
        for i, place in enumerate(x):
            far = np.abs(x - place)
            order = np.argsort(far)
            inside = np.searchsorted(np.cumsum(weights[order]), LOWESS_FRACTION * weights.sum())
            kernel = np.clip(1 - (far / far[order][inside]) ** 3, 0, None) ** 3
            design = sm.add_constant(x - place, has_constant="add")
            fitted[i] = sm.WLS(y, design, weights=kernel * robust * weights).fit().params[0]
        off = np.abs(y - fitted)
        order = np.argsort(off)
        median = off[order][np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)]
        robust = np.clip(1 - (off / (6 * median)) ** 2, 0, None) ** 2
    return fitted


def test_weights_that_are_not_whole_are_weights_of_a_local_fit() -> None:
    x, y = curve(160, 3)
    weights = np.where(np.random.default_rng(2).random(160) < 0.3, 17.37, 1.0)
    fitted = brute_force(x, y, weights)
    inner = np.abs(x) < 0.9
    np.testing.assert_allclose(at(lowess_line(x, y, weights), x[inner]), fitted[inner], atol=0.012)
    plain = at(lowess_line(x, y, np.ones(len(x))), x[inner])
    assert np.abs(plain - fitted[inner]).max() > 0.04  # the check can fail


def test_rows_kept_by_a_ladder_give_the_line_of_all() -> None:
    """As screening does: rows far from the diagonal are kept, and one in twelve of the rest, to stand for twelve."""
    rng = np.random.default_rng(5)
    deep = rng.uniform(-1, 1, 30_000)
    net = np.clip(0.9 * deep + rng.normal(0, 0.15, len(deep)) + np.where(rng.random(len(deep)) < 0.1, 0.5, 0), -1, 1)
    whole = at(lowess_line(deep, net, np.ones(len(deep))), np.linspace(-0.8, 0.8, 50))
    far = np.abs(net - deep) >= 0.4
    kept = far | (rng.random(len(deep)) < 1 / 12)
    weights = np.where(far, 1.0, 12.0)[kept]
    weighted = at(lowess_line(deep[kept], net[kept], weights), np.linspace(-0.8, 0.8, 50))
    unweighted = at(lowess_line(deep[kept], net[kept], np.ones(kept.sum())), np.linspace(-0.8, 0.8, 50))
    assert np.abs(weighted - whole).max() < 0.03
    assert np.abs(unweighted - whole).max() > 0.1


@given(st.lists(st.floats(0.01, 60), min_size=1, max_size=300))
def test_every_range_of_rows_has_its_weight_to_within_a_copy(given_weights: list[float]) -> None:
    weights = np.array([*given_weights, 1.0])
    copies = copied(weights)
    scale = copies.sum() / weights.sum()
    assert np.abs(np.cumsum(copies) - np.cumsum(weights) * scale).max() <= 1 + 1e-9 * scale
    assert copies.sum() <= 1_000_000


def test_many_are_capped_and_equal_weights_are_none() -> None:
    assert copied(np.full(3, 4e6)).sum() == pytest.approx(1_000_000, abs=1)
    x, y = curve(300)
    equal, plain = lowess_line(x, y, np.full(300, 3.7)), lowess_line(x, y, np.ones(len(x)))
    assert equal is not None
    assert plain is not None
    np.testing.assert_array_equal(equal[1], plain[1])


def test_rows_that_weigh_nothing_are_not_there() -> None:
    x, y = curve(300)
    weights = np.where(np.arange(300) < 150, 2.0, 0.0)
    some, half = lowess_line(x, y, weights), lowess_line(x[:150], y[:150], np.ones(150))
    assert some is not None
    assert half is not None
    np.testing.assert_array_equal(some, half)
    assert lowess_line(x, y, np.where(np.arange(300) < 10, 1.0, 0.0)) is None
