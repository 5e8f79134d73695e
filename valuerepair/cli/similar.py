"""`vr similar`: find more positions like this one."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import DB, JSON, question
from valuerepair.cli.printing import print_result


@click.command()
@click.argument("position", nargs=-1, required=True, metavar="FEN|ID")
@click.option("--limit", type=int, default=10, help="How many positions.")
@click.option("--candidates-only", is_flag=True, help="Only candidates.")
@DB
@question(expanded=None, scale=False, oracle=False)
@JSON
def command(
    position: tuple[str, ...], limit: int, candidates_only: bool, db: str, question: vr.Question | vr.Worst, json: bool
) -> None:
    """Find the stored positions that are most like a given one in material, pawn structure and king placement.

    The position is a FEN (quoted or not), an EPD line, or the number of a position of the store (position_id in vr
    export). Colours do not matter; without castling rights, neither do left and right. Each position is printed with
    its distance, the net's and the deep search's Q, and their difference: does the net misjudge more of this kind?

    \b
    Example:
      vr similar "8/5pk1/6p1/8/8/1P4P1/5PK1/8 w - - 0 1"
      vr similar 17 --candidates-only --threshold 0.4 --limit 20
    """
    print_result(
        lambda: vr.similar(db, " ".join(position), question, limit=limit, candidates_only=candidates_only), json
    )
