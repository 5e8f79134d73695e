"""`vr books`: write opening books from the candidates in the store, or check any book."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import Any, get_args

import click

import valuerepair as vr
from valuerepair.books.options import Order
from valuerepair.cli.group import SectionedGroup
from valuerepair.cli.options import DB, FILE, NEW_FOLDER, SPLIT, question
from valuerepair.cli.printing import is_quiet, print_result


@click.group(
    "books",
    cls=SectionedGroup,
    invoke_without_command=True,
    sections={
        "Most used": "threshold confirmed expanded split limit output db",
        "Which positions": "label per-root order",
        "Entries": "parents repeat-by-weight",
        "Values": "net oracle alpha calibration",
    },
)
@DB
@question()
@click.option("--confirmed", is_flag=True, help="Keep positions where vr confirm found the search right.")
@click.option(
    "--label", multiple=True, help="Keep positions with this label, or with all of several (docs/methods/judges.md)."
)
@click.option("--per-root", type=int, help="Keep at most this many positions reached from one candidate by vr expand.")
@click.option("--limit", type=int, help="Write at most this many positions; held-out ones count, parents do not.")
@click.option(
    "--order",
    type=click.Choice(get_args(Order)),
    default="disagreement",
    help="The largest disagreement first, or shuffled; limits keep the first positions.",
)
@SPLIT(help="A file of vr split: its part train goes into the book, its held-out parts into the holdout files.")
@click.option("--parents", default=0, help="Also write the positions up to this many plies earlier, with less weight.")
@click.option(
    "--repeat-by-weight", type=int, help="Write positions of weight 1 this many times, lighter ones less often."
)
@click.option("-o", "--output", type=NEW_FOLDER, default="valuerepair-books", help="Folder for the files.")
@click.pass_context
def command(
    context: click.Context, /, question: vr.Question | vr.Worst, output: str, db: str, split: str | None, **chosen: Any
) -> None:
    """Write opening books from the candidates in the store, or check a book (vr books check FILE).

    Writes book.pgn for lc0 self-play, book.epd for other tools, and manifest.json, which says how they were made.

    \b
    Example:
      vr books --threshold 0.55
      vr books --threshold 0.4 --order shuffled --limit 500 -o repair-books
      vr books --threshold 0.3 --split split.json -o repair-books
      vr books --threshold 0.55 --confirmed --parents 2 --repeat-by-weight 8
      vr books check valuerepair-books/book.pgn
    """
    if context.invoked_subcommand is None:
        options = vr.BookOptions(labels=chosen.pop("label"), **chosen)
        print_result(
            lambda: vr.write_books(db, output, question, options, split=split, quiet=is_quiet()), of_files=True
        )


@command.command("check")
@click.argument("file", type=FILE)
@click.option("--json", is_flag=True, help="Print one JSON object per problem, then the counts.")
def check(file: str, json: bool) -> None:
    """Check a book (.pgn, .pgn.gz, .epd) by the rules of lc0's reader and of chess.

    Prints line and reason of each entry that lc0 would refuse or misread, and exits with code 1 if there is one.

    \b
    Example:
      vr books check valuerepair-books/book.pgn
    """
    book = vr.BookCheck(file)
    for problem in book:
        where = f"{file}:{problem.line}" if problem.line else file
        click.echo(dumps(asdict(problem)) if json else f"{where}: {problem.reason}")
    if json:
        click.echo(dumps(book.as_json()))
    elif not is_quiet():
        click.echo("\n".join(book.lines()))
    click.get_current_context().exit(1 if book.problems else 0)
