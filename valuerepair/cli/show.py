"""`vr show`: one position in the terminal, with everything that the store knows about it."""

from __future__ import annotations

import sys
from json import dumps

import click

import valuerepair as vr
from valuerepair.cli.options import DB, OUTPUT, question


@click.command()
@click.argument("position", nargs=-1, required=True, metavar="ID|FEN")
@click.option("--svg", type=OUTPUT, metavar="FILE", help="Also write the board with arrows as SVG.")
@click.option("--json", is_flag=True, help="One JSON object, and no board.")
@DB
@question(None, expanded=None)
def command(position: tuple[str, ...], svg: str | None, json: bool, db: str, question: vr.Question | vr.Worst) -> None:
    """Show a position of the store: the board, what net and search say of it, and where it came from.

    The position is its number (position_id in vr export) or a FEN, quoted or not. Values are from the side to move.
    The squares of the net's best move are orange on a coloured board, the search's blue, those of both green; in the
    SVG these are arrows, with the move played.

    \b
    Example:
      vr show 17
      vr show 17 --svg board.svg
      vr show "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3" --json
    """
    shown = vr.show(db, " ".join(position), question, svg=svg)
    if json:
        click.echo(dumps(shown.as_json(), indent=2))
        return
    wanted = click.get_current_context().color  # by NO_COLOR and similar variables
    coloured = sys.stdout.isatty() if wanted is None else wanted
    # Without `color` click may strip the escape sequences, which only the board has.
    click.echo("\n".join(shown.lines(colours=coloured)), color=coloured)
