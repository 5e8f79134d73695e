"""`vr stats`: what is in a store."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import DB, JSON, question
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@DB
@question("|net Q - deep Q| of a candidate, for the rates by phase, side and sign, and for labels.")
@click.option("--worst", type=click.IntRange(0), default=0, help="List this many candidates with labels, worst first.")
@click.option("--labels", is_flag=True, help="Compute with the net the policy that labels need, and store it.")
@click.option("--fit-alpha", is_flag=True, help="Fit alpha, and show what the fit would change.")
@click.option(
    "--save-alpha",
    type=click.Choice(["slope", "results"]),
    help="Store this fit; later commands use it, even after more is mined.",
)
@click.option("--save-calibration", is_flag=True, help="Store a fitted calibration curve; later commands use it.")
@click.option("--ladder", is_flag=True, help="Show the screening ladder: its cuts, and nodes against recall.")
@JSON
def command(db: str, question: vr.Question | vr.Worst, json: bool, **options: Any) -> None:
    """Show what is in the store: positions, nets, oracles, candidate rates with 95 % intervals, and what it cost.

    It begins with the rate of candidates at the threshold. It also shows which labels these candidates have
    (docs/methods/judges.md: what these mean and what they do not prove), how often a second look found the search right
    (vr confirm), whether the games played from them (vr selfplay) agree with the net or with the search, and, with -v,
    how diverse they are.

    Alpha of Q = 2 / (1 + exp(-cp / alpha)) - 1 is fitted so that, on average, deep Q rises as fast as net Q (slope),
    which all commands use from 300 positions on; and to the results of the games that the positions come from
    (results). Both have 95 % intervals; see docs/methods/scale.md.

    A candidate beyond scale is still one if calibrated Q replaces net Q. Calibrated Q is the deep Q expected at this
    net Q, by a curve fitted to other games. With --calibration fitted, this command and others count by it, and this
    one shows the curve.

    \b
    Example:
      vr stats
      vr stats --threshold 0.8 --json
      vr stats --labels --worst 20
      vr stats --oracle "stockfish 17 nodes=1000000"
      vr stats --save-alpha slope
      vr stats --calibration fitted
    """
    print_result(lambda: vr.stats(db, question, quiet=is_quiet(), **options), json)
