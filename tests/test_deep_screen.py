"""Laws of the features, fits against scipy and statsmodels, cuts against brute force, out-of-sample recall."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from tests.climbing_doubles import ALPHA, NODES, RUNGS, fixed_screen, latent_walk
from valuerepair.arrays import Floats
from valuerepair.chess import values
from valuerepair.engines.kinds import KINDS
from valuerepair.question import Question
from valuerepair.screening import fit
from valuerepair.screening.fit import (
    MATE_CP,
    LadderRows,
    choose_cuts,
    curve,
    cuts_at,
    enough,
    fit_logistic,
    fit_screen,
    joined,
    learn,
    package_positions,
    package_rows,
    with_rate,
)
from valuerepair.screening.model import FEATURES, Screen, features, judge, rungs_of

unit = st.floats(-0.98, 0.98).map(lambda x: round(x, 4))


def one(net: float, q: list[float]) -> tuple[Floats, NDArray[np.int64], Floats, NDArray[np.int64]]:
    return np.array([net]), np.array([7]), np.array([q]), np.ones((1, len(q)), np.int64)


@given(unit, st.lists(unit, min_size=1, max_size=4), st.floats(0.2, 1.2))
def test_optimism_and_pessimism_look_the_same(net: float, q: list[float], threshold: float) -> None:
    if net == q[-1]:
        return
    net_q, net_best, values_, best = one(net, q)
    assert features(net_q, net_best, values_, best, threshold) == pytest.approx(
        features(-net_q, net_best, -values_, best, threshold)
    )


@given(unit, unit, st.floats(0.2, 1.2))
def test_margins_are_zero_at_the_threshold_and_negative_beyond(net: float, now: float, threshold: float) -> None:
    row = dict(zip(FEATURES, features(*one(net, [now]), threshold)[0], strict=True))
    assert row["margin"] == pytest.approx(threshold - abs(net - now), abs=1e-12)
    assert row["log-odds margin"] * row["margin"] >= -1e-9 or abs(net - now) < 1e-3
    assert row["out of reach"] == (threshold >= 1 + (net if net >= now else -net))
    if abs(net - threshold) < 0.98:
        at = dict(zip(FEATURES, features(*one(net, [net - threshold]), threshold)[0], strict=True))
        assert at["margin"] == pytest.approx(0, abs=1e-9)
        assert at["log-odds margin"] == pytest.approx(0, abs=1e-6)
        # In log odds Q of cp is cp / (2 alpha): the margin is what the centipawns still have to move by.
        cp = values.q_to_cp(np.array([now, net - threshold]), ALPHA) / (2 * ALPHA)
        if net >= now and abs(cp[0] - cp[1]) < 2.9 and abs(now) < 0.97:
            assert row["log-odds margin"] == pytest.approx(cp[0] - cp[1], abs=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 3))
def test_every_feature_is_a_number(seed: int, rungs: int) -> None:
    rng = np.random.default_rng(seed)
    net, q, best = rng.uniform(-1, 1, 20), rng.uniform(-1, 1, (20, rungs)), rng.integers(0, 4, (20, rungs))
    table = features(net, rng.integers(0, 4, 20), q, best, 0.55)
    assert table.shape == (20, len(FEATURES))
    assert np.isfinite(table).all()


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_a_single_judgement_is_that_of_all_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    screen = fixed_screen()
    net_q, net_best = rng.uniform(-0.9, 0.9, 12), rng.integers(1, 4, 12)
    q, best = rng.uniform(-0.9, 0.9, (12, 2)), rng.integers(1, 4, (12, 2))
    for k, rung in enumerate(screen.rungs, 1):
        together = rung.chances(features(net_q, net_best, q[:, :k], best[:, :k], screen.threshold))
        for i in range(12):
            verdict = judge(screen, k, net_q[i], int(net_best[i]), q[i, :k].tolist(), best[i, :k].tolist())
            below = together[i] < rung.cut and abs(net_q[i] - q[i, k - 1]) < screen.threshold
            assert (verdict.cut_at == rung.nodes) == below
            assert verdict.chance is None or verdict.chance == pytest.approx(together[i], rel=1e-12)


@given(unit, st.lists(unit, min_size=2, max_size=2), st.floats(0.3, 1.2))
def test_nothing_is_cut_where_it_is_over_the_threshold(net: float, q: list[float], threshold: float) -> None:
    """Whatever the models say of it."""
    screen = fixed_screen(margin=-9.0)
    for k in (1, 2):
        cut = judge(screen, k, net, 1, q[:k], [1] * k).cut_at is not None
        assert cut == (abs(net - q[k - 1]) < screen.threshold)


def test_rungs_of_a_million_and_of_few_nodes() -> None:
    assert rungs_of(1_000_000) == (5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
    assert all(0 < rung < nodes for nodes in (1, 2, 3, 10, 100, 4000) for rung in rungs_of(nodes))
    assert rungs_of(1) == ()


# -- fits -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibration() -> LadderRows:
    return latent_walk(900, 1)


@pytest.mark.parametrize("k", [1, 2])
def test_coefficients_are_the_maximum_of_the_penalised_likelihood(calibration: LadderRows, k: int) -> None:
    model = learn(calibration, 0.55)[0][k - 1]
    used = np.isfinite(model.scale)
    x, y = [], []
    for share in fit._SPREAD:
        ahead = np.abs(calibration.net_q - calibration.q[:, k - 1]) < share * 0.55
        x.append(calibration.features_after(k, share * 0.55)[ahead])
        y.append(calibration.disagreement[ahead] >= share * 0.55)
    rows = (np.concatenate(x) - model.centre) / model.scale
    design, hit = np.c_[np.ones(len(rows)), rows], np.concatenate(y)
    weight = np.full(len(rows), 0.25)

    def loss(beta: Floats) -> tuple[float, Floats]:
        z, b = design @ beta, beta[1:]
        p = 1 / (1 + np.exp(-z))
        value = weight @ (np.logaddexp(0, z) - hit * z) + 4.0 * (np.logaddexp(0, b) - 0.5 * b).sum()
        gradient = design.T @ (weight * (p - hit))
        gradient[1:] += 4.0 * (1 / (1 + np.exp(-b)) - 0.5)
        return float(value), gradient

    best = minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-8})
    assert model.coefficients == pytest.approx(best.x, abs=2e-4)
    assert (model.coefficients[1:][~used] == pytest.approx(0, abs=1e-6)) or used.all()
    p = 1 / (1 + np.exp(-design @ best.x))
    information = (design.T * (weight * p * (1 - p))) @ design
    b = 1 / (1 + np.exp(-best.x[1:]))
    information[1:, 1:] += np.diag(4.0 * b * (1 - b))
    assert np.linalg.inv(information) == pytest.approx(model.covariance, rel=0.02, abs=1e-4)


@pytest.mark.parametrize(("seed", "start"), [(0, 0.0), (1, 3.0), (2, -8.0)])
def test_a_fit_is_that_of_statsmodels_wherever_it_begins(seed: int, start: float) -> None:
    rng = np.random.default_rng(seed)
    x = np.c_[np.ones(400), rng.normal(0, 1, (400, 4))]
    y = (rng.random(400) < 1 / (1 + np.exp(-x @ np.array([-2.0, 1, 0.5, -1, 0])))).astype(np.float64)
    weights = rng.uniform(0.2, 3, 400)
    coefficients, covariance = fit_logistic(x, y, weights, np.full(5, start), 1e-9)
    reference = sm.GLM(y, x, family=sm.families.Binomial(), var_weights=weights).fit(tol=1e-12)
    assert coefficients == pytest.approx(reference.params, abs=1e-5)
    assert covariance == pytest.approx(reference.normalized_cov_params, rel=1e-3, abs=1e-6)


def test_what_separates_perfectly_ends_in_finite_numbers() -> None:
    x = np.c_[np.ones(60), np.linspace(-1, 1, 60)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coefficients, covariance = fit_logistic(x, (x[:, 1] > 0).astype(np.float64), np.ones(60), np.zeros(2), 4.0)
        nothing, _ = fit_logistic(x, np.zeros(60), np.ones(60), np.zeros(2), 4.0)
    assert 0 < coefficients[1] < 20
    assert np.isfinite(covariance).all()
    assert np.isfinite(nothing).all()


def test_cross_validated_recall_is_near_the_wanted_one_and_less_is_cheaper() -> None:
    data = latent_walk(1500, 2)
    points = curve(data, None, 0.55, (0.8, 0.95, 0.99))
    for point in points:
        spread = np.sqrt(point.wanted * (1 - point.wanted) / point.positives)
        assert point.recall >= point.wanted - 3 * spread
    assert [p.share for p in points] == sorted(p.share for p in points)
    assert points[0].share < 0.5 * points[-1].share + 0.3
    assert points[1].share < 0.6
    assert points[0].positives == int((data.disagreement >= 0.55).sum()) > 50


def test_others_help_to_learn_and_are_not_counted() -> None:
    few, many = latent_walk(120, 5), latent_walk(1500, 6)
    alone, helped = (curve(few, others, 0.55, (0.95,))[0] for others in (None, many))
    assert helped.positives == alone.positives == int((few.disagreement >= 0.55).sum())
    assert helped.share < alone.share  # surer of itself, it cuts more
    assert len(joined(few, many)) == 1620


@pytest.mark.parametrize("per_game", [1, 9])
def test_no_other_position_of_a_game_has_a_say_in_its_chances(calibration: LadderRows, per_game: int) -> None:
    """One game's searches end otherwise: its own chances stay, those of other games change."""
    grouped = replace(calibration, game=np.arange(len(calibration)) // per_game)
    ended_otherwise = replace(grouped, q=grouped.q.copy())
    of_game = grouped.game == 20
    ended_otherwise.q[of_game, -1] = -np.sign(grouped.net_q[of_game])
    before, after = (learn(rows, 0.55)[1] for rows in (grouped, ended_otherwise))
    np.testing.assert_allclose(after[of_game], before[of_game], rtol=1e-4)
    assert np.abs(after - before)[~of_game].max() > 1e-3


def test_folds_of_one_position_a_game_are_of_equal_size(calibration: LadderRows) -> None:
    assert np.bincount(fit._folds(calibration.game, seed=0)).tolist() == [180] * 5
    doubled = joined(calibration, calibration)
    assert len(np.unique(doubled.game)) == 2 * len(calibration)


def test_cuts_on_exact_chances_are_as_good_as_the_best_of_all() -> None:
    """Chances that are a walk of conditional means: no other triple of cuts loses as little for less."""
    rng = np.random.default_rng(5)
    last = np.sort(rng.choice([0.001, 0.02, 0.2, 0.7], 64, p=[0.5, 0.2, 0.2, 0.1]) * rng.uniform(0.8, 1, 64))
    last = np.concatenate([last[i::4] for i in range(4)])
    middle = np.repeat(last.reshape(16, 4).mean(1), 4)
    first = np.repeat(middle.reshape(4, 16).mean(1), 16)
    grid = np.stack([first, middle, last], 1)
    candidates = np.arange(64) % 8 == 0  # as many as the chances lead one to expect, nearly
    none = np.zeros((64, 3), np.int64)
    data = LadderRows(
        (1, *RUNGS),
        NODES,
        np.where(candidates, 0.9, 0.0),
        none[:, 0],
        np.zeros((64, 4)),
        none,
        np.full(64, grid[:, -1].sum() / 8),
        np.arange(64),
    )
    spent = np.array([1, 10, 100, 1000]) / 1000

    def outcome(cuts: tuple[float, ...]) -> tuple[float, float]:
        below = grid < np.array(cuts)
        left = np.where(below.any(1), below.argmax(1), 3)
        lost = sum(grid[i, k] for i, k in enumerate(left) if k < 3)
        return float(spent[left].mean()), float(lost)

    every = [outcome(cuts) for cuts in itertools.product(*([0.0, *np.unique(c).tolist()[::2], 1.1] for c in grid.T))]
    weight = data.weights[0]
    for recall in (0.7, 0.9, 0.97):
        cost, lost = outcome(tuple(choose_cuts(data, grid, recall, 0.55)))
        assert weight * lost <= (1 - recall) * 8 * weight + 1e-12
        assert cost <= min(c for c, other in every if other <= lost + 1e-12) + 0.02
        assert cost < 1
    for price in (0.5, 2.0, 8.0):
        cost, lost = outcome(tuple(cuts_at(data, grid, price)))
        assert cost + price * lost / 64 <= min(c + price * other / 64 for c, other in every) + 0.02


def test_a_price_says_what_is_lost(calibration: LadderRows) -> None:
    """A dear candidate is kept at more nodes, a cheap one lost for fewer."""
    question = Question(threshold=0.55, alpha=ALPHA)
    cheap, dear = (fit_screen(calibration, question, 0.95, price) for price in (1.5, 20.0))
    assert (cheap.expected_share, cheap.expected_recall) < (dear.expected_share, dear.expected_recall)
    assert cheap.expected_recall < 0.9 < dear.expected_recall
    assert (cheap.price, dear.price) == (1.5, 20.0)
    again = Screen.from_json(cheap.to_json())
    assert again is not None
    assert again.price == 1.5


def test_candidates_can_be_given_the_share_that_they_have_elsewhere(calibration: LadderRows) -> None:
    positive = calibration.disagreement >= 0.55
    for rate in (0.02, 0.3, 0.8):
        weights = with_rate(calibration, 0.55, rate).weights
        assert weights[positive].sum() / weights.sum() == pytest.approx(rate)
        assert (weights[~positive] == calibration.weights[~positive]).all()


def test_a_screen_survives_its_json(calibration: LadderRows) -> None:
    screen = fit_screen(calibration, Question(threshold=0.55, alpha=ALPHA), 0.95)
    again = Screen.from_json(screen.to_json())
    assert again is not None
    assert again.to_json() == screen.to_json()
    assert (again.positions, again.positives) == (900, int((calibration.disagreement >= 0.55).sum()))
    for k, (old, new) in enumerate(zip(screen.rungs, again.rungs, strict=True), 1):
        rows = calibration.features_after(k, 0.55)
        assert (old.chances(rows) == new.chances(rows)).all()
        assert (old.cut, old.nodes) == (new.cut, new.nodes)
        # Caution only ever raises a chance.
        assert (old.chances(rows) >= expit(old.design(rows) @ old.coefficients)).all()
    assert 0 < screen.expected_share < 1
    assert Screen.from_json('{"threshold": 0.55, "rungs": []}') is None  # of an earlier version


def test_a_feature_without_variation_has_no_say(calibration: LadderRows, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [FEATURES.index(name) for name in ("slope", "margin")]

    def flat(*arguments: Any) -> Floats:
        rows = features(*arguments)
        rows[:, columns] = 0.3
        return rows

    monkeypatch.setattr("valuerepair.screening.fit.features", flat)
    models, _ = learn(calibration, 0.55)
    assert len(models) == len(RUNGS)
    for model in models:
        assert model.coefficients[np.array(columns) + 1] == pytest.approx(0, abs=1e-8)


def test_too_little_is_not_enough() -> None:
    data = latent_walk(60, 3)
    assert enough(data, 0.55)
    assert not enough(data.take(np.arange(60) < 40), 0.55)
    assert not enough(data.take(data.disagreement < 0.3), 0.55)


@pytest.mark.parametrize("nodes", [100, 10_000, 1_000_000])
@pytest.mark.slow
def test_a_threshold_that_all_searches_cross_at_once_fits_no_ladder(nodes: int) -> None:
    """Below the threshold there is nothing to learn from, and no ladder cuts nothing."""
    fitted = []
    for threshold in (1e-12, 1e-6, 1e-4, 1e-2, 0.55, 2.0):
        data = package_rows("stockfish", nodes, rungs_of(nodes), Question(alpha=170.0))
        assert data is not None
        if enough(data, threshold):
            screen = fit_screen(data, Question(threshold=threshold, alpha=170.0), 0.98)
            assert all(np.isfinite(rung.covariance).all() for rung in screen.rungs)
            fitted.append(threshold)
    assert fitted == [1e-2, 0.55, 2.0]


# -- the package's positions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS.values() if kind.in_package])
def test_the_packages_positions_are_whole_and_can_be_learned_from(kind: str) -> None:
    positions = package_positions(kind)
    assert len(positions.net_q) >= 300
    assert (np.diff(positions.nodes) > 0).all()
    assert positions.score.shape == positions.best.shape == (len(positions.net_q), len(positions.nodes))
    assert np.abs(positions.net_q).max() <= 1
    nodes = int(positions.nodes[-1])
    data = package_rows(kind, nodes, rungs_of(nodes), Question(alpha=170.0))
    assert data is not None
    assert enough(data, 0.55)
    screen = fit_screen(data, Question(threshold=0.55, alpha=170.0), 0.95)
    assert screen.expected_share < 0.7
    assert screen.expected_recall > 0.85


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "nodes"), [("stockfish", 1_000_000), ("stockfish", 50_000), ("mcts", 200)])
@pytest.mark.parametrize("wanted", [0.9, 0.98])
def test_a_ladder_keeps_of_positions_that_it_has_not_seen_what_was_wanted(kind: str, nodes: int, wanted: float) -> None:
    """Real searches: learned on one half of the package's positions, tried on the other, both ways, at two alphas."""
    kept, candidates, spent = 0, 0, []
    for alpha in (170.0, 430.0):
        data = package_rows(kind, nodes, rungs_of(nodes), Question(alpha=alpha))
        assert data is not None
        half = np.arange(len(data)) % 2 == 0
        for seen in (half, ~half):
            screen = fit_screen(data.take(seen), Question(threshold=0.55, alpha=alpha), wanted)
            unseen = data.take(~seen)
            for i in range(len(unseen)):
                judged = (unseen.net_q[i], int(unseen.net_best[i]), unseen.q[i].tolist(), unseen.best[i].tolist())
                left = next((k for k in range(1, 1 + len(unseen.rungs)) if cuts(screen, k, *judged)), None)
                spent.append(nodes if left is None else unseen.rungs[left - 1])
                if unseen.disagreement[i] >= 0.55:
                    candidates, kept = candidates + 1, kept + (left is None)
    assert candidates >= 20
    assert kept / candidates >= wanted - 1.64 * np.sqrt(wanted * (1 - wanted) / candidates)
    assert np.mean(spent) < 0.6 * nodes


def cuts(screen: Screen, k: int, net_q: float, net_best: int, q: list[float], best: list[int]) -> bool:
    """Whether a position leaves the ladder after k rungs."""
    return judge(screen, k, net_q, net_best, q[max(0, k - 2) : k], best[max(0, k - 2) : k]).cut_at is not None


def test_of_the_packages_positions_the_nearest_searches_are_taken() -> None:
    positions = package_positions("stockfish")
    at = {int(nodes): k for k, nodes in enumerate(positions.nodes)}
    for nodes, whole, first in ((1_000_000, 1_000_000, 5000), (50_000, 50_000, 250), (4_000_000, 1_000_000, 5000)):
        data = package_rows("stockfish", nodes, rungs_of(nodes), Question(alpha=200.0))
        assert data is not None
        for column, expected in ((0, first), (-1, whole)):
            cp = positions.score[:, at[expected]].astype(np.float64)
            mate = np.abs(cp) == MATE_CP
            without = np.full(len(cp), np.nan)
            scores = [np.where(mate, np.nan, cp), np.where(mate, np.sign(cp), np.nan), *[without] * 4]
            q = values.deep_q(np.stack(scores, 1), 200.0, "cp")
            assert data.q[:, column] == pytest.approx(q)
    assert package_rows("stockfish", 50_000, (250,), Question(alpha=200.0, q_from="wdl")) is None
    assert package_rows("recorded", 50_000, (250,), Question(alpha=200.0)) is None
    assert package_rows("uci", 50_000, (250,), Question(alpha=200.0)) is not None
