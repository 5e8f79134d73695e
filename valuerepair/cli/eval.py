"""`vr eval`: values of positions by a net alone, or by a search with it."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import JSON_LINES, NET, SET, device_option, settings_of
from valuerepair.cli.printing import print_one
from valuerepair.errors import UsageError


@click.command()
@click.argument("position", nargs=-1, metavar="[POSITIONS]")
@NET
@click.option("--nodes", type=int, default=1, help="Visits of the root, its own evaluation included; 1: the net alone.")
@SET
@device_option()
@JSON_LINES
def command(position: tuple[str, ...], net: str | None, nodes: int, device: str, json: bool, **options: Any) -> None:
    """Evaluate positions by a net alone, or with --nodes by the built-in search, which works as lc0's classic one does.

    POSITIONS is a FEN (quoted or not) or `startpos`, perhaps with `moves e2e4 c5`; or a file or - (standard input) with
    one FEN, EPD or UCI `position ...` line each; without it, the initial position. All values are from the side to
    move. Of a search each move has its visits N, the net's prior P, Q, win, draw and loss, whether these are proven,
    and the expected line. The position's Q is then that of the best move, or 1 or -1 if it is proven to win or lose.

    \b
    Example:
      vr eval "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"
      vr eval startpos moves e2e4 c7c5 g1f3 --nodes 800
      vr eval positions.epd --json > values.jsonl
      vr eval startpos --nodes 5000 --set certainty=1 --set cpuct=2.5
    """
    settings = settings_of(options)
    if settings and nodes == 1:
        raise UsageError(f"--set {next(iter(settings))}: is of the search; give --nodes above 1")
    params = vr.SearchParams().with_settings(settings)
    for evaluated in vr.evaluate_each(vr.read_positions(" ".join(position)), net, nodes, params, device=device):
        print_one(evaluated, json)
