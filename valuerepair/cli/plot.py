"""`vr plot`: every kind of picture of a store, a match, an experiment."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

import valuerepair as vr
from valuerepair.cli.files import misplaced
from valuerepair.cli.options import DB, PLOT_FILE, question, typed
from valuerepair.cli.printing import is_quiet
from valuerepair.errors import UsageError
from valuerepair.outputs import is_stream
from valuerepair.report.figures import KINDS, STORE, kind_of

HELP = """Draw a store, a match, an experiment or a training: KIND is one of those below, scatter unless given.

match reads the PGN of a match, wdl the folder of an experiment and training a net of vr train, given as SOURCE; all
others read the store. What each shows and how to read it: docs/plots.md.

\b
{kinds}

\b
Example:
  vr plot
  vr plot hexbin -o density.svg --threshold 0.8
  vr plot by-phase --threshold 0.4
  vr plot match match.pgn -o match.png
""".format(kinds="\n".join(f"{name:<12} {kind.help}" for name, kind in KINDS.items()))


def _kinds(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=kind.help) for name, kind in KINDS.items() if name.startswith(begun)]


@click.command(help=HELP)
@click.argument("kind", default="scatter", metavar="[KIND]", shell_complete=_kinds)
@click.argument("source", required=False, metavar="[SOURCE]")
@click.option("-o", "--output", type=PLOT_FILE, default="plot.png", help="The file: .png, .svg or .pdf.")
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
        click.echo(f"{output}: {figure.description}", err=is_stream(output))


def _check(context: click.Context, name: str, source: str | None) -> None:
    """Raises UsageError for an option on the command line, or a source, that the kind `name` of plots does not use."""
    for word in (name, source) if name not in KINDS or KINDS[name].reads == STORE else ():
        if word is not None and (advice := misplaced(context, word, () if word == name else ("--output",))):
            raise UsageError(advice)
    kind = kind_of(name)
    used = {*kind.options, "kind", "source", "output"} | ({"db"} if kind.reads == STORE else set())
    if unused := typed(*(option for option in context.params if option not in used)):
        raise UsageError(f"vr plot {name} does not take {unused[0]}; see vr plot --help for what it takes")
    if kind.reads == STORE and source is not None:
        raise UsageError(f"vr plot {name} reads a store: give it with --db {source}")
    if kind.reads != STORE and source is None:
        raise UsageError(f"vr plot {name} reads {kind.reads}: give it, vr plot {name} SOURCE")
