"""vr books: write opening books from the candidates in the store, or check any book."""

from __future__ import annotations

from typing import Any, get_args

import click

import valuerepair as vr
from valuerepair.books.options import Order
from valuerepair.cli.group import SectionedGroup
from valuerepair.cli.options import DB, FILE, NEW_FOLDER, SPLIT, question, split_of
from valuerepair.cli.verbosity import is_quiet, say_more


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
    "--label", multiple=True, help="Keep positions with this label (docs/methods/judges.md); of several, with all."
)
@click.option("--per-root", type=int, help="Positions that vr expand reached from one candidate, at most.")
@click.option("--limit", type=int, help="Positions in all, at most; those held out count, parents do not.")
@click.option(
    "--order",
    type=click.Choice(get_args(Order)),
    default="disagreement",
    help="Largest disagreement first, or shuffled; limits keep the first.",
)
@SPLIT(help="A file of vr split: its part train goes into the book, what it holds out into the holdout files.")
@click.option("--parents", default=0, help="Also write the positions up to this many plies earlier, with less weight.")
@click.option("--repeat-by-weight", type=int, help="Write positions of weight 1 this many times, others less often.")
@click.option("-o", "--output", type=NEW_FOLDER, default="valuerepair-books", help="Folder for the files.")
@click.pass_context
def command(context: click.Context, /, question: vr.Question | vr.Worst, output: str, db: str, **chosen: Any) -> None:
    """Write opening books from the candidates in the store, or check a book (vr books check FILE).

    Writes book.pgn for lc0 self-play, book.epd for other tools, and manifest.json, which says what they are made of.

    \b
    Example:
      vr books --threshold 0.55
      vr books --threshold 0.4 --order shuffled --limit 500 -o repair
      vr books --threshold 0.3 --split split.json -o repair
      vr books --threshold 0.55 --confirmed --parents 2 --repeat-by-weight 8
      vr books check valuerepair-books/book.pgn
    """
    from valuerepair.api.calls import resolved

    if context.invoked_subcommand is not None:
        return
    from valuerepair.books.options import BookOptions
    from valuerepair.books.write import check_books, what_next, write_books
    from valuerepair.chess.progress import Progress
    from valuerepair.judge.labelled import complete, lacks_policy
    from valuerepair.judge.labels import OF_POLICY
    from valuerepair.store.store import Store

    check_books(output)
    labels, split_file = chosen.pop("label"), chosen.pop("split")
    split = split_of(split_file)
    with Store.open(db) as store:
        asked = resolved(store, question)
        two_scales = store.two_scales(*store.pick(asked.net, asked.oracle), asked)
        lacking = OF_POLICY.intersection(labels) and lacks_policy(store, store.candidates(asked))
    if lacking:
        with Store.open(db, write=True) as store:
            complete(store, store.candidates(asked), asked.net, quiet=is_quiet())
    with Store.open(db) as store, Progress("Writing", None, "positions", quiet=is_quiet()) as progress:
        options = BookOptions(question=asked, labels=labels, split=split, **chosen)
        manifest = write_books(store, options, output, progress.advance)
        following = what_next(store, manifest, output, split_file or "")
    if not is_quiet():
        click.echo("\n".join([*([two_scales] if two_scales else []), *manifest.summary(output), *following]))
        say_more(manifest.diversity_lines())


@command.command("check")
@click.argument("file", type=FILE)
@click.option("--json", is_flag=True, help="Print one JSON object per problem, then the counts.")
def check(file: str, json: bool) -> None:
    """Check a book (.pgn, .pgn.gz, .epd) by the rules of lc0's reader and of chess.

    Names the line and the reason of each place that lc0 refuses or misreads. Exit code 1 when there is any.

    \b
    Example:
      vr books check valuerepair-books/book.pgn
    """
    from json import dumps

    from valuerepair.books.check import BookCheck

    book, problems = BookCheck(file), 0
    for problem in book:
        problems += 1
        if json:
            click.echo(dumps({"line": problem.line, "reason": problem.reason}))
        else:
            click.echo(f"{file}:{problem.line}: {problem.reason}" if problem.line else f"{file}: {problem.reason}")
    counts = {
        "entries": book.entries,
        "white_to_move": book.white_to_move,
        "black_to_move": book.black_to_move,
        "problems": problems,
    }
    if json:
        click.echo(dumps(counts))
    elif not is_quiet():
        entries = f"{book.entries:,} entr{'y' if book.entries == 1 else 'ies'}"
        sides = f"{book.white_to_move:,} white and {book.black_to_move:,} black to move"
        click.echo(f"{file}: {entries}, {sides}; {problems or 'no'} problem{'s' * (problems != 1)}")
    click.get_current_context().exit(1 if problems else 0)
