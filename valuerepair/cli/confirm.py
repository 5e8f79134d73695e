"""`vr confirm`: a second look at the candidates."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from valuerepair.cli.options import DB, DEEP, JOBS, JSON, QuestionOptions, question
from valuerepair.cli.verbosity import is_quiet


@click.command()
@DB
@question("Smallest |net Q - deep Q| to look at.")
@DEEP(help="Another deep search for the second look, as in `vr mine`.")
@click.option("--nodes", type=int, help="Nodes of the second look, with the first one's engine and options.")
@click.option("--times", type=float, help="Nodes of the second look as a multiple of the first one's.  [default: 10]")
@click.option("--limit", type=int, help="Stop after so many candidates; the same command goes on.")
@click.option("--retry-failed", is_flag=True, help="Search positions again on which the engine failed before.")
@JOBS(help="Searches at once.  [default: one engine per core; mcts: full batches]")
@click.option("--show", type=click.IntRange(0), default=5, help="How many of the worst cases of each verdict to show.")
@JSON
def command(db: str, question: QuestionOptions, **given: Any) -> None:
    """Look again at the candidates, and say who was right: the search, the net, or neither for certain.

    Each candidate, the largest disagreement first, is searched deeper, and so are the positions after the net's
    preferred move and after the search's. Results are stored; verdicts are computed from them with the alpha asked for
    (docs/methods.md). A run can be stopped at any time (Ctrl-C) and the same command continues.

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
    from valuerepair.store.second_looks import oracle_of
    from valuerepair.store.store import Store

    options = ConfirmOptions(given["limit"], given["retry_failed"], shlex.join(["vr", *sys.argv[1:]]))
    depth = Depth(given["deep"], given["nodes"], given["times"])

    with Store.open(db, write=True) as store:
        asked = question.resolved(store)
        frame = store.candidates(asked)
        if not len(frame):
            raise ValueRepairError(
                f"{db}: no candidates at {asked.threshold:g} to look at; mine more, or lower --threshold"
            )
        first, net = oracle_of(store.connection, frame.attrs["oracle"]["digest"]), frame.attrs["net"]
        with (
            open_second(store, first, depth, net, net_file=question.net, workers=given["jobs"]) as second,
            Progress("confirming", unit="searches", quiet=is_quiet()) as progress,
        ):
            summary = confirm(store, frame, second, options, progress=progress)
        found = confirm_report(store, frame, asked.threshold, summary, second.identity.digest, given["show"])
    click.echo(json.dumps(found, indent=2) if given["json"] else "\n".join(confirm_lines(found, summary.workers)))
    if summary.state == "interrupted":
        raise KeyboardInterrupt
