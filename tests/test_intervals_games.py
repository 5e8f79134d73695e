"""Rates of rows of which those of one game are alike: how often their intervals hold the truth, and statsmodels."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import bootstrap, norm, t
from statsmodels.regression.linear_model import WLS

from tests.survey_intervals import korn_graubard
from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.intervals import (
    Rate,
    WeightedCount,
    korn_graubard_bounds,
    loose_bound_words,
    percentile_bounds,
    resampled_bounds,
    weighted,
    wilson,
)

GAMES, TRUTH = 120, 0.2


def draw(rng: np.random.Generator, *, unequal: bool) -> tuple[Flags, Ids]:
    """Positions of games whose own rates are beta-distributed, with an intraclass correlation of 1/8: 30 a game."""
    sizes = rng.geometric(1 / 30, GAMES) if unequal else np.full(GAMES, 30)
    game = np.repeat(np.arange(GAMES), sizes)
    rates = rng.beta(7 * TRUTH, 7 * (1 - TRUTH), GAMES)
    return rng.random(len(game)) < rates[game], game


def screened(rng: np.random.Generator, hits: Flags, game: Ids) -> tuple[Flags, Floats, Ids]:
    """What a ladder leaves of them that keeps most hits and few others, and one in five of what it cuts."""
    kept = rng.random(len(hits)) < np.where(hits, 0.8, 0.1)
    audited = ~kept & (rng.random(len(hits)) < 0.2)
    weight = np.where(kept, 1.0, (~kept).sum() / audited.sum())
    shown = kept | audited
    return hits[shown], weight[shown], game[shown]


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("weights", ["one", "many", "screened"])
def test_intervals_of_games_with_positions_alike_hold_the_truth(weights: str, *, unequal: bool) -> None:
    rng, held, alone = np.random.default_rng(11), [], []
    for _ in range(500):
        hits, game = draw(rng, unequal=unequal)
        weight = np.ones(len(hits)) if weights != "many" else rng.choice([1.5, 3.0, 6.0], len(hits))
        if weights == "screened":
            hits, weight, game = screened(rng, hits, game)
        by_games, rows = weighted(hits, weight, game), weighted(hits, weight)
        assert (by_games.count, by_games.total, by_games.rate) == (rows.count, rows.total, rows.rate)
        held.append(by_games.low <= TRUTH <= by_games.high)
        alone.append(rows.low <= TRUTH <= rows.high)
    assert 0.92 <= np.mean(held) <= 0.98
    assert np.mean(alone) < 0.75


def test_rows_of_games_of_their_own_are_independent() -> None:
    rng = np.random.default_rng(3)
    hits = rng.random(300) < 0.2
    for weight in (np.ones(300), np.full(300, 4.5)):
        rate, expected = weighted(hits, weight, rng.permutation(300)), wilson(int(hits.sum()), 300)
        assert (rate.rate, rate.low, rate.high) == pytest.approx((expected.rate, expected.low, expected.high))
    weight = rng.choice([1.0, 5.0, 9.0], 300)
    assert _bounds(weighted(hits, weight, rng.permutation(300))) == pytest.approx(_bounds(weighted(hits, weight)))


@pytest.mark.parametrize("unequal", [False, True])
def test_the_design_effect_is_that_of_statsmodels(*, unequal: bool) -> None:
    """Clusters against rows, both by its sandwich of a weighted regression on a constant."""
    rng = np.random.default_rng(8)
    hits, game = draw(rng, unequal=unequal)
    weight = rng.choice([2.0, 3.0, 7.0], len(hits))
    model = WLS(hits.astype(float), np.ones(len(hits)), weight)
    clusters = model.fit(cov_type="cluster", cov_kwds={"groups": game, "use_correction": False})
    ratio = float(clusters.cov_params()[0, 0] / model.fit(cov_type="HC0").cov_params()[0, 0])
    assert ratio > 2
    rate = float(clusters.params[0])
    assert _bounds(weighted(hits, weight, game)) == pytest.approx((rate, *_expected(rate, hits, weight, game, ratio)))


def _expected(rate: float, hits: Flags, weight: Floats, game: Ids, ratio: float) -> tuple[float, float]:
    of_games = np.array([weight[game == number].sum() for number in np.unique(game)])
    rows, games = weight.sum() ** 2 / (weight**2).sum(), weight.sum() ** 2 / (of_games**2).sum()
    return korn_graubard(rate, min(hits.sum(), (~hits).sum()), rows, games, ratio)


def test_where_nothing_differs_games_are_taken_to_be_somewhat_alike() -> None:
    """With 0, 1 and 2 candidates of 10 games of 30 positions the upper ends that issue 34 names."""
    game = np.repeat(np.arange(10), 30)
    bounds = []
    for candidates in range(3):
        hits = np.isin(np.arange(300), 40 * np.arange(candidates))
        rate, opposite = weighted(hits, np.ones(300), game), weighted(~hits, np.ones(300), game)
        assert (opposite.low, opposite.high) == pytest.approx((1 - rate.high, 1 - rate.low))
        bounds.append(round(100 * rate.high, 1))
    assert bounds == [6.2, 4.6, 4.3]


def test_one_game_does_not_tell_how_games_differ() -> None:
    of_one = weighted(np.arange(120) < 60, np.ones(120), np.zeros(120, np.int64))
    assert _bounds(of_one) == (0.5, 0.0, 1.0)


# Rate, variance and interval of svyciprop(method="beta") in R's survey 4.1.1: apiclus1, 183 schools of 15 districts, by
# svydesign(id=~dnum), for ell == 0, comp.imp == "Yes", stype == "H", api00 < 500, meals > 80.
_OF_R = [
    (0.0218579235, 0.000522121144, 0.000198643679, 0.139396111631),
    (0.726775956, 0.000938359826, 0.655307832, 0.790571922),
    (0.0765027322, 0.000733318597, 0.0292835217, 0.1570584988),
    (0.0983606557, 0.00163157126, 0.0303648528, 0.2226144299),
    (0.174863388, 0.00657762128, 0.0409156072, 0.4189646608),
]


@pytest.mark.parametrize(("rate", "variance", "low", "high"), _OF_R)
def test_the_interval_is_that_of_the_survey_package_of_r(rate: float, variance: float, low: float, high: float) -> None:
    of_all_rows = (t.ppf(0.975, 182) / norm.ppf(0.975)) ** 2  # R has t of all rows where we have the normal
    bounds = korn_graubard_bounds(rate, rate * (1 - rate) / variance * float(of_all_rows), 15)
    assert bounds == pytest.approx((low, high), rel=1e-6)


_SHARES = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)


@given(_SHARES, st.floats(0.5, 1e5), st.floats(2, 1e5), _SHARES, st.floats(1, 100))
def test_bounds_widen_with_fewer_rows_or_games_and_move_with_the_rate(
    rate: float, rows: float, games: float, other: float, more: float
) -> None:
    low, high = korn_graubard_bounds(rate, rows, games)
    assert 0 <= low <= rate <= high <= 1
    assert korn_graubard_bounds(1 - rate, rows, games) == pytest.approx((1 - high, 1 - low), abs=1e-6)
    for narrower in (korn_graubard_bounds(rate, rows * more, games), korn_graubard_bounds(rate, rows, games * more)):
        assert low - 1e-9 <= narrower[0]
        assert narrower[1] <= high + 1e-9
    below, above = (
        korn_graubard_bounds(min(rate, other), rows, games),
        korn_graubard_bounds(max(rate, other), rows, games),
    )
    assert below[0] <= above[0] + 1e-9
    assert below[1] <= above[1] + 1e-9


# Games, positions in a game, intraclass correlation, share of candidates; by beta-distributed rates of games.
_SETTINGS = [
    (5, 30, 0.1, 0.1),
    (10, 30, 0.05, 0.02),
    (10, 30, 0.1, 0.1),
    (20, 10, 0.2, 0.05),
    (30, 30, 0.1, 0.02),
    (30, 4, 0.1, 0.1),
    (60, 30, 0.2, 0.05),
    (120, 10, 0.0, 0.02),
    (200, 30, 0.05, 0.005),
]


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize(("games", "size", "alike", "truth"), _SETTINGS)
def test_intervals_of_few_games_and_rare_candidates_hold_the_truth(
    games: int, size: int, alike: float, truth: float, *, unequal: bool
) -> None:
    rng, held, repeats = np.random.default_rng(34), 0, 400
    for _ in range(repeats):
        sizes = rng.geometric(1 / size, games) if unequal else np.full(games, size)
        game = np.repeat(np.arange(games), sizes)
        own = (
            rng.beta(truth * (1 / alike - 1), (1 - truth) * (1 / alike - 1), games) if alike else np.full(games, truth)
        )
        rate = weighted(rng.random(len(game)) < own[game], np.ones(len(game)), game)
        held += rate.low <= truth <= rate.high
    assert held / repeats >= 0.92


_ROWS = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.0, 1.0, 2.5, 8.0]), st.integers(0, 5)), min_size=1, max_size=40
)


@given(_ROWS, st.randoms(use_true_random=False), st.sampled_from([1, -3, 10**15]))
def test_order_names_and_calls_change_nothing(
    rows: list[tuple[bool, float, int]], dice: random.Random, times: int
) -> None:
    expected = _of(rows)
    shuffled = list(rows)
    dice.shuffle(shuffled)
    assert _close(_of([(hit, weight, times * game) for hit, weight, game in shuffled]), expected)
    count = WeightedCount()
    for games in ((0, 3), (1, 2, 5), (4,)):  # each game in one call
        count = count.plus(*_columns([row for row in shuffled if row[2] in games]))
    assert _close(count.rate(), expected)


def _of(rows: list[tuple[bool, float, int]]) -> Rate:
    return weighted(*_columns(rows))


def _columns(rows: list[tuple[bool, float, int]]) -> tuple[Flags, Floats, NDArray[np.int64]]:
    hits, weights, games = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(hits, np.bool_), np.array(weights, np.float64), np.array(games, np.int64)


def _bounds(rate: Rate) -> tuple[float, float, float]:
    return rate.rate, rate.low, rate.high


def _close(one: Rate, other: Rate) -> bool:
    return (one.count, one.total) == (other.count, other.total) and _bounds(one) == pytest.approx(
        _bounds(other), nan_ok=True
    )


@pytest.mark.parametrize(("single", "hits", "drawn"), [(105, 30, 40), (300, 9, 20), (120, 60, 3), (90, 0, 30)])
def test_an_upper_end_is_far_because_of_few_audits_where_more_of_them_would_bring_it_near(
    single: int, hits: int, drawn: int
) -> None:
    """What screening cut, 400 positions, is stood for by `drawn` audits without a candidate, or by a thousand."""

    def rate(audits: int) -> Rate:
        weight = np.concatenate([np.ones(single), np.full(audits, 400 / audits)])
        return weighted(np.arange(len(weight)) < hits, weight, np.arange(len(weight)))

    few, many = rate(drawn), rate(1000)
    assert (few.few_drawn, many.few_drawn) == (drawn, 0)
    assert few.rate == pytest.approx(many.rate)
    assert few.high - few.rate > 2 * (few.rate - few.low)
    assert many.high - many.rate < 0.5 * (few.high - few.rate)
    assert "few screened-out positions" in loose_bound_words(few.few_drawn)


@given(st.integers(1, 500), st.integers(0, 500))
def test_without_audits_no_upper_end_is_far_because_of_them(total: int, hits: int) -> None:
    rate = weighted(np.arange(total) < hits, np.ones(total), np.arange(total))
    assert (rate.few_drawn, loose_bound_words(rate.few_drawn)) == (0, "")


def test_bounds_are_the_percentiles_of_the_resamples_that_have_the_figure() -> None:
    drawn = np.random.default_rng(3).random((100, 3))
    assert (percentile_bounds(drawn) == np.percentile(drawn, [2.5, 97.5], axis=0)).all()
    drawn[::2, 1], drawn[:, 2] = np.nan, np.nan
    low, high = percentile_bounds(drawn)
    assert (low[1], high[1]) == tuple(np.percentile(drawn[1::2, 1], [2.5, 97.5]))
    assert np.isnan([low[2], high[2]]).all()


def test_bounds_over_resampled_games_are_those_of_scipy() -> None:
    values = np.random.default_rng(4).exponential(size=60)
    low, high = resampled_bounds(lambda times: (times @ values)[:, None] / 60, 60, 20_000)
    theirs = bootstrap((values,), np.mean, method="percentile", random_state=1, n_resamples=20_000).confidence_interval
    assert (low[0], high[0]) == pytest.approx((theirs.low, theirs.high), abs=0.02)


@given(
    hits=st.lists(st.booleans(), min_size=3, max_size=8),
    exponents=st.lists(st.floats(0, 17), min_size=8, max_size=8),
    game=st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
@example(
    hits=[False, True, False, True, False], exponents=[0, 7.6, -0.3, 7.7, -0.3, 0, 0, 0], game=[1, 2, 2, 0, 0, 0, 0, 0]
)
def test_weights_of_all_sizes_have_an_interval(hits: list[bool], exponents: list[float], game: list[int]) -> None:
    """Beyond a ratio of 1e7, what the small weights add to sums of squares is lost: it was divided by."""
    count = len(hits)
    weights = 10.0 ** np.array(exponents[:count])
    rate = weighted(np.array(hits), weights, np.array(game[:count]))
    assert 0 <= rate.low <= rate.rate <= rate.high <= 1
    assert rate.rate == pytest.approx(np.average(hits, weights=weights), abs=1e-6)
