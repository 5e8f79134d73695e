"""`vr remeasure`: the same positions under several nets."""

from __future__ import annotations

from typing import Any

import click

from valuerepair.cli.device import device_option
from valuerepair.cli.verbosity import is_quiet, say
from valuerepair.store import DEFAULT_PATH


@click.command()
@click.option("--net", "nets", multiple=True, help="Net: a file, a name or a SHA-256; at least two, the first is A.")
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--oracle", "--deep", help="Deep search: its label or digest.  [default: that of most of A's positions]")
@click.option("--alpha", default="auto", show_default=True, help="Centipawns of the logistic, for all; auto: A's.")
@click.option("--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Deep Q's source.")
@click.option("--threshold", type=float, default=0.55, show_default=True, help="|net Q - deep Q| of a candidate.")
@click.option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")
@click.option("-o", "--output", metavar="FILE", help="Positions that any net is wrong on: .parquet, .jsonl or .csv.")
@device_option(reference=True)
@click.option("--threads", type=int, help="Threads of the net.  [default: all cores]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    nets: tuple[str, ...],
    db: str,
    oracle: str | None,
    plot: str | None,
    output: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare nets on the positions of a store: who repaired what, by label, with paired intervals.

    Every net is compared with the first, A. Values that the store lacks are computed from the net's file and kept; stop
    with Ctrl-C, and the same command goes on. Judge by all positions: A's own candidates were chosen for being A's
    worst errors, and any other net looks better on them.

    \b
    Example:
      vr remeasure --net old.pb.gz --net new.pb.gz
      vr remeasure --net maia-1900 --net new.pb.gz --threshold 0.4 --plot repaired.svg -o wrong.csv
    """
    import json
    import shlex
    import sys

    from valuerepair.judge.compare import (
        RemeasureOptions,
        compare,
        comparison_lines,
        complete_policies,
        wrong_positions,
    )
    from valuerepair.judge.compared_nets import find_nets, find_oracle, measure_missing
    from valuerepair.store.export import format_of, write_file
    from valuerepair.store.queries import alpha_option, q_from_option
    from valuerepair.store.store import Store

    alpha, q_from = alpha_option(given["alpha"]), q_from_option(given["q_from"])
    options = RemeasureOptions(given["threshold"], alpha, q_from)
    # What is wrong with the command line is said before a net runs.
    kind = format_of(output, None) if output is not None else None
    if plot is not None:
        from valuerepair.report import style

        style.format_of(plot)

    with Store.open(db) as store:
        chosen = find_oracle(store, oracle, nets)
        asked = find_nets(store, nets, chosen, say)
    net_options = {"device": given["device"], "threads": given["threads"]}
    measure_missing(
        db, asked, chosen, command=shlex.join(["vr", *sys.argv[1:]]), quiet=is_quiet(), say=say, **net_options
    )
    with Store.open(db) as store:
        asked = find_nets(store, nets, chosen)
    complete_policies(db, asked, chosen, options.threshold, alpha, q_from, quiet=is_quiet(), say=say, **net_options)
    with Store.open(db) as store:
        found = compare(store, asked, chosen, options)
        rows = wrong_positions(store, asked, chosen, found) if output is not None else None
    if rows is not None and kind is not None and output is not None:
        write_file(rows, kind, output)
        say(f"{output}: {len(rows):,} positions")
    if plot is not None:
        from valuerepair.report import remeasure_plot

        remeasure_plot.plot(found, plot)
        say(plot)
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else "\n".join(comparison_lines(found)))
