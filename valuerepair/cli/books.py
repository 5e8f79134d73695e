"""vr books: write opening books from the candidates in the store, or check any book."""

from __future__ import annotations

from typing import Any

import click

from valuerepair.cli.book_options import book_options
from valuerepair.cli.verbosity import is_quiet
from valuerepair.store import DEFAULT_PATH


@click.group("books", invoke_without_command=True)
@book_options
@click.option("-o", "--output", default="valuerepair-books", show_default=True, help="Folder for the files.")
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--alpha", default="auto", show_default=True, help="Centipawns of the logistic to Q.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest.")
@click.pass_context
def command(context: click.Context, /, output: str, db: str, alpha: str, as_json: bool, **chosen: Any) -> None:
    """Write opening books from the candidates in the store, or check a book (vr books check FILE).

    Writes book.pgn for lc0 self-play, book.epd for other tools, and manifest.json, which says what they are made of.

    \b
    Example:
      vr books --threshold 0.55
      vr books --threshold 0.4 --sign optimistic --limit 500 --holdout 0.2 -o repair
      vr books --threshold 0.55 --confirmed --parents 2 --repeat-by-weight 8
      vr books check valuerepair-books/book.pgn
    """
    if context.invoked_subcommand is not None:
        return
    from valuerepair.books.options import BookOptions
    from valuerepair.books.write import write_books
    from valuerepair.chess.progress import Progress
    from valuerepair.store.queries import alpha_option
    from valuerepair.store.store import Store

    options = BookOptions(alpha=alpha_option(alpha), **chosen)
    with Store.open(db) as store, Progress("Writing", None, "positions", quiet=is_quiet() or as_json) as progress:
        manifest = write_books(store, options, output, progress.advance)
    if as_json:
        click.echo(manifest.to_json(), nl=False)
    elif not is_quiet():
        for line in manifest.summary(output):
            click.echo(line)


@command.command("check")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a problem, then the counts.")
def check(file: str, as_json: bool) -> None:
    """Check a book (.pgn, .pgn.gz, .epd) by the rules of lc0's reader and of chess.

    Names the line and the reason of each place that lc0 refuses or misreads. Exit code 1 when there is any.

    \b
    Example:
      vr books check valuerepair-books/book.pgn
    """
    import json

    from valuerepair.books.check import BookCheck

    book, problems = BookCheck(file), 0
    for problem in book:
        problems += 1
        if as_json:
            click.echo(json.dumps({"line": problem.line, "reason": problem.reason}))
        else:
            click.echo(f"{file}:{problem.line}: {problem.reason}" if problem.line else f"{file}: {problem.reason}")
    counts = {
        "entries": book.entries,
        "white_to_move": book.white_to_move,
        "black_to_move": book.black_to_move,
        "problems": problems,
    }
    if as_json:
        click.echo(json.dumps(counts))
    elif not is_quiet():
        entries = f"{book.entries:,} entr{'y' if book.entries == 1 else 'ies'}"
        sides = f"{book.white_to_move:,} white and {book.black_to_move:,} black to move"
        click.echo(f"{file}: {entries}, {sides}; {problems or 'no'} problem{'s' * (problems != 1)}")
    click.get_current_context().exit(1 if problems else 0)
