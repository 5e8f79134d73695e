"""`vr export`: the store's scored positions as a file."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import DB, FILE, SPLIT, part_option, question


@click.command()
@DB
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help="The file: .parquet, .jsonl, .csv or .epd.  [default: JSON lines on standard output]",
)
@SPLIT(help="A file of vr split: write only the positions of one of its parts.")
@part_option("train", help="Which part of the split", default="train")
@question("Write only candidates, the largest disagreement first.", default=None)
def command(
    db: str,
    output: str | None,
    split: str | None,
    part: str | None,
    question: vr.Question | vr.Worst,
    candidates_only: bool,
) -> None:
    """Write all positions scored by a net and a deep search: a row for each, with everything known about it.

    The name of FILE says the form. Labels are among the columns (docs/methods.md). EPD has the candidates alone:
    the judge's best move (bm), its centipawns (ce) or moves to mate (dm), and the game (id); vr mine reads it.

    \b
    Example:
      vr export | head
      vr export -o candidates.parquet --threshold 0.55
      vr export -o train.csv --split split.json
      vr export -o candidates.epd
    """
    vr.export(db, output, question, candidates_only=candidates_only, split=split, part=part)
