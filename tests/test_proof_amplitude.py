"""What drawing by the label does, by integrals, against a simulation; and what an hour of `vr repair` can show."""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

from benchmarks.proof.amplitude import learned, numbers_of
from valuerepair.pipeline.page import BEST_KNOWN, power_of

PROOF = Path(__file__).parents[1] / "docs" / "proof"


@pytest.mark.parametrize("share", [None, 0.0, 0.1, 0.4])
def test_integrals_are_those_of_a_simulation(share: float | None) -> None:
    """A net that knows the kind of a position, of many kinds, and learns the weighted mean of the labels it is fed."""
    dice, error, spread = np.random.default_rng(6), 0.05, 0.148
    means = np.repeat(dice.normal(0, error, 3000), 500)
    labels = (means + dice.normal(0, spread, len(means))).reshape(3000, 500)
    wrong = np.abs(labels) >= 0.3
    rate = wrong.mean()
    drawn = rate if share is None else share
    weight = np.where(wrong, drawn / rate, (1 - drawn) / (1 - rate))
    correction = (weight * labels).sum(1) / weight.sum(1)
    best, kinds = learned(error, spread, share), means.reshape(3000, 500)[:, 0]
    assert best.amplitude == pytest.approx(correction @ kinds / (kinds @ kinds), rel=0.02)
    # What is learned of 500 labels has noise of its own, which a net that learns from many kinds has not.
    smooth = np.polynomial.Polynomial.fit(kinds, correction, 5)(kinds)
    fresh = kinds[:, None] + dice.normal(0, spread, (3000, 500))
    assert best.rate == pytest.approx((np.abs(fresh - smooth[:, None]) >= 0.3).mean(), rel=0.01)


def test_two_rates_give_back_both_numbers() -> None:
    before, after = (learned(0.04, 0.14, 0.0), learned(0.04, 0.14, None))
    assert before.rate > after.rate
    rate = 2 * NormalDist(0, float(np.hypot(0.04, 0.14))).cdf(-0.3)
    assert numbers_of(rate, after.rate) == pytest.approx((0.04, 0.14), rel=1e-3)
    assert after.amplitude == pytest.approx(1)


def test_what_an_hour_can_show_of_the_best_effect_known() -> None:
    """The page says 16 %: with a tenth of the held-out positions an interval is wider by the root of 10."""
    rows = pd.read_csv(PROOF / "differences.csv", dtype={"arm": str, "against": str})
    rows = rows[(rows["arm"] == "sampled") & (rows["against"] == "control") & (rows["set"] == "families")]
    row = rows[(rows["measure"] == "rate") & (rows["scale"] == "recalibrated") & (rows["threshold"] == 0.55)].iloc[0]
    assert row["relative"] == pytest.approx(-BEST_KNOWN, abs=5e-4)
    half = (row["relative_high"] - row["relative_low"]) / 2
    for times, expected in ((1, 0.85), (10, 0.16)):
        wide = half * np.sqrt(times)
        figures = {"share": {"low": -wide, "high": wide}, "first": {"candidates": {"rate": 1.0}}}
        assert power_of(figures) == pytest.approx(expected, abs=0.01)
