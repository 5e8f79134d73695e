"""`vr similar`: find more positions like this one."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import DB, JSON, question


@click.command()
@click.argument("position", nargs=-1, required=True, metavar="FEN|ID")
@click.option("--limit", type=int, default=10, help="How many positions.")
@click.option("--candidates-only", is_flag=True, help="Only candidates.")
@DB
@question(expanded=False, scale=False, oracle=False)
@JSON
def command(
    position: tuple[str, ...], limit: int, candidates_only: bool, db: str, question: vr.Question | vr.Worst, json: bool
) -> None:
    """Find the stored positions most like one: in material, pawn structure and king placement.

    The position is a FEN (quoted or not), an EPD line, or the number of a position of the store (position_id in vr
    export). Colours do not matter, nor, without castling rights, left and right. Each comes with its distance, the
    net's and the deep search's Q, and their difference: does the net misjudge more of this kind?

    \b
    Example:
      vr similar "8/5pk1/6p1/8/8/1P4P1/5PK1/8 w - - 0 1"
      vr similar 17 --candidates-only --threshold 0.4 --limit 20
    """
    from json import dumps

    from valuerepair.api.calls import resolved
    from valuerepair.judge.neighbours import SimilarOptions, find_similar, neighbour_lines
    from valuerepair.store.store import Store

    with Store.open(db) as store:
        options = SimilarOptions(resolved(store, question), limit, candidates_only)
        found = find_similar(store, " ".join(position), options)
    click.echo(dumps(found.as_json(), indent=2) if json else "\n".join(neighbour_lines(found)))
