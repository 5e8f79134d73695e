"""Laws of the conversions to Q, and the fit of alpha against planted truths."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from statsmodels.regression.linear_model import WLS

from valuerepair.arrays import Floats
from valuerepair.chess.values import (
    ALPHA_BOUNDS,
    MAX_CP_Q,
    Alpha,
    AlphaFit,
    auto_alpha,
    cp_to_q,
    deep_q,
    fit_alpha,
    fit_alpha_to_results,
    mate_to_q,
    q_to_cp,
    slope_of,
    wdl_to_q,
)

FitOf = Callable[..., AlphaFit]
CP = st.integers(-32_000, 32_000)
ALPHA = st.floats(20, 2_000)


@given(CP, ALPHA)
def test_logistic_is_odd_and_is_the_elo_expectation(cp: int, alpha: float) -> None:
    q = float(cp_to_q(cp, alpha))
    assert q == -float(cp_to_q(-cp, alpha))
    expected_score = 1 / (1 + math.exp(min(-cp / alpha, 700)))
    assert q == pytest.approx(2 * expected_score - 1, abs=1e-12)


@given(CP, CP, ALPHA)
def test_logistic_is_monotone(a: int, b: int, alpha: float) -> None:
    low, high = sorted((a, b))
    assert cp_to_q(low, alpha) <= cp_to_q(high, alpha)
    if low != high and max(abs(low), abs(high)) < 15 * alpha:
        assert cp_to_q(low, alpha) < cp_to_q(high, alpha)


@given(st.floats(-12, 12), ALPHA)
def test_inverse(scaled: float, alpha: float) -> None:
    cp = scaled * alpha
    assert float(q_to_cp(cp_to_q(cp, alpha), alpha)) == pytest.approx(cp, rel=1e-6, abs=1e-9)


def test_inverse_at_and_beyond_the_ends() -> None:
    assert q_to_cp([1.0, -1.0], 170).tolist() == [np.inf, -np.inf]
    assert np.isnan(q_to_cp(1.1, 170))


@given(st.integers(-(10**9), 10**9), ALPHA, st.integers(1, 500))
def test_mate_is_beyond_any_centipawn_score(cp: int, alpha: float, mate: int) -> None:
    assert mate_to_q(-mate) < cp_to_q(cp, alpha) < mate_to_q(mate)
    assert abs(cp_to_q(cp, alpha)) <= MAX_CP_Q < 1


def test_mate_zero_is_lost_for_the_side_to_move() -> None:
    assert mate_to_q([3, -2, 0]).tolist() == [1.0, -1.0, -1.0]
    assert np.isnan(mate_to_q(np.nan))


def test_wdl() -> None:
    rows = [[1000, 0, 0], [0, 0, 1000], [0, 1000, 0], [488, 51, 461], [0, 0, 0]]
    np.testing.assert_allclose(wdl_to_q(rows), [1, -1, 0, 0.027, np.nan])
    assert wdl_to_q([0.6, 0.3, 0.1]) == pytest.approx(0.5)


@pytest.mark.parametrize("alpha", [0, -5, math.inf, math.nan])
def test_alpha_must_be_positive(alpha: float) -> None:
    with pytest.raises(ValueError, match="positive number of centipawns"):
        cp_to_q(10, alpha)


def test_deep_q_takes_mate_then_own_q_then_the_chosen_score() -> None:
    nan = float("nan")
    cp = [100, nan, 100, nan, 100]
    mate = [nan, -3, nan, nan, 2]
    wdl: list[list[float]] = [[900.0, 50, 50], [nan] * 3, [nan] * 3, [100, 100, 800], [0, 0, 1000]]
    own = [nan, nan, 0.25, nan, 0.1]
    scores = np.column_stack([cp, mate, wdl, own])
    by_cp = deep_q(scores, 200)
    np.testing.assert_allclose(by_cp, [math.tanh(0.25), -1, 0.25, nan, 1])
    by_wdl = deep_q(scores, 200, q_from="wdl")
    np.testing.assert_allclose(by_wdl, [0.85, -1, 0.25, -0.7, 1])
    with pytest.raises(ValueError, match="q_from"):
        deep_q(scores, 200, q_from="elo")  # type: ignore[arg-type]  # the wrong value is the test


def planted(rng: np.random.Generator, n: int, alpha: float, noise: float) -> tuple[Floats, Floats]:
    """Net Q that is the logistic of `alpha` plus symmetric noise on the logit, and whole centipawns."""
    cp = np.round(rng.laplace(0, 250, n))
    return np.tanh(cp / (2 * alpha) + rng.normal(0, noise, n)), cp


def slope_fit(net_q: Floats, cp: Floats, weights: Floats | None = None) -> AlphaFit:
    """Without mates, each position a game."""
    return fit_alpha(net_q, cp, np.full(len(cp), np.nan), weights)


def results_fit(net_q: Floats, cp: Floats, weights: Floats | None = None) -> AlphaFit:
    """The same of expected results."""
    return fit_alpha_to_results(net_q, cp, np.ones(len(cp)) if weights is None else weights, np.arange(len(cp)))


FITS = pytest.mark.parametrize("fit_of", [slope_fit, results_fit])


@FITS
@pytest.mark.parametrize("alpha", [45.0, 170.0, 512.0, 2000.0])
def test_fit_recovers_a_planted_alpha_exactly_without_noise(alpha: float, fit_of: FitOf) -> None:
    net_q, cp = planted(np.random.default_rng(1), 2000, alpha, 0.0)
    fit = fit_of(net_q, cp)
    assert fit.alpha == pytest.approx(alpha, rel=1e-4)
    assert (fit.low, fit.high) == pytest.approx((alpha, alpha), rel=1e-4)
    assert fit.residual < 1e-4
    assert (fit.n, fit.at_bound) == (2000, False)


def test_the_fit_to_results_is_the_minimum_over_a_fine_grid_and_of_scipys() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        cp = np.round(rng.laplace(0, 300, 400))
        result = np.clip(np.round(np.tanh(cp / 700) + rng.standard_t(2, 400) * 0.4), -1, 1)
        weights = rng.uniform(0.1, 3, 400)

        def loss(log_alpha: float, cp: Floats = cp, result: Floats = result, weights: Floats = weights) -> float:
            return float(np.average((result - cp_to_q(cp, math.exp(log_alpha))) ** 2, weights=weights))

        fit = results_fit(result, cp, weights)
        near = math.log(fit.alpha)
        assert loss(near) <= min(loss(a) for a in np.log(np.geomspace(*ALPHA_BOUNDS, 2_000)).tolist()) + 1e-9
        scipys = minimize_scalar(loss, bounds=(near - 0.1, near + 0.1), method="bounded", options={"xatol": 1e-9})
        assert loss(near) <= scipys.fun + 1e-9
        assert fit.residual == pytest.approx(loss(near) ** 0.5)


@FITS
def test_weights_count_as_repeated_rows(fit_of: FitOf) -> None:
    rng = np.random.default_rng(4)
    net_q, cp = planted(rng, 300, 300.0, 0.5)
    times = rng.integers(0, 4, 300)
    weighted = fit_of(net_q, cp, times.astype(np.float64))
    repeated = fit_of(net_q.repeat(times), cp.repeat(times))
    assert weighted.alpha == pytest.approx(repeated.alpha, rel=1e-5)
    assert weighted.residual == pytest.approx(repeated.residual)


@FITS
def test_rows_without_a_centipawn_score_are_left_out(fit_of: FitOf) -> None:
    net_q, cp = planted(np.random.default_rng(5), 500, 250.0, 0.2)
    plain = fit_of(net_q, cp)
    assert fit_of(np.append(net_q, [0.9, -1, np.nan]), np.append(cp, [np.nan, np.nan, 30])) == plain
    assert plain.n == 500
    assert plain.low < plain.alpha < plain.high


@FITS
def test_interval_of_many_rows_shrinks_with_the_root_of_their_number(fit_of: FitOf) -> None:
    rng = np.random.default_rng(9)
    widths = {}
    for n in (5_000, 45_000):
        fit = fit_of(*planted(rng, n, 300.0, 0.4))
        assert fit.low < fit.alpha < fit.high
        widths[n] = math.log(fit.high / fit.low)
    assert widths[5_000] / widths[45_000] == pytest.approx(3, rel=0.1)


def test_alpha_of_results_is_that_of_the_expected_result() -> None:
    """Games of five positions each: a game's result is drawn from the Q of one of them, with draws, and the others are
    of the same score. Positions in place of games would give an interval narrower by about the root of five."""
    rng = np.random.default_rng(12)
    covered, widths = 0, []
    for _ in range(200):
        cp, game = np.repeat(rng.normal(0, 250, 120), 5), np.repeat(np.arange(120), 5)
        q, draws = cp_to_q(cp[::5], 150.0), rng.uniform(0, 0.4, 120)
        decided = rng.random(120) >= draws * (1 - np.abs(q))
        won = rng.random(120) < 0.5 + q / (1 - draws * (1 - np.abs(q))) / 2
        result = np.where(decided, np.where(won, 1.0, -1.0), 0.0).repeat(5)
        result[:5] = np.nan  # a game whose result is not known
        fit = fit_alpha_to_results(result, cp, np.ones(600), game)
        covered += fit.low <= 150 <= fit.high
        rows = results_fit(result, cp)
        assert (fit.alpha, fit.n, fit.norm) == (rows.alpha, 595, "results")
        widths.append(math.log(fit.high / fit.low) / math.log(rows.high / rows.low))
    assert 0.89 <= covered / 200 <= 0.995
    np.testing.assert_allclose(widths, 5**0.5)


def test_scores_that_do_not_determine_alpha_are_at_a_bound() -> None:
    cp = np.random.default_rng(10).normal(0, 300, 500)
    for net_q in (np.zeros(500), np.sign(cp), -cp_to_q(cp, 300)):
        assert results_fit(net_q, cp).at_bound
        assert slope_fit(net_q, cp).at_bound


def test_too_few_scores_or_none_that_says_something_leave_the_default() -> None:
    rng = np.random.default_rng(11)
    net_q, cp = planted(rng, 300, 250.0, 0.2)
    columns = np.full(300, np.nan), np.ones(300), np.arange(300)
    assert auto_alpha(net_q, cp, *columns).value == slope_fit(net_q, cp).alpha
    fewer = auto_alpha(net_q, np.where(np.arange(300) < 1, np.nan, cp), *columns)
    assert fewer == Alpha(170, "default 170: fewer than 300 scores in centipawns, 299 so far")
    assert auto_alpha(net_q, 0 * cp, *columns) == Alpha(170, "default 170: the 300 scored positions determine no alpha")


def test_all_pairs_of_scores_order_as_python_chess_orders_them() -> None:
    """python-chess's Score ordering is the outside oracle: Q never contradicts it."""
    from chess.engine import Cp, Mate, MateGiven, Score

    scores: list[Score] = [Cp(n) for n in (-15_000, -300, -1, 0, 1, 55, 900, 15_000)]
    scores += [Mate(n) for n in (-20, -1, 0, 1, 20)] + [MateGiven]
    q = [
        float(mate_to_q(1 if s is MateGiven else s.mate() or 0))  # None only for Cp
        if s.is_mate()
        else float(cp_to_q(s.score() or 0, 170))
        for s in scores
    ]
    for (a, qa), (b, qb) in itertools.combinations(zip(scores, q, strict=True), 2):
        assert (qa <= qb) if a < b else (qa >= qb)


# -- the slope --------------------------------------------------------------------------------------------------------


def of_games(rng: np.random.Generator, games: int, alpha: float) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Net Q, centipawns and game of positions, ten a game, whose net Q is the deep Q by `alpha` to be expected: the
    rest is noise, most of it common to the game, whose positions are alike."""
    game = np.repeat(np.arange(games), 10)
    net_q = rng.uniform(-0.6, 0.6, games)[game] + rng.uniform(-0.1, 0.1, len(game))
    noise = rng.uniform(-0.15, 0.15, games)[game] + rng.uniform(-0.1, 0.1, len(game))
    return net_q, q_to_cp(net_q + noise, alpha), game


def test_the_slope_and_its_interval_are_those_of_statsmodels() -> None:
    rng = np.random.default_rng(20)
    net_q, cp, game = of_games(rng, 60, 300.0)
    weights, q = rng.uniform(0.5, 5, len(net_q)), cp_to_q(cp, 170.0)
    by_games = {"groups": game, "use_correction": False}
    known = WLS(q, net_q, weights=weights).fit(cov_type="cluster", cov_kwds=by_games)
    found = slope_of(net_q, q, weights, game)
    assert found.value == pytest.approx(known.params[0])
    assert (found.low, found.high) == pytest.approx(known.conf_int()[0])
    missing = [np.append(column, [np.nan, 0.3]) for column in (net_q, q[::-1])]
    assert (
        slope_of(missing[0], np.append(q, [0.3, np.nan]), np.append(weights, [1, 1]), np.append(game, [1, 2])) == found
    )
    assert math.isnan(slope_of(np.zeros(2), np.ones(2), np.ones(2), np.arange(2)).value)


def test_at_the_fit_to_the_slope_deep_q_is_as_steep_as_net_q() -> None:
    rng = np.random.default_rng(21)
    net_q, cp, game = of_games(rng, 80, 260.0)
    mate = np.where(np.arange(len(cp)) % 50 == 0, np.where(net_q > 0, 3.0, -2.0), np.nan)
    weights = rng.uniform(0.5, 5, len(cp))
    cp[~np.isnan(mate)] = np.nan
    nothing = np.full(len(cp), np.nan)

    def slope(alpha: float) -> float:
        q = deep_q(np.stack([cp, mate, *[nothing] * 4], 1), alpha)
        return slope_of(net_q, q, weights, game).value

    fit = fit_alpha(net_q, cp, mate, weights, game)
    assert fit.alpha == pytest.approx(brentq(lambda alpha: slope(alpha) - 1, 50, 2000), rel=1e-5)
    assert slope(fit.alpha / 1.2) > 1 > slope(fit.alpha * 1.2)
    assert fit.low < fit.alpha < fit.high
    assert (fit.norm, fit.n, fit.at_bound) == ("slope", int(np.isnan(mate).sum()), False)
    # Without mates, whose Q is 1 by every alpha, it is another one.
    assert fit_alpha(net_q, cp, nothing, weights, game).alpha < 0.97 * fit.alpha


def test_the_interval_of_the_slopes_alpha_covers_about_its_share() -> None:
    """Expected 95 %; of 200 draws fewer than 89 % or more than 99.5 % would be a wrong interval at odds of thousands to
    one. With positions in place of games it is far too narrow."""
    rng = np.random.default_rng(22)
    covered = np.zeros(2)
    for _ in range(200):
        net_q, cp, game = of_games(rng, 80, 300.0)
        ones, nothing = np.ones(len(cp)), np.full(len(cp), np.nan)
        fits = [fit_alpha(net_q, cp, nothing, ones, groups) for groups in (game, np.arange(len(cp)))]
        covered += [fit.low <= 300 <= fit.high for fit in fits]
    assert 0.89 <= covered[0] / 200 <= 0.995
    assert covered[1] / 200 < 0.8


def test_there_may_be_no_alpha_with_that_slope() -> None:
    cp, game = np.tile([-50.0, 50.0], 200), np.arange(400)
    ones, nothing = np.ones(400), np.full(400, np.nan)
    for net_q, bound in ((np.repeat([-0.9, 0.9], 200), ALPHA_BOUNDS[0]), (np.sign(cp) * 1e-4, ALPHA_BOUNDS[1])):
        fit = fit_alpha(net_q, cp, nothing, ones, game)
        assert fit.at_bound
        assert fit.alpha == pytest.approx(bound)
