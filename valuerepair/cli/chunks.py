"""`vr chunks`: training chunks with the judge's values, of games, of training chunks, or of a store alone."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import ARCHIVE, FILE, NEW_FOLDER, SPLIT, AlphaOption, alpha_option
from valuerepair.cli.printing import fail_if_broken_off, is_quiet, print_result
from valuerepair.store import DEFAULT_PATH


@click.command()
@click.argument("sources", nargs=-1, type=ARCHIVE, metavar="[SOURCES]...")
@click.option("-o", "--output", type=NEW_FOLDER, required=True, metavar="DIR", help="A new or empty folder.")
@click.option(
    "--net",
    metavar="NET",
    help="Net that determines the input format and gives the policy of --policy net.  [default: for a store its own]",
)
@click.option(
    "--db",
    envvar="VR_DB",
    type=FILE,
    help=f"The store with the judge's values.  [default: for games none, else {DEFAULT_PATH}]",
)
@click.option(
    "--policy",
    metavar="played|net|judge[:SHARE]",
    help="Policy target: the move played, the net's policy, the judge's move, or a share of it in the default.  "
    "[default: of games played, of a store net]",
)
@click.option(
    "--result",
    type=click.Choice(["game", "judge"]),
    help="result_q: the game's result, or 1, 0 or -1 drawn by the judge's W/D/L.  [default: of a store judge]",
)
@SPLIT(help="A file of vr split: write nothing that it holds out.")
@alpha_option()
@click.option("--min-elo", type=int, help="Only games in which both players have at least this rating.  [default: any]")
@click.option("--time-control", help="Only games at these speeds (blitz,rapid) or clocks (180+2).  [default: any]")
def command(sources: tuple[str, ...], output: str, alpha: AlphaOption, **options: Any) -> None:
    """Write lc0 training chunks with the judge's values: of games, of chunks that exist, or of the store alone.

    SOURCES are games as in vr mine: each with a result becomes a chunk, with the game's result, and in best_q and
    root_q the value that the store or the game has of the position. Or SOURCES are lc0 training chunks of version 6 and
    plain tars of them: records of judged positions get the judge's values, all others stay as they are. Without SOURCES
    each judged position of the store becomes a chunk of one record. Ctrl-C stops; the same command resumes after the
    last complete tar.

    \b
    Example:
      vr chunks games.pgn.zst -o normal-chunks
      vr chunks lichess.pgn.zst --min-elo 2200 --time-control rapid,classical --net my-net.pb.gz -o normal-chunks
      vr chunks games.pgn.zst --db valuerepair.db --split split.json --policy judge:0.5 -o judged-chunks
      vr chunks lc0-data/ -o rescored
      vr chunks --split split.json -o position-chunks
    """
    games = {name: value for name in ("min_elo", "time_control") if (value := options.pop(name)) is not None}
    result = print_result(
        lambda: vr.write_chunks(
            sources,
            output,
            store=options.pop("db"),
            question=vr.Question(alpha=alpha.alpha, q_from=alpha.q_from),
            sample=vr.SampleOptions(**games) if games else None,
            quiet=is_quiet(),
            **options,
        ),
        of_files=True,
    )
    fail_if_broken_off(result.broken_off)
