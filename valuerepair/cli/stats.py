"""`vr stats`: what is in a store."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import DB, JSON, question
from valuerepair.cli.printing import print_result


@click.command()
@DB
@question("|net Q - deep Q| of a candidate, for the rates by phase, side and sign, and for labels.")
@click.option("--worst", type=click.IntRange(0), default=0, help="List this many candidates with labels, worst first.")
@click.option(
    "--save-alpha",
    type=click.Choice(["slope", "results"]),
    help="Store this fit; later commands use it, even after more is mined.",
)
@JSON
def command(db: str, question: vr.Question | vr.Worst, json: bool, **options: Any) -> None:
    """Show what is in the store: positions, nets, oracles, candidate rates with 95 % intervals, and what it cost.

    It begins with the rate of candidates at the threshold. It also shows which labels these candidates have
    (docs/methods.md: what these mean and what they do not prove), how often a second look found the search right
    (vr confirm), whether the games played from them (vr selfplay) agree with the net or with the search, and, with -v,
    where screening cut positions.

    From 300 positions with a score in centipawns on, two fits of alpha of Q = 2 / (1 + exp(-cp / alpha)) - 1 are shown:
    so that, on average, deep Q rises as fast as net Q (slope), which all commands use; and to the results of the games
    that the positions come from (results). Both have 95 % intervals; see docs/methods.md.

    \b
    Example:
      vr stats
      vr stats --threshold 0.8 --json
      vr stats --worst 20
      vr stats --oracle "stockfish 17 nodes=1000000"
      vr stats --save-alpha slope
    """
    print_result(lambda: vr.stats(db, question, **options), json)
