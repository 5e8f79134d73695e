"""`vr confirm`: a second look at the candidates."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from valuerepair.cli.verbosity import is_quiet, say
from valuerepair.store import DEFAULT_PATH


@click.command()
@click.option("--threshold", type=float, default=0.55, show_default=True, help="Least |net Q - deep Q| looked at.")
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--net", help="Net: its name, file or SHA-256.  [default: that of the most scored positions]")
@click.option("--oracle", help="First look: its label or digest.  [default: that of the most]")
@click.option("--deep", metavar="SPEC", help="Another oracle for the second look, as in `vr mine`.")
@click.option("--nodes", type=int, help="Nodes of the second look, by the first one's engine and options.")
@click.option("--times", type=float, help="The same, as a multiple of the first look's nodes.  [default: 10]")
@click.option("--alpha", default="auto", show_default=True, help="Centipawns of the logistic to Q; not stored.")
@click.option("--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Q's source.")
@click.option("--limit", type=int, help="Stop after so many candidates; the same command goes on.")
@click.option("--retry-failed", is_flag=True, help="Search again what the engine failed on before.")
@click.option("--workers", type=int, help="Searches at once.  [default: an engine a core; mcts: full batches]")
@click.option("--show", type=click.IntRange(0), default=5, show_default=True, help="Worst cases of each verdict.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(db: str, net: str | None, oracle: str | None, threshold: float, **given: Any) -> None:
    """Look again at the candidates, and say who was right: the search, the net, or neither for certain.

    Each candidate, the largest disagreement first, is searched deeper, and so are the positions after the net's
    preferred move and after the search's. The results are stored, the verdicts computed from them for the alpha asked
    (docs/methods.md). A run can be stopped at any time (Ctrl-C) and the same command goes on.

    \b
    Example:
      vr confirm
      vr confirm --threshold 0.8 --times 20 --limit 100
      vr confirm --deep lc0:nodes=10000,weights=BIG.pb.gz
    """
    import json

    from valuerepair.chess.progress import Progress
    from valuerepair.errors import ValueRepairError
    from valuerepair.runs.confirm import ConfirmOptions, Depth, confirm, confirm_lines, confirm_report, open_second
    from valuerepair.store.queries import alpha_option, q_from_option
    from valuerepair.store.second_looks import oracle_of
    from valuerepair.store.store import Store

    options = ConfirmOptions(given["limit"], given["retry_failed"], shlex.join(["vr", *sys.argv[1:]]))
    depth = Depth(given["deep"], given["nodes"], given["times"])

    with Store.open(db, write=True) as store:
        alpha, q_from = alpha_option(given["alpha"]), q_from_option(given["q_from"])
        frame = store.candidates(threshold, net, oracle, alpha, q_from)
        if not len(frame):
            raise ValueRepairError(f"{db}: no candidates at {threshold:g} to look at; mine more, or lower --threshold")
        first = oracle_of(store.connection, frame.attrs["oracle"]["digest"])
        with (
            open_second(first, depth, frame.attrs["net"], net_file=net, workers=given["workers"], say=say) as second,
            Progress("confirming", unit="searches", quiet=is_quiet()) as progress,
        ):
            summary = confirm(store, frame, second, options, progress=progress, say=say)
        found = confirm_report(store, frame, threshold, summary, second.identity.digest, given["show"])
    click.echo(json.dumps(found, indent=2) if given["as_json"] else "\n".join(confirm_lines(found, summary.workers)))
    if summary.state == "interrupted":
        raise KeyboardInterrupt
