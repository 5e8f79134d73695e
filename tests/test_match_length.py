"""How long a match is to be: against published simulations, matches simulated here, and the laws of the two models."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.optimize import brentq

import valuerepair as vr
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.crosstable import Crosstable
from valuerepair.play.elo import MatchScore, Pentanomial, elo_interval, elo_of, share_of, verdict
from valuerepair.play.match_length import POWERS, ResultChances, match_length, sprt_length
from valuerepair.play.sprt import Sprt
from valuerepair.play.standing import Played, Standing


@pytest.mark.parametrize(
    ("bayes_elo", "elo", "passed", "games"),
    [
        (-1, -0.62, 0.0128, 28982),
        (0, 0.0, 0.0515, 40145),
        (1, 0.62, 0.1888, 55858),
        (2, 1.24, 0.5031, 65163),
        (3, 1.86, 0.8149, 55612),
        (4, 2.48, 0.9506, 39821),
        (5, 3.10, 0.9875, 28835),
    ],
)
def test_published_simulations_of_an_sprt(bayes_elo: float, elo: float, passed: float, games: int) -> None:
    """github.com/lucasart/sprt, README: SPRT(0, 4) of games with draw Elo 250, 20,000 tests at each difference."""
    win, loss = (1 / (1 + 10 ** ((250 + sign * bayes_elo) / 400)) for sign in (-1, 1))
    assert elo_of(win + (1 - win - loss) / 2) == pytest.approx(elo, abs=0.0051)
    length = sprt_length(Sprt(0, 4, model="bayesian"), ResultChances((loss, 1 - win - loss, win), paired=False), elo)
    assert length.games == pytest.approx(games, rel=0.01)
    assert length.h1 == pytest.approx(passed, abs=0.006)


def games_at(elo: float, draws: float) -> tuple[float, float, float]:
    """Chances of loss, draw and win by BayesElo: even players draw so many, and `elo` is what the points say."""

    def by(bayes_elo: float) -> tuple[float, float, float]:
        win, loss = (1 / (1 + 10 ** ((draw_elo + sign * bayes_elo) / 400)) for sign in (-1, 1))
        return loss, 1 - win - loss, win

    draw_elo = 400 * math.log10((1 + draws) / (1 - draws))
    low, high = 0.0, 2000.0
    for _ in range(60):
        _, drawn, win = by((low + high) / 2)
        low, high = (low, (low + high) / 2) if win + drawn / 2 > share_of(elo) else ((low + high) / 2, high)
    return by(low)


def pairs_of(game: tuple[float, float, float]) -> np.ndarray:
    """Chances of the points of two independent games."""
    return np.convolve(game, game)


@pytest.mark.parametrize(("elo", "draws"), [(5, 0.6), (20, 0.3), (40, 0.6), (80, 0.4)])
def test_matches_of_that_length_show_the_difference_so_often(elo: float, draws: float) -> None:
    """Simulated: 4,000 matches of each length, by the verdicts that `vr match` prints; of few games within 5 %."""
    plan = match_length(elo, draws=draws)
    rng = np.random.default_rng(7)
    for level in (0.90, 0.95, 0.99):
        for games, power in zip(plan.games[level], POWERS, strict=True):
            drawn = rng.multinomial(games // 2, pairs_of(games_at(elo, draws)), size=4000)
            kinds, times = np.unique(drawn, axis=0, return_counts=True)
            shown = [verdict(Pentanomial(tuple(kind)), level) == "better" for kind in kinds.tolist()]
            assert np.average(shown, weights=times) == pytest.approx(power, abs=0.02 if elo < 40 else 0.05)


@pytest.mark.parametrize(("elo", "draws"), [(3, 0.5), (10, 0.9), (30, 0.2)])
def test_the_interval_is_as_wide_as_the_difference(elo: float, draws: float) -> None:
    """Of the results to be expected of even players, its half is that difference; more draws, fewer that differ."""
    plan = match_length(elo, draws=draws)
    for level, (games, *_) in plan.games.items():
        a, b, c, d, e = (round(count) for count in games / 2 * pairs_of(games_at(0, draws)))
        _, low, high = elo_interval(Pentanomial((a, b, c, d, e)), level)
        assert (high - low) / 2 == pytest.approx(elo, rel=0.08 if draws > 0.5 else 0.02)


@pytest.mark.parametrize("true", [0.0, 40.0])
def test_an_sprt_of_pairs_is_as_long_as_it_says(true: float) -> None:
    """Simulated with the test itself, looked at after every third pair, so that it goes a bit beyond its bounds."""
    test, rng = Sprt(0, 40, 0.1, 0.1, "logistic"), np.random.default_rng(1)
    length = sprt_length(test, ResultChances.of_draws(0.5), true)
    lengths, accepted = [], 0
    for _ in range(200):
        pairs = rng.multinomial(3, pairs_of(games_at(true, 0.5)), size=400).cumsum(axis=0)
        for counts in pairs.tolist():
            if outcome := test.verdict(Pentanomial(tuple(counts))):
                break
        lengths.append(2 * sum(counts))
        accepted += outcome == "H1"
    assert 0.95 < np.mean(lengths) / length.games < 1.25
    assert accepted / 200 == pytest.approx(length.h1, abs=0.06)


@pytest.mark.parametrize("true", [-1000.0, -150.0, 75.0, 150.0, 1000.0])
def test_an_sprt_far_from_its_bounds_has_a_length(true: float) -> None:
    """What one pair says is always about the same there: no power overflows, and the test is sure of its end."""
    for draws in (0.0, 0.6, 0.9):
        for test in (Sprt(0, 5), Sprt(0, 0.01), Sprt(0, 5, 1e-12, 1e-12, "logistic"), Sprt(0, 5, model="bayesian")):
            length = sprt_length(test, ResultChances.of_draws(draws), true)
            assert length.games > 0
            assert length.h1 == pytest.approx(float(true > 0), abs=1e-6)


def test_laws_of_the_two_models() -> None:
    """What fishtest's calculator says of itself: by logistic Elo the chance to pass does not depend on the draws, by
    normalized Elo the length of the test does not."""
    few, many = ResultChances.of_draws(0.1), ResultChances.of_draws(0.8)
    logistic, normalized = Sprt(0, 5, model="logistic"), Sprt(0, 5)
    for elo in (-2.0, 0.0, 2.5, 5.0):
        assert sprt_length(logistic, few, elo).h1 == pytest.approx(sprt_length(logistic, many, elo).h1, abs=1e-3)
    assert sprt_length(logistic, few, 0).games > 2 * sprt_length(logistic, many, 0).games
    assert sprt_length(normalized, few, 0).games == pytest.approx(sprt_length(normalized, many, 0).games, rel=0.005)
    # With independent games, a test of games is as long as one of pairs.
    alone = ResultChances(few.game, paired=False)
    assert sprt_length(logistic, alone, 5).games == pytest.approx(sprt_length(logistic, few, 5).games, rel=0.005)
    # At its ends it errs as often as it may, in between it is longest.
    ends = [sprt_length(logistic, few, elo) for elo in (0.0, 2.5, 5.0)]
    assert [end.h1 for end in ends] == pytest.approx([0.05, 0.5, 0.95], abs=2e-3)
    assert ends[1].games > max(ends[0].games, ends[2].games)


def played(pairs: dict[tuple[float, float], int]) -> Standing:
    """A match with so many pairs of each kind: the first player's points with White and with Black."""
    standing, number = Standing(("A", "B")), 0
    for points, count in pairs.items():
        for _ in range(count):
            for white, point in zip((True, False), points, strict=True):
                result = {0.0: "0-1", 0.5: "1/2-1/2", 1.0: "1-0"}[point if white else 1 - point]
                standing.add(Played(number, number // 2, result, "checkmate", 40))
                number += 1
    return standing


def test_openings_that_one_side_wins_need_fewer_games() -> None:
    """Who has White wins as a rule: a pair says little by chance, and much by strength."""
    biased = played({(1.0, 0.0): 300, (1.0, 0.5): 60, (0.5, 0.0): 50, (0.5, 0.5): 90})
    outcomes = ResultChances.of_match(biased)
    assert outcomes.pair == pytest.approx((0, 55 / 500, 390 / 500, 55 / 500, 0))
    independent = ResultChances(outcomes.game).at(10)
    correlated = outcomes.at(10)
    spread = {}
    for name, chances in (("independent", independent), ("correlated", correlated)):
        shares = np.linspace(0, 1, 5)
        assert float(np.dot(chances.counted, shares)) == pytest.approx(share_of(10))
        spread[name] = float(np.dot(chances.counted, (shares - share_of(10)) ** 2))
    one_player = vr.plan_match(10, draws=outcomes.game[1]).games[0.95][1]
    assert one_player / 2 * spread["correlated"] < one_player / 4 * spread["independent"]


NO_LOSS = {(0.5, 0.5): 60, (1.0, 0.5): 35, (1.0, 1.0): 5}
ONE_KIND_MISSING = [
    NO_LOSS,
    {(0.5, 0.0): 10, (0.5, 0.5): 60, (1.0, 0.5): 25, (1.0, 1.0): 5},
    {(0.0, 0.0): 5, (1.0, 0.0): 90, (1.0, 0.5): 40},
    {(0.0, 0.0): 40, (0.5, 0.5): 50, (1.0, 1.0): 40},
]


@pytest.mark.slow
@pytest.mark.parametrize("pairs", ONE_KIND_MISSING)
def test_plans_from_games_without_one_kind_of_pair(pairs: dict[tuple[float, float], int]) -> None:
    """Simulated matches of even players made stronger by another law than the plan's own: exponential in the points."""
    plan = match_length(8, like=alone(played(pairs)), sprt=Sprt(0, 5))
    counts = np.zeros(5)
    for points, count in pairs.items():
        counts[round(2 * sum(points))] += count
    even = (counts + counts[::-1]) / 2 / counts.sum()
    assert plan.outcomes.pair == pytest.approx(even)

    shares = np.linspace(0, 1, 5)
    tilted = even * np.exp(brentq(lambda slope: tilted_mean(even, slope) - share_of(8), -3, 3) * shares)
    rng = np.random.default_rng(5)
    for level in (0.90, 0.95, 0.99):
        for games, power in zip(plan.games[level], POWERS, strict=True):
            drawn = rng.multinomial(games // 2, tilted / tilted.sum(), size=3000).tolist()
            shown = np.mean([verdict(Pentanomial(tuple(pair_counts)), level) == "better" for pair_counts in drawn])
            assert shown == pytest.approx(power, abs=0.03)
    # With no kind missing, but nearly so, it is the same plan.
    nearly = {(0.0, 0.0): 1, (0.5, 0.0): 1, (1.0, 1.0): 1, **{kind: 1000 * count for kind, count in pairs.items()}}
    assert match_length(8, like=alone(played(nearly))).games[0.95][1] == pytest.approx(plan.games[0.95][1], rel=0.01)


def tilted_mean(chances: np.ndarray, slope: float) -> float:
    shares = np.linspace(0, 1, len(chances))
    weights = chances * np.exp(slope * shares)
    return float(weights @ shares / weights.sum())


def alone(standing: Standing) -> Crosstable:
    return Crosstable(standing.games, None, (standing,), standing, (), None)


def test_a_difference_that_these_games_cannot_make_is_refused() -> None:
    """The best pair had 3/2 points, so at most 191 Elo; and games that are all alike say nothing of their variation."""
    drawish = alone(played({(0.5, 0.5): 400, (1.0, 0.5): 40, (0.5, 0.0): 20}))
    assert match_length(150, like=drawish).games[0.95][1] > 0
    with pytest.raises(UsageError, match=r"these games cannot make 200 Elo; give --draws instead"):
        match_length(200, like=drawish)
    with pytest.raises(ValueRepairError, match=r"A against B: all 500 pairs had the same result"):
        match_length(5, like=alone(played({(0.5, 0.5): 500})))
    with pytest.raises(
        ValueRepairError, match=r"too few games to plan by: 29 pairs with another result .* of 30 needed"
    ):
        match_length(5, like=alone(played({(0.5, 0.5): 500, (1.0, 0.5): 29})))


@pytest.mark.parametrize("model", ["normalized", "logistic", "bayesian"])
def test_the_length_of_a_test_at_its_own_differences(model: str) -> None:
    """Wald's formulas, written out; where it is H0 or H1 that holds, it errs as often as it was asked to."""
    test = Sprt(0, 4, 0.05, 0.1, model)
    plan = match_length(None, draws=0.6, sprt=test)
    assert (plan.games, [row.of_model for row in plan.tests]) == ({}, [0, 2, 4])
    assert [row.h1 for row in plan.tests][::2] == pytest.approx([0.05, 0.9], abs=2e-3)
    draw_elo = 400 * math.log10((1 + 0.6) / (1 - 0.6))
    elos: dict[str, list[float]] = {
        "normalized": [value * math.sqrt(0.4) / 2 * 400 / 347.4356 * 4 / math.log(10) for value in (0, 2, 4)],
        "logistic": [0, 2, 4],
        "bayesian": [elo_of((share_of(value - draw_elo) + 1 - share_of(-value - draw_elo)) / 2) for value in (0, 2, 4)],
    }
    assert [row.elo for row in plan.tests] == pytest.approx(elos[model], rel=5e-3, abs=1e-9)
    # A game is a step of this many of its standard deviations; the ratio's drift is half its square.
    step = (share_of(elos[model][2]) - 0.5) / (math.sqrt(0.4) / 2)
    low, high = math.log(0.1 / 0.95), math.log(0.9 / 0.05)
    expected = [(0.05 * high + 0.95 * low) / (-(step**2) / 2), -low * high / step**2]
    expected.append((0.9 * high + 0.1 * low) / (step**2 / 2))
    assert [row.games for row in plan.tests] == pytest.approx(expected, rel=0.01)
    with_difference = match_length(4, draws=0.6, sprt=test)
    assert [row.elo for row in with_difference.tests][3:] == ([] if model == "logistic" else [4])


def test_a_test_alone_is_planned_without_resolve() -> None:
    printed = CliRunner().invoke(cli, ["elo", "--sprt", "elo0=0,elo1=5", "--draws", "0.6"]).output
    assert "interval" not in printed
    rows = vr.plan_match(draws=0.6, sprt="elo0=0,elo1=5").tests
    assert [f"{row.games:,}, H1 accepted in {100 * row.h1:.1f} %" in printed for row in rows] == [True] * 3
    with pytest.raises(UsageError, match="a plan needs a difference"):
        vr.plan_match(draws=0.6)


def test_what_python_and_the_command_say_of_a_match(tmp_path_factory: pytest.TempPathFactory) -> None:
    """By the games of a file: their pairs, and their time."""
    path = tmp_path_factory.mktemp("plan") / "games.pgn"
    rng, texts = np.random.default_rng(0), []
    for pair, points in enumerate(rng.choice([0.0, 0.5, 1.0], size=(200, 2), p=[0.25, 0.45, 0.3]).tolist()):
        for white, black, point in (("A", "B", points[0]), ("B", "A", 1 - points[1])):
            result = {0.0: "0-1", 0.5: "1/2-1/2", 1.0: "1-0"}[point]
            tags = {"White": white, "Black": black, "Result": result, "FEN": str(pair), "GameDuration": "00:01:30"}
            texts.append("".join(f'[{name} "{text}"]\n' for name, text in tags.items()) + f"\n1. e4 {result}\n\n")
    path.write_text("".join(texts))
    like = vr.elo(path)
    assert (like.whole is not None, like.seconds) == (True, 90)
    plan = vr.plan_match(8, like=like, sprt="elo0=0,elo1=8", jobs=4)
    words = ["elo", str(path), "--resolve", "8", "--sprt", "elo0=0,elo1=8", "--jobs", "4"]
    figures = json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)
    assert figures == plan.as_json()
    assert figures["games"][4]["hours"] == pytest.approx(figures["games"][4]["games"] * 90 / 4 / 3600)
    printed = CliRunner().invoke(cli, words).output
    for row in (*figures["games"], *figures["sprt"]):
        assert f"{row['games']:,} ({row['hours']:,.{0 if row['hours'] >= 100 else 1}f} h)" in printed
    assert "hours: 90.0 s per game, 4 at once" in printed
    # Without times there are no hours.
    assert " h)" not in CliRunner().invoke(cli, ["elo", "--resolve", "8", "--draws", "0.45"]).output
    # The table of the file, if it went on like this: what the plan says is what its intervals do.
    assert like.whole is not None
    assert isinstance(like.whole.results, Pentanomial)
    _, low, high = elo_interval(like.whole.results)
    assert (high - low) / 2 == pytest.approx(8 * math.sqrt(plan.games[0.95][0] / 400), rel=0.05)


def test_a_plan_from_repeated_openings_says_that_it_is_of_new_ones() -> None:
    """The same pairs, of 50 openings and of as many as there are pairs: one plan, one with a line more."""
    new, repeated = Standing(("A", "B")), Standing(("A", "B"))
    for number in range(800):
        result = ("1-0", "0-1", "1/2-1/2", "1/2-1/2", "1-0")[number * 7 // 3 % 5]
        new.add(Played(number, number // 2, result, "checkmate", 40))
        repeated.add(Played(number, number // 2 % 50, result, "checkmate", 40))
    plain, lines = match_length(10, like=alone(new)).lines(), match_length(10, like=alone(repeated)).lines()
    assert lines == [*plain, "openings are repeated in these games; the plan takes each pair as one of a new opening"]


def test_games_that_are_no_pairs_are_planned_game_by_game() -> None:
    standing = Standing(("A", "B"))
    standing.paired = False
    for i in range(300):
        standing.add(Played(2 * i, i, ("1-0", "0-1", "1/2-1/2")[i % 3], "checkmate", 40))
    outcomes = ResultChances.of_match(standing)
    assert (outcomes.pair, outcomes.paired) == (None, False)
    assert outcomes.counted == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert isinstance(standing.results, MatchScore)
