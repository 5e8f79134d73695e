"""Search-contempt against temperature: self-play of each setting at equal nodes, and a match at equal (w + l) / d.

What is to be compared with is published: with N_scl near 5 the ratio is near 1, and N_scl = 5 was 70 Elo better than
the temperature with the same ratio.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
    kept_identity,
    play_trial,
    trial_path,
    work_of,
)
from valuerepair.play.experiment_measures import Match, Sweep, equal_ratio_temperature, match_of, sweep_of
from valuerepair.play.openings import Opening

MATCH = "match"


@dataclass(frozen=True, slots=True)
class ContemptPlan:
    """What is played. `n_scl` holds 0 for infinity, `params` what all settings share.

    Each setting plays `games` with itself from the `openings` in turn; then `matched`, one of `n_scl`, plays
    `match_games` against the temperature with its ratio.
    """

    params: SearchParams
    nodes: int
    n_scl: tuple[int, ...]
    temperatures: tuple[float, ...]
    games: int
    match_games: int
    matched: int
    openings: Sequence[Opening]

    def __post_init__(self) -> None:
        """Raises UsageError for what cannot be played."""
        if self.nodes < 2:
            raise UsageError(f"{self.nodes} nodes: a search needs at least 2")
        if self.games < 1 or self.match_games < 0:
            raise UsageError("games must be at least 1, and those of the match at least 0")
        if self.match_games and self.matched not in self.n_scl:
            raise UsageError(f"N_scl {scl_name(self.matched)} cannot be matched: it is not among those of the sweep")
        if self.match_games and not self.temperatures:
            raise UsageError("a match needs temperatures to choose from")

    @property
    def scl_trials(self) -> list[Trial]:
        """Self-play by N_scl, infinity last, which is temperature 0, too."""
        values = sorted(self.n_scl, key=lambda n: n or math.inf)
        return [self._trial(f"N_scl={scl_name(n)}", replace(self.params, n_scl=n)) for n in values]

    @property
    def temperature_trials(self) -> list[Trial]:
        """Self-play by temperature."""
        return [self._trial(f"tau={tau:g}", self.with_temperature(tau)) for tau in sorted(self.temperatures)]

    def match(self, temperature: float) -> Trial:
        """The match of `matched` against this temperature."""
        scl = replace(self.params, n_scl=self.matched)
        sides = (
            Contestant(f"N_scl={scl_name(self.matched)}", scl, self.nodes),
            Contestant(f"tau={temperature:g}", self.with_temperature(temperature), self.nodes),
        )
        return Trial(MATCH, sides, self.openings, self.match_games)

    def with_temperature(self, temperature: float) -> SearchParams:
        return replace(self.params, temperature=temperature)

    def _trial(self, name: str, params: SearchParams) -> Trial:
        return Trial(name, (Contestant(name, params, self.nodes),), self.openings, self.games)


@dataclass(frozen=True, slots=True)
class ContemptReport:
    """What was found so far. `matched_inside` is False where no temperature measured came near the ratio.

    `scl` are (N_scl, what its games show), infinity as such, `temperatures` (tau, the same).
    """

    scl: list[tuple[float, Sweep]]
    temperatures: list[tuple[float, Sweep]]
    match: Match | None
    matched_inside: bool
    nodes: int


def scl_name(n_scl: int) -> str:
    """``5``, ``inf``."""
    return str(n_scl) if n_scl else "inf"


def run_contempt(
    plan: ContemptPlan,
    folder: str | os.PathLike[str],
    conditions: Conditions,
    open_player: Opener,
    threshold: float,
    *,
    halted: Callable[[], bool] = lambda: False,
    on_trial: OnTrial = lambda trial, missing, later: None,
    on_game: Callable[[Played], None] = lambda played: None,
    say: Callable[[str], None] = lambda line: None,
) -> ContemptReport:
    """Plays what is missing, keeps it in the folder, and says what all games there show.

    The match begins when all settings have their games, and stays with the temperature that it began with. Raises
    UsageError for a folder with games of other conditions.
    """
    sweeps: dict[str, Sweep] = {}
    trials = [*plan.scl_trials, *plan.temperature_trials]
    for i, trial in enumerate(trials):
        with game_file(folder, trial, conditions) as kept:
            later = sum(work_of(each, each.games) for each in trials[i + 1 :]) + plan.match_games * plan.nodes
            on_trial(trial, kept.missing(trial), later)
            for played in play_trial(trial, kept, conditions, open_player, halted):
                on_game(played)
            sweeps[trial.name] = sweep_of(trial.name, _first(kept.games, trial.games), threshold, planned=trial.games)
    scl = [(trial.sides[0].params.n_scl or math.inf, sweeps[trial.name]) for trial in plan.scl_trials]
    taus = [(trial.sides[0].params.temperature, sweeps[trial.name]) for trial in plan.temperature_trials]
    match, inside = None, True
    if plan.match_games and (not halted() or kept_identity(folder, MATCH)):
        wanted = sweeps[f"N_scl={scl_name(plan.matched)}"].ratio.value
        chosen, inside = _temperature(plan, folder, wanted, taus, scl)
        if chosen is None:
            say("no match: (w + l) / d of the setting to be matched, or of every temperature, is no number above 0")
        else:
            trial = plan.match(chosen)
            with game_file(folder, trial, conditions) as kept:
                on_trial(trial, kept.missing(trial), 0.0)
                for played in play_trial(trial, kept, conditions, open_player, halted):
                    on_game(played)
                first, second = (side.name for side in trial.sides)
                match = match_of(trial.name, _first(kept.games, trial.games), first, second, trial.games)
    return ContemptReport(scl, taus, match, inside, plan.nodes)


def _temperature(
    plan: ContemptPlan,
    folder: str | os.PathLike[str],
    wanted: float,
    taus: Sequence[tuple[float, Sweep]],
    scl: Sequence[tuple[float, Sweep]],
) -> tuple[float | None, bool]:
    """The match's temperature, to two digits; that of the games which are there already, where there are any."""
    # Without contempt and without temperature is one setting, with a ratio of its own.
    points = [(tau, sweep.ratio.value) for tau, sweep in taus]
    points += [(0.0, sweep.ratio.value) for n, sweep in scl if math.isinf(n)]
    try:
        found, inside = equal_ratio_temperature(wanted, points)
    except ValueError:
        found, inside = math.nan, False
    before = kept_identity(folder, MATCH)
    if before is not None:
        try:
            return float(before["sides"][1]["params"].get("temperature", 0.0)), inside
        except (KeyError, IndexError, TypeError, AttributeError):
            raise UsageError(f"{trial_path(folder, MATCH)}: not the games of a match; give another --out") from None
    return (None if math.isnan(found) else round(found, 2)), inside


def _first(games: dict[int, Played], count: int) -> list[Played]:
    """The games of the first `count` numbers, in order: more may be kept than are asked for."""
    return [games[number] for number in sorted(games) if number < count]
