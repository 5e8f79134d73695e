"""Laws of the conversions to Q, and the fit of alpha against planted truths."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from statsmodels.regression.linear_model import WLS

from valuerepair.chess import values
from valuerepair.chess.values import (
    ALPHA_BOUNDS,
    MAX_CP_Q,
    Norm,
    cp_to_q,
    deep_q,
    fit_alpha,
    fit_alpha_to_results,
    fit_alpha_to_slope,
    mate_to_q,
    q_to_cp,
    slope_of,
    wdl_to_q,
)
from valuerepair.errors import ValueRepairError

Floats = NDArray[np.float64]
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


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("alpha", [45.0, 170.0, 512.0, 2000.0])
def test_fit_recovers_a_planted_alpha_exactly_without_noise(alpha: float, norm: Norm) -> None:
    net_q, cp = planted(np.random.default_rng(1), 2000, alpha, 0.0)
    fit = fit_alpha(net_q, cp, norm=norm, bootstrap=20)
    assert fit.alpha == pytest.approx(alpha, rel=1e-4)
    assert (fit.low, fit.high) == pytest.approx((alpha, alpha), rel=2e-3)
    assert fit.residual < 1e-4
    assert (fit.n, fit.norm, fit.at_bound) == (2000, norm, False)


@pytest.mark.parametrize("alpha", [170.0, 500.0])
def test_l1_fit_is_unbiased_by_noise_on_the_logit_and_robust(alpha: float) -> None:
    rng = np.random.default_rng(2)
    net_q, cp = planted(rng, 20_000, alpha, 0.3)
    assert fit_alpha(net_q, cp, bootstrap=0).alpha == pytest.approx(alpha, rel=0.02)
    blunders = rng.random(len(cp)) < 0.05  # one position in twenty misjudged altogether
    net_q[blunders] = rng.uniform(-1, 1, blunders.sum())
    l1, l2 = (fit_alpha(net_q, cp, norm=norm, bootstrap=0).alpha for norm in ("l1", "l2"))
    assert l1 == pytest.approx(alpha, rel=0.05)
    assert abs(l1 - alpha) < abs(l2 - alpha)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_fit_is_the_minimum_over_a_fine_grid(norm: Norm) -> None:
    rng = np.random.default_rng(3)
    cp = np.round(rng.laplace(0, 300, 400))
    net_q = np.clip(np.tanh(cp / 700) + rng.standard_t(2, 400) * 0.2, -1, 1)
    weights = rng.uniform(0.1, 3, 400)

    def loss(alpha: float) -> float:
        error = np.abs(net_q - cp_to_q(cp, alpha))
        return float(np.average(error if norm == "l1" else error**2, weights=weights))

    fit = fit_alpha(net_q, cp, weights, norm, bootstrap=0)
    best = min(loss(a) for a in np.geomspace(*ALPHA_BOUNDS, 20_000))
    assert loss(fit.alpha) <= best + 1e-9
    assert fit.residual == pytest.approx(loss(fit.alpha) if norm == "l1" else loss(fit.alpha) ** 0.5)
    assert math.isnan(fit.low)
    assert math.isnan(fit.high)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_minimiser_of_scipys_finds_less(norm: Norm) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        net_q, cp = planted(rng, 200, 250.0, 0.4)

        def loss(log_alpha: float, net_q: Floats = net_q, cp: Floats = cp) -> float:
            error = np.abs(net_q - cp_to_q(cp, math.exp(log_alpha)))
            return float(np.mean(error if norm == "l1" else error**2))

        fit = fit_alpha(net_q, cp, norm=norm, bootstrap=0)
        near = math.log(fit.alpha)
        found = minimize_scalar(loss, bounds=(near - 0.1, near + 0.1), method="bounded", options={"xatol": 1e-9})
        assert loss(near) <= found.fun + 1e-9


def test_weights_count_as_repeated_rows() -> None:
    rng = np.random.default_rng(4)
    net_q, cp = planted(rng, 300, 300.0, 0.5)
    times = rng.integers(0, 4, 300)
    weighted = fit_alpha(net_q, cp, times, bootstrap=0)
    repeated = fit_alpha(net_q.repeat(times), cp.repeat(times), bootstrap=0)
    assert weighted.alpha == pytest.approx(repeated.alpha, rel=1e-5)
    assert weighted.residual == pytest.approx(repeated.residual)


def test_rows_without_a_centipawn_score_are_left_out() -> None:
    net_q, cp = planted(np.random.default_rng(5), 500, 250.0, 0.2)
    plain = fit_alpha(net_q, cp)
    with_mates = fit_alpha(np.append(net_q, [0.9, -1, np.nan]), np.append(cp, [np.nan, np.nan, 30]))
    assert with_mates == plain
    assert plain.n == 500
    assert plain.low < plain.alpha < plain.high


def test_same_seed_same_interval_another_seed_another() -> None:
    net_q, cp = planted(np.random.default_rng(6), 400, 250.0, 0.4)
    assert fit_alpha(net_q, cp, seed=7) == fit_alpha(net_q, cp, seed=7)
    assert fit_alpha(net_q, cp, seed=7).low != fit_alpha(net_q, cp, seed=8).low


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_interval_covers_about_its_share(norm: Norm) -> None:
    """Symmetric noise on Q itself has its l1 and l2 minimum at the planted alpha. Expected 95 %; with 150 simulations
    fewer than 87 % or more than 99.5 % would be a wrong interval at odds of thousands to one."""
    rng = np.random.default_rng(8)
    covered = 0
    for simulation in range(150):
        cp = rng.normal(0, 200, 250)
        net_q = cp_to_q(cp, 300.0) + rng.normal(0, 0.15, 250)
        fit = fit_alpha(net_q, cp, norm=norm, bootstrap=150, seed=simulation)
        covered += fit.low <= 300 <= fit.high
    assert 0.87 <= covered / 150 <= 0.995


def test_interval_of_many_rows_shrinks_with_the_root_of_their_number() -> None:
    rng = np.random.default_rng(9)
    widths = {}
    for n in (50_000, 450_000):
        net_q, cp = planted(rng, n, 300.0, 0.4)
        started = time.perf_counter()
        fit = fit_alpha(net_q, cp, bootstrap=60)
        assert time.perf_counter() - started < 20
        assert fit.low < fit.alpha < fit.high
        widths[n] = math.log(fit.high / fit.low)
    assert widths[50_000] / widths[450_000] == pytest.approx(3, rel=0.35)


def test_of_many_games_whole_ones_make_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Games whose positions are alike: of 1,500 rows in 12,000 hardly two would be of a game, and their interval would
    be that of rows."""
    rng = np.random.default_rng(14)
    cp, game = np.repeat(rng.normal(0, 250, 1500), 8), np.repeat(np.arange(1500), 8)
    result = np.where(rng.random(1500) < (1 + cp_to_q(cp[::8], 150.0)) / 2, 1.0, -1.0).repeat(8)
    widths = []
    for most in (1500, 50_000):
        monkeypatch.setattr(values, "_BOOTSTRAP_ROWS", most)
        fits = [fit_alpha_to_results(result, cp, np.ones(12_000), game, 100, seed) for seed in range(8)]
        widths.append(float(np.median([math.log(fit.high / fit.low) for fit in fits])))
        # About the fit to all rows, not that to those drawn.
        middles = [math.log(fit.high * fit.low / fit.alpha**2) / 2 for fit in fits]
        assert abs(float(np.mean(middles))) < 0.1 * widths[-1]
    assert widths[0] == pytest.approx(widths[1], rel=0.2)


def test_a_game_of_more_positions_than_make_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_BOOTSTRAP_ROWS", 40)
    cp = np.random.default_rng(15).normal(0, 250, 100)
    fit = fit_alpha_to_results(np.sign(cp), cp, np.ones(100), np.repeat([3, 8], 50), 20)
    assert np.isfinite(fit.alpha)
    assert np.isnan([fit.low, fit.high]).all()


def test_alpha_of_results_is_that_of_the_expected_result() -> None:
    """Games of five positions each: a game's result is drawn from the Q of one of them, with draws, and the others are
    of the same score. Resampling rows alone would give an interval narrower by about the root of five."""
    rng = np.random.default_rng(12)
    covered, widths = 0, []
    for simulation in range(120):
        cp, game = np.repeat(rng.normal(0, 250, 120), 5), np.repeat(np.arange(120), 5)
        q, draws = cp_to_q(cp[::5], 150.0), rng.uniform(0, 0.4, 120)
        decided = rng.random(120) >= draws * (1 - np.abs(q))
        won = rng.random(120) < 0.5 + q / (1 - draws * (1 - np.abs(q))) / 2
        result = np.where(decided, np.where(won, 1.0, -1.0), 0.0).repeat(5)
        result[:5] = np.nan  # a game whose result is not known
        fit = fit_alpha_to_results(result, cp, np.ones(600), game, 100, simulation)
        covered += fit.low <= 150 <= fit.high
        rows = fit_alpha(result, cp, norm="l2", bootstrap=100, seed=simulation)
        assert (fit.alpha, fit.n, fit.norm) == (rows.alpha, 595, "results")
        widths.append(math.log(fit.high / fit.low) / math.log(rows.high / rows.low))
    assert covered / 120 >= 0.86
    assert float(np.median(widths)) == pytest.approx(5**0.5, rel=0.15)


@pytest.mark.parametrize("cp", [[], [0, 0, 0], [np.nan, 40.0]])
def test_nothing_to_fit_is_said(cp: list[float]) -> None:
    with pytest.raises(ValueRepairError, match="no alpha can be fitted"):
        fit_alpha([0.1] * len(cp), cp)


def test_scores_that_do_not_determine_alpha_are_at_a_bound() -> None:
    rng = np.random.default_rng(10)
    cp = rng.normal(0, 300, 500)
    for net_q in (np.zeros(500), np.sign(cp), -cp_to_q(cp, 300)):
        assert fit_alpha(net_q, cp, bootstrap=5).at_bound


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

    fit = fit_alpha_to_slope(net_q, cp, mate, weights, game)
    assert fit.alpha == pytest.approx(brentq(lambda alpha: slope(alpha) - 1, 50, 2000), rel=1e-5)
    assert slope(fit.alpha / 1.2) > 1 > slope(fit.alpha * 1.2)
    assert fit.low < fit.alpha < fit.high
    assert (fit.norm, fit.n, fit.at_bound) == ("slope", int(np.isnan(mate).sum()), False)
    # Without mates, whose Q is 1 by every alpha, it is another one.
    assert fit_alpha_to_slope(net_q, cp, nothing, weights, game).alpha < 0.97 * fit.alpha


def test_the_interval_of_the_slopes_alpha_covers_about_its_share() -> None:
    """Expected 95 %; of 200 draws fewer than 89 % or more than 99.5 % would be a wrong interval at odds of thousands to
    one. With positions in place of games it is far too narrow."""
    rng = np.random.default_rng(22)
    covered = np.zeros(2)
    for _ in range(200):
        net_q, cp, game = of_games(rng, 80, 300.0)
        ones, nothing = np.ones(len(cp)), np.full(len(cp), np.nan)
        fits = [fit_alpha_to_slope(net_q, cp, nothing, ones, groups) for groups in (game, np.arange(len(cp)))]
        covered += [fit.low <= 300 <= fit.high for fit in fits]
    assert 0.89 <= covered[0] / 200 <= 0.995
    assert covered[1] / 200 < 0.8


def test_there_may_be_no_alpha_with_that_slope() -> None:
    cp, game = np.tile([-50.0, 50.0], 200), np.arange(400)
    ones, nothing = np.ones(400), np.full(400, np.nan)
    for net_q, bound in ((np.repeat([-0.9, 0.9], 200), ALPHA_BOUNDS[0]), (np.sign(cp) * 1e-4, ALPHA_BOUNDS[1])):
        fit = fit_alpha_to_slope(net_q, cp, nothing, ones, game)
        assert fit.at_bound
        assert fit.alpha == pytest.approx(bound)
