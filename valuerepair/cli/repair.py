"""`vr repair`: from an archive of games and a net to a repaired net, and a report that shows it."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

import valuerepair as vr
from valuerepair.cli.options import ARCHIVE, DEEP, FILE, JSON, NET, NEW_FOLDER, SEED, parse_threshold, plain_threshold
from valuerepair.cli.printing import is_quiet, print_result
from valuerepair.question import DEFAULT_THRESHOLD, Worst


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
@click.option("--store", type=FILE, metavar="DB", help="A store that is already mined, instead of archives.")
@NET
@click.option("--budget", default="1h", help="Time that it may take on this machine: 30m, 2h, 1h30m.")
@DEEP(help="The deep search that judges, as in vr mine.  [default: stockfish:nodes=20000; without it mcts:nodes=200]")
@click.option(
    "--control",
    is_flag=True,
    help="Also train a net without candidates, to show whether the candidates made the difference.",
)
@click.option(
    "--threshold",
    type=parse_threshold,
    metavar="THRESHOLD",
    default=DEFAULT_THRESHOLD,
    help="Smallest |net Q - deep Q| of a candidate.",
)
@SEED(
    default=None,
    help="The same seed draws the same positions.  [default: 0; for a net that vr repair made, one more than its seed]",
)
@click.option("--normal", multiple=True, type=FILE, metavar="CHUNKS", help="Training chunks of ordinary games.")
@click.option("--cluster", help="Mine on Dask, as vr mine does: tcp://HOST:8786, tls://..., a .json file or local:4.")
@click.option("--plan", is_flag=True, help="Print what would run and how long it would take, then exit.")
@JSON
@click.pass_context
def command(
    context: click.Context,
    /,
    archives: tuple[str, ...],
    output: str,
    normal: tuple[str, ...],
    cluster: str | None,
    plan: bool,
    json: bool,
    threshold: float | Worst,
    **options: str | float | None,
) -> None:
    """Repair a net: mine, train, compare and play, and report whether it is a better judge and a better player.

    With --store nothing is mined: the repair begins with a copy of that store.

    Each stage is a command of vr on a store in DIR, printed so that it can be run alone. A share of the games and of
    the families of openings and material is held out from training to judge by. The net learns the judge's values and
    moves from the store. With --normal, games are played from a book of the candidates and mixed with those chunks,
    and the net learns from the mixture. With --control a second net, trained without candidates, shows what they add;
    an hour is seldom enough to show it.

    Sizes follow from --budget and the speed of this machine, which is measured first. They are written with all other
    settings to DIR/repair.toml, which can be edited: later runs follow that file. Stop with Ctrl-C; `vr repair -o DIR`
    continues, and repeats only what was changed and what depends on it.

    \b
    Example:
      vr repair games.pgn.zst --net old.pb.gz -o repair
      vr repair games.pgn.zst --net old.pb.gz --budget 6h --plan
      vr repair games.pgn.zst --net old.pb.gz --normal chunks/ --control
      vr repair --store valuerepair.db --net old.pb.gz
      vr repair games.pgn.zst --net repair/repaired.pb.gz -o repair-2
      vr repair -o repair
    """
    plain_threshold(threshold)
    # What is set neither here nor in the environment nor in valuerepair.toml is left to repair.toml.
    untouched = {name for name in context.params if context.get_parameter_source(name) == ParameterSource.DEFAULT}
    values = {"archives": archives, "normal": normal, "threshold": threshold, **options}
    chosen: dict[str, Any] = {name: value for name, value in values.items() if name not in untouched}
    call = vr.plan_repair if plan else vr.repair
    print_result(lambda: call(output=output, cluster=cluster, quiet=is_quiet() or json, **chosen), json)
