"""`vr similar`: find more positions like this one."""

from __future__ import annotations

from typing import Any

import click

from valuerepair.store import DEFAULT_PATH


@click.command()
@click.argument("position", nargs=-1, required=True, metavar="FEN|ID")
@click.option("--limit", type=int, default=10, show_default=True, help="How many.")
@click.option("--candidates-only", is_flag=True, help="Only positions that the net is wrong on.")
@click.option("--threshold", type=float, default=0.55, show_default=True, help="|net Q - deep Q| of a candidate.")
@click.option("--mirror/--no-mirror", default=True, show_default=True, help="Left and right are the same.")
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--net", help="Net: its name, file or SHA-256.  [default: that of the most scored positions]")
@click.option("--oracle", "--deep", help="Deep search: its label or digest.  [default: that of the most]")
@click.option("--alpha", default="auto", show_default=True, help="Centipawns of the logistic to Q.")
@click.option("--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Deep Q's source.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(position: tuple[str, ...], db: str, as_json: bool, alpha: str, q_from: str, **given: Any) -> None:
    """Find the stored positions most like one: in material, pawn structure and king placement.

    The position is a FEN (quoted or not), an EPD line, or the number of a position of the store (position_id in vr
    export). Colours do not matter, nor, without castling rights, left and right. Each comes with its distance, the
    net's and the deep search's Q, and their difference: does the net misjudge more of this kind?

    \b
    Example:
      vr similar "8/5pk1/6p1/8/8/1P4P1/5PK1/8 w - - 0 1"
      vr similar 17 --candidates-only --threshold 0.4 --limit 20
    """
    import json

    from valuerepair.judge.neighbours import SimilarOptions, find_similar, neighbour_lines
    from valuerepair.store.queries import alpha_option, q_from_option
    from valuerepair.store.store import Store

    options = SimilarOptions(alpha=alpha_option(alpha), q_from=q_from_option(q_from), **given)
    with Store.open(db) as store:
        found = find_similar(store, " ".join(position), options)
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else "\n".join(neighbour_lines(found)))
