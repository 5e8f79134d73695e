"""What is measured of an experiment's games: pairings, repeats, results with intervals, temperatures of equal ratio."""

from __future__ import annotations

import math
from dataclasses import replace

import chess
import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from tests.experiment_doubles import BLACK_GIVES, QUEEN_ODDS, openings, played
from valuerepair.mcts.params import SearchParams
from valuerepair.play.elo import Pentanomial, Score
from valuerepair.play.experiment import (
    Contestant,
    Trial,
    white_material,
)
from valuerepair.play.experiment_contempt import ContemptReport
from valuerepair.play.experiment_measures import (
    equal_ratio_temperature,
    match_of,
    repeats_of,
    sweep_of,
)
from valuerepair.play.openings import Opening
from valuerepair.play.report import PlayedGame, figures
from valuerepair.report.experiment_table import contempt_lines, match_lines


def test_pairings() -> None:
    sides = Contestant("a", SearchParams(), 10), Contestant("b", SearchParams(), 10)
    match = Trial("m", sides, openings("e2e4", "d2d4"), 6)
    assert [(p.opening.number, p.white) for p in map(match.pairing, range(6))] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1),
    ]  # fmt: skip
    lines = [Opening(i, fen, (), fen, i) for i, fen in enumerate((QUEEN_ODDS, BLACK_GIVES))]
    odds = Trial("o", sides, lines, 2, first_is_weaker=True)
    assert [(p.white, p.black) for p in map(odds.pairing, range(2))] == [(0, 1), (1, 0)]


def test_material() -> None:
    assert white_material(chess.STARTING_FEN) == 0
    assert white_material(QUEEN_ODDS) == -9
    assert white_material(BLACK_GIVES) == 9


def test_repeated_games() -> None:
    twenty = [f"a{i}" for i in range(20)]
    games = [
        played(0, 0, "1-0", [*twenty, "x"]),
        played(1, 0, "1-0", [*twenty, "x"]),  # whole
        played(2, 0, "0-1", [*twenty, "y"]),  # to 20 plies
        played(3, 0, "0-1", [*twenty[:10], "z"]),  # to 10 plies
        played(4, 1, "0-1", [*twenty, "x"]),  # another opening: none
    ]
    assert repeats_of(games) == pytest.approx({"10": 1, "20": 2 / 3, "40": 1 / 3, "whole": 1 / 3})
    assert math.isnan(repeats_of(games[-1:])["whole"])


def test_a_sweep_counts() -> None:
    games = [played(i, i, ("1-0", "1/2-1/2", "0-1", "*")[i % 4], ["e2e4"] * 2, [0.6, -0.1]) for i in range(40)]
    found = sweep_of("a", games, 0.55)
    assert found.score == Score(10, 10, 10)
    assert (found.undecided, found.games, found.positions, found.plies) == (10, 40, 80, 2)
    assert found.ratio.value == 2
    drawn = proportion_confint(10, 30, method="wilson")
    assert found.ratio[1:] == pytest.approx([1 / share - 1 for share in reversed(drawn)])
    bounds = proportion_confint(40, 80, method="wilson")
    assert found.interesting == pytest.approx((500, *(1000 * bound for bound in bounds)))


@pytest.mark.parametrize("result", ["1-0", "1/2-1/2"])
def test_no_interval_is_without_width(result: str) -> None:
    """Eight games that all end alike, in which nothing is interesting: as `vr selfplay` has it, Wilson's of 0 of 8."""
    found = sweep_of("a", [played(i, i, result, ["e2e4"], [0.1]) for i in range(8)], 0.5)
    told = figures([PlayedGame(i, i, "", "a", "a", result, "", 0, ("e4",), None) for i in range(8)])
    wanted = told["decisive_ratio_low"], told["decisive_ratio_high"]
    assert found.ratio[1:] == pytest.approx([math.inf if bound is None else bound for bound in wanted])
    assert found.ratio.low < found.ratio.high
    assert (found.interesting.low, found.interesting.value) == (0, 0)
    assert found.interesting.high == pytest.approx(1000 * proportion_confint(0, 8, method="wilson")[1])
    text = "\n".join(contempt_lines(ContemptReport([(5, found)], [], None, True, 10)))
    assert ("no draw      above 2.08" in text) == (result == "1-0")
    assert "inf" not in text.replace("interesting", "")


def test_copies_of_decisive_games_add_nothing() -> None:
    """Eight openings, ten times the same game of each; and one opening, of which no game is a copy."""
    alike = sweep_of("a", [played(i, i % 8, "1-0", ["e2e4", "e7e5"]) for i in range(80)], 0.5)
    assert alike.ratio == sweep_of("a", [played(i, i, "1-0") for i in range(8)], 0.5).ratio
    other = sweep_of("a", [played(i, 0, "1-0", [f"a{i}"]) for i in range(80)], 0.5)
    assert other.ratio == sweep_of("a", [played(i, i, "1-0") for i in range(80)], 0.5).ratio


def test_intervals_hold_the_truth_where_games_of_an_opening_are_alike() -> None:
    """Openings differ in how often they are drawn (as much as 0 and 0.8): games as such would hold it in half."""
    rng, held, of_games = np.random.default_rng(2), 0, 0
    for _ in range(200):
        results = rng.random((30, 16)) < rng.choice([0.0, 0.8], 30)[:, None]
        games = [
            played(16 * i + n, i, "1/2-1/2" if results[i, n] else "1-0", [f"a{n}"])
            for i in range(30)
            for n in range(16)
        ]
        ratio = sweep_of("a", games, 0.5).ratio
        held += ratio.low <= 1.5 <= ratio.high
        low, high = proportion_confint(results.sum(), results.size, method="wilson")
        of_games += low <= 0.4 <= high
    assert held >= 0.92 * 200
    assert of_games < 0.7 * 200


def test_intervals_count_repeated_games_once() -> None:
    """Ten copies of every game say no more than one."""
    rng = np.random.default_rng(0)
    results = rng.choice(["1-0", "1/2-1/2", "0-1"], 30)
    once = [played(i, i, str(result)) for i, result in enumerate(results)]
    copies = [played(30 * k + i, i, str(result)) for k in range(10) for i, result in enumerate(results)]
    assert sweep_of("a", copies, 0.5).ratio == pytest.approx(sweep_of("a", once, 0.5).ratio)


def test_intervals_of_the_ratio_hold_the_truth() -> None:
    rng, held = np.random.default_rng(1), 0
    for _ in range(40):
        results = rng.choice(["1-0", "1/2-1/2", "0-1"], 120, p=[0.35, 0.4, 0.25])
        ratio = sweep_of("a", [played(n, n, str(r)) for n, r in enumerate(results)], 0.5).ratio
        held += ratio.low <= 1.5 <= ratio.high
    assert held >= 34


@pytest.mark.parametrize(("target", "tau", "inside"), [
    (2.0, 0.5, True), (4.0, 1.0, True), (math.sqrt(8), 0.75, True), (1.0, 0.0, True), (0.5, 0.0, False), (9, 1, False),
])  # fmt: skip
def test_temperature_of_equal_ratio(target: float, tau: float, inside: bool) -> None:
    found, within = equal_ratio_temperature(target, [(1, 4.0), (0, 1.0), (0.5, 2.0)])
    assert found == pytest.approx(tau)
    assert within == inside


def test_no_temperature_of_equal_ratio() -> None:
    with pytest.raises(ValueError, match="no temperature"):
        equal_ratio_temperature(math.inf, [(1, 4.0)])
    with pytest.raises(ValueError, match="no temperature"):
        equal_ratio_temperature(1, [(1, math.inf), (0, 0.0)])


def test_a_match_says_it_at_every_level() -> None:
    games = [played(i, i // 2, "1-0" if i % 2 == 0 else "1/2-1/2") for i in range(40)]
    games = [replace(game, white="ab"[game.number % 2], black="ba"[game.number % 2]) for game in games]
    match = match_of("m", games, "a", "b")
    assert match.as_white == Score(20, 0, 0)
    assert match.as_black == Score(0, 20, 0)
    assert match.pairs == Pentanomial((0, 0, 0, 20, 0))
    text = "\n".join(match_lines(match))
    assert all(f"at {level:.2f}: better" in text for level in (0.90, 0.95, 0.97, 0.99))


def test_openings_that_come_again_make_no_interval_narrower() -> None:
    """Three openings with both colours, eight times the same six games."""
    results = ["1-0", "0-1", "1-0", "1-0", "1/2-1/2", "0-1"]
    games = [replace(played(n, n % 6 // 2, results[n % 6]), white="ab"[n % 2], black="ba"[n % 2]) for n in range(48)]
    once, often = match_of("m", games[:6], "a", "b"), match_of("m", games, "a", "b")
    assert once.openings is None
    assert often.pairs.pairs == 24
    assert match_lines(often)[-4:] == match_lines(once)[-4:]
    assert any("over the 3 openings" in line for line in match_lines(often))
