"""`vr confirm`: a second look at the candidates."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import DB, DEEP, JOBS, JSON, question
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@DB
@question("Smallest |net Q - deep Q| to look at.")
@DEEP(help="Another deep search for the second look, as in `vr mine`.")
@click.option(
    "--nodes",
    type=int,
    help="Nodes of the second look, by the first one's engine and options.  [default: ten times the first one's]",
)
@click.option("--limit", type=int, help="Look at no more than this many candidates, the largest disagreements first.")
@JOBS(help="Searches at once.  [default: one engine per core; mcts: full batches]")
@JSON
def command(db: str, question: vr.Question | vr.Worst, jobs: int | None, json: bool, **options: Any) -> None:
    """Look again at the candidates, and report who was right: the search, the net, or neither for certain.

    Each candidate, the largest disagreement first, is searched deeper, and so are the positions after the net's
    preferred move and after the search's. Results are stored; verdicts are computed from them with the given alpha
    (docs/methods/judges.md). A run can be stopped at any time (Ctrl-C) and the same command continues.

    \b
    Example:
      vr confirm
      vr confirm --threshold 0.8 --nodes 20000000 --limit 100
      vr confirm --deep lc0:nodes=10000,weights=BIG.pb.gz
    """
    print_result(lambda: vr.confirm(db, question, workers=jobs, quiet=is_quiet(), **options), json)
