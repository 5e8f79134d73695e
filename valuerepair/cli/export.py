"""`vr export`: the store's scored positions as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from valuerepair.cli.options import DB, FILE, SPLIT, QuestionOptions, check_part, part_option, question, split_of
from valuerepair.cli.verbosity import say

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("parquet", "jsonl", "csv")
TRAINERS = ("plain", "bin", "text")


@click.command()
@DB
@click.option(
    "--format",
    type=click.Choice((*TABLES, *TRAINERS)),
    help="plain and bin: for Stockfish's trainers; text: for bullet.  [default: by the name of FILE, else jsonl]",
)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="The file to write.  [default: standard output]")
@click.option("--labels", is_flag=True, help="Add columns of labels (docs/methods.md).")
@click.option("--pawn", type=float, help="Score of a pawn in plain, bin and text.  [default: 100]")
@SPLIT(help="A file of vr split: write only what is of one of its parts.")
@part_option("train", help="Which part of the split", usual="train")
@question("Only candidates; tables begin with the largest disagreement.", default=None)
def command(
    db: str,
    format: str | None,
    output: str | None,
    labels: bool,
    pawn: float | None,
    split: str | None,
    part: str | None,
    question: QuestionOptions,
) -> None:
    """Write all positions scored by a net and a deep search.

    A row each with all that is known; or, for the trainers of other engines' nets, position, score and result in their
    formats (docs/guide/position-sets.md).

    \b
    Example:
      vr export --format csv | head
      vr export -o candidates.parquet --threshold 0.55 --labels
      vr export -o candidates.plain --threshold 0.55 --pawn 361
      vr export -o train.plain --split split.json
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
    check_part(part, split)
    kept = split_of(split)
    kind = None if for_trainer else export.format_of(output, format)
    if output is None and format in ("parquet", "bin"):
        raise UsageError(f"{format} does not go to standard output; give -o FILE")
    with Store.open(db) as store:
        asked = question.resolved(store)
        frame = store.frame(asked) if question.threshold is None else store.candidates(asked)
        if kept is not None:
            frame = frame[kept.among(store, frame["position_id"].to_numpy("int64"), part or "train")]
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
