"""`vr export`: the store's scored positions as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from valuerepair.cli.options import DB, FILE, QuestionOptions, question
from valuerepair.cli.verbosity import say

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.question import Question
    from valuerepair.store.store import Store

TABLES = ("parquet", "jsonl", "csv")
TRAINERS = ("plain", "bin", "text")
SUITE = "epd"


@click.command()
@DB
@click.option(
    "--format",
    type=click.Choice((*TABLES, *TRAINERS, SUITE)),
    help="plain and bin: for Stockfish's trainers; text: for bullet; epd: a suite of the candidates, to share.  "
    "[default: by the name of FILE, else jsonl]",
)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="The file to write.  [default: standard output]")
@click.option("--labels", is_flag=True, help="Add columns of labels (docs/methods.md).")
@click.option("--pawn", type=float, help="Score of a pawn in plain, bin and text.  [default: 100]")
@question("Only candidates; tables begin with the largest disagreement.", default=None)
def command(
    db: str, format: str | None, output: str | None, labels: bool, pawn: float | None, question: QuestionOptions
) -> None:
    """Write all positions scored by a net and a deep search.

    A row each with all that is known; or, for the trainers of other engines' nets, position, score and result in their
    formats; or the candidates as a suite to share, which vr remeasure reads (docs/guide/position-sets.md).

    \b
    Example:
      vr export --format csv | head
      vr export -o candidates.parquet --threshold 0.55 --labels
      vr export -o candidates.plain --threshold 0.55 --pawn 361
      vr export -o blind-spots.epd
    """
    import sys

    from valuerepair.errors import UsageError
    from valuerepair.store import export
    from valuerepair.store.store import Store

    if output == "-":
        output = None
    for_trainer = format in TRAINERS or (format is None and (output or "").endswith((".plain", ".bin")))
    if for_trainer and labels:
        raise UsageError("--labels: what trainers read has no columns; give --format parquet, jsonl or csv")
    if not for_trainer and pawn is not None:
        raise UsageError("--pawn: tables have the scores as the search gave them; give --format plain, bin or text")
    suite = format == SUITE or (format is None and (output or "").endswith(".epd"))
    if suite and labels:
        raise UsageError("--labels: a suite has no columns; give --format parquet, jsonl or csv")
    kind = None if for_trainer or suite else export.format_of(output, format)
    if output is None and format in ("parquet", "bin"):
        raise UsageError(f"{format} does not go to standard output; give -o FILE")
    with Store.open(db) as store:
        asked = question.resolved(store)
        frame = store.frame(asked) if question.threshold is None else store.candidates(asked)
        if suite:
            return _write_suite(store, asked, output)
        if labels:
            from valuerepair.judge.labelled import with_labels

            frame = with_labels(store, frame)
    if kind is None:
        _write_for_trainer(frame, format, output, pawn)
    elif output is None:
        export.write_stream(frame, kind, sys.stdout.buffer)
    else:
        export.write_file(frame, kind, output)
        say(f"{output}: {len(frame):,} positions")


def _write_suite(store: Store, question: Question, output: str | None) -> None:
    """Without a threshold of its own the suite has the usual candidates, as the question has."""
    import sys

    from valuerepair.books import suite

    rows = store.candidates(question)
    if output is None:
        written = suite.write_suite_stream(store, rows, question.threshold, sys.stdout.buffer)
    else:
        written = suite.write_suite_file(store, rows, question.threshold, output)
        say(f"{output}: {written.positions:,} blind spots of {written.net}")
    for line in written.lines():
        say(line)


def _write_for_trainer(frame: pd.DataFrame, format: str | None, output: str | None, pawn: float | None) -> None:
    import sys

    from valuerepair.training import nnue

    units = nnue.CENTIPAWNS if pawn is None else pawn
    kind = nnue.format_of(output, format)
    if output is None:
        written = nnue.write_stream(frame, kind, sys.stdout.buffer, units)
    else:
        written = nnue.write_file(frame, output, kind, units)
        say(f"{output}: {written.positions:,} positions, scores of {units:g} a pawn")
    for line in written.lines():
        say(line)
