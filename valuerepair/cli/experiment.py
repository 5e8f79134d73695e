"""`vr experiment`: settings of the search measured against each other by games."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from valuerepair import outputs
from valuerepair.cli.completion import words
from valuerepair.cli.match import SIDES
from valuerepair.cli.options import FILE, NET, NEW_FOLDER
from valuerepair.cli.verbosity import is_quiet
from valuerepair.question import DEFAULT_THRESHOLD

if TYPE_CHECKING:
    from valuerepair.play.experiment import Experiment, Row

Command = TypeVar("Command", bound=Callable[..., Any])
_N_SCL = tuple(f"n_scl={n}" for n in ("5", "10", "32", "100", "inf"))
_TEMPERATURES = tuple(f"temperature={tau}" for tau in ("0.25", "0.5", "0.75", "1"))
_SHARED = (
    click.option("-o", "--output", type=NEW_FOLDER, default="experiment", help="Folder of games and table."),
    click.option("--openings", type=FILE, metavar="BOOK", help="PGN, EPD or FEN file.  [default: a built-in list]"),
    click.option("--lines", default=50, help="How many of its lines, evenly spread."),
    NET,
    click.option("--nodes", default=200, help="Nodes per move of settings that do not name their own."),
    click.option("--games", default=200, help="Games per setting."),
    click.option("--json", is_flag=True, help="Print the table as one JSON array."),
)


def _shared_options(command: Command) -> Command:
    for option in reversed(_SHARED):
        command = option(command)
    return command


@click.group("experiment")
def command() -> None:
    """Measure settings of the search by games: a list of self-play runs or of matches, and a table.

    The games of every setting are a PGN file in the folder: the same command goes on where it was stopped, and a larger
    --games adds to them. Beside them lie the table (table.csv) and the plot.

    \b
    Example:
      vr experiment selfplay n_scl=5 n_scl=inf temperature=1 --nodes 100
      vr experiment match certainty=1 auto_extend=1 --nodes 100 --lines 251 --games 502
    """


@command.command("selfplay")
@click.argument("settings", nargs=-1, metavar="[SETTING]...", shell_complete=words("n_scl=", "temperature="))
@click.option("--match", metavar="SETTING", help="Then match this against the temperature of the same (w + l) / d.")
@click.option("--match-games", default=200, help="Games of that match.")
@_shared_options
def selfplay(settings: tuple[str, ...], match: str | None, match_games: int, **given: Any) -> None:
    """Sweep settings of the search in self-play.

    A SETTING is a side of `vr match`: parameters of the search as NAME=VALUE,... (default: some values of n_scl and of
    temperature). For each: White's wins, draws, losses, (w + l) / d, games that repeat an earlier one of their opening,
    and positions where the net alone and the search disagree by 0.55. Intervals are at 0.95, over openings.

    \b
    Example:
      vr experiment selfplay --nodes 100 --games 400 --match n_scl=5
      vr experiment selfplay cpuct=1 cpuct=2 cpuct=4 --openings book.pgn
    """
    from dataclasses import replace

    from valuerepair.errors import UsageError
    from valuerepair.play.experiment import name_of, setting_of
    from valuerepair.report.experiment import match_lines, selfplay_lines

    sweep = [setting_of(text) for text in dict.fromkeys(settings or (*_N_SCL, *_TEMPERATURES))]
    target = setting_of(match) if match is not None else None
    if target is not None and name_of(target) not in map(name_of, sweep):
        raise UsageError(f"--match {match}: is none of the settings of the sweep")
    own = _experiment(given)
    rows = [own.selfplay(setting, DEFAULT_THRESHOLD) for setting in sweep]
    lines = selfplay_lines(rows)
    if target is not None and not own.stopped:
        if (chosen := own.equal_temperature(target, rows)) is None:
            lines += ["", "no match: (w + l) / d of the setting, or of every temperature, is no number above 0"]
        else:
            final = replace(own, games=match_games).match(target, setting_of(f"temperature={chosen[0]:g}"))
            lines += ["", *match_lines([final])]
            if not chosen[1]:
                lines.append("the setting's ratio lies outside those of the temperatures: the nearest one was taken")
            rows.append(final)
    _hand_out(own, rows, lines, given["json"])


@command.command("match")
@click.argument("sides", nargs=-1, required=True, metavar="SIDE...", shell_complete=SIDES)
@click.option("--against", shell_complete=SIDES, default="name=plain", metavar="SIDE", help="The side that they play.")
@click.option("--odds", is_flag=True, help="Play each opening once, SIDE with less material.")
@_shared_options
def match(sides: tuple[str, ...], against: str, odds: bool, **given: Any) -> None:
    """Match each SIDE with the same other one: options on against off, odds as nodes grow.

    Sides are those of `vr match`. With --odds the openings must give odds, and SIDE plays the weaker colour.

    \b
    Example:
      vr experiment match certainty=1 auto_extend=1 --nodes 100 --lines 251 --games 502
      vr experiment match nodes=10 nodes=100 nodes=100,n_scl=5 --against nodes=1 --odds --openings queen-odds.epd
    """
    from valuerepair.play.lineup import parse_side
    from valuerepair.report.experiment import match_lines

    players, other = [parse_side(text) for text in dict.fromkeys(sides)], parse_side(against)
    own = _experiment(given)
    rows = [own.match(side, other, odds=odds) for side in players]
    _hand_out(own, rows, match_lines(rows), given["json"])


def _experiment(given: dict[str, Any]) -> Experiment:
    from valuerepair.play.experiment import Experiment, choose_openings
    from valuerepair.report.experiment import PLOT, TABLE

    folder = Path(given["output"])
    if folder.exists():
        outputs.check_regular(folder / TABLE, outputs.RESULTS)
        outputs.check_regular(folder / PLOT, outputs.PNG)
    openings, book = choose_openings(given["openings"], given["lines"])
    own = {name: given[name] for name in ("nodes", "games", "net")}
    return Experiment(folder, openings, book, **own, quiet=is_quiet())


def _hand_out(own: Experiment, rows: Sequence[Row], lines: Sequence[str], as_json: bool) -> None:
    """Prints the table or its rows; writes table.csv and the plot into the folder. Exit code 130 after Ctrl-C."""
    from valuerepair.report import style
    from valuerepair.report.experiment import PLOT, draw, write_table

    click.echo(json.dumps(list(rows)) if as_json else "\n".join(lines))
    write_table(rows, own.folder)
    style.save(draw(rows), own.folder / PLOT)
    if own.stopped:
        click.echo(f"{own.folder}: stopped, all games that ended are kept; give the same command again", err=True)
        raise KeyboardInterrupt
