"""`vr repair`: from an archive of games and a net to a repaired net and what shows it."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from valuerepair.cli.completion import folders
from valuerepair.cli.options import DEEP, FILE, JSON, NET, SEED, Threshold, Worst
from valuerepair.cli.verbosity import is_quiet, say


@click.command()
@click.argument("archives", type=FILE, nargs=-1, metavar="[ARCHIVE]...")
@click.option(
    "-o", "--output", shell_complete=folders, default="repair", metavar="DIR", help="The folder of all that is made."
)
@NET
@click.option("--budget", default="1h", help="How long it may take on this machine: 30m, 2h, 1h30m.")
@DEEP(help="The judge, as in vr mine.  [default: stockfish:nodes=20000; mcts:nodes=200 where there is none]")
@click.option("--threshold", type=Threshold(), default=0.3, help="|net Q - deep Q| of a candidate.")
@click.option("--normal", multiple=True, type=FILE, metavar="CHUNKS", help="Training chunks of ordinary games.")
@SEED(help="Of everything that is drawn.")
@click.option("--cluster", help="Mine on Dask, as vr mine does: tcp://HOST:8786, tls://..., a .json file or local:4.")
@click.option("--plan", is_flag=True, help="Say what would be run, and how long it takes, and end.")
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
    **given: str | float | Worst | None,
) -> None:
    """Repair a net: mine, expand, train, judge and play, and write a report on what came of it.

    Each stage is a command of vr, shown as it can be run alone, on a store in DIR. A share of the games and of the
    families of openings and material is kept from training, to judge by; a second net, trained without candidates, is
    the control. With --normal games are played from a book of the candidates and mixed with those chunks; without,
    the nets learn from the store what the judge said.

    Sizes follow from --budget and from how fast this machine is, which is measured first. They stand, with all other
    settings, in DIR/repair.toml, to be edited: a later run goes by what stands there. Stop it with Ctrl-C; `vr repair
    -o DIR` goes on, and does again only what was changed and what depends on it.

    \b
    Example:
      vr repair games.pgn.zst --net old.pb.gz -o repair
      vr repair games.pgn.zst --net old.pb.gz --budget 6h --plan
      vr repair games.pgn.zst --net old.pb.gz --normal chunks/
      vr repair -o repair
    """
    from json import dumps

    from valuerepair.errors import UsageError
    from valuerepair.pipeline.page import finish
    from valuerepair.pipeline.run import planned, read_settings, run

    if isinstance(given["threshold"], Worst):
        raise UsageError(f"--threshold {given['threshold']}: a share is of a store's positions; give a number")
    quiet = is_quiet() or json
    # What nobody says, here, in the environment or in valuerepair.toml, is left to repair.toml.
    usual = {name for name in context.params if context.get_parameter_source(name) == ParameterSource.DEFAULT}
    words = {"archives": archives, "normal": normal, **given}
    said = {name: value for name, value in words.items() if name not in usual and value != ()}
    settings = read_settings(Path(output), said)
    repair = planned(Path(output), settings, cluster=cluster, quiet=quiet)
    if plan:
        click.echo(dumps(repair.as_dict(), indent=2, ensure_ascii=False) if json else "\n".join(repair.lines()))
        return
    say("\n".join(repair.lines()))
    try:
        run(repair, quiet=quiet)
    except KeyboardInterrupt:
        say(f"not done yet: vr repair -o {output} goes on where it stopped")
        raise
    found = finish(repair)
    click.echo(dumps(found.as_dict(), indent=2, ensure_ascii=False) if json else "\n".join(found.lines()))
