"""`vr rescore`: puts the judge's values into existing training chunks."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import ARCHIVE, DB, JSON, NEW_FOLDER, SPLIT, question
from valuerepair.cli.printing import fail_if_broken_off, is_quiet, print_result


@click.command()
@click.argument("chunks", type=ARCHIVE, nargs=-1, required=True, metavar="CHUNKS...")
@DB
@click.option("-o", "--output", type=NEW_FOLDER, required=True, metavar="DIR", help="A new or empty folder.")
@click.option(
    "--fields",
    type=click.Choice(["q", "result", "both"]),
    default="q",
    help="Fields to change: the search's values (q), the result (1, 0 or -1 drawn by the judge's W/D/L), or both.",
)
@SPLIT(help="A file of vr split: rescore its part train; leave out chunks with a position that it holds out.")
@question(None, expanded=None, oracle=False)
@JSON
def command(chunks: tuple[str, ...], db: str, output: str, json: bool, **options: Any) -> None:
    """Put the judge's values into training chunks: those of the positions that the store has judged.

    CHUNKS are folders of lc0 training chunks of version 6 (.gz) and plain tars of them, or such tars. With vr mine on
    the same chunks before it, this repairs the values of a training run's own data, without a new game. DIR gets all of
    the chunks, in files of the same names; records of other positions stay as they are, to the byte. Policies do not
    change. With --split, DIR gets no chunk with a position that is held out.

    \b
    Example:
      vr mine lc0-data/ --net old.pb.gz --positions 100000
      vr rescore lc0-data/ -o rescored
      vr rescore lc0-data/ --split split.json -o rescored
    """
    result = print_result(
        lambda: vr.rescore(chunks, db, output, quiet=is_quiet() or json, **options), json, of_files=True
    )
    fail_if_broken_off(result.broken_off)
