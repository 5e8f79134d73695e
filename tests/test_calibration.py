"""Calibration against synthetic nets, whose expected deep Q is known by quadrature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from tests.survey_intervals import korn_graubard
from valuerepair import calibration
from valuerepair.arrays import Floats, Ids
from valuerepair.calibration import (
    FOLDS,
    PARTS,
    POINTS,
    Calibration,
    beyond_scale,
    fit,
    fold_of,
    part_of,
    read_curve,
    resampled_curves,
)
from valuerepair.errors import ValueRepairError
from valuerepair.intervals import of_variance

Rows = tuple[Floats, Floats, Floats, Ids]

SOME_Q = (0.1, 0.3, 0.5, 0.7, 0.9)


def draw(seed: int, games: int, per_game: int, k: float, noise: float, unequal: bool = False) -> Rows:
    """net Q = tanh(k artanh(deep Q)) + noise, half of the variance of both from game to game; weights, games.

    White and Black are to move in turn. Rows with a net Q beyond 1 are left out, which changes nothing for the others.
    """
    dice = np.random.default_rng(seed)
    game = np.repeat(np.arange(games), per_game)
    side = np.where(np.arange(len(game)) % 2, 1.0, -1.0)

    def spread() -> Floats:
        mixed: Floats = np.sqrt(0.5) * (dice.normal(size=games)[game] + dice.normal(size=len(game)))
        return side * mixed

    deep = np.tanh(spread())
    net = np.tanh(k * np.arctanh(deep)) + noise * spread()
    weight = dice.choice([0.5, 1.0, 5.0], len(game)) if unequal else np.ones(len(game))
    inside = np.abs(net) <= 1
    return net[inside], deep[inside], weight[inside], (game * 7919 + seed)[inside]


def expectation(net_q: Floats, k: float, noise: float) -> Floats:
    """E[deep | net] of `draw`, by quadrature."""
    z = np.linspace(-8, 8, 20_001)
    prior, deep, meant = np.exp(-(z**2) / 2), np.tanh(z), np.tanh(k * z)
    expected = np.empty(len(net_q))
    for i, q in enumerate(net_q):
        density = prior * np.exp(-(((q - meant) / noise) ** 2) / 2)
        expected[i] = density @ deep / density.sum()
    return expected


# -- a net of another scale --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "bend"), [(0.6, "flatter"), (1.6, "steeper"), (2.5, "steeper")])
def test_finds_how_steep_a_net_is(k: float, bend: str) -> None:
    fitted = fit(*draw(1, 1_000, 10, k, 0.01))
    steepness = fitted.steepness
    assert steepness.q == pytest.approx(k, rel=0.02)
    assert steepness.low < k < steepness.high
    assert fitted.bend == bend
    assert fitted.words().endswith(f"): there its Q is {bend} than the oracle's")  # the slope over all may say another
    assert f"a net's 0.50 is worth {np.tanh(np.arctanh(0.5) / k):.2f} (95 %:" in fitted.words()


def test_says_that_the_scale_is_the_same() -> None:
    fitted = fit(*draw(3, 1_000, 10, 1.0, 0.02))
    assert fitted.bend == ""
    assert fitted.steepness.low < 1 < fitted.steepness.high
    assert "no difference from the oracle's scale is shown" in fitted.words()


@pytest.mark.parametrize("resamples", [0, 200])
def test_says_where_the_two_hardly_go_together(resamples: int) -> None:
    """As where an engine scores from White's view: deep Q is of the other sign for half of the positions."""
    net, deep, weight, game = draw(3, 1_000, 10, 1.0, 0.02)
    deep[::2] *= -1
    words = fit(net, deep, weight, game, resamples=resamples).words()
    assert words.endswith(": deep Q hardly rises with net Q")
    assert "inf" not in words


@pytest.mark.parametrize("k", [0.5, 2.0])
def test_what_is_left_beyond_scale_is_the_noise(k: float) -> None:
    noise, threshold = 0.2, 0.35
    net, deep, weight, game = draw(5, 4_000, 10, k, noise)
    judged = fit(net, deep, weight, game, resamples=0).expected(net, fold_of(game))
    truth = np.interp(net, at := np.linspace(-1, 1, 401), expectation(at, k, noise))
    left, of_noise = np.abs(judged - deep) >= threshold, np.abs(truth - deep) >= threshold
    raw = np.abs(net - deep) >= threshold
    assert left.sum() == pytest.approx(of_noise.sum(), rel=0.03)
    assert (left != of_noise).sum() < 0.06 * of_noise.sum()
    # Else there would have been no scale to take away.
    assert raw.sum() > 1.3 * left.sum()


def test_noise_of_the_net_pulls_the_curve_flat() -> None:
    """Regression to the mean: the scale is the same, and yet 0.9 of a noisy net is worth less."""
    noise = 0.4
    worth = fit(*draw(7, 4_000, 10, 1.0, noise)).worth(0.9)
    (truth,) = expectation(np.array([0.9]), 1.0, noise)
    assert worth.low < truth < worth.high < 0.85


# -- intervals ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("k", "unequal"), [(0.6, False), (1.6, True)])
def test_intervals_hold_the_truth(k: float, unequal: bool) -> None:
    noise = 0.15
    truth = expectation(np.array(SOME_Q), k, noise)
    held = []
    for seed in range(200):
        fitted = fit(*draw(seed, 200, 10, k, noise, unequal), resamples=200, seed=seed)
        worths = [fitted.worth(q) for q in SOME_Q]
        held.append([worth.low <= true <= worth.high for worth, true in zip(worths, truth, strict=True)])
    coverage = np.mean(held, axis=0)
    assert 0.92 <= coverage.mean() <= 0.98, coverage
    assert coverage.min() >= 0.88, coverage


def test_an_interval_of_games_is_wider_than_one_of_rows() -> None:
    net, deep, weight, game = draw(11, 60, 40, 1.0, 0.3)
    of_games, of_rows = (fit(net, deep, weight, groups).worth() for groups in (game, np.arange(len(game))))
    assert of_games.high - of_games.low > 1.5 * (of_rows.high - of_rows.low)


def test_the_interval_comes_from_the_seed() -> None:
    rows = draw(12, 60, 10, 1.0, 0.3)
    first, again, other = (fit(*rows, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.low, again.low)
    assert np.array_equal(first.high, again.high)
    assert not np.array_equal(first.low, other.low)
    assert np.array_equal(first.curve, other.curve)


def test_resampled_curves_are_those_of_the_interval() -> None:
    rows = draw(14, 60, 10, 1.4, 0.3)
    fitted = fit(*rows, resamples=200, seed=3)
    _, curves = resampled_curves(*rows, fitted.method, resamples=200, seed=3)
    assert np.allclose(np.percentile(curves, [2.5, 97.5], axis=0), [fitted.low, fitted.high], atol=1e-6)
    net_q = np.array([-0.5, 0.0, 0.25, np.nan])
    assert np.allclose(read_curve(fitted.curve, net_q)[:3], [fitted.worth(q).q for q in net_q[:3]])
    assert np.isnan(read_curve(fitted.curve, net_q)[3])
    # A net of twice the values, but for the steps of a curve, meets the same games.
    _, half = resampled_curves(rows[0] / 2, *rows[1:], fitted.method, resamples=200, seed=3)
    one, other = ([float(read_curve(curve, q)) for curve in drawn] for drawn, q in ((curves, 0.4), (half, 0.2)))
    assert np.std(np.subtract(one, other)) < 0.5 * np.std(one)


def test_without_resamples_there_is_a_curve_and_no_interval() -> None:
    rows = draw(13, 60, 10, 0.6, 0.1)
    bare = fit(*rows, resamples=0)
    assert np.isnan(bare.low).all()
    assert np.isnan(bare.high).all()
    assert np.array_equal(bare.curve, fit(*rows).curve)
    assert bare.bend == ""
    assert "95 %" not in bare.words()


# -- laws --------------------------------------------------------------------------------------------------------------


def mixed(seed: int, slope: float, noise: float, mates: float, games: int) -> Rows:
    """Values as stores have them: of any relation at all, with mates, and with ties."""
    dice = np.random.default_rng(seed)
    rows = int(dice.integers(300, 600))
    net = dice.uniform(-1, 1, rows) ** dice.choice([1, 3])
    deep = np.clip(slope * net + noise * dice.normal(size=rows), -1, 1)
    deep[dice.random(rows) < mates] = 1.0
    return np.round(net, dice.choice([1, 9])), deep, dice.choice([0.3, 1.0, 20.0], rows), dice.integers(0, games, rows)


STORES = st.builds(
    mixed, st.integers(0, 2**32), st.floats(-2, 2), st.floats(0, 1), st.sampled_from([0.0, 0.3]), st.integers(40, 400)
)
LAWS = settings(max_examples=40, deadline=None)


@LAWS
@given(STORES)
def test_the_curve_is_odd_monotone_and_within_bounds(rows: Rows) -> None:
    fitted = fit(*rows, resamples=20)
    q = np.linspace(0, 1, 401)
    for fold in range(FOLDS):
        curve, other = (fitted.expected(net_q, np.full(len(q), fold)) for net_q in (q, -q))
        assert np.array_equal(curve, -other)
        assert curve[0] == 0
        assert curve[-1] <= 1
        assert (np.diff(curve) >= 0).all()
    assert (fitted.low <= fitted.high).all()


@LAWS
@given(STORES, st.integers(0, 9), st.floats(0.01, 100))
def test_neither_order_nor_unit_of_weight_matters(rows: Rows, seed: int, unit: float) -> None:
    fitted = fit(*rows, resamples=20)
    net, deep, weight, game = rows
    order = np.random.default_rng(seed).permutation(len(net))
    other = fit(net[order], deep[order], unit * weight[order], game[order], resamples=20)
    for name in ("curve", "by_fold", "low", "high"):
        assert getattr(other, name) == pytest.approx(getattr(fitted, name), abs=1e-5)


@LAWS
@given(STORES)
def test_turning_the_board_changes_nothing(rows: Rows) -> None:
    net, deep, weight, game = rows
    turned = np.where(game % 2 == 0, -1.0, 1.0)
    fitted, other = fit(*rows, resamples=0), fit(turned * net, turned * deep, weight, game, resamples=0)
    assert other.by_fold == pytest.approx(fitted.by_fold, abs=1e-5)


@LAWS
@given(STORES, st.integers(0, 39))
def test_no_game_has_a_part_in_its_own_judgement(rows: Rows, chosen: int) -> None:
    net, deep, weight, game = rows
    own = game == game[chosen]
    altered = np.where(own, -deep, deep)
    fold = fold_of(game)
    before = fit(net, deep, weight, game, resamples=0).expected(net, fold)
    after = fit(net, altered, weight, game, resamples=0).expected(net, fold)
    assert np.array_equal(before[own], after[own])


def test_a_game_has_a_part_in_the_judgement_of_others() -> None:
    net, deep, weight, game = draw(15, 40, 10, 1.0, 0.2)
    before, after = (
        fit(net, deep_q, weight, game, resamples=0).expected(net, fold_of(game))
        for deep_q in (deep, np.where(game == game[0], -deep, deep))
    )
    assert not np.array_equal(before, after)


def test_rows_without_a_value_and_rows_without_weight_have_no_part() -> None:
    net, deep, weight, game = draw(16, 60, 10, 1.6, 0.2)
    fitted = fit(net, deep, weight, game)
    missing = np.array([np.nan, 0.5, 0.5]), np.array([0.5, np.nan, -1.0]), np.array([9.0, 9.0, 0.0]), np.arange(3)
    other = fit(*(np.concatenate(pair) for pair in zip((net, deep, weight, game), missing, strict=True)))
    assert (other.positions, other.games) == (fitted.positions, fitted.games) == (len(net), 60)
    assert np.array_equal(other.by_fold, fitted.by_fold)
    assert np.array_equal(other.low, fitted.low)


def test_a_missing_net_value_stays_missing() -> None:
    fitted = fit(*draw(17, 60, 10, 1.6, 0.2), resamples=0)
    read = fitted.expected(np.array([np.nan, 0.0, 1.0, -1.0]), np.array([0, 1, 2, 2]))
    assert np.isnan(read[0])
    assert read[1] == 0
    assert read[2] == -read[3] > 0.5


# -- methods -----------------------------------------------------------------------------------------------------------


def test_isotonic_where_the_truth_has_a_step() -> None:
    dice = np.random.default_rng(18)
    net = dice.uniform(-1, 1, 4_000)
    deep = np.sign(net) * np.where(np.abs(net) < 0.7, 0.1, 0.8) + 0.02 * dice.normal(size=4_000)
    fitted = fit(net, deep, np.ones(4_000), np.arange(4_000), resamples=0)
    assert fitted.method == "isotonic"
    expected = isotonic_regression((deep * np.sign(net))[order := np.argsort(np.abs(net))]).x
    at = np.abs(net)[order]
    inside = (np.abs(at - 0.7) > 0.05) & (at > 0.1)
    assert fitted.curve[np.searchsorted(POINTS, at[inside])] == pytest.approx(expected[inside], abs=0.02)
    assert fit(*draw(18, 400, 10, 1.6, 0.1), resamples=0).method == "spline"


def test_beyond_the_largest_net_q_the_curve_is_level_and_not_called_known() -> None:
    net, deep, weight, game = draw(19, 300, 10, 1.0, 0.1)
    near = np.abs(net) < 0.3
    fitted = fit(net[near], deep[near], weight[near], game[near])
    assert fitted.curve[-1] == fitted.curve[np.searchsorted(POINTS, 0.32)]
    assert np.isnan(fitted.worth()).all()
    assert np.isnan(fitted.steepness).all()
    assert not fitted.bend
    assert "its scale is unknown" in fitted.words()
    assert not np.isnan(fitted.worth(0.2)).any()
    assert fitted.worth(-0.2).q == -fitted.worth(0.2).q
    assert fitted.worth(-0.2).low == -fitted.worth(0.2).high


@pytest.mark.parametrize(("games", "each"), [(29, 10), (10, 100)])
def test_too_little_makes_no_curve(games: int, each: int) -> None:
    rows = draw(20, games, each, 0.5, 0.01)
    with pytest.raises(ValueRepairError, match=rf"{len(rows[0]):,} positions of {games} games.* are needed"):
        fit(*rows)


# -- folds -------------------------------------------------------------------------------------------------------------


def test_parts_are_by_murmurs_finaliser() -> None:
    # fmix64 of 0, 1 and 2, of the reference implementation (SMHasher, MurmurHash3.cpp).
    published = [0, 0xB456BCFC34C2CB2C, 0x3ABF2A20650683E7]
    assert part_of([0, 1, 2]).tolist() == [number % PARTS for number in published]
    assert np.array_equal(fold_of([0, 1, 2]), part_of([0, 1, 2]) % FOLDS)


def test_folds_are_of_like_size_and_stay() -> None:
    games = np.arange(80_000) * 4096 - 2**60
    counts = np.bincount(fold_of(games), minlength=FOLDS)
    assert np.abs(counts - 10_000).max() < 4 * np.sqrt(10_000)
    assert np.array_equal(fold_of(games[5:9]), fold_of(games)[5:9])


# -- kept --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resamples", [0, 50])
def test_reads_back_what_was_written(resamples: int) -> None:
    fitted = fit(*draw(21, 60, 10, 1.6, 0.2), alpha=402.5, q_from="wdl", resamples=resamples)
    read = Calibration.from_json(fitted.as_json())
    for name in calibration.Calibration.__dataclass_fields__:
        first, second = getattr(fitted, name), getattr(read, name)
        assert np.array_equal(first, second, equal_nan=True) if isinstance(first, np.ndarray) else first == second
    assert replace(read, alpha=1.0).alpha == 1.0


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"curve": [0, 1]}'])
def test_another_text_is_no_calibration(text: str) -> None:
    with pytest.raises(ValueRepairError, match="not a calibration"):
        Calibration.from_json(text)


# -- candidates beyond scale ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("k", "unequal"), [(0.5, False), (1.6, True)])
def test_intervals_of_what_is_left_hold_the_truth(k: float, unequal: bool) -> None:
    noise, threshold = 0.2, 0.35
    net, deep, _, _ = draw(999, 20_000, 10, k, noise)
    truth = np.interp(net, at := np.linspace(-1, 1, 401), expectation(at, k, noise))
    plain = np.abs(net - deep) >= threshold
    share = float((np.abs(truth - deep)[plain] >= threshold).mean())
    held = []
    for seed in range(200):
        rows = draw(seed, 200, 10, k, noise, unequal)
        remaining = beyond_scale(fit(*rows, resamples=0), *rows, threshold, resamples=50, seed=seed).remaining
        held.append(remaining.low <= share <= remaining.high)
    assert 0.92 <= np.mean(held) <= 0.98


def test_a_rate_of_known_variance_is_korn_and_graubards_of_so_many_rows() -> None:
    """Against scipy's distributions; what resampled games vary by is put in as a number."""
    hits = np.arange(400) < 100
    ones, games = np.ones(400), np.arange(400) // 4
    for rows in (40, 160):
        rate = of_variance(hits, ones, games, 0.25 * 0.75 / rows)
        assert (rate.low, rate.high) == pytest.approx(korn_graubard(0.25, 100, 400, 100, 400 / rows))
    # No row says more than one.
    narrow = of_variance(hits, ones, games, 1e-9)
    assert (narrow.low, narrow.high) == pytest.approx(korn_graubard(0.25, 100, 400, 100, 1e-9))
    assert korn_graubard(0.25, 100, 400, 100, 1e-9) == korn_graubard(0.25, 100, 400, 100, 0.5)
    weights = np.where(np.arange(400) % 2, 1.0, 3.0)
    kish = weights.sum() ** 2 / (weights @ weights)
    narrow = of_variance(hits, weights, games, 0.0)
    assert (narrow.low, narrow.high) == pytest.approx(korn_graubard(0.25, 100, kish, 100, 0))
    # All of 400 rows of 100 games: these are taken to be somewhat alike.
    every = of_variance(ones > 0, ones, games, 0.0)
    assert (every.low, every.high) == pytest.approx(korn_graubard(1, 0, 400, 100, 0))
