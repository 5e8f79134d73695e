"""`vr label`: what kind of positions the candidates are, and in which way the net errs there."""

from __future__ import annotations

from typing import Any

import click

from valuerepair.cli.device import device_option
from valuerepair.cli.verbosity import is_quiet, say
from valuerepair.store import DEFAULT_PATH


@click.command()
@click.option("--threshold", type=float, default=0.55, show_default=True, help="Least |net Q - deep Q| labelled.")
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--net", help="Net: its name, file or SHA-256.  [default: that of the most scored positions]")
@click.option("--oracle", "--deep", help="Deep search: its label or digest.  [default: that of the most]")
@click.option("--alpha", default="auto", show_default=True, help="Centipawns of the logistic to Q.")
@click.option("--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Deep Q's source.")
@device_option(reference=True)
@click.option("--threads", type=int, help="Threads of the net.  [default: all cores]")
@click.option("--show", type=click.IntRange(0), default=10, show_default=True, help="Candidates listed, worst first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(db: str, net: str | None, oracle: str | None, threshold: float, **given: Any) -> None:
    """Say what kind of positions the candidates are, and in which way the net errs there.

    What the policy gave the search's best move is asked of the net where the store does not have it yet, and kept; all
    other labels follow from what is stored. They are defined, with what they do not prove, in docs/methods.md.

    \b
    Example:
      vr label
      vr label --threshold 0.8 --show 50
    """
    import json

    from valuerepair.errors import ValueRepairError
    from valuerepair.judge.labelled import complete
    from valuerepair.report import stats
    from valuerepair.report.stats import label_rows, label_table
    from valuerepair.store.queries import alpha_option, q_from_option
    from valuerepair.store.store import Store

    with Store.open(db, write=True) as store:
        frame = store.candidates(threshold, net, oracle, alpha_option(given["alpha"]), q_from_option(given["q_from"]))
        if not len(frame):
            raise ValueRepairError(f"{db}: no candidates at {threshold:g} to label; mine more, or lower --threshold")
        net_options = {name: given[name] for name in ("device", "threads")}
        asked = complete(store, frame, net, quiet=is_quiet(), say=say, **net_options)
        figures = stats.label_figures(store, frame, threshold)
        shown = label_rows(store, frame.head(given["show"]))
    if given["as_json"]:
        click.echo(json.dumps({"asked_of_the_net": asked, **figures, "candidates_listed": shown}, indent=2))
    else:
        click.echo("\n".join([*label_table(shown), *stats.label_lines(figures)]))
