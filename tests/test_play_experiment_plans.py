"""An experiment's plans end to end, with doubles: from games to tables and plots."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiment_doubles import BLACK_GIVES, CONDITIONS, QUEEN_ODDS, TO_THE_END, openings, self_play
from tests.play_doubles import ScriptedPlayer
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.errors import UsageError
from valuerepair.mcts.params import SearchParams
from valuerepair.play.experiment import (
    Contestant,
    Played,
    Trial,
    game_file,
    trial_path,
)
from valuerepair.play.experiment_contempt import ContemptPlan, ContemptReport, run_contempt
from valuerepair.play.experiment_matches import odds_trials, option_trials, run_matches
from valuerepair.play.experiment_outlook import ExperimentOutlook
from valuerepair.play.openings import Opening
from valuerepair.report.experiment_table import UNFINISHED, contempt_lines, contempt_rows, odds_lines, to_csv
from valuerepair.report.sweep import draw_contempt, plot_contempt, plot_matches, plot_odds


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
def test_plans_that_cannot_be_played(changes: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {"params": SearchParams(), "nodes": 10, "n_scl": (5,), "temperatures": (1.0,), "games": 1}
    whole |= {"match_games": 1, "matched": 5, "openings": openings("e2e4")}
    with pytest.raises(UsageError, match=message):
        ContemptPlan(**(whole | changes))


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
