"""Matches of search options: odds chess with and without search-contempt, certainty propagation, auto-extension."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from valuerepair.errors import UsageError
from valuerepair.mcts.params import SearchParams
from valuerepair.play.experiment import (
    Conditions,
    Contestant,
    OnTrial,
    Opener,
    Played,
    Trial,
    game_file,
    play_trial,
    white_material,
    work_of,
)
from valuerepair.play.experiment_contempt import scl_name
from valuerepair.play.experiment_measures import Match, match_of
from valuerepair.play.openings import Opening

# Option -> what is set, and the Elo published for it at 100 visits over 10,000 games.
OPTIONS = {"certainty": 3.06, "auto_extend": 1.70}


def odds_trials(
    odds: str,
    openings: Sequence[Opening],
    params: SearchParams,
    nodes: Sequence[int],
    n_scl: Sequence[int],
    opponent_nodes: int,
    games: int,
) -> list[Trial]:
    """The side with less material, at each number of nodes and each N_scl (0: without), against a plain search.

    `odds` names them. The opponent is the same in all. Raises UsageError for openings of even material.
    """
    for opening in openings:
        if white_material(opening.fen) == 0:
            raise UsageError(f"{odds}: line {opening.number + 1} gives no odds: {opening.fen}")
    if min([*nodes, opponent_nodes]) < 1:
        raise UsageError("nodes must be at least 1")
    plain = Contestant(f"opponent, {opponent_nodes} nodes", replace(params, n_scl=0), opponent_nodes)
    trials = []
    for count in sorted(nodes):
        for scl in sorted(n_scl):
            giver = Contestant(f"N_scl={scl_name(scl)}, {count} nodes", replace(params, n_scl=scl), count)
            trials.append(Trial(f"{odds} {giver.name}", (giver, plain), openings, games, first_is_weaker=True))
    return trials


def option_trials(
    names: Sequence[str], openings: Sequence[Opening], params: SearchParams, nodes: int, games: int
) -> list[Trial]:
    """Each option on against off, all else equal. Raises UsageError for an option that is not on or off."""
    trials = []
    for name in names:
        if not isinstance(getattr(params, name, None), bool):
            raise UsageError(f"{name!r} is no option that is on or off; there are {', '.join(OPTIONS)}, lookahead")
        sides = tuple(
            Contestant(text, params.with_settings({name: value}), nodes)
            for text, value in ((name, "1"), (f"without {name}", "0"))
        )
        trials.append(Trial(f"option {name}", sides, openings, games))
    return trials


def run_matches(
    trials: Sequence[Trial],
    folder: str | os.PathLike[str],
    conditions: Conditions,
    open_player: Opener,
    *,
    halted: Callable[[], bool] = lambda: False,
    on_trial: OnTrial = lambda trial, missing, later: None,
    on_game: Callable[[Played], None] = lambda played: None,
) -> list[Match]:
    """Plays what is missing of each match, keeps it in the folder, and says what all games there show."""
    found = []
    for i, trial in enumerate(trials):
        with game_file(folder, trial, conditions) as kept:
            on_trial(trial, kept.missing(trial), sum(work_of(each, each.games) for each in trials[i + 1 :]))
            for played in play_trial(trial, kept, conditions, open_player, halted):
                on_game(played)
            games = [kept.games[number] for number in sorted(kept.games) if number < trial.games]
            found.append(match_of(trial.name, games, trial.sides[0].name, trial.sides[1].name, trial.games))
    return found
