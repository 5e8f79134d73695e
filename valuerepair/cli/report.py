"""`vr report`: one HTML file that shows a store."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import DB, OUTPUT, question
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@click.option("-o", "--output", type=OUTPUT, default="report.html", help="The file.")
@DB
@question(expanded=None)
def command(output: str, db: str, question: vr.Question | vr.Worst) -> None:
    """Write a report on a store: one HTML file that needs no network, for a browser.

    Charts, filters, and every point's board with the moves and values of net and search; a selection can be downloaded
    as a book. For a store with more than 100,000 positions it shows all candidates and a sample of the others one by
    one, and says so.

    \b
    Example:
      vr report
      vr report -o maia.html --net maia-1900 --threshold 0.8
    """
    print_result(lambda: vr.write_report(db, output, question, quiet=is_quiet()), of_files=True)
