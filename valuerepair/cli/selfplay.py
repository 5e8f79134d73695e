"""`vr selfplay`: games from the lines of a book."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import (
    ARCHIVE,
    DB,
    GAMES_FILE,
    JSON,
    NET,
    NEW_FOLDER,
    RESIGN,
    SEED,
    SET,
    SPLIT,
    device_option,
    settings_of,
    typed,
)
from valuerepair.cli.printing import is_quiet, print_result
from valuerepair.errors import UsageError


@click.command()
@click.argument("book", type=ARCHIVE, metavar="BOOK")
@click.option(
    "-o",
    "--output",
    type=GAMES_FILE,
    default="selfplay.pgn",
    help="PGN of the games; continues an earlier run.",
)
@NET
@click.option("--nodes", type=int, default=800, help="Visits of the root per move.")
@click.option(
    "--training",
    type=NEW_FOLDER,
    metavar="DIR",
    help="Write lc0 training records to this folder, one chunk per game.",
)
@click.option("--repeat", type=int, default=1, help="Games from each line of the book.")
@click.option("--temperature", metavar="T", help="Draw moves by visits^(1/T).  [default: 0, the best move]")
@SET
@RESIGN
@click.option("--engine", type=click.Choice(["mcts", "lc0"]), default="mcts", help="Who plays.")
@SPLIT(help="A file of vr split: training records of a game end where it reaches what is held out.")
@SEED(help="Seed for temperature and noise.")
@DB
@device_option()
@JSON
def command(book: str, **options: Any) -> None:
    """Play a game from each line of a book, by default at temperature 0, so that results are as accurate as possible.

    BOOK is a PGN book that lc0 can read, or an EPD file. Games go to a PGN file as they end, with Q, W/D/L and nodes of
    each move, and to the store; vr stats then compares results with the values. The same command continues a run that
    was stopped. --set takes parameters of the search, and two rules of the games: syzygy=FOLDERS, whose tables decide
    games, and max_plies=N, after which they end undecided (450; 0: no limit). With --resign a fifth of the games is
    played on, which shows how often resigning would be wrong.

    \b
    Example:
      vr selfplay valuerepair-books/book.pgn --net my-net.pb.gz --nodes 800
      vr selfplay book.pgn --nodes 200 --repeat 4 --temperature 0.5 --resign 2
      vr selfplay book.pgn --nodes 800 --training chunks --set syzygy=/data/syzygy
      vr selfplay book.pgn --engine lc0 --nodes 800 --training chunks
      vr selfplay book.pgn --nodes 100 --set max_plies=200 -o trial.pgn
    """
    from valuerepair.play.referee import NO_RESIGN_SHARE, RULE_SETTINGS

    if options["engine"] == "lc0":
        for option, why in (("device", "lc0 chooses its own backend"), ("seed", "lc0 cannot be given one")):
            if typed(option):
                raise UsageError(f"--engine lc0: --{option} is for --engine mcts; {why}")
    settings, resign = settings_of(options, ("temperature",)), options["resign"]
    share = NO_RESIGN_SHARE if resign and options["engine"] == "mcts" else 0.0
    of_games = {name: settings.pop(name) for name in RULE_SETTINGS if name in settings}
    names = ("engine", "net", "nodes", "repeat", "training", "seed", "device")
    selfplay_options = vr.SelfplayOptions(
        **{name: options[name] for name in names},
        params=vr.SearchParams().with_settings(settings),
        rules=vr.Rules(resign=resign, no_resign_share=share).with_settings(of_games),
    )
    store, output, quiet = options["db"], options["output"], is_quiet() or options["json"]
    print_result(
        lambda: vr.selfplay(book, output, store, selfplay_options, split=options["split"], quiet=quiet), options["json"]
    )
