"""`vr eval`: a net's values of positions, without search."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import HEADS, JSON_LINES, NET, device_option
from valuerepair.cli.printing import print_one


@click.command()
@click.argument("position", nargs=-1, metavar="[FEN|FILE|-]")
@click.option("--moves", help="Moves played from the position (UCI or SAN), so the net sees the history.")
@NET
@click.option("--top", type=click.IntRange(0), default=5, help="How many moves to show.")
@HEADS
@device_option()
@JSON_LINES
def command(position: tuple[str, ...], moves: str | None, net: str | None, json: bool, **options: Any) -> None:
    """Evaluate positions by the net alone (1 node).

    The position is a FEN (quoted or not), `startpos`, or a file or - (standard input) with one FEN, EPD or UCI
    `position ...` line each; without one it is the initial position. Q, W/D/L and priors are from the side to move.

    \b
    Example:
      vr eval "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"
      vr eval --moves "e2e4 c7c5 g1f3" --top 3
      vr eval --json positions.epd > values.jsonl
      vr eval startpos --net big.pb.gz --heads q,soft
    """
    positions = vr.read_positions(" ".join(position), (moves or "").split())
    for evaluated in vr.evaluate_each(positions, net, **options):
        print_one(evaluated, json)
