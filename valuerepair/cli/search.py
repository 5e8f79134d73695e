"""`vr search`: searches positions by the built-in MCTS, and shows the values of all moves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import HEADS, JSON_LINES, NET, OUTPUT, SET, device_option, settings_of
from valuerepair.cli.printing import print_one
from valuerepair.errors import UsageError, ValueRepairError


@click.command()
@click.argument("position", nargs=-1, metavar="[FEN|FILE|-]")
@click.option("--moves", help="Moves to play from the position first (UCI or SAN); the net sees them as history.")
@click.option("--nodes", type=int, help="Visits of the root, its own evaluation included.  [default: 800]")
@click.option("--time", type=float, help="Seconds per position, instead of or besides --nodes.")
@NET
@SET
@click.option("--list-settings", is_flag=True, help="Only list the search parameters and their defaults.")
@click.option("--tree", type=OUTPUT, metavar="FILE", help="Also write the tree: .json, or an .html page.")
@HEADS
@device_option()
@JSON_LINES
def command(position: tuple[str, ...], moves: str | None, net: str | None, **options: Any) -> None:
    """Search positions with a net by the built-in MCTS, which works as lc0's classic search does.

    Give the position as in `vr eval`; all lines of a file, or of - (standard input), are searched together. Each move
    has its visits N, the net's prior P, Q, win, draw and loss, whether these are proven, and the expected line, from
    the side to move. The position's Q is that of the best move, or 1 or -1 if the move is proven to win or lose. The
    mean over all visits, bad moves included, is printed beside it; it is lc0's root Q.

    \b
    Example:
      vr search "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"
      vr search startpos --moves "e2e4 c7c5" --nodes 5000 --set certainty=1 --set cpuct=2.5
      vr search --json positions.epd --nodes 200 > searched.jsonl
      vr search startpos --nodes 200 --set n_scl=5 --tree tree.html
      vr search startpos --time 10
    """
    if options["list_settings"]:
        print_one(vr.SearchParams(), as_json=False)
        return
    params = vr.SearchParams().with_settings(settings_of(options))
    source, tree = " ".join(position), options["tree"]
    positions = vr.read_positions(source, (moves or "").split())
    to_search = chain(list(islice(positions, 1)), positions if tree is None else ())
    if tree is not None and source != "-":
        _refuse_more(positions, tree, source)
    same_names = {name: options[name] for name in ("tree", "heads", "device")}
    done = 0
    for searched in vr.search_each(to_search, options["nodes"], net, params, seconds=options["time"], **same_names):
        print_one(searched, options["json"])
        done += searched.result is not None
    if tree is not None:
        _refuse_more(positions, tree, source)  # standard input is checked last, because its next line may come late
    if not done:
        raise ValueRepairError("there was nothing to search: no position, or only finished ones")


def _refuse_more(positions: Iterator[vr.Position], tree: str, source: str) -> None:
    """Raises UsageError if more positions follow: a tree is of one position."""
    if next(positions, None) is not None:
        raise UsageError(f"--tree {tree}: a tree is of one position, and {source} has more")
