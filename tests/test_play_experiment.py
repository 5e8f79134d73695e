"""What is measured of an experiment's games: repeats, results with intervals, temperatures of equal ratio, odds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from statsmodels.stats.proportion import proportion_confint

from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.errors import UsageError
from valuerepair.play.experiment import (
    Row,
    choose_openings,
    equal_ratio_temperature,
    match_row,
    name_of,
    selfplay_row,
    setting_of,
)
from valuerepair.play.figures import PlayedGame, figures, lines
from valuerepair.play.lineup import parse_side
from valuerepair.play.match import MatchPlan
from valuerepair.play.openings import Opening, white_material
from valuerepair.play.standing import Played, Standing
from valuerepair.report.experiment import UNFINISHED, match_lines, selfplay_lines

QUEEN_ODDS = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1"
BLACK_GIVES = "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


def game(number: int, opening: int, result: str, sans: Sequence[str] = (), gaps: Sequence[float] = ()) -> PlayedGame:
    start = str(opening)
    return PlayedGame(number, opening, start, "a", "a", result, "checkmate", 0, tuple(sans), None, tuple(gaps))


def row_of(games: Sequence[PlayedGame], threshold: float = 0.5) -> Row:
    return selfplay_row(setting_of("n_scl=5"), games, threshold) | {"planned": len(games), "nodes": 10}


def ratio_of(games: Sequence[PlayedGame]) -> tuple[float, ...]:
    row = row_of(games)
    return tuple(math.inf if row[name] is None else row[name] for name in ("ratio", "ratio_low", "ratio_high"))


def test_odds_are_one_game_an_opening_of_the_side_with_less_material() -> None:
    lines = [Opening(i, fen, (), fen, i) for i, fen in enumerate((QUEEN_ODDS, BLACK_GIVES))]
    plan = MatchPlan(lines, 3, odds=True)
    pairings = list(plan.pairings())
    assert [(p.number, p.opening.number, p.white) for p in pairings] == [(0, 0, 0), (3, 1, 1), (4, 0, 0)]
    assert [p.number for p in plan.pairings({0, 3})] == [4]
    with pytest.raises(UsageError, match="line 1 gives no odds"):
        MatchPlan([Opening(0, STARTPOS_FEN, (), STARTPOS_FEN, 0)], 1, odds=True)


def test_material() -> None:
    assert white_material(chess.STARTING_FEN) == 0
    assert white_material(QUEEN_ODDS) == -9
    assert white_material(BLACK_GIVES) == 9


def test_move_numbers_make_no_game_a_new_one() -> None:
    """A position and its copies later in a game: all games after the first repeat it."""
    board, games = chess.Board(), []
    for number in range(1, 5):
        board.fullmove_number = number
        start = "" if number == 1 else board.fen()  # a game from the initial position has no FEN
        games.append(replace(game(number, number, "1-0", ["e4", "e5"]), start_fen=start))
    row = row_of(games)
    assert row["openings"] == 1
    assert [row[f"repeats_{depth}"] for depth in (10, 20, 40, "whole")] == [1, 1, 1, 1]


def test_a_setting_counts() -> None:
    games = [game(i, i, ("1-0", "1/2-1/2", "0-1", "*")[i % 4], ["e4"] * 2, [0.6, -0.1]) for i in range(40)]
    row = row_of(games, 0.55)
    assert [row[name] for name in ("wins", "draws", "losses", "undecided", "games")] == [10, 10, 10, 10, 40]
    assert (row["positions"], row["plies"], row["ratio"], row["interesting"]) == (80, 2, 2, 500)
    assert (row["kind"], row["value"], row["plain"]) == ("n_scl", 5, False)
    drawn = proportion_confint(10, 30, method="wilson")
    assert ratio_of(games)[1:] == pytest.approx([1 / share - 1 for share in reversed(drawn)])
    # Of 40 openings with two positions each that are as unlike as they can be.
    size = 80 * (norm.ppf(0.975) / student.ppf(0.975, 39)) ** 2
    bounds = proportion_confint(size / 2, size, method="wilson")
    assert [row["interesting_low"], row["interesting_high"]] == pytest.approx([1000 * bound for bound in bounds])


@pytest.mark.parametrize("result", ["1-0", "1/2-1/2"])
def test_no_interval_is_without_width(result: str) -> None:
    """Eight games that all end alike, in which nothing is interesting: Wilson's of 0 of 8."""
    games = [game(i, i, result, ["e4"], [0.1]) for i in range(8)]
    row, counted = row_of(games), figures(games)
    assert (row["ratio_low"], row["ratio_high"]) == (counted["decisive_ratio_low"], counted["decisive_ratio_high"])
    assert ratio_of(games)[1] < ratio_of(games)[2]
    assert (row["interesting_low"], row["interesting"]) == (0, 0)
    assert row["interesting_high"] == pytest.approx(1000 * proportion_confint(0, 8, method="wilson")[1])
    text = "\n".join(selfplay_lines([row]))
    assert "White +W -L =D" in text
    assert ("+8 -0 =0" in text, "+0 -0 =8" in text) == (result == "1-0", result != "1-0")
    assert ("no draw      above 2.08" in text) == (result == "1-0")
    assert "inf" not in text


def test_games_of_one_opening_have_no_interval() -> None:
    """They do not show how openings differ."""
    games = [game(i, 0, ("1-0", "1/2-1/2")[i % 2], [f"a{i}"], [0.6]) for i in range(80)]
    row = row_of(games)
    assert [row[f"{name}{end}"] for name in ("ratio", "interesting") for end in ("_low", "_high")] == [None] * 4
    assert "(w+l)/d 1 (no interval: all of one opening)" in lines(figures(games))[0]
    assert "inf" not in selfplay_lines([row])[1]


@pytest.mark.slow
@pytest.mark.parametrize(("openings", "each", "drawn"), [(3, 40, 0.5), (5, 40, 0.5), (5, 40, 0.1), (8, 25, 0.05)])
def test_intervals_of_few_openings_hold_the_truth(openings: int, each: int, drawn: float) -> None:
    """Openings are drawn as often as a beta distribution says, in which they differ a lot."""
    rng, held, shown = np.random.default_rng(3), 0, 300
    for _ in range(shown):
        chances = rng.beta(3 * drawn, 3 * (1 - drawn), openings)
        results = rng.random((openings, each)) < chances[:, None]
        games = [
            game(each * i + n, i, "1/2-1/2" if results[i, n] else "1-0", [f"a{n}"])
            for i in range(openings)
            for n in range(each)
        ]
        counted = figures(games)
        low, high = counted["decisive_ratio_low"], counted["decisive_ratio_high"]
        held += low <= 1 / drawn - 1 <= (math.inf if high is None else high)
    assert held >= 0.93 * shown


def test_intervals_count_repeated_games_once() -> None:
    """Ten copies of every game say no more than one; and so in `vr selfplay`."""
    rng = np.random.default_rng(0)
    results = rng.choice(["1-0", "1/2-1/2", "0-1"], 30)
    once = [game(i, i, str(result)) for i, result in enumerate(results)]
    copies = [game(30 * k + i, i, str(result)) for k in range(10) for i, result in enumerate(results)]
    assert ratio_of(copies) == pytest.approx(ratio_of(once))
    assert figures(copies)["decisive_ratio_low"] == pytest.approx(figures(once)["decisive_ratio_low"])


def test_intervals_of_the_ratio_hold_the_truth() -> None:
    rng, held = np.random.default_rng(1), 0
    for _ in range(40):
        results = rng.choice(["1-0", "1/2-1/2", "0-1"], 120, p=[0.35, 0.4, 0.25])
        _, low, high = ratio_of([game(n, n, str(r)) for n, r in enumerate(results)])
        held += low <= 1.5 <= high
    assert held >= 34


@pytest.mark.parametrize(("target", "tau", "inside"), [
    (2.0, 0.5, True), (4.0, 1.0, True), (math.sqrt(8), 0.75, True), (1.0, 0.0, True), (0.5, 0.0, False), (9, 1, False),
])  # fmt: skip
def test_temperature_of_equal_ratio(target: float, tau: float, inside: bool) -> None:
    temperature, within = equal_ratio_temperature(target, [(1, 4.0), (0, 1.0), (0.5, 2.0)])
    assert temperature == pytest.approx(tau)
    assert within == inside


def test_no_temperature_of_equal_ratio() -> None:
    with pytest.raises(ValueError, match="no temperature"):
        equal_ratio_temperature(math.inf, [(1, 4.0)])
    with pytest.raises(ValueError, match="no temperature"):
        equal_ratio_temperature(1, [(1, math.inf), (0, 0.0)])


def test_a_match_says_it_at_every_level() -> None:
    standing = Standing(("a", "b"))
    for i in range(40):
        standing.add(Played(i, i // 2, "1-0" if i % 2 == 0 else "1/2-1/2", "checkmate", 10))
    first, second = parse_side("name=a,nodes=3"), parse_side("name=b")
    row = match_row(first, second, standing) | {"planned": 60}
    assert (row["wins"], row["draws"], row["losses"], row["pairs"], row["value"]) == (20, 20, 0, "0 0 0 20 0", 3)
    assert row["effective_moves"] is row["effective_moves_second"] is None
    lines = match_lines([row])
    assert "better 0.90, better 0.95, better 0.97, better 0.99" in lines[1]
    assert (lines[1].startswith("a against b* "), lines[-1]) == (True, UNFINISHED)


def test_names_of_settings() -> None:
    texts = ("n_scl=5", "nodes=10,n_scl=inf", "name=x,cpuct=1", "stockfish:nodes=5", "/opt/e,nodes=5", "net=/a/b.pb.gz")
    assert [name_of(parse_side(text)) for text in texts] == [
        "n_scl=5", "nodes=10 n_scl=inf", "x", "stockfish nodes=5", "e nodes=5", "b.pb.gz",
    ]  # fmt: skip


def test_lines_are_taken_evenly_from_the_book(tmp_path: Path, said: list[str]) -> None:
    book = tmp_path / "odds.epd"
    book.write_text(f"{QUEEN_ODDS}\n{BLACK_GIVES}\n{QUEEN_ODDS}\n")
    assert [opening.number for opening in choose_openings(str(book), 2)[0]] == [0, 2]
    assert len(choose_openings(str(book), 3)[0]) == 3
    assert said == []
    assert choose_openings(str(book), 9)[1] == "odds.epd"
    assert said == ["the book has only 3 lines, not 9; all are played"]
    with pytest.raises(UsageError, match="--lines 0"):
        choose_openings(None, 0)
