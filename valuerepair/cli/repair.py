"""`vr repair`: from an archive of games and a net to a repaired net, and a report that shows it."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

import valuerepair as vr
from valuerepair.cli.options import ARCHIVE, DEEP, FILE, NET, NEW_FOLDER, SEED
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@click.argument("archives", type=ARCHIVE, nargs=-1, metavar="[ARCHIVE]...")
@click.option(
    "-o",
    "--output",
    type=NEW_FOLDER,
    default="repair",
    metavar="DIR",
    help="Folder for all output.",
)
@NET
@DEEP(help="The deep search that judges, as in vr mine.  [default: stockfish:nodes=20000; without it mcts:nodes=200]")
@click.option(
    "--positions",
    type=int,
    help="Positions to draw and judge; steps and games are in proportion.  [default: 50,000, an hour on two cores]",
)
@click.option(
    "--control",
    is_flag=True,
    help="Also train a net without candidates, to show whether the candidates made the difference.",
)
@SEED(default=None, help="The same seed draws the same positions.  [default: 0]")
@click.option("--db", type=FILE, metavar="DB", help="A store that is already mined, instead of archives.")
@click.pass_context
def repair(
    context: click.Context, /, archives: tuple[str, ...], output: str, **options: str | float | bool | None
) -> None:
    """Repair a net: mine, train, compare and play, and report whether it is a better judge and a better player.

    With --db nothing is mined: the repair begins with a copy of that store.

    Each stage is a command of vr on a store in DIR, printed so that it can be run alone. A share of the games and of
    the families of openings and material is held out from training to judge by. The net learns the judge's values and
    moves from the store. With --control a second net, trained without candidates, shows what they add; the default size
    is seldom enough to show it.

    All settings are written to DIR/repair.toml, which can be edited: later runs follow that file. Stop with Ctrl-C;
    `vr repair -o DIR` continues, and repeats only what was changed and what depends on it. A second round is a repair
    of the repaired net with another seed.

    \b
    Example:
      vr repair games.pgn.zst --net old.pb.gz
      vr repair games.pgn.zst --net old.pb.gz --positions 300000 --control
      vr repair --db valuerepair.db --net old.pb.gz
      vr repair games.pgn.zst --net repair/repaired.pb.gz --seed 1 -o repair-2
      vr repair -o repair
    """
    # What is set neither here nor in the environment nor in valuerepair.toml is left to repair.toml.
    untouched = {name for name in context.params if context.get_parameter_source(name) == ParameterSource.DEFAULT}
    chosen: dict[str, Any] = {
        name: value for name, value in {"archives": archives, **options}.items() if name not in untouched
    }
    print_result(lambda: vr.repair(output=output, quiet=is_quiet(), **chosen))
