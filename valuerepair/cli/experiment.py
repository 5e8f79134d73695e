"""`vr experiment`: settings of the search measured against each other by games."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import FILE, NET, NEW_FOLDER, several
from valuerepair.cli.printing import is_quiet, print_result

SHARED = several(
    click.option("-o", "--output", type=NEW_FOLDER, default="experiment", help="Folder of games and table."),
    click.option("--openings", type=FILE, metavar="BOOK", help="PGN, EPD or FEN file.  [default: a built-in list]"),
    click.option("--lines", default=50, help="How many of its lines, evenly spread."),
    NET,
    click.option("--nodes", default=200, help="Nodes per move of settings that do not name their own."),
    click.option("--games", default=200, help="Games per setting."),
)


@click.group("experiment")
def command() -> None:
    """Measure settings of the search by games: a list of self-play runs or of matches, and a table.

    The games of every setting are a PGN file in the folder: the same command resumes a stopped run, and a larger
    --games adds to them. The table (table.csv) and the plot are in the same folder, with the settings of earlier
    commands; self-play and matches need one folder each.

    \b
    Example:
      vr experiment selfplay n_scl=5 n_scl=inf temperature=1 --nodes 100
      vr experiment match certainty=1 auto_extend=1 --nodes 100 --lines 251 --games 502 -o options
    """


@command.command("selfplay")
@click.argument("settings", nargs=-1, metavar="[SETTING]...")
@click.option("--match", metavar="SETTING", help="Then match this against the temperature with the same (w + l) / d.")
@click.option("--match-games", default=200, help="Games of that match.")
@SHARED
def selfplay(settings: tuple[str, ...], match: str | None, match_games: int, output: str, **options: Any) -> None:
    """Sweep settings of the search in self-play.

    A SETTING is a side of `vr match`: parameters of the search as NAME=VALUE,... (default: some values of n_scl and of
    temperature). For each: White's wins, draws, losses, (w + l) / d, games that repeat an earlier one of their opening,
    and positions where the net alone and the search disagree by 0.55. Intervals are at 0.95, over openings.

    \b
    Example:
      vr experiment selfplay --nodes 100 --games 400 --match n_scl=5
      vr experiment selfplay cpuct=1 cpuct=2 cpuct=4 --openings book.pgn
    """
    experiment_options = vr.ExperimentOptions(**options)
    print_result(
        lambda: vr.experiment_selfplay(
            settings, output, experiment_options, match=match, match_games=match_games, quiet=is_quiet()
        )
    )


@command.command("match")
@click.argument("sides", nargs=-1, required=True, metavar="SIDE...")
@click.option("--against", default="name=plain", metavar="SIDE", help="The side that they play.")
@click.option("--odds", is_flag=True, help="Play each opening once, SIDE with less material.")
@SHARED
def match(sides: tuple[str, ...], against: str, odds: bool, output: str, **options: Any) -> None:
    """Match each SIDE with the same other one: options on against off, odds as nodes grow.

    Sides are those of `vr match`. With --odds the openings must give odds, and SIDE plays the weaker colour.

    \b
    Example:
      vr experiment match certainty=1 auto_extend=1 --nodes 100 --lines 251 --games 502 -o options
      vr experiment match nodes=10 nodes=100 --against nodes=1 --odds --openings queen-odds.epd -o odds
    """
    experiment_options = vr.ExperimentOptions(**options)
    print_result(
        lambda: vr.experiment_match(sides, output, experiment_options, against=against, odds=odds, quiet=is_quiet())
    )
