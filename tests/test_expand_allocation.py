"""Where to look next: posteriors against scipy's, and what is chosen."""

from __future__ import annotations

import chess
import numpy as np
import pytest
from scipy import stats
from valuerepair.runs.frontier import (
    GROUPS,
    RANDOM_SHARE,
    PlannedSearch,
    PlannedSearches,
    Yields,
    choose,
    groups_of,
    is_drawn,
)
from valuerepair.store.reached import NeighbourOutcome

from valuerepair.chess.positions import Position
from valuerepair.store.rows import CHILD, GAME, PARENT

WHOLE = 1000.0


def group(step: str = PARENT, distance: int = 1, expected: float = 0.6, phase: int = 1, *, later: bool = False) -> int:
    found = groups_of([step], np.array([distance]), np.array([later]), np.array([expected]), np.array([phase]), 0.5)
    return int(found[0])


def test_every_property_of_a_group_tells_it_from_others() -> None:
    groups = {
        group(), group(CHILD), group(distance=2), group(distance=4), group(expected=-0.6), group(expected=0.1),
        group(phase=0), group(GAME, 3), group(GAME, 6), group(GAME, 12), group(GAME, 1, later=True),
    }  # fmt: skip
    assert len(groups) == 11
    assert group(GAME, 3) == group(GAME, 5)
    assert all(0 <= k < GROUPS for k in groups)


def test_a_group_with_much_evidence_has_its_own_rate_and_one_without_that_of_its_kin() -> None:
    yields = Yields(WHOLE)
    for i in range(1000):
        yields.add(group(phase=1), found=i % 5 == 0, nodes=300)
    assert yields.rates()[group(phase=1)] == pytest.approx(0.2, abs=0.01)
    assert yields.costs()[group(phase=1)] == pytest.approx(300, rel=0.02)
    # Nothing of the group in another phase is known: what is known of the step speaks for it.
    assert yields.rates()[group(phase=2)] == pytest.approx(0.2, abs=0.02)
    # A group of another expected disagreement has its prior.
    assert yields.rates()[group(expected=0.05)] == pytest.approx(0.04)


def test_the_last_level_is_the_mean_of_a_beta_posterior() -> None:
    """With the mean of the level above as prior, worth eight searches."""
    yields = Yields(WHOLE)
    one, other = group(phase=0), group(phase=1)
    for i in range(10):
        yields.add(one, found=i < 7, nodes=100)
        yields.add(other, found=i < 2, nodes=100)
    rates = yields.rates()
    # The level above has both: its mean solves the two equations of its children.
    above = (rates[one] * 18 - 7) / 8
    assert rates[other] == pytest.approx((2 + 8 * above) / 18)
    assert rates[one] == pytest.approx(stats.beta(7 + 8 * above, 3 + 8 * (1 - above)).mean())
    assert 0.2 < above < 0.7


def test_the_greatest_gain_goes_first_and_large_families_wait() -> None:
    gain = np.array([1.0, 3, 3, 3, 2, 3])
    root, family = np.array([1, 1, 1, 2, 3, 4]), np.array([0, 0, 0, 0, 0, 10])
    chosen = choose(gain, np.zeros(6, bool), root, family, 4)
    # The second of root 1 counts 3 / 1.1, the last, of a family of ten, half as much as it would.
    assert chosen.tolist() == [1, 3, 2, 4]
    assert choose(gain, np.zeros(6, bool), root, family, 9).tolist() == [1, 3, 2, 4, 5, 0]


def test_a_fixed_share_is_drawn_as_it_came() -> None:
    rng = np.random.default_rng(0)
    gain, drawn = rng.random(500), rng.random(500) < RANDOM_SHARE
    chosen = choose(gain, drawn, np.arange(500), np.zeros(500, np.int64), 60)
    assert chosen[:6].tolist() == np.flatnonzero(drawn)[:6].tolist()
    assert not drawn[chosen[6:]].any()
    assert gain[chosen[6:]].min() >= np.sort(gain[~drawn])[-54]
    # Where one sort is used up the other takes its place.
    assert choose(gain, np.ones(500, bool), np.arange(500), np.zeros(500, np.int64), 60).tolist() == list(range(60))
    assert len(choose(gain, np.zeros(500, bool), np.arange(500), np.zeros(500, np.int64), 60)) == 60
    none = np.empty(0, np.int64)
    assert len(choose(np.empty(0), np.empty(0, bool), none, none, 60)) == 0


def test_the_share_that_is_drawn_is_as_large_as_it_says() -> None:
    drawn = sum(is_drawn(key) for key in range(20_000))
    low, high = stats.binom(20_000, RANDOM_SHARE).interval(0.9999)
    assert low <= drawn <= high


def test_a_batch_is_planned_when_the_one_before_the_last_is_known() -> None:
    start = Position(chess.STARTING_FEN, chess.STARTING_FEN, (), 0)

    def search(number: int, outcome: NeighbourOutcome | None = None) -> PlannedSearch:
        return PlannedSearch(number, start, 0.0, 0, 1, number, 1, outcome)

    searches = PlannedSearches()
    first = search(11)
    searches.add([first, search(12, NeighbourOutcome(None, 40, cut=True))])
    assert searches.may_plan
    searches.add([search(14)])
    assert not searches.may_plan
    assert searches.waiting.popleft() is first
    assert [entry.position_id for entry in searches.waiting] == [14]
    first.outcome = NeighbourOutcome(None, 0, failed="no answer")
    assert searches.may_plan
    assert [entry.position_id for entry in searches.take_oldest()] == [11, 12]
    assert searches.take_oldest() == []
    assert [entry.position_id for entry in searches] == [14]
