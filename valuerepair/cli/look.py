"""Commands that look at a store: `vr stats`, `show`, `plot`, `report`, `export`."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import DB, FILE, JSON, OUTPUT, part_option, question, typed
from valuerepair.cli.printing import is_quiet, print_result
from valuerepair.errors import UsageError, pairs_of
from valuerepair.report import OF_FILES, OF_STORE


@click.command()
@DB
@question("Smallest |net Q - deep Q| of a candidate.")
@click.option("--worst", type=click.IntRange(0), default=0, help="List this many candidates with labels, worst first.")
@click.option(
    "--use",
    multiple=True,
    metavar="NAME=VALUE",
    help="What this and later commands on the store use: net=, judge=, threshold=, or alpha=: a number, slope or "
    "results (today's fit), or wdl (Q of the judge's W/D/L). auto: the default again. May be repeated.",
)
@JSON
def stats(db: str, question: vr.Question | vr.Worst, use: tuple[str, ...], json: bool, **options: Any) -> None:
    """Show how often the net is wrong, how sure that is, where, and who was right; -v or --json shows all of it.

    Twelve lines at most: net, judge, threshold and alpha; the rate of candidates, with 95 % intervals by games, also by
    phase, side to move, sign and off the games; the most frequent labels (docs/methods.md: what they mean and what they
    do not prove); how often a second look found the search right (vr confirm), and the games played from candidates
    (vr selfplay); what the searches took, and what screening saved and lost. With -v all rates, labels and families,
    fits of alpha, nets and judges.

    \b
    Example:
      vr stats
      vr stats --threshold 0.8 --json
      vr stats --worst 20
      vr stats --use judge="stockfish 17 nodes=1000000" --use alpha=slope
    """
    settings = dict(pairs_of(use, "--use ", "as in --use threshold=0.4"))
    print_result(lambda: vr.stats(db, question, use=settings, **options), json)


@click.command()
@click.argument("position", nargs=-1, required=True, metavar="ID|FEN")
@click.option("--svg", type=OUTPUT, metavar="FILE", help="Also write the board with arrows as SVG.")
@click.option("--json", is_flag=True, help="One JSON object, and no board.")
@DB
@question(None)
def show(position: tuple[str, ...], svg: str | None, json: bool, db: str, question: vr.Question | vr.Worst) -> None:
    """Show a position of the store: the board, what net and search say of it, and where it came from.

    The position is its number (position_id in vr export) or a FEN, quoted or not. Values are from the side to move.
    The SVG has arrows for the best moves of net and search, and for the move played.

    \b
    Example:
      vr show 17
      vr show 17 --svg board.svg
      vr show "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3" --json
    """
    print_result(lambda: vr.show(db, " ".join(position), question, svg=svg), json)


@click.command()
@click.argument("kind", type=click.Choice((*OF_STORE, *OF_FILES)), default="scatter", metavar="[KIND]")
@click.argument("source", required=False, type=FILE, metavar="[SOURCE]")
@click.option("-o", "--output", type=OUTPUT, default="plot.png", help="The file: .png, .svg or .pdf.")
@DB
@question()
@click.pass_context
def plot(
    context: click.Context,
    /,
    kind: str,
    source: str | None,
    output: str,
    db: str,
    question: vr.Question | vr.Worst,
) -> None:
    """Draw a store, a match, an experiment or a training: KIND is one of those below, scatter unless given.

    match reads the PGN of a match, sweep the folder of an experiment and training a net of vr train, given as SOURCE;
    all others read the store.

    \b
    scatter      Net Q against deep Q, one point a position, lowess.
    rates        Rates by threshold, phase, side, men; shares of labels.
    results      Results of games played against both Q, binned.
    training     The curve of a training.
    match        Elo with its interval over the games of a match.
    sweep        W/D/L by settings of the search.

    \b
    Example:
      vr plot
      vr plot rates -o rates.svg --threshold 0.4
      vr plot match match.pgn -o match.png
    """
    # Errors of the command line are reported before a large store is read.
    _check(context, kind, source)
    figure = vr.plot(kind, db if source is None else source, output, question)
    if not is_quiet():
        click.echo(f"{output}: {figure.description}")


def _check(context: click.Context, name: str, source: str | None) -> None:
    """Raises UsageError for an option on the command line, or a source, that the kind `name` of plots does not use."""
    used = set(context.params) if name in OF_STORE else {"kind", "source", "output"}
    if unused := typed(*(option for option in context.params if option not in used)):
        raise UsageError(f"vr plot {name} does not take {unused[0]}; see vr plot --help for what it takes")
    if name in OF_STORE and source is not None:
        raise UsageError(f"vr plot {name} reads a store: give it with --db {source}")
    if name in OF_FILES and source is None:
        raise UsageError(f"vr plot {name} reads {OF_FILES[name]}: give it, vr plot {name} SOURCE")


@click.command()
@click.option("-o", "--output", type=OUTPUT, default="report.html", help="The file.")
@DB
@question()
def report(output: str, db: str, question: vr.Question | vr.Worst) -> None:
    """Write a report on a store: one HTML file that needs no network, for a browser.

    How often the net is wrong, who was right, and the errors, the worst first, each told in words above its board; a
    point for each position, and filters. Of more than 20,000 positions it shows candidates and a sample of the rest.

    \b
    Example:
      vr report
      vr report -o maia.html --net maia-1900 --threshold 0.8
    """
    print_result(lambda: vr.write_report(db, output, question, quiet=is_quiet()), of_files=True)


@click.command()
@DB
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help="The file: .parquet, .jsonl, .csv or .epd.  [default: JSON lines on standard output]",
)
@part_option("train", help="Write only the positions of one part", default="all positions")
@question("Write only candidates, the largest disagreement first.", or_all=True)
def export(
    db: str, output: str | None, part: str | None, question: vr.Question | vr.Worst, candidates_only: bool
) -> None:
    """Write all positions scored by a net and a deep search: a row for each, with everything known about it.

    The name of FILE says the form. Labels are among the columns (docs/methods.md). EPD has the candidates alone:
    the judge's best move (bm), its centipawns (ce) or moves to mate (dm), and the game (id); vr mine reads it.

    \b
    Example:
      vr export | head
      vr export -o candidates.parquet --threshold 0.55
      vr export -o train.csv --part train
      vr export -o candidates.epd
    """
    vr.export(db, output, question, candidates_only=candidates_only, part=part)
