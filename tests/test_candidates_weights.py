"""Laws of weights, effective sample size, repeats by weight and Hill numbers."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import entropy

from valuerepair.judge.weights import (
    copies_by_weight,
    diversity_of,
    effective_sample_size,
    family_masses,
    hill_numbers,
    weights_of,
)

CASES = settings(max_examples=60, deadline=None)
MASSES = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40)
WEIGHTS = st.lists(st.floats(0.0, 4.0), min_size=1, max_size=200)


@CASES
@given(MASSES)
def test_hill_of_order_1_is_the_exponential_of_shannons_entropy(masses: list[float]) -> None:
    assert hill_numbers(masses, (1,)) == pytest.approx((math.exp(float(entropy(masses))),))


@CASES
@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=40))
def test_hill_of_order_0_counts_and_of_order_2_is_one_over_simpsons_concentration(counts: list[int]) -> None:
    shares = np.array(counts) / sum(counts)
    count, simpson = hill_numbers(counts, (0, 2))
    assert count == pytest.approx(len(counts))
    assert simpson == pytest.approx(1 / sum(shares**2))


@CASES
@given(st.integers(1, 500), st.floats(1e-3, 1e3), st.floats(0, 20))
def test_equal_families_count_as_many_whatever_the_order(number: int, mass: float, order: float) -> None:
    assert hill_numbers([mass] * number, (order,))[0] == pytest.approx(number, rel=1e-6)


@CASES
@given(MASSES)
def test_hill_numbers_fall_with_the_order_from_the_count_to_one_over_the_largest_share(masses: list[float]) -> None:
    numbers = hill_numbers(masses, (0, 0.5, 1, 2, 3, 10, 200))
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(numbers))
    assert numbers[0] == pytest.approx(len(masses))
    assert numbers[-1] >= sum(masses) / max(masses) * (1 - 1e-9)


@CASES
@given(MASSES, st.integers(1, 8))
def test_replication_multiplies(masses: list[float], times: int) -> None:
    """Hill's replication principle: n copies of a community that share no family are n times as diverse."""
    once = hill_numbers(masses)
    assert hill_numbers(masses * times) == pytest.approx([times * number for number in once])


@CASES
@given(MASSES, st.floats(1e-3, 1e3))
def test_hill_numbers_are_of_shares(masses: list[float], scale: float) -> None:
    assert hill_numbers([scale * m for m in masses]) == pytest.approx(hill_numbers(masses))
    assert hill_numbers([0.0, *masses, 0.0]) == pytest.approx(hill_numbers(masses))


def test_hill_numbers_of_a_published_example() -> None:
    """Species counts 50, 25, 25 of 100: entropy 1.5 bits, Simpson's concentration 3/8, sum of cubes 5/32."""
    assert hill_numbers([50, 25, 25]) == pytest.approx((2**1.5, 8 / 3, (32 / 5) ** 0.5))


def test_nothing_has_no_diversity_and_nonsense_is_refused() -> None:
    assert hill_numbers([]) == hill_numbers([0.0, 0.0]) == (0.0, 0.0, 0.0)
    for masses in ([-1.0, 2.0], [math.nan], [math.inf]):
        with pytest.raises(ValueError, match="finite and not negative"):
            hill_numbers(masses)


@CASES
@given(WEIGHTS)
def test_the_effective_sample_size_lies_between_1_and_the_number_of_weights(weights: list[float]) -> None:
    positive = sum(w > 0 for w in weights)
    size = effective_sample_size(weights)
    assert (1 - 1e-9 <= size <= positive * (1 + 1e-9)) if positive else size == 0
    if positive:
        assert size == pytest.approx(hill_numbers(weights, (2,))[0])  # the same number by another name


@CASES
@given(st.integers(1, 1000), st.floats(1e-9, 1e9))
def test_equal_weights_lose_nothing(number: int, weight: float) -> None:
    assert effective_sample_size([weight] * number) == pytest.approx(number)
    assert effective_sample_size([]) == effective_sample_size([0.0]) == 0


@CASES
@given(st.lists(st.floats(-2, 2), max_size=50), st.floats(0.01, 2), st.floats(0.001, 10))
def test_weights_are_a_logistic_of_the_size(disagreements: list[float], threshold: float, softness: float) -> None:
    weights = weights_of(disagreements, threshold, softness)
    assert weights == pytest.approx(expit((np.abs(disagreements) - threshold) / softness))
    assert weights_of([-d for d in disagreements], threshold, softness).tolist() == weights.tolist()
    assert weights_of([threshold], threshold, softness) == pytest.approx(0.5)


@CASES
@given(st.lists(st.floats(-2, 2), min_size=2, max_size=50), st.floats(0.01, 2), st.floats(0, 10))
def test_a_larger_disagreement_never_weighs_less(found: list[float], threshold: float, softness: float) -> None:
    ordered = sorted(found, key=abs)
    weights = weights_of(ordered, threshold, softness).tolist()
    assert weights == sorted(weights)
    assert all(0 <= w <= 1 for w in weights)


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


@CASES
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0.1, 1.0)), min_size=1, max_size=60))
def test_described_figures_are_those_of_the_families_and_games(rows: list[tuple[str, float]]) -> None:
    names, weights = [name for name, _ in rows], [weight for _, weight in rows]
    masses = family_masses(names, weights)
    assert sum(masses.values()) == pytest.approx(sum(weights))
    assert list(masses.values()) == sorted(masses.values(), reverse=True)
    found = diversity_of(weights, names, {"opening": names, "material": ["one"] * len(names)})
    assert found["opening"]["hill"] == pytest.approx(hill_numbers([masses[name] for name in Counter(names)]))
    assert found["material"] == {"families": 1, "hill": [1.0, 1.0, 1.0], "largest": {"one": pytest.approx(1.0)}}
    assert found["effective_games"] == pytest.approx(effective_sample_size(list(masses.values())))
    assert sum(found["opening"]["largest"].values()) <= 1 + 1e-9
    turned = names[::-1]
    assert diversity_of(weights[::-1], turned, {"opening": turned, "material": ["one"] * len(names)}) == found
