"""`vr selfplay`: games from the lines of a book."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.completion import nets
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import (
    ARCHIVE,
    DB,
    GAMES_FILE,
    JOBS,
    JSON,
    NET,
    NEW_FOLDER,
    SEED,
    SET,
    SPLIT,
    device_option,
    rules_of,
    rules_options,
    settings_of,
    typed,
)
from valuerepair.cli.printing import is_quiet, print_result
from valuerepair.errors import UsageError


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "net nodes output training split repeat temperature jobs db",
        "Players": "engine net2 set seed",
        "How games end": "max-plies draw resign no-resign-share syzygy",
        "Machine": "device",
    },
)
@click.argument("book", type=ARCHIVE, metavar="BOOK")
@click.option(
    "-o",
    "--output",
    type=GAMES_FILE,
    default="selfplay.pgn",
    help="PGN of the games; continues an earlier run.",
)
@click.option("--engine", type=click.Choice(["mcts", "lc0"]), default="mcts", help="Who plays.")
@NET
@click.option(
    "--net2", metavar="NET", shell_complete=nets, help="A second net: the two play each other, colours in turn."
)
@click.option("--nodes", type=int, default=800, help="Visits of the root per move.")
@click.option("--repeat", type=int, default=1, help="Games from each line of the book.")
@click.option("--temperature", metavar="T", help="Draw moves by visits^(1/T).  [default: 0, the best move]")
@SET
@rules_options(max_plies=450)
@click.option("--no-resign-share", default=0.0, help="Share of games in which nobody may resign.")
@JOBS(help="Games at once.  [default: full batches of the net]")
@click.option(
    "--training",
    type=NEW_FOLDER,
    metavar="DIR",
    help="Write lc0 training records to this folder, one chunk per game.",
)
@SPLIT(help="A file of vr split: training records of a game end where it reaches what is held out.")
@DB
@click.option("--no-db", is_flag=True, help="Do not keep the games in a store.")
@SEED(help="Seed for temperature and noise.")
@device_option()
@JSON
def command(book: str, **options: Any) -> None:
    """Play a game from each line of a book, by default at temperature 0, so that results are as accurate as possible.

    BOOK is a PGN book that lc0 can read (vr books check), or an EPD file. Games go to a PGN file as they end, with Q,
    W/D/L and nodes of each move, and to the store; vr stats then compares results with the values. The same command
    continues a run that was stopped.

    \b
    Example:
      vr selfplay valuerepair-books/book.pgn --net my-net.pb.gz --nodes 800
      vr selfplay book.pgn --nodes 200 --repeat 4 --temperature 0.5 --resign 2 --no-resign-share 0.2
      vr selfplay book.pgn --nodes 800 --training chunks --syzygy ~/syzygy
      vr selfplay book.pgn --engine lc0 --nodes 800 --training chunks
      vr selfplay book.pgn --nodes 100 --max-plies 200 --no-db -o trial.pgn
    """
    if options["engine"] == "lc0":
        for option, why in (("device", "lc0 chooses its own backend"), ("seed", "lc0 cannot be given one")):
            if typed(option):
                raise UsageError(f"--engine lc0: --{option} is for --engine mcts; {why}")
    names = ("engine", "net", "net2", "nodes", "repeat", "jobs", "training", "seed", "device")
    selfplay_options = vr.SelfplayOptions(
        **{name: options[name] for name in names},
        params=vr.SearchParams().with_settings(settings_of(options, ("temperature", "syzygy"))),
        rules=rules_of(options),
    )
    store, output, quiet = None if options["no_db"] else options["db"], options["output"], is_quiet() or options["json"]
    print_result(
        lambda: vr.selfplay(book, output, store, selfplay_options, split=options["split"], quiet=quiet), options["json"]
    )
