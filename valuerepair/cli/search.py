"""`vr search`: what the built-in MCTS makes of positions, move by move."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from valuerepair import outputs
from valuerepair.cli.files import Output
from valuerepair.cli.options import HEADS, JSON_LINES, NET, SET, device_option, settings_of

if TYPE_CHECKING:
    from valuerepair.chess.positions import Position
    from valuerepair.nets.heads import Heads

_TREE_NODES = 2000  # the most visited positions of a search that --tree keeps


@click.command()
@click.argument("position", nargs=-1, metavar="[FEN|FILE|-]")
@click.option("--moves", help="Moves played from the position (UCI or SAN), so the net sees the history.")
@click.option("--nodes", type=int, help="Visits of the root, with its own evaluation.  [default: 800]")
@click.option("--time", type=float, help="Seconds per position, instead of or besides --nodes.")
@NET
@SET
@click.option("--list-settings", is_flag=True, help="Only list the search parameters and their defaults.")
@click.option(
    "--tree", type=Output(outputs.TREES), metavar="FILE", help="Also write the tree: .json, or .html that unfolds."
)
@HEADS
@device_option()
@JSON_LINES
def command(position: tuple[str, ...], moves: str | None, net: str | None, **options: Any) -> None:
    """Search positions with a net: the built-in MCTS, exact where lc0 is.

    The position is given as in `vr eval`; of a file, or - (standard input), all lines are searched together. Values
    are from the side to move: visits N, the net's prior P, Q, win, draw and loss, whether that is proven, and the line
    expected. The position's own Q is that of the best move, 1 or -1 where that is proven to win or lose; the mean over
    all visits, bad moves included, stands beside it, which is lc0's root Q.

    \b
    Example:
      vr search "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"
      vr search startpos --moves "e2e4 c7c5" --nodes 5000 --set certainty=1 --set cpuct=2.5
      vr search --json positions.epd --nodes 200 > searched.jsonl
      vr search startpos --nodes 200 --set n_scl=5 --tree tree.html
    """
    from itertools import chain

    from valuerepair.errors import ValueRepairError
    from valuerepair.mcts.params import PARAMETERS, SearchParams

    if options["list_settings"]:
        click.echo("\n".join(f"{name:28} {getattr(SearchParams(), name)}" for name in PARAMETERS))
        return
    params = SearchParams().with_settings(settings_of(options))
    nodes, seconds = _limits(options["nodes"], options["time"])
    tree = options["tree"]

    from valuerepair.nets.net import open_net
    from valuerepair.nets.position_text import read_source
    from valuerepair.oracles.searching import search_positions
    from valuerepair.report.search_table import row, table
    from valuerepair.report.search_tree import kind_of, write_tree

    if tree is not None:
        kind_of(tree)
    source = " ".join(position)
    positions = read_source(source, (moves or "").split())
    first = next(positions, None)  # a wrong position should be told before a net is pulled and loaded
    if first is None:
        raise ValueRepairError(f"{source}: no positions in it")
    if tree is not None and source != "-":
        _refuse_more(positions, tree, source)
    heads: Heads = options["heads"]
    with open_net(net, device=options["device"], value_head=heads.value, policy_head=heads.policy) as opened:
        every, searched = chain([first], positions if tree is None else ()), 0
        tree_nodes = 0 if tree is None else _TREE_NODES
        for search in search_positions(opened, params, every, nodes=nodes, seconds=seconds, tree_nodes=tree_nodes):
            click.echo(json.dumps(row(search)) if options["json"] else table(search))
            if search.tree is not None:
                write_tree(search, tree)
            searched += search.result is not None
        if tree is not None:
            _refuse_more(positions, tree, source)  # only now of standard input, whose next line may come late
    if not searched:
        raise ValueRepairError("there was nothing to search: no position, or only finished ones")


def _refuse_more(positions: Iterator[Position], tree: str, source: str) -> None:
    """A tree is of one position: raises UsageError if others follow."""
    from valuerepair.errors import UsageError

    if next(positions, None) is not None:
        raise UsageError(f"--tree {tree}: it is of one position, and there are more in {source}")


def _limits(nodes: int | None, seconds: float | None) -> tuple[int | None, float | None]:
    """Nodes and seconds of a search, either of them None where it is no limit."""
    from valuerepair.errors import UsageError

    if nodes is not None and nodes < 1:
        raise UsageError(f"--nodes {nodes}: must be at least 1")
    if seconds is not None and not 0 < seconds < 1e7:
        raise UsageError(f"--time {seconds:g}: must be a number of seconds above 0")
    return (800 if nodes is None and seconds is None else nodes), seconds
