"""`vr books`: write opening books from the candidates in the store."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import DB, NEW_FOLDER, SPLIT, question
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@DB
@question()
@click.option("--confirmed", is_flag=True, help="Keep positions where vr confirm found the search right.")
@click.option(
    "--label", multiple=True, help="Keep positions with this label, or with all of several (docs/methods.md)."
)
@click.option("--limit", type=int, help="Write at most this many positions, the largest disagreements; parents apart.")
@SPLIT(help="A file of vr split: only its part train goes into the book.")
@click.option("--parents", default=0, help="Also write the positions up to this many plies earlier, with less weight.")
@click.option("-o", "--output", type=NEW_FOLDER, default="valuerepair-books", help="Folder for the files.")
def command(
    question: vr.Question | vr.Worst, output: str, db: str, split: str | None, label: tuple[str, ...], **chosen: Any
) -> None:
    """Write opening books from the candidates in the store.

    Writes book.pgn for lc0 self-play, book.epd for other tools, and manifest.json, which says how they were made. At
    most five positions are of one candidate and what vr expand reached from it.

    \b
    Example:
      vr books --threshold 0.55
      vr books --threshold 0.3 --split split.json -o repair-books
      vr books --threshold 0.55 --confirmed --parents 2
    """
    options = vr.BookOptions(labels=label, **chosen)
    print_result(lambda: vr.write_books(db, output, question, options, split=split, quiet=is_quiet()), of_files=True)
