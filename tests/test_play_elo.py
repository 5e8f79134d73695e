"""Elo, LOS, verdicts and pairs: against published lines, fastchess's own tests, and laws."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_1samp
from scipy.stats import t as student

from valuerepair.play.elo import (
    LEVELS,
    ByOpening,
    MatchScore,
    Pentanomial,
    elo_interval,
    elo_of,
    few,
    few_words,
    los,
    moments,
    normalized_elo,
    share_interval,
    share_of,
    verdict,
)
from valuerepair.play.standing import Played, Standing, Tally

counts = st.integers(0, 12) | st.integers(0, 5000)
scores = st.builds(MatchScore, counts, counts, counts)
pentanomials = st.builds(Pentanomial, st.tuples(counts, counts, counts, counts, counts))
by_opening = st.lists(
    st.integers(1, 40).flatmap(lambda games: st.tuples(st.just(games), st.integers(0, 2 * games))), max_size=60
).map(lambda each: ByOpening(tuple(games for games, _ in each), tuple(half / 2 for _, half in each)))


@pytest.mark.parametrize(("score", "elo", "superior"), [
    (MatchScore(2974, 4101, 2925), 1.70, 73.8),
    (MatchScore(2937, 4214, 2849), 3.06, 87.6),
])  # fmt: skip
def test_lines_that_lc0_selfplay_printed(score: MatchScore, elo: float, superior: float) -> None:
    assert round(elo_interval(score).value, 2) == elo
    assert round(100 * los(score), 1) == superior
    assert verdict(score, 0.90) == "not shown"


def test_a_published_match_of_5000_games() -> None:
    """1940/1723/1337 are wins, losses, draws: no other order gives the Elo and the interval published with it."""
    score = MatchScore(wins=1940, losses=1723, draws=1337)
    assert [round(x, 2) for x in elo_interval(score, 0.95)] == [15.09, 6.85, 23.35]
    assert [verdict(score, level) for level in LEVELS] == ["better"] * len(LEVELS)
    assert round(elo_interval(MatchScore(wins=1940, draws=1723, losses=1337)).value, 2) != 15.09


def test_a_published_match_of_100000_games_whose_author_ignores_draws() -> None:
    """-0.48, 1.68, 3.83 and "unclear" at 0.90 come out with the variance of games without draws, 1/4.

    Draws make the variance smaller: with that of the games found the interval is a sixth narrower, and 0 is outside.
    """
    score = MatchScore(wins=35515, draws=29453, losses=35032)
    share = score.points / score.games

    def ignoring_draws(level: float) -> list[float]:
        margin = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(1 / 4 / score.games)
        return [round(elo_of(share + sign * margin), 2) for sign in (0, -1, 1)]

    assert ignoring_draws(0.95) == [1.68, -0.48, 3.83]
    assert ignoring_draws(0.90)[1] < 0
    assert [round(x, 2) for x in elo_interval(score, 0.95)] == [1.68, -0.13, 3.49]
    assert [round(x, 2) for x in elo_interval(score, 0.90)] == [1.68, 0.16, 3.20]
    assert [verdict(score, level) for level in (0.90, 0.95)] == ["better", "not shown"]


@pytest.mark.parametrize(("results", "normalized", "error", "elo", "elo_error"), [
    (MatchScore(76, 123, 89), -20.76, 40.13, None, None),
    (MatchScore(136, 111, 96), 49.77, 36.77, 40.70, 30.43),
    (MatchScore(34, 0, 356), -508.44, 34.48, None, None),
    (Pentanomial((34, 54, 63, 64, 75)), 57.94, 28.28, 55.58, 27.65),
    (Pentanomial((332, 433, 498, 333, 334)), -9.17, 10.96, -8.64, 10.33),
    (Pentanomial((7895, 8757, 5685, 568, 9999)), -19.01, 2.65, -21.04, 2.95),
])  # fmt: skip
def test_figures_of_fastchess(
    results: MatchScore | Pentanomial, normalized: float, error: float, elo: float | None, elo_error: float | None
) -> None:
    """app/tests/elo_test.cpp; its error is half the width of the interval at 0.95."""
    value, low, high = normalized_elo(results)
    assert (round(value, 2), round((high - low) / 2, 2)) == (normalized, error)
    if elo is not None:
        value, low, high = elo_interval(results)
        assert (round(value, 2), round((high - low) / 2, 2)) == (elo, elo_error)


def test_los_of_pairs_is_that_of_fastchess() -> None:
    assert round(100 * los(Pentanomial((332, 433, 498, 333, 334))), 2) == 5.05
    assert round(100 * los(Pentanomial((34, 54, 63, 64, 75))), 2) == 100


@pytest.mark.parametrize(("pairs", "elo", "normalized", "superior"), [
    ((39, 5335, 18992, 5622, 12), (1.35, 1.2), (3.13, 2.8), 98.6),
    ((1, 137, 4659, 203, 0), (2.22, 1.3), (12.00, 6.8), 100.0),
])  # fmt: skip
def test_lines_that_fishtest_printed(
    pairs: tuple[int, int, int, int, int], elo: tuple[float, float], normalized: tuple[float, float], superior: float
) -> None:
    """github.com/official-stockfish/Stockfish, pull requests 4160 and 6255."""
    results = Pentanomial(pairs)
    for estimate, published in ((elo_interval(results), elo), (normalized_elo(results), normalized)):
        assert estimate.value == pytest.approx(published[0], abs=0.0051)
        assert (estimate.high - estimate.low) / 2 == pytest.approx(published[1], abs=0.051)
    assert 100 * los(results) == pytest.approx(superior, abs=0.051)


@given(scores | pentanomials | by_opening, st.sampled_from((*LEVELS, 0.5, 0.999)))
def test_los_interval_and_verdict_agree(results: MatchScore | Pentanomial | ByOpening, level: float) -> None:
    """LOS is above 0.95 where the interval at 0.90 is above 0, and so on."""
    superior = los(results)
    if min(abs(superior - (1 + sign * level) / 2) for sign in (-1, 1)) > 1e-9:
        beyond = "better" if superior > (1 + level) / 2 else "worse" if superior < (1 - level) / 2 else "not shown"
        assert verdict(results, level) == beyond
    value, low, high = share_interval(results, level)
    assert math.isnan(value) or low <= value <= high
    assert math.isnan(value) or low < high  # never a point


def test_games_without_draws_have_the_binomial_interval() -> None:
    """Clopper and Pearson's, and as LOS one less the exact test's chance, both as scipy has them."""
    for wins, losses in itertools.product((0, 1, 2, 3, 5, 8, 13, 21, 29), repeat=2):
        if not wins + losses:
            continue
        score = MatchScore(wins=wins, losses=losses)
        assert few(score)
        for level in LEVELS:
            exact = binomtest(wins, wins + losses).proportion_ci(level, "exact")
            assert share_interval(score, level)[1:] == pytest.approx((exact.low, exact.high), abs=1e-9)
        if wins > losses:
            chance = float(binomtest(wins, wins + losses, alternative="greater").pvalue)
            assert los(score) == pytest.approx(max(1 - chance, 0.5), abs=1e-9)


@pytest.mark.parametrize("results", [
    MatchScore(28, 40, 1), MatchScore(2, 100, 27), MatchScore(29, 0, 60), MatchScore(15, 1000, 14),
    MatchScore(29, 0, 29),
    Pentanomial((5, 10, 40, 10, 4)), Pentanomial((0, 0, 4, 25, 80)), Pentanomial((0, 14, 1000, 15, 0)),
])  # fmt: skip
def test_intervals_of_few_go_over_into_those_of_many(results: MatchScore | Pentanomial) -> None:
    """With the last outcome before the normal interval takes over the exact one is a quarter wider at most."""
    assert few(results)
    n, share, variance = moments(results)
    for level in LEVELS:
        _, low, high = share_interval(results, level)
        deviation = math.sqrt(variance / n)
        assert 1 < (high - low) / (2 * NormalDist().inv_cdf((1 + level) / 2) * deviation) < 1.25
        assert los(results) == pytest.approx(NormalDist().cdf((share - 0.5) / deviation), abs=0.05)


def turned(results: MatchScore | Pentanomial) -> MatchScore | Pentanomial:
    """The same from the other player's side."""
    counts = [count for _, count in results.outcomes]
    if isinstance(results, MatchScore):
        return MatchScore(*counts)
    a, b, c, d, e = counts
    return Pentanomial((e, d, c, b, a))


@given(scores | pentanomials, st.sampled_from(LEVELS))
def test_laws_of_intervals(results: MatchScore | Pentanomial, level: float) -> None:
    value, low, high = share_interval(results, level)
    if math.isnan(value):
        assert math.isnan(low)
        assert verdict(results, level) == "not shown"
        assert los(results) == 0.5
        return
    assert 0 <= low <= value <= high <= 1
    other = elo_interval(turned(results), level)
    assert (-other.value, -other.high, -other.low) == pytest.approx(elo_interval(results, level), abs=1e-6)
    assert los(results) + los(turned(results)) == pytest.approx(1)
    opposite = {"better": "worse", "worse": "better", "not shown": "not shown"}
    assert verdict(turned(results), level) == opposite[verdict(results, level)]


@given(st.floats(-800, 800))
def test_elo_and_share_are_inverse(elo: float) -> None:
    assert elo_of(share_of(elo)) == pytest.approx(elo, abs=1e-6)


def opened(shares: np.ndarray, sizes: np.ndarray | int) -> ByOpening:
    """Openings with so many games each and these shares of their points."""
    games = np.broadcast_to(sizes, shares.shape)
    return ByOpening(tuple(games.tolist()), tuple((shares * games).tolist()))


def test_copies_of_games_make_no_interval_narrower() -> None:
    """Pairs of 40 openings, then the same pairs ten times: as pairs they would say sqrt(10) times too much."""
    points = np.random.default_rng(2).choice([0.0, 0.5, 1.0], size=(40, 2), p=[0.2, 0.4, 0.4])
    once = [(opening, not i, float(points[opening, i])) for opening in range(40) for i in range(2)]
    assert ByOpening.of(once) is None
    found = ByOpening.of(once * 10)
    assert found is not None
    shares = points.mean(axis=1)
    for level in LEVELS:  # Student's interval of the openings' means, as scipy has it
        low, high = student.interval(level, 39, shares.mean(), shares.std(ddof=1) / math.sqrt(40))
        assert share_interval(found, level) == pytest.approx((shares.mean(), low, high))
    chance = ttest_1samp(shares, 0.5, alternative="greater").pvalue
    assert los(found) == pytest.approx(1 - float(chance))
    again = ByOpening.of([*once, once[0]])  # one game more makes hardly any difference
    assert again is not None
    assert share_interval(again) == pytest.approx(share_interval(found), abs=0.01)


@given(by_opening, st.integers(2, 50))
def test_openings_played_so_many_times_over_say_the_same(openings: ByOpening, times: int) -> None:
    """And their Elo is that of the score, whatever the openings are."""
    more = ByOpening(tuple(times * g for g in openings.games), tuple(times * p for p in openings.points))
    assert share_interval(more) == pytest.approx(share_interval(openings), nan_ok=True)
    assert los(more) == pytest.approx(los(openings))
    if openings.games:
        assert elo_interval(openings).value == elo_of(sum(openings.points) / sum(openings.games))


def test_the_spread_of_openings_is_the_jackknifes() -> None:
    """Each opening left out, computed as it is said, and the degrees of freedom by Kish's number of openings."""
    rng = np.random.default_rng(4)
    games = rng.integers(2, 30, size=25)
    points = rng.binomial(2 * games, rng.uniform(0.3, 0.8, size=25)) / 2
    share = points.sum() / games.sum()
    left_out = np.array([(points.sum() - p) / (games.sum() - g) for p, g in zip(points, games, strict=True)])
    error = math.sqrt(24 / 25 * np.sum((left_out - share) ** 2))
    freedom = games.sum() ** 2 / np.sum(games**2) - 1
    found = ByOpening(tuple(games.tolist()), tuple(points.tolist()))
    assert share_interval(found, 0.9) == pytest.approx((share, *student.interval(0.9, freedom, share, error)))
    # Where sizes are equal it is the mean's, and close to Cochran's variance of a ratio where they are not.
    cochran = math.sqrt(25 / 24 * np.sum((points - share * games) ** 2)) / games.sum()
    assert error == pytest.approx(cochran, rel=0.1)


SIZES = {
    "20 of 500": np.full(20, 500),
    "40 of 10": np.full(40, 10),
    "as in leela-ID352": np.array([2] * 41 + [4] * 12 + [6] * 2 + [8] + [10] * 2 + [14, 16]),
    "from 2 to 41": np.arange(2, 42),
    "half of them ten times as often": np.array([500] * 10 + [50] * 10),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["copies", "independent games", "openings that favour a side"])
@pytest.mark.parametrize("name", SIZES)
def test_intervals_of_openings_hold_the_truth(name: str, kind: str) -> None:
    """At 0.95, in 2,500 matches each: chance alone makes 0.4 % of difference."""
    rng, sizes = np.random.default_rng(8), SIZES[name]
    many, truth = (2500, len(sizes)), 0.53
    if kind == "copies":
        shares = rng.choice([0, 0.25, 0.5, 0.75, 1], p=[0.05, 0.2, 0.38, 0.32, 0.05], size=many)
    elif kind == "independent games":
        wins = rng.binomial(sizes, 0.28, size=many)
        shares = (wins + rng.binomial(sizes - wins, 0.5 / 0.72) / 2) / sizes
    else:
        shares = rng.binomial(2 * sizes, np.clip(rng.normal(truth, 0.12, size=many), 0, 1)) / (2 * sizes)
    held = [low <= truth <= high for _, low, high in (share_interval(opened(match, sizes)) for match in shares)]
    assert 0.93 < np.mean(held) < 0.97


def test_one_opening_with_most_of_the_games_counts_as_one() -> None:
    """600 games of one opening, 2 of each of 100 others: these 101 show hardly more than two would."""
    found = ByOpening((600, *[2] * 100), (450.0, *[0.5] * 100))
    assert elo_interval(found).value == elo_of(0.625)
    assert verdict(found, 0.9) == "not shown"
    assert str(few_words(found)).endswith(" 1.8")


def test_a_match_whose_openings_come_again_is_counted_by_openings() -> None:
    standing = Standing(("A", "B"))
    for number in range(12):
        standing.add(Played(number, number // 2 % 3, "1-0" if number % 6 else "1/2-1/2", "checkmate", 40))
        assert standing.unit == ("games" if number == 0 else "pairs" if number < 6 else "openings")
    assert standing.as_json()["intervals_of"] == "openings"
    assert standing.results.outcomes == ((0.25, 1), (0.5, 1), (0.5, 1))
    # Normalized Elo takes the deviation of a game from the pairs: 1/4, 1/2, 1/2 of the points, each twice.
    told = standing.as_json()["normalized_elo"]
    assert told["value"] == pytest.approx((5 / 12 - 0.5) * 800 / math.log(10) / (math.sqrt(2) * np.std([1, 2, 2]) / 4))


@pytest.mark.parametrize("results", [MatchScore(), Pentanomial()])
def test_nothing_is_said_of_no_games(results: MatchScore | Pentanomial) -> None:
    assert all(math.isnan(x) for x in (*elo_interval(results), *normalized_elo(results)))
    assert verdict(results, 0.9) == "not shown"


def test_few_games_with_one_outcome_are_no_certainty() -> None:
    value, low, high = share_interval(MatchScore(wins=2), 0.95)
    assert (value, high) == (1, 1)
    assert low == pytest.approx(math.sqrt(0.025))  # equal to that of two wins of two, by hand
    assert verdict(MatchScore(wins=2), 0.95) == "not shown"
    assert verdict(MatchScore(wins=20), 0.95) == "better"
    assert verdict(MatchScore(draws=1000), 0.95) == "not shown"
    assert share_interval(MatchScore(draws=1000), 0.95) == pytest.approx((0.5, 0.4986, 0.5014), abs=1e-4)


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    games = rng.multinomial(400, (0.35, 0.4, 0.25), size=4000)
    for level in LEVELS:
        held = [
            low <= 0.55 <= high for w, d, x in games for _, low, high in [share_interval(MatchScore(w, d, x), level)]
        ]
        assert np.mean(held) == pytest.approx(level, abs=0.015)


OF_GAMES = [
    (0.5, 0, 0.5), (0.3, 0.4, 0.3), (0.05, 0.9, 0.05), (0.2, 0, 0.8), (0.05, 0.5, 0.45),
    (0.1, 0, 0.9), (0, 0.3, 0.7), (0.02, 0, 0.98), (0, 0.04, 0.96),
]  # fmt: skip
OF_PAIRS = [
    (0.2, 0.2, 0.2, 0.2, 0.2), (0.05, 0.2, 0.4, 0.25, 0.1), (0, 0.02, 0.96, 0.02, 0), (0.01, 0.05, 0.2, 0.5, 0.24),
    (0.5, 0, 0, 0, 0.5), (0, 0, 0.1, 0.3, 0.6), (0, 0, 0.02, 0.08, 0.9), (0, 0, 0, 0.02, 0.98),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 8, 12, 20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("chances", [*OF_GAMES, *OF_PAIRS])
def test_intervals_of_few_hold_the_truth(n: int, chances: tuple[float, ...]) -> None:
    """Losses, draws, wins of games, and pairs by points, of equal and of very unequal players: 3,000 matches each.

    Up to 40 at least as often as they say; of more, where the normal interval takes over, in 2 % less.
    """
    rng = np.random.default_rng(n)
    truth = float(np.dot(chances, np.linspace(0, 1, len(chances))))
    drawn, times = np.unique(rng.multinomial(n, chances, size=3000), axis=0, return_counts=True)
    held = dict.fromkeys((0.90, 0.95, 0.99), 0)
    for outcome, count in zip(drawn.tolist(), times.tolist(), strict=True):
        results = MatchScore(*reversed(outcome)) if len(outcome) == 3 else Pentanomial(tuple(outcome))
        for level in held:
            _, low, high = share_interval(results, level)
            held[level] += count * (low - 1e-12 <= truth <= high + 1e-12)
    for level, count in held.items():
        assert count / 3000 >= level - (0 if n <= 40 else 0.02)


def test_tally_by_colour_and_by_pairs_in_any_order() -> None:
    games = [
        (0, True, "1-0"), (1, False, "0-1"),  # 2 points
        (2, False, "1/2-1/2"), (3, True, "0-1"),  # 1/2
        (4, True, "1/2-1/2"), (5, False, "*"),  # no pair: one is undecided
        (6, True, "1-0"), (7, False, "1-0"),  # 1
        (9, False, "0-1"),  # its other game is still to come
    ]  # fmt: skip
    ours, theirs = Tally(), Tally()
    for number, white, result in reversed(games):
        ours.add(number, white, result)
        theirs.add(number, not white, result)
    assert ours.as_white == MatchScore(2, 1, 1)
    assert ours.as_black == MatchScore(2, 1, 1)
    assert ours.score == MatchScore(4, 2, 2)
    assert ours.counted == MatchScore(4, 1, 2)
    assert ours.pairs == Pentanomial((0, 1, 1, 0, 1))
    assert ours.undecided == 1
    assert theirs.pairs == turned(ours.pairs)
    assert theirs.score == turned(ours.score)
