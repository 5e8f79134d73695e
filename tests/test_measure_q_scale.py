"""The scale of one net's Q beside another's: laws, and the chance of the interval by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valuerepair.errors import ValueRepairError
from valuerepair.measure.q_scale import QScale, for_both, q_scale_of, q_scale_of_sums


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.1, 10))
def test_a_net_that_says_the_same_on_another_scale_is_found_exactly(seed: int, times: float) -> None:
    dice = np.random.default_rng(seed)
    q, game, weight = dice.normal(0, 0.3, 200), dice.integers(0, 20, 200), dice.uniform(0.5, 3, 200)
    found = q_scale_of(times * q, q, game, weight)
    assert (found.value, found.low, found.high) == pytest.approx((1 / times,) * 3)
    assert found.inverse.value == pytest.approx(times)


@pytest.mark.parametrize("value", [0.5, 1.0, 1.6])
def test_of_two_nets_neither_is_multiplied_by_more_than_1(value: float) -> None:
    first, second = for_both(value)
    assert max(first, second) == 1
    assert first / second == pytest.approx(value)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_the_other_way_round_it_is_one_over_it(seed: int) -> None:
    dice = np.random.default_rng(seed)
    one, game = dice.normal(0, 0.3, 100), dice.integers(0, 10, 100)
    other = one + dice.normal(0, 0.2, 100)
    there, back = q_scale_of(one, other, game), q_scale_of(other, one, game)
    inverse = there.inverse
    assert (back.value, back.low, back.high) == pytest.approx((inverse.value, inverse.low, inverse.high))
    assert there.low < there.value < there.high


def test_nets_of_one_scale_that_disagree_are_not_said_to_differ() -> None:
    """The slope of one on the other is 0.8 here, whichever comes first."""
    dice = np.random.default_rng(3)
    truth, game = dice.normal(0, 0.4, 20_000), np.arange(20_000) // 20
    one, other = (truth + dice.normal(0, 0.2, 20_000) for _ in range(2))
    assert float(one @ other / (one @ one)) == pytest.approx(0.8, abs=0.01)
    found = q_scale_of(one, other, game)
    assert found.low < 1 < found.high
    assert not found.differs


@pytest.mark.parametrize(("games", "share"), [(20, 0.93), (100, 0.95)])
def test_the_interval_has_its_chance(games: int, share: float) -> None:
    """Games of unlike lengths, some of them decided; the shares are those of docs/methods.md."""
    dice, inside, truth = np.random.default_rng(11), 0, 0.8
    for _ in range(600):
        game = np.repeat(np.arange(games), dice.integers(5, 60, games))
        lead = (dice.normal(0, 0.3, games) * dice.gamma(2, 0.5, games))[game] + dice.normal(0, 0.1, len(game))
        q = (lead + dice.normal(0, 0.1, len(game))) / truth
        found = q_scale_of(q, lead + dice.normal(0, 0.1, len(game)), game)
        inside += found.low <= truth <= found.high
    assert inside / 600 == pytest.approx(share, abs=0.006)


def test_what_differs_and_what_cannot_be_told() -> None:
    assert QScale(0.74, 0.72, 0.76, 50).differs
    assert QScale(1.3, 1.06, 1.6, 50).differs
    assert not QScale(0.9, 0.86, 0.96, 50).differs
    assert str(QScale(0.74, 0.72, 0.761, 50)) == "0.74 (0.72 to 0.76)"
    single = q_scale_of([0.5, 0.2], [0.4, 0.1], [7, 7])
    assert math.isnan(single.low)
    assert not single.differs
    assert not single.inverse.differs
    for nothing in ([], [0.0, 0.0]):
        with pytest.raises(ValueRepairError, match="scale of Q"):
            q_scale_of(nothing, nothing, np.arange(len(nothing)))
    with pytest.raises(ValueRepairError, match="scale of Q"):
        q_scale_of_sums(np.ones(3), np.zeros(3))
