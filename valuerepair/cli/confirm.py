"""`vr confirm`: a second look at the candidates."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import DB, DEEP, question
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@DB
@question("Smallest |net Q - deep Q| to look at.")
@DEEP(
    help="The deep search of the second look, as in `vr mine`.  [default: the first one with ten times its nodes]",
)
@click.option("--limit", type=int, help="Look at no more than this many candidates, the largest disagreements first.")
def command(db: str, question: vr.Question | vr.Worst, deep: str | None, limit: int | None) -> None:
    """Look again at the candidates, and report who was right: the search, the net, or neither for certain.

    Each candidate, the largest disagreement first, is searched deeper, and so are the positions after the net's
    preferred move and after the search's. Results are stored; verdicts are computed from them with the given alpha
    (docs/methods.md). A run can be stopped at any time (Ctrl-C) and the same command continues.

    \b
    Example:
      vr confirm
      vr confirm --threshold 0.8 --deep stockfish:nodes=20000000 --limit 100
      vr confirm --deep lc0:nodes=10000,weights=BIG.pb.gz
    """
    print_result(lambda: vr.confirm(db, question, deep=deep, limit=limit, quiet=is_quiet()))
