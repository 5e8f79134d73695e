"""What an experiment is played with: the net, its openings, progress; and how what it found is handed out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from valuerepair.cli.verbosity import is_quiet

if TYPE_CHECKING:
    from valuerepair.mcts.params import SearchParams
    from valuerepair.nets.net import Net
    from valuerepair.play.experiment import Conditions, Contestant, OnTrial, Played, Trial
    from valuerepair.play.openings import Opening
    from valuerepair.play.player import Player


@dataclass(frozen=True)
class Lab:
    """An open net and what is played with it; `begins` hears of each trial, `advance` of each game that was kept."""

    net: Net
    params: SearchParams
    openings: Sequence[Opening]
    conditions: Conditions
    stopped: Callable[[], bool]
    halted: Callable[[], bool]
    begins: OnTrial
    advance: Callable[[Played], None]
    say: Callable[[str], None]

    @property
    def watching(self) -> dict[str, Any]:
        """What every experiment is run with: whether to stop, and who hears of trials and games."""
        return {"halted": self.halted, "on_trial": self.begins, "on_game": self.advance}

    def open_player(self, contestant: Contestant) -> Player:
        """The search that plays as the contestant."""
        from valuerepair.play.forest_player import ForestPlayer

        jobs = self.conditions.jobs
        return ForestPlayer(self.net, contestant.params, contestant.nodes, trees=jobs, name=contestant.name)


@contextmanager
def lab(out: str, book: str | None, games: int, options: dict[str, Any]) -> Iterator[Lab]:
    """Opens the net, reads or makes the openings, shows progress of so many games, and counts Ctrl-C."""
    from dataclasses import replace

    from valuerepair.chess.progress import Interruptions, Progress
    from valuerepair.errors import UsageError
    from valuerepair.mcts.params import SearchParams
    from valuerepair.nets.net import open_net
    from valuerepair.play.experiment import Conditions
    from valuerepair.play.experiment_openings import openings_for
    from valuerepair.play.experiment_outlook import ExperimentOutlook
    from valuerepair.play.referee import Rules
    from valuerepair.report import style

    style.format_of(options["plot"])
    if options["report"] and not (Path(out) / "games").is_dir():
        raise UsageError(f"{out}: no games of an experiment there to report on")
    if options["jobs"] < 1:
        raise UsageError(f"--jobs {options['jobs']}: must be at least 1")
    given = dict(setting.partition("=")[::2] for setting in options["settings"])
    progress = Progress("Playing", games, "games", quiet=is_quiet() or options["report"], own_eta=True)
    stop = Interruptions()
    where = {name: options[name] for name in ("device", "threads")}
    with open_net(options["net_spec"], **where, say=progress.say) as net, progress, stop.counted():
        params = replace(SearchParams(), history_fill=net.history_fill).with_settings(given, "--set ")
        conditions = Conditions(net.identity.key, Rules(options["max_plies"]), options["seed"], options["jobs"])

        outlook = ExperimentOutlook(options["jobs"])

        def begins(trial: Trial, missing: Sequence[int], later: float) -> None:
            outlook.begins(trial, missing, later)
            progress.note(outlook.note())
            progress.advance(trial.games - len(missing))

        def advance(played: Played) -> None:
            outlook.ended(played.number)
            progress.note(outlook.note())
            progress.advance()

        openings = openings_for(book, net, options["most"])
        yield Lab(
            net,
            params,
            openings,
            conditions,
            stop.__bool__,
            lambda: options["report"] or bool(stop),
            begins,
            advance,
            progress.say,
        )


def hand_out(
    own: Lab,
    out: str,
    rows: Sequence[dict[str, Any]],
    lines: Sequence[str],
    draw: Callable[[Path], None],
    options: dict[str, Any],
) -> None:
    """Prints the table or its rows; writes table.csv and the plot into the folder. Exit code 130 after Ctrl-C."""
    import json

    from valuerepair.report.experiment_table import to_csv

    click.echo(json.dumps(list(rows)) if options["as_json"] else "\n".join(lines))
    Path(out).mkdir(parents=True, exist_ok=True)
    (Path(out) / "table.csv").write_text(to_csv(rows), "utf-8")
    draw(Path(out) / options["plot"])
    if own.stopped():
        click.echo(f"{out}: stopped, all games that ended are kept; give the same command again to go on", err=True)
        click.get_current_context().exit(130)
