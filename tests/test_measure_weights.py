"""Laws of weights, effective sample size and repeats by weight."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from valuerepair.measure.weights import (
    copies_by_weight,
    weights_of,
)

CASES = settings(max_examples=60, deadline=None)
WEIGHTS = st.lists(st.floats(0.0, 4.0), min_size=1, max_size=200)


@CASES
@given(st.lists(st.floats(-2, 2), max_size=50), st.floats(0.01, 2), st.floats(0.001, 10))
def test_weights_are_a_logistic_of_the_size(disagreements: list[float], threshold: float, softness: float) -> None:
    weights = weights_of(disagreements, threshold, softness)
    assert weights == pytest.approx(expit((np.abs(disagreements) - threshold) / softness))
    assert weights_of([-d for d in disagreements], threshold, softness).tolist() == weights.tolist()
    assert weights_of([threshold], threshold, softness) == pytest.approx(0.5)


def test_without_softness_the_edge_is_hard_and_nan_weighs_nothing() -> None:
    assert weights_of([0.54, -0.55, 1.9, math.nan], 0.55, 0).tolist() == [0, 1, 1, 0]
    assert weights_of([math.nan], 0.55).tolist() == [0]
    with pytest.raises(ValueError, match="softness -1"):
        weights_of([0.5], 0.55, -1)


@CASES
@given(WEIGHTS, st.integers(1, 20), st.floats(0, 1, exclude_max=True))
def test_copies_are_as_weights_rounded_up_or_down(weights: list[float], per_weight: int, start: float) -> None:
    copies = copies_by_weight(weights, per_weight, start)
    wanted = per_weight * np.array(weights)
    assert np.all(np.abs(copies - wanted) < 1 + 1e-6)
    assert abs(int(copies.sum()) - float(wanted.sum())) < 1 + 1e-6
    assert copies.min() >= 0


@CASES
@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8))
def test_the_expected_number_of_copies_is_exact(weights: list[float]) -> None:
    starts = (np.arange(300) + 0.5) / 300
    mean = np.mean([copies_by_weight(weights, 3, start) for start in starts], axis=0)
    assert mean == pytest.approx(3 * np.array(weights), abs=2 / 300)
