"""The proof's analysis on simulated nets, of which the truth is known."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.proof import analysis
from benchmarks.proof.analysis import (
    COLUMNS,
    PRIMARY_THRESHOLD,
    Arm,
    Column,
    Curves,
    Drawn,
    HeldOut,
    Judged,
    Measured,
    difference,
    drawn_seeds,
    estimate,
    fit_curves,
    measure,
    primary,
    relative,
    same,
)
from valuerepair import calibration
from valuerepair.arrays import Floats, Ids
from valuerepair.calibration import POINTS
from valuerepair.intervals import Interval

RAW_RATE = COLUMNS.index(Column("rate", "raw", PRIMARY_THRESHOLD))
# No recalibration: the deep Q to be expected is net Q.
AS_IT_IS = Curves(POINTS, np.tile(POINTS, (10, 1)))


def steep(q: Floats, k: float) -> Floats:
    """Q of a net whose log odds are k times those of q."""
    return np.asarray(np.tanh(k * np.arctanh(np.clip(q, -0.999999, 0.999999))))


def positions(rng: np.random.Generator, games: int, of_game: int = 5) -> tuple[Ids, Floats]:
    """Games [n], and deep Q [n] that is alike within a game."""
    game = np.repeat(np.arange(games), of_game)
    return game, np.tanh(rng.normal(0, 0.5, games)[game] + rng.normal(0, 0.4, len(game)))


def blurred(rng: np.random.Generator, deep_q: Floats, game: Ids, noise: float = 0.35) -> Floats:
    """A net that errs, in some games more than in others."""
    of_game = np.exp(rng.normal(0, 0.4, game.max() + 1))[game]
    return np.asarray(np.tanh(np.arctanh(np.clip(deep_q, -0.99, 0.99)) + noise * of_game * rng.normal(0, 1, len(game))))


def judged(q: Floats, curves: Curves = AS_IT_IS, old: int = 0) -> Judged:
    return Judged(q, np.ones(len(q), np.bool_), np.zeros(len(q)), curves, old)


def arm(measured: Measured, at: Sequence[int], column: int, name: str, seed: int = 0) -> Arm:
    rows = list(at)
    return Arm(measured.values[rows, column], measured.drawn[:, rows, column],
               drawn_seeds(name, len(rows), len(measured.drawn), seed))  # fmt: skip


# -- scale ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0.5, 1.5, 2.5])
def test_scale_alone_is_no_repair(k: float) -> None:
    rng = np.random.default_rng(1)
    (game, deep_q), (drawn_by, their_deep) = positions(rng, 2000), positions(rng, 2000)
    q, theirs, ones = blurred(rng, deep_q, game), blurred(rng, their_deep, drawn_by), np.ones(10_000)
    nets = [
        judged(steep(q, factor), fit_curves(steep(theirs, factor), their_deep, ones, drawn_by, draws=50))
        for factor in (1.0, k)
    ]
    measured = measure(nets, HeldOut(deep_q, ones, game), draws=500)
    raw, after = (
        estimate(relative, arm(measured, [1], column, "steep"), arm(measured, [0], column, "plain"))
        for column in (RAW_RATE, primary())
    )
    assert raw.clear
    assert abs(raw.difference) > 0.03
    assert after.low <= 0 <= after.high
    assert abs(after.difference) < 0.02
    assert after.high - after.low < 0.05


# -- a planted effect -------------------------------------------------------------------------------------------------


def planted(
    rng: np.random.Generator, games: int, effect: float, of_seeds: float, seeds: int = 3, draws: int = 400
) -> tuple[Arm, Arm]:
    """Raw rates of a repaired arm and its control, whose rates are as `effect` to 1 on average over games and seeds."""
    game = np.repeat(np.arange(games), 4)
    hard = (np.exp(rng.normal(0, 0.6, games) - 0.18))[game]
    common = rng.random(len(game))  # nets err in much the same positions
    nets = []
    for size in (1.0, effect):
        for _ in range(seeds):
            rate = 0.15 * hard * size * np.exp(rng.normal(0, of_seeds) - of_seeds**2 / 2)
            luck = np.where(rng.random(len(game)) < 0.7, common, rng.random(len(game)))
            nets.append(judged(np.where(luck < rate, 0.4, 0.1)))
    held = HeldOut(np.zeros(len(game)), np.ones(len(game)), game)
    measured = measure(nets, held, seed=int(rng.integers(2**31)), draws=draws)
    seed = int(rng.integers(2**31))
    control = arm(measured, range(seeds), RAW_RATE, "control", seed)
    return arm(measured, range(seeds, 2 * seeds), RAW_RATE, "repaired", seed), control


def test_a_planted_effect_is_found() -> None:
    interval = estimate(relative, *planted(np.random.default_rng(2), 6000, 0.8, 0.01))
    assert interval.low < -0.2 < interval.high < -0.1
    assert interval.difference == pytest.approx(-0.2, abs=0.05)


# Where seeds differ by luck with single positions only, these are counted twice, and the interval is on the safe side.
@pytest.mark.slow
@pytest.mark.parametrize(("of_seeds", "most"), [(0.0, 1.0), (0.06, 0.985), (0.3, 0.98)])
def test_intervals_hold_the_truth_as_often_as_they_say(of_seeds: float, most: float) -> None:
    rng, trials = np.random.default_rng(3), 250
    intervals = [estimate(relative, *planted(rng, 200, 0.8, of_seeds, draws=200)) for _ in range(trials)]
    held = sum(interval.low <= -0.2 <= interval.high for interval in intervals) / trials
    assert 0.92 <= held <= most


def test_seeds_that_differ_widen_the_interval() -> None:
    rng = np.random.default_rng(4)
    alike, apart = (estimate(relative, *planted(rng, 1500, 0.9, spread)) for spread in (0.0, 0.2))
    assert apart.high - apart.low > 2 * (alike.high - alike.low)
    # The same rates as those of one net, three times: only the games are left to chance, whatever seeds are drawn.
    one, _ = planted(rng, 400, 1.0, 0.1, seeds=1)
    thrice = Arm(np.repeat(one.values, 3), np.repeat(one.drawn, 3, axis=1), drawn_seeds("a", 3, len(one.drawn)))
    assert estimate(same, thrice).low == pytest.approx(estimate(same, one).low)


def test_drawn_seeds_vary_as_the_mean_does() -> None:
    values = np.array([0.2, 0.5, 0.4, 0.8])
    drawn = drawn_seeds("a", 4, 200_000) @ values
    assert drawn.mean() == pytest.approx(0, abs=2e-3)
    assert drawn.var() == pytest.approx(values.var(ddof=1) / 4, rel=0.02)
    assert not drawn_seeds("a", 1, 5).any()
    assert abs(np.corrcoef(drawn, drawn_seeds("b", 4, 200_000) @ values)[0, 1]) < 0.02


# -- an independent count ---------------------------------------------------------------------------------------------


def slow_measures(q: Floats, old: Floats, deep_q: Floats, times: Sequence[int]) -> dict[str, float]:
    """Of one scale, row by row; each row counts so many times."""
    count: dict[str, float] = defaultdict(float)
    for one, was, deep, n in zip(q.tolist(), old.tolist(), deep_q.tolist(), times, strict=True):
        count["n"] += n
        count["mean_dq"] += n * abs(one - deep)
        for at, threshold in (("", 0.3), ("_55", 0.55)):
            wrong, before = abs(one - deep) >= threshold, abs(was - deep) >= threshold
            count["rate" + at] += n * wrong
            count["before" + at] += n * before
            count["still" + at] += n * (wrong and before)
            count["newly" + at] += n * (wrong and not before)
    measures = {name: count[name] / count["n"] for name in ("rate", "rate_55", "newly", "newly_55", "mean_dq")}
    return {**measures, **{f"still{at}": count[f"still{at}"] / count[f"before{at}"] for at in ("", "_55")}}


def by_name(values: Floats, scale: str) -> dict[str, float]:
    """The same of a row of `Measured`."""
    names = {(c.measure, c.threshold): i for i, c in enumerate(COLUMNS) if c.scale == scale}
    return {name + "_55" * (threshold == 0.55): float(values[i]) for (name, threshold), i in names.items()}


@pytest.mark.slow
def test_a_slow_bootstrap_finds_the_same() -> None:
    rng = np.random.default_rng(5)
    (game, deep_q), (drawn_by, their_deep) = positions(rng, 120), positions(rng, 150)
    nets = [(blurred(rng, deep_q, game), blurred(rng, their_deep, drawn_by)) for _ in range(2)]
    nets += [(np.clip(a + rng.normal(0, 0.1, len(a)), -1, 1), np.clip(b + rng.normal(0, 0.1, len(b)), -1, 1))
             for a, b in nets]  # fmt: skip
    ones, theirs = np.ones(len(game)), np.ones(len(drawn_by))
    shuffled = rng.permutation(len(game))  # the order of rows must not matter
    held = HeldOut(deep_q[shuffled], ones, game[shuffled])
    curves = [fit_curves(b, their_deep, theirs, drawn_by) for _, b in nets]
    measured = measure([judged(a[shuffled], curve) for (a, _), curve in zip(nets, curves, strict=True)], held)

    def recalibrated(a: Floats, b: Floats, rows: Ids) -> Floats:
        """By a curve of these rows of the validation positions, some of them several times."""
        drawn = calibration.fit(b[rows], their_deep[rows], theirs[rows], drawn_by[rows], resamples=0)
        return np.sign(a) * np.interp(np.arcsin(np.abs(a)), np.arcsin(POINTS), drawn.curve)

    every = np.arange(len(drawn_by))
    after = [recalibrated(a, b, every) for a, b in nets]
    for i, (a, _) in enumerate(nets):
        assert by_name(measured.values[i], "raw") == pytest.approx(slow_measures(a, nets[0][0], deep_q, [1] * len(a)))
        assert by_name(measured.values[i], "recalibrated") == pytest.approx(
            slow_measures(after[i], after[0], deep_q, [1] * len(a))
        )
    # Nets 2 and 3 are seeds of an arm, 0 and 1 of its control.
    toss = random.Random(6)
    rates = [slow_measures(errors, after[0], deep_q, [1] * len(errors))["rate"] for errors in after]
    slow = []
    for _ in range(160):
        picked = np.bincount(toss.choices(range(150), k=150), minlength=150)
        rows = np.repeat(every, picked[drawn_by])
        times = np.bincount(toss.choices(range(120), k=120), minlength=120)[game].tolist()
        drawn = [recalibrated(a, b, rows) for a, b in nets]
        now = [slow_measures(errors, drawn[0], deep_q, times)["rate"] for errors in drawn]
        means = []
        for of in ([2, 3], [0, 1]):
            spread = np.mean([rates[i] for i in toss.choices(of, k=len(of))]) - np.mean([rates[i] for i in of])
            means.append(np.mean([now[i] for i in of]) + spread * (len(of) / (len(of) - 1)) ** 0.5)
        slow.append(means[0] / means[1] - 1)
    pair = arm(measured, [2, 3], primary(), "repaired"), arm(measured, [0, 1], primary(), "control")
    fast = relative(*(one_arm.drawn.mean(1) + one_arm.by_seeds for one_arm in pair))
    assert fast.std() == pytest.approx(np.std(slow), rel=0.15)
    assert fast.mean() == pytest.approx(np.mean(slow), abs=4 * np.std(slow) / len(slow) ** 0.5)
    interval = estimate(relative, *pair)
    low, high = np.percentile(slow, [2.5, 97.5])
    # The interval is wider than the draws are, for seeds are few.
    assert interval.low < low + 0.1 * (high - low)
    assert interval.high > high - 0.1 * (high - low)


def test_weights_count_as_copies_do() -> None:
    rng = np.random.default_rng(7)
    game, deep_q = positions(rng, 60)
    q, times = blurred(rng, deep_q, game), rng.integers(1, 4, len(game))
    copies = np.repeat(np.arange(len(game)), times)
    weighted = measure([judged(q)], HeldOut(deep_q, times.astype(float), game))
    copied = measure([judged(q[copies])], HeldOut(deep_q[copies], np.ones(len(copies)), game[copies]))
    np.testing.assert_allclose(weighted.values, copied.values)
    np.testing.assert_allclose(weighted.drawn, copied.drawn)


def test_what_nothing_is_of_has_no_interval() -> None:
    game = np.repeat(np.arange(40), 2)
    held = HeldOut(np.zeros(80), np.ones(80), game)
    measured = measure([judged(np.full(80, 0.1)), judged(np.full(80, 0.4))], held)
    still = COLUMNS.index(Column("still", "raw", PRIMARY_THRESHOLD))
    assert str(estimate(same, arm(measured, [0], still, "a"))) == str(Interval(np.nan, np.nan, np.nan))
    pair = arm(measured, [1], RAW_RATE, "b"), arm(measured, [0], RAW_RATE, "a")
    assert estimate(difference, *pair) == Interval(1.0, 1.0, 1.0)
    assert np.isnan(estimate(relative, *pair).difference)
    assert analysis.validation_rate(np.full(640, 0.1), np.zeros(640), np.ones(640), np.repeat(np.arange(80), 8)) == 0


def test_drawn_curves_are_met_by_drawn_games_in_turn() -> None:
    """As `measure` does it: each curve by as many draws; the value is that of the whole curve."""
    rng, n, curves = np.random.default_rng(4), 300, 20
    game, values = rng.integers(0, 90, n), rng.uniform(0, 1, (3, 1 + curves, n))
    drawn = Drawn(game, draws=200)
    arm = drawn.arm("5", values)
    assert arm.values == pytest.approx(values[:, 0].mean(1))
    for d, seed in ((0, 0), (9, 1), (10, 2), (199, 0)):
        expected = np.average(values[seed, 1 + d // 10], weights=drawn.times[d])
        assert arm.drawn[d, seed] == pytest.approx(expected)
    plain = drawn.arm("5", values[:, 0])
    assert plain.drawn[37, 1] == pytest.approx(np.average(values[1, 0], weights=drawn.times[37]))
    assert arm.more.shape == plain.more.shape == (200, 3)
