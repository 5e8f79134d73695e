"""What the commands of `vr experiment` have in common: options, the net with its openings, playing with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from valuerepair.mcts.params import SearchParams
    from valuerepair.nets import Net
    from valuerepair.play.experiment import Conditions, Contestant, Played
    from valuerepair.play.openings import Opening
    from valuerepair.play.player import Player

Command = TypeVar("Command", bound=Callable[..., Any])

_SHARED = (
    click.option("--net", "net_spec", metavar="NET", help="Net by name or file (default: maia-1900)."),
    click.option("--openings", "most", default=50, show_default=True, help="So many openings, evenly from all."),
    click.option("--jobs", default=64, show_default=True, help="Games at once."),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A search parameter of all sides."),
    click.option("--max-plies", default=450, show_default=True, help="Moves after which a game stays undecided."),
    click.option("--seed", default=0, show_default=True, help="Of the whole experiment."),
    click.option(
        "--device", default="auto", show_default=True, metavar="auto|cpu|cuda|tensorrt", help="Where it runs."
    ),
    click.option("--threads", type=int, help="Cores to use (default: all)."),
    click.option("--plot", default="plot.png", show_default=True, help="The plot's file in the folder."),
    click.option("--report", is_flag=True, help="Play nothing: say what the games there show."),
    click.option("--json", "as_json", is_flag=True, help="Print the table as one JSON array."),
    click.option("-q", "--quiet", is_flag=True, help="No progress or remarks on standard error."),
)


def shared_options(command: Command) -> Command:
    """Adds the options that all experiments have."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


def numbers(text: str, option: str, kind: Callable[[str], Any]) -> tuple[Any, ...]:
    """``5,10,inf`` as numbers, each once. Raises UsageError."""
    from valuerepair.errors import UsageError

    try:
        return tuple(dict.fromkeys(kind(part.strip()) for part in text.split(",") if part.strip()))
    except ValueError:
        raise UsageError(f"{option} {text}: must be numbers, separated by commas") from None


def visits_limit(text: str) -> int:
    """An N_scl: ``inf`` is 0. Raises UsageError for what is none."""
    from valuerepair.mcts.params import SearchParams

    return SearchParams().with_settings({"n_scl": text}, "--n-scl: ").n_scl


@dataclass(frozen=True)
class Lab:
    """An open net and what is played with it; `advance` is called with each game that was kept."""

    net: Net
    params: SearchParams
    openings: Sequence[Opening]
    conditions: Conditions
    halted: Callable[[], bool]
    advance: Callable[[str, Played], None]
    say: Callable[[str], None]

    def open_player(self, contestant: Contestant) -> Player:
        """The search that plays as the contestant."""
        from valuerepair.play.forest_player import ForestPlayer

        jobs = self.conditions.jobs
        return ForestPlayer(self.net, contestant.params, contestant.nodes, trees=jobs, name=contestant.name)


@contextmanager
def lab(out: str, book: str | None, games: int, options: dict[str, Any]) -> Iterator[Lab]:
    """Opens the net, reads or makes the openings, shows progress of so many games, and counts Ctrl-C."""
    from dataclasses import replace

    from valuerepair.errors import UsageError
    from valuerepair.mcts.params import SearchParams
    from valuerepair.nets import open_net
    from valuerepair.play.experiment import Conditions
    from valuerepair.play.experiment_openings import openings_for
    from valuerepair.play.referee import Rules
    from valuerepair.progress import Interruptions, Progress
    from valuerepair.views import style

    style.format_of(options["plot"])
    if options["report"] and not (Path(out) / "games").is_dir():
        raise UsageError(f"{out}: no games of an experiment there to report on")
    if options["jobs"] < 1:
        raise UsageError(f"--jobs {options['jobs']}: must be at least 1")
    given = dict(setting.partition("=")[::2] for setting in options["settings"])
    progress = Progress("Playing", games, "games", quiet=options["quiet"] or options["report"])
    stop = Interruptions()
    where = {name: options[name] for name in ("device", "threads")}
    with open_net(options["net_spec"], **where, say=progress.say) as net, progress, stop.counted():
        params = replace(SearchParams(), history_fill=net.history_fill).with_settings(given, "--set ")
        conditions = Conditions(net.identity.key, Rules(options["max_plies"]), options["seed"], options["jobs"])

        def advance(name: str, played: Played) -> None:
            progress.note(name)
            progress.advance()

        openings = openings_for(book, net, options["most"])
        yield Lab(net, params, openings, conditions, lambda: options["report"] or bool(stop), advance, progress.say)
        if stop:
            progress.say(f"stopped; all games that ended are kept in {out}, and the same command goes on")


def write_out(out: str, rows: Sequence[dict[str, Any]], lines: Sequence[str], as_json: bool) -> None:
    """Prints the table or its rows, and writes table.csv into the folder."""
    import json

    from valuerepair.views.experiment_table import to_csv

    (Path(out) / "table.csv").write_text(to_csv(rows), "utf-8")
    click.echo(json.dumps(list(rows)) if as_json else "\n".join(lines))
