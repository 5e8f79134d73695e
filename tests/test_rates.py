"""Rates and differences of rows of which those of one game are alike: statsmodels, published examples, simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import t
from statsmodels.regression.linear_model import WLS
from statsmodels.stats.proportion import proportion_confint

from tests.survey_intervals import wilson_by_games
from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.rates import Rate, mean, rate_change, weighted, wilson

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
    return wilson_by_games(rate, int(min(hits.sum(), (~hits).sum())), rows, games, ratio)


@given(st.integers(0, 2**32), st.sampled_from([1, -3, 10**15]))
def test_order_and_names_change_nothing(seed: int, times: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 40))
    hits, weight, game = rng.random(rows) < 0.5, rng.choice([0.0, 1.0, 2.5, 8.0], rows), rng.integers(0, 6, rows)
    order = rng.permutation(rows)
    other = weighted(hits[order], weight[order], times * game[order])
    assert _bounds(other) == pytest.approx(_bounds(weighted(hits, weight, game)), nan_ok=True)


def test_one_game_does_not_tell_how_games_differ() -> None:
    of_one = weighted(np.arange(120) < 60, np.ones(120), np.zeros(120, np.int64))
    assert _bounds(of_one) == pytest.approx((0.5, 0.0, 1.0))


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
    assert held / repeats >= 0.9


def _bounds(rate: Rate) -> tuple[float, float, float]:
    return rate.rate, rate.low, rate.high


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


# -- differences -------------------------------------------------------------------------------------------------------


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
    interval = rate_change(changes, np.ones(len(changes)), np.arange(len(changes)))
    assert (-interval.high, -interval.low) == pytest.approx((low, high), abs=0.015)
    assert (interval.low > 0 or interval.high < 0) == (low > 0 or high < 0)


def test_means_are_those_of_statsmodels() -> None:
    """By its sandwich of a weighted regression on a constant, by games."""
    rng = np.random.default_rng(1)
    values, weight, game = rng.normal(0.2, 1, 400), rng.choice([1.0, 50.0], 400), rng.integers(0, 60, 400)
    options = {"groups": game, "use_correction": False}
    fitted = WLS(values, np.ones(400), weight).fit(cov_type="cluster", cov_kwds=options)
    games = len(np.unique(game))
    half = t.ppf(0.975, games - 1) * math.sqrt(float(fitted.cov_params()[0, 0]) * games / (games - 1))
    interval = mean(values, weight, game)
    assert interval.difference == pytest.approx(float(fitted.params[0]))
    assert (interval.low, interval.high) == pytest.approx((interval.difference - half, interval.difference + half))
    assert math.isnan(mean(values[:1], weight[:1], game[:1]).low)


def test_means_are_those_of_resampled_games() -> None:
    rng = np.random.default_rng(2)
    game = np.repeat(np.arange(120), 5)
    values = rng.normal(0.1, 0.5, 120)[game] + rng.normal(0, 0.5, 600)
    weight = np.where(rng.random(600) < 0.1, 8.0, 1.0)
    sums, mass = np.bincount(game, weight * values), np.bincount(game, weight)
    drawn = rng.integers(0, 120, (4000, 120))
    low, high = np.percentile(sums[drawn].sum(1) / mass[drawn].sum(1), [2.5, 97.5])
    interval = mean(values, weight, game)
    width = high - low
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.08 * width)
    # The same positions once more in the same games are no further evidence; as games of their own they would be.
    again = mean(np.repeat(values, 4), np.repeat(weight, 4), np.repeat(game, 4))
    assert (again.low, again.high) == pytest.approx((interval.low, interval.high))
    apart = mean(np.repeat(values, 4), np.repeat(weight, 4), np.arange(2400))
    assert apart.high - apart.low < 0.6 * (interval.high - interval.low)


def test_no_change_is_exactly_none() -> None:
    found = mean(np.zeros(50), np.ones(50), np.arange(50))
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    alone = mean(np.ones(5), np.ones(5), np.zeros(5, np.int64))
    assert alone.difference == 1
    assert math.isnan(alone.low)
    assert math.isnan(mean(np.empty(0), np.empty(0), np.empty(0, np.int64)).difference)


# -- screened stores --------------------------------------------------------------------------------------------------


def compared_after_screening(
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
def test_what_few_audits_cannot_see_is_in_the_interval(rates: tuple[float, float], audit: float) -> None:
    """Of 1,500 positions some 1,000 are cut; B's new errors among them show in the 70 or 300 audits alone. Resampled
    games alone leave out the truth in 21, 4 and 9 of 100 stores, and mostly in favour of B."""
    rng = np.random.default_rng(1)
    errs = np.random.default_rng(2).gamma(2, 0.5, 10**6)
    only_a, only_b = (1 - errs * (rate - rates[0] / 2) for rate in rates)
    truth = float(np.mean((1 - errs * rates[0] / 2) * (only_a - only_b)))
    changes = [rate_change(*compared_after_screening(rng, 300, rates, audit)) for _ in range(200)]
    held = [interval.low <= truth <= interval.high for interval in changes]
    assert np.mean(held) >= 0.95
    assert np.mean([interval.difference for interval in changes]) == pytest.approx(truth, abs=0.005)
    assert np.mean([interval.high - interval.low for interval in changes]) < 0.16


def test_audits_without_a_change_have_the_width_of_their_rates() -> None:
    """Joined as MOVER says; the bounds of both strata are those of statsmodels."""
    weights, games = np.repeat([1.0, 1000 / 67], [500, 67]), np.arange(567)
    none = rate_change(np.zeros(567), weights, games)
    kept, drawn = (proportion_confint(0, n, method="wilson")[1] * n_all / 1500 for n, n_all in ((500, 500), (67, 1000)))
    assert none.difference == 0
    assert none.high == pytest.approx(math.hypot(kept, drawn))
    assert none.low == -none.high
    # Changes of kept positions alone leave as much open among the cut ones.
    changes = np.zeros(567)
    changes[:12] = -1
    of_kept = mean(changes, weights, games)
    joined = rate_change(changes, weights, games)
    assert joined.difference == pytest.approx(-12 / 1500)
    assert joined.high - joined.difference == pytest.approx(math.hypot(of_kept.high - of_kept.difference, drawn))
    assert of_kept.high < 0 < joined.high
    # An audit that is newly wrong moves both ends.
    changes[500] = 1
    newly = rate_change(changes, weights, games)
    assert newly.difference == pytest.approx((-12 + 1000 / 67) / 1500)
    low, high = proportion_confint(1, 67, method="wilson")
    above = math.hypot(of_kept.high - of_kept.difference, (high - 1 / 67) * 1000 / 1500)
    below = math.hypot(of_kept.difference - of_kept.low, (1 / 67 - low) * 1000 / 1500, drawn)
    assert (newly.low, newly.high) == pytest.approx((newly.difference - below, newly.difference + above), abs=1e-6)
