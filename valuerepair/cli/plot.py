"""`vr plot`: every kind of picture of a store, a match, an experiment."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import DB, OUTPUT, question, typed
from valuerepair.cli.printing import is_quiet
from valuerepair.errors import UsageError
from valuerepair.report.figures import KINDS, STORE

HELP = """Draw a store, a match, an experiment or a training: KIND is one of those below, scatter unless given.

match reads the PGN of a match, sweep the folder of an experiment and training a net of vr train, given as SOURCE; all
others read the store.

\b
{kinds}

\b
Example:
  vr plot
  vr plot rates -o rates.svg --threshold 0.4
  vr plot match match.pgn -o match.png
""".format(kinds="\n".join(f"{name:<12} {kind.help}" for name, kind in KINDS.items()))


@click.command(help=HELP)
@click.argument("kind", type=click.Choice(tuple(KINDS)), default="scatter", metavar="[KIND]")
@click.argument("source", required=False, metavar="[SOURCE]")
@click.option("-o", "--output", type=OUTPUT, default="plot.png", help="The file: .png, .svg or .pdf.")
@DB
@question()
@click.pass_context
def command(
    context: click.Context,
    /,
    kind: str,
    source: str | None,
    output: str,
    db: str,
    question: vr.Question | vr.Worst,
) -> None:
    """Writes the plot and reports what it shows; the help is `HELP`."""
    # Errors of the command line are reported before a large store is read.
    _check(context, kind, source)
    figure = vr.plot(kind, db if source is None else source, output, question)
    if not is_quiet():
        click.echo(f"{output}: {figure.description}")


def _check(context: click.Context, name: str, source: str | None) -> None:
    """Raises UsageError for an option on the command line, or a source, that the kind `name` of plots does not use."""
    kind = KINDS[name]
    used = set(context.params) if kind.reads == STORE else {"kind", "source", "output"}
    if unused := typed(*(option for option in context.params if option not in used)):
        raise UsageError(f"vr plot {name} does not take {unused[0]}; see vr plot --help for what it takes")
    if kind.reads == STORE and source is not None:
        raise UsageError(f"vr plot {name} reads a store: give it with --db {source}")
    if kind.reads != STORE and source is None:
        raise UsageError(f"vr plot {name} reads {kind.reads}: give it, vr plot {name} SOURCE")
