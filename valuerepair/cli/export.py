"""`vr export`: the store's scored positions as a file."""

from __future__ import annotations

import click

from valuerepair.cli.verbosity import say
from valuerepair.store import DEFAULT_PATH


@click.command()
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--format", "kind", help="parquet, jsonl or csv.  [default: by the name of FILE, else jsonl]")
@click.option("-o", "--output", metavar="FILE", help="The file to write.  [default: standard output]")
@click.option("--threshold", type=float, help="Only candidates at this threshold, the largest first.")
@click.option("--labels", is_flag=True, help="Columns of labels too (vr label; docs/methods.md).")
@click.option("--net", help="Net: its name, file or SHA-256.  [default: that of the most scored positions]")
@click.option("--oracle", "--deep", help="Deep search: its label or digest.  [default: that of the most]")
@click.option("--alpha", default="auto", show_default=True, help="Centipawns of the logistic to Q.")
@click.option("--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Deep Q's source.")
def command(
    db: str,
    kind: str | None,
    output: str | None,
    threshold: float | None,
    labels: bool,
    net: str | None,
    oracle: str | None,
    alpha: str,
    q_from: str,
) -> None:
    """Write all positions scored by a net and a deep search, one row each.

    \b
    Example:
      vr export --format csv | head
      vr export -o candidates.parquet --threshold 0.55 --labels
    """
    import sys

    from valuerepair.errors import UsageError
    from valuerepair.store.export import format_of, write_file, write_stream
    from valuerepair.store.queries import alpha_option, q_from_option
    from valuerepair.store.store import Store

    chosen = format_of(output, kind)
    if chosen == "parquet" and output is None:
        raise UsageError("a Parquet file does not go to standard output; give -o FILE")
    number, source = alpha_option(alpha), q_from_option(q_from)
    with Store.open(db) as store:
        if threshold is None:
            frame = store.frame(net, oracle, number, source)
        else:
            frame = store.candidates(threshold, net, oracle, number, source)
        if labels:
            from valuerepair.judge.labelled import with_labels

            frame = with_labels(store, frame)
    if output is None:
        write_stream(frame, chosen, sys.stdout.buffer)
    else:
        write_file(frame, chosen, output)
        say(f"{output}: {len(frame):,} positions")
