"""`vr export`: the store's scored positions as a file."""

from __future__ import annotations

import click

from valuerepair.cli.options import DB, FILE, QuestionOptions, question
from valuerepair.cli.verbosity import say

FORMATS = ("parquet", "jsonl", "csv")


@click.command()
@DB
@click.option("--format", type=click.Choice(FORMATS), help="[default: by the name of FILE, else jsonl]")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="The file to write.  [default: standard output]")
@click.option("--labels", is_flag=True, help="Columns of labels too (docs/methods.md).")
@question("Only candidates, the largest disagreement first.", default=None)
def command(db: str, format: str | None, output: str | None, labels: bool, question: QuestionOptions) -> None:
    """Write all positions scored by a net and a deep search, one row each.

    \b
    Example:
      vr export --format csv | head
      vr export -o candidates.parquet --threshold 0.55 --labels
    """
    import sys

    from valuerepair.errors import UsageError
    from valuerepair.store.export import format_of, write_file, write_stream
    from valuerepair.store.store import Store

    chosen = format_of(output, format)
    if chosen == "parquet" and output is None:
        raise UsageError("a Parquet file does not go to standard output; give -o FILE")
    with Store.open(db) as store:
        asked = question.resolved(store)
        frame = store.frame(asked) if question.threshold is None else store.candidates(asked)
        if labels:
            from valuerepair.judge.labelled import with_labels

            frame = with_labels(store, frame)
    if output is None:
        write_stream(frame, chosen, sys.stdout.buffer)
    else:
        write_file(frame, chosen, output)
        say(f"{output}: {len(frame):,} positions")
