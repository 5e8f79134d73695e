"""Experiments: games are kept and never played twice; what is measured of them; plans end to end, with doubles."""

from __future__ import annotations

import json
import math
import resource
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest

from tests.play_doubles import ScriptedPlayer
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.params import SearchParams
from valuerepair.play.elo import Pentanomial, Score
from valuerepair.play.experiment import (
    Conditions,
    Contestant,
    Played,
    Trial,
    game_file,
    play_trial,
    trial_path,
    white_material,
)
from valuerepair.play.experiment_contempt import ContemptPlan, ContemptReport, run_contempt
from valuerepair.play.experiment_matches import odds_trials, option_trials, run_matches
from valuerepair.play.experiment_measures import (
    equal_ratio_temperature,
    match_of,
    repeats_of,
    sweep_of,
)
from valuerepair.play.experiment_outlook import ExperimentOutlook
from valuerepair.play.openings import Opening
from valuerepair.play.referee import Rules
from valuerepair.positions import STARTPOS_FEN
from valuerepair.views.experiment_table import (
    UNFINISHED,
    contempt_lines,
    contempt_rows,
    match_lines,
    odds_lines,
    to_csv,
)
from valuerepair.views.sweep import draw_contempt, plot_contempt, plot_matches, plot_odds

CONDITIONS = Conditions("a net", Rules(max_plies=12), seed=7, jobs=4)
TO_THE_END = Conditions("a net", Rules(max_plies=0), seed=7, jobs=4)
QUEEN_ODDS = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1"
BLACK_GIVES = "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


def openings(*firsts: str) -> list[Opening]:
    return [Opening(i, STARTPOS_FEN, (first,), "", i) for i, first in enumerate(firsts)]


def self_play(games: int, name: str = "a") -> Trial:
    side = Contestant(name, SearchParams(), 10)
    return Trial(name, (side,), openings("e2e4", "d2d4", "c2c4"), games)


def played(number: int, opening: int, result: str, moves: Sequence[str] = (), gaps: Sequence[float] = ()) -> Played:
    return Played(number, opening, "a", "b", result, "checkmate", tuple(moves), tuple(gaps), 1)


def run(trial: Trial, folder: Path, conditions: Conditions = CONDITIONS) -> tuple[list[Played], dict[int, Played]]:
    with game_file(folder, trial, conditions) as kept:
        new = list(play_trial(trial, kept, conditions, lambda side: ScriptedPlayer(side.name)))
        return new, dict(kept.games)


@pytest.mark.parametrize("cut", [1, 40])
def test_what_was_cut_off_before_the_first_game_is_written_anew(tmp_path: Path, cut: int) -> None:
    """A kill or a full disk while the first line was written: it is the line that says what the games are of."""
    trial = self_play(3)
    run(trial, tmp_path)
    path = trial_path(tmp_path, trial.name)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    run(trial, tmp_path)
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())
    assert run(trial, tmp_path)[0] == []


def test_a_full_disk_leaves_whole_games_only(tmp_path: Path) -> None:
    trial = self_play(6)
    run(trial, tmp_path)
    path = trial_path(tmp_path, trial.name)
    whole = path.read_bytes()
    path.unlink()
    # In the third game a write takes what fits, and the next one nothing, as on a full disk.
    room = len(b"".join(whole.splitlines(keepends=True)[:3])) + 30
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(ValueRepairError, match="all games before are kept: make room"):
            run(trial, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept = path.read_bytes()
    assert kept.endswith(b"}\n")
    assert kept.count(b"\n") >= 3
    run(trial, tmp_path)
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())


def test_games_are_kept_and_more_can_be_asked_for(tmp_path: Path) -> None:
    new, kept = run(self_play(5), tmp_path)
    assert len(new) == len(kept) == 5
    assert {game.opening for game in new} == {0, 1, 2}
    again, same = run(self_play(5), tmp_path)
    assert not again
    assert same == kept
    more, all_of_them = run(self_play(8), tmp_path)
    assert sorted(game.number for game in more) == [5, 6, 7]
    assert all_of_them | kept == all_of_them


def test_stopping_changes_no_game(tmp_path: Path) -> None:
    """Games that were stopped in the middle are those that would have been played at once."""
    _, whole = run(self_play(6), tmp_path / "at-once")
    trial = self_play(6)
    with game_file(tmp_path / "twice", trial, CONDITIONS) as kept:
        some = play_trial(trial, kept, CONDITIONS, lambda s: ScriptedPlayer(s.name), lambda: len(kept.games) >= 2)
        assert 2 <= len(list(some)) < 6
    assert run(trial, tmp_path / "twice")[1] == whole


def test_a_line_cut_off_is_played_again(tmp_path: Path) -> None:
    _, kept = run(self_play(4), tmp_path)
    path = next((tmp_path / "games").iterdir())
    path.write_bytes(path.read_bytes()[:-9])
    new, again = run(self_play(4), tmp_path)
    assert len(new) == 1
    assert again == kept
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_games_of_other_conditions_are_refused(tmp_path: Path) -> None:
    run(self_play(2), tmp_path)
    other = Conditions("another net", CONDITIONS.rules, seed=8, jobs=1)
    with pytest.raises(UsageError, match="played with other net, seed; give another folder"):
        run(self_play(2), tmp_path, other)


def test_what_is_no_file_of_games_is_refused(tmp_path: Path) -> None:
    run(self_play(2), tmp_path)
    path = next((tmp_path / "games").iterdir())
    path.write_text(path.read_text() + '{"number": 3}\n')
    with pytest.raises(ValueRepairError, match=r"a\.jsonl:4: not a game of an experiment"):
        run(self_play(4), tmp_path)


def test_one_writer_and_any_readers(tmp_path: Path) -> None:
    trial = self_play(3)
    with game_file(tmp_path, trial, CONDITIONS) as first:
        first.begin()
        with game_file(tmp_path, trial, CONDITIONS) as second, pytest.raises(ValueRepairError, match="another vr"):
            second.begin()
    run(trial, tmp_path)


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
    assert found.ratio.low < 2 < found.ratio.high
    assert found.interesting == (500, 500, 500)


def test_intervals_count_repeated_games_once() -> None:
    """Ten copies of every game say no more than one."""
    rng = np.random.default_rng(0)
    results = rng.choice(["1-0", "1/2-1/2", "0-1"], 30)
    once = [played(i, i, str(result)) for i, result in enumerate(results)]
    copies = [played(30 * k + i, i, str(result)) for k in range(10) for i, result in enumerate(results)]
    assert sweep_of("a", copies, 0.5).ratio == pytest.approx(sweep_of("a", once, 0.5).ratio)


def test_intervals_of_the_ratio_hold_the_truth() -> None:
    rng, held = np.random.default_rng(1), 0
    for i in range(40):
        results = rng.choice(["1-0", "1/2-1/2", "0-1"], 120, p=[0.35, 0.4, 0.25])
        ratio = sweep_of("a", [played(n, n, str(r)) for n, r in enumerate(results)], 0.5, seed=i).ratio
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


def plan(match_games: int = 4) -> ContemptPlan:
    """From endings that chance ends soon, by mate or stalemate."""
    fens = ("7k/8/8/8/8/3Q4/2Q5/K7 w - - 0 1", "7K/8/8/8/8/3q4/2q5/k7 b - - 0 1")
    lines = [Opening(i, fen, (), fen, i) for i, fen in enumerate(fens)]
    return ContemptPlan(SearchParams(), 10, (0, 5), (0.5, 1.0), 6, match_games, 5, lines)


def contempt(folder: Path, match_games: int = 4, *, report: bool = False) -> ContemptReport:
    """The plan, played by chance alone: so some games are won, most are draws."""
    return run_contempt(
        plan(match_games), folder, TO_THE_END, lambda side: ScriptedPlayer(side.name), 0.55, halted=lambda: report
    )


def test_search_contempt_from_games_to_table_and_plots(tmp_path: Path) -> None:
    report = contempt(tmp_path)
    assert [n for n, _ in report.scl] == [5, math.inf]
    assert [tau for tau, _ in report.temperatures] == [0.5, 1]
    assert all(sweep.games == 6 for _, sweep in [*report.scl, *report.temperatures])
    assert contempt_rows(contempt(tmp_path, report=True)) == contempt_rows(report)
    text = "\n".join(contempt_lines(report))
    assert "N_scl=5 " in text
    assert "tau=0.5" in text
    rows = contempt_rows(report)
    assert json.loads(json.dumps(rows)) == rows
    assert to_csv(rows).count("\n") == len(rows) + 1
    plot_contempt(report, tmp_path / "plot.svg")
    drawn = (tmp_path / "plot.svg").read_text()
    assert all(title in drawn for title in ("Results against N_scl", "Repeated games", "Match"))


def test_the_match_stays_with_its_temperature(tmp_path: Path) -> None:
    side, other = plan().match(0.7).sides
    trial = plan().match(0.7)
    with game_file(tmp_path, trial, TO_THE_END) as kept:
        kept.begin()
    report = contempt(tmp_path)
    assert report.match is not None
    assert (report.match.first, report.match.second) == (side.name, other.name)
    assert report.match.score.games + report.match.undecided == 4


def test_settings_that_are_not_finished_are_marked(tmp_path: Path) -> None:
    contempt(tmp_path)
    path = trial_path(tmp_path, "tau=1")
    path.write_text("\n".join(path.read_text().splitlines()[:4]) + "\n")
    report = contempt(tmp_path, report=True)
    text = "\n".join(contempt_lines(report))
    assert "tau=1* " in text
    assert "tau=0.5 " in text
    assert UNFINISHED in text
    assert [row["planned"] - row["games"] for row in contempt_rows(report)] == [0, 0, 0, 3, 0]


def test_plots_before_any_game(tmp_path: Path) -> None:
    report = contempt(tmp_path, report=True)
    assert report.match is None
    assert "N_scl=5      not played yet" in "\n".join(contempt_lines(report))
    draw_contempt(report)
    assert not (tmp_path / "games").exists()


@pytest.mark.parametrize(("changes", "message"), [
    ({"nodes": 1}, "at least 2"),
    ({"games": 0}, "at least 1"),
    ({"matched": 9}, "N_scl 9 cannot be matched"),
    ({"temperatures": ()}, "needs temperatures"),
])  # fmt: skip
def test_plans_that_cannot_be_played(changes: dict[str, object], message: str) -> None:
    whole = {"params": SearchParams(), "nodes": 10, "n_scl": (5,), "temperatures": (1.0,), "games": 1}
    whole |= {"match_games": 1, "matched": 5, "openings": openings("e2e4")}
    with pytest.raises(UsageError, match=message):
        ContemptPlan(**(whole | changes))  # type: ignore[arg-type]  # a table of wrong values


def test_odds(tmp_path: Path) -> None:
    lines = [Opening(i, fen, (), fen, i) for i, fen in enumerate((QUEEN_ODDS, BLACK_GIVES))]
    trials = odds_trials("queen", lines, SearchParams(), (10, 20), (5, 0), 3, 2)
    assert [trial.sides[0].nodes for trial in trials] == [10, 10, 20, 20]
    assert all(trial.sides[1] == trials[0].sides[1] for trial in trials)
    matches = run_matches(trials, tmp_path, TO_THE_END, lambda side: ScriptedPlayer(side.name))
    assert all(match.score.games == 2 for match in matches)
    assert len(odds_lines(matches)) == 5
    plot_odds(trials, matches, tmp_path / "odds.svg")
    assert "N_scl = ∞" in (tmp_path / "odds.svg").read_text()
    with pytest.raises(UsageError, match="line 1 gives no odds"):
        odds_trials("none", [Opening(0, STARTPOS_FEN, (), STARTPOS_FEN, 0)], SearchParams(), (10,), (5,), 1, 1)


def test_options_are_on_against_off(tmp_path: Path) -> None:
    (trial,) = option_trials(["certainty"], openings("e2e4"), SearchParams(), 100, 2)
    on, off = trial.sides
    assert (on.params.certainty, off.params.certainty) == (True, False)
    assert on.params.with_settings({"certainty": "0"}) == off.params
    plot_matches(run_matches([trial], tmp_path, TO_THE_END, lambda s: ScriptedPlayer(s.name)), tmp_path / "plot.svg")
    assert "certainty against without certainty" in (tmp_path / "plot.svg").read_text()
    with pytest.raises(UsageError, match="no option that is on or off"):
        option_trials(["cpuct"], openings("e2e4"), SearchParams(), 100, 10)


def test_a_match_says_it_at_every_level() -> None:
    games = [played(i, i // 2, "1-0" if i % 2 == 0 else "1/2-1/2") for i in range(40)]
    games = [replace(game, white="ab"[game.number % 2], black="ba"[game.number % 2]) for game in games]
    match = match_of("m", games, "a", "b")
    assert match.as_white == Score(20, 0, 0)
    assert match.as_black == Score(0, 20, 0)
    assert match.pairs == Pentanomial((0, 0, 0, 20, 0))
    text = "\n".join(match_lines(match))
    assert all(f"at {level:.2f}: better" in text for level in (0.90, 0.95, 0.97, 0.99))


def test_the_time_left_of_an_experiment_is_known_in_the_middle_of_a_trial() -> None:
    """40 games of 10 nodes a move, then 80 of 30: what is to come costs six times as much."""
    first, second = self_play(40), Trial("b", (Contestant("b", SearchParams(), 30),), openings("e2e4"), 80)
    rng, now, jobs, later = np.random.default_rng(3), 0.0, 4, 80 * 30.0
    lengths = rng.gamma(4, 20, 120)
    free, ends = [0.0] * jobs, list[tuple[float, int, Trial]]()
    for trial, numbers, nodes in ((first, range(40), 10), (second, range(40, 120), 30)):
        free = [max(free)] * jobs
        for number in numbers:
            worker = free.index(min(free))
            free[worker] += lengths[number] * nodes
            ends.append((free[worker], number % 40 if trial is first else number - 40, trial))
    outlook = ExperimentOutlook(jobs, lambda: now)
    outlook.begins(self_play(9, "kept"), [], later)  # all its games were played by an earlier run
    assert outlook.note() == "kept"
    outlook.begins(first, range(40), later)
    assert outlook.note() == "a"
    errors, last = [], max(free)
    for count, (now, number, trial) in enumerate(sorted(ends, key=lambda end: end[0]), 1):
        outlook.ended(number)
        found = outlook.remaining()
        if found is not None and count in (20, 70, 90):
            errors.append(found[1] / (last - now) - 1)
            assert found[1] >= found[0]
            assert ("in all" in outlook.note()) == (trial is first)
        if count == 40:
            outlook.begins(second, range(80), 0.0)
    assert len(errors) == 3
    assert max(map(abs, errors)) < 0.3


def test_who_watches_hears_of_every_game_or_that_it_is_kept(tmp_path: Path) -> None:
    trials = option_trials(["certainty", "lookahead"], openings("e2e4", "d2d4"), SearchParams(), 2, 6)
    heard: list[tuple[str, int, float]] = []

    def watched(some: Sequence[Trial]) -> int:
        games: list[Played] = []
        run_matches(
            some,
            tmp_path,
            CONDITIONS,
            lambda side: ScriptedPlayer(side.name),
            on_trial=lambda trial, missing, later: heard.append((trial.name, len(missing), later)),
            on_game=games.append,
        )
        return len(games)

    assert watched([replace(trials[0], games=4)]) == 4
    assert watched(trials) == 8
    assert heard == [("option certainty", 4, 0), ("option certainty", 2, 12), ("option lookahead", 6, 0)]


def test_openings_that_come_again_make_no_interval_narrower() -> None:
    """Three openings with both colours, eight times the same six games."""
    results = ["1-0", "0-1", "1-0", "1-0", "1/2-1/2", "0-1"]
    games = [replace(played(n, n % 6 // 2, results[n % 6]), white="ab"[n % 2], black="ba"[n % 2]) for n in range(48)]
    once, often = match_of("m", games[:6], "a", "b"), match_of("m", games, "a", "b")
    assert once.openings is None
    assert often.pairs.pairs == 24
    assert match_lines(often)[-4:] == match_lines(once)[-4:]
    assert any("over the 3 openings" in line for line in match_lines(often))
