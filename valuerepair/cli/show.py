"""`vr show`: one position in the terminal, with all that the store knows of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

import valuerepair as vr
from valuerepair import outputs
from valuerepair.cli.files import Output
from valuerepair.cli.options import DB, question

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.command()
@click.argument("position", nargs=-1, required=True, metavar="ID|FEN")
@click.option("--family", is_flag=True, help="Also show the tree of positions that vr expand reached from its root.")
@click.option("--svg", type=Output(outputs.BOARD), metavar="FILE", help="Also write the board with arrows as SVG.")
@click.option("--json", is_flag=True, help="One JSON object, and no board.")
@DB
@question(expanded=False, calibrated=False)
def command(
    position: tuple[str, ...],
    family: bool,
    svg: str | None,
    json: bool,
    db: str,
    question: vr.Question | vr.Worst,
) -> None:
    """Show a position of the store: the board, what net and search say of it, and where it came from.

    The position is its number (position_id in vr export) or a FEN, quoted or not. Values are from the side to move.
    The squares of the net's best move are orange on a coloured board, the search's blue, those of both green; in the
    SVG these are arrows, with the move played.

    \b
    Example:
      vr show 17
      vr show 17 --svg board.svg
      vr show 17 --family
      vr show "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3" --json
    """
    from json import dumps

    from valuerepair.api.calls import resolved
    from valuerepair.report.family import family_of, lines, told
    from valuerepair.report.show import can_show, describe, encodable, shown_lines
    from valuerepair.store.store import Store

    if svg is not None and not svg.lower().endswith(".svg"):
        from valuerepair.errors import UsageError

        raise UsageError(f"--svg {svg}: its name ends in .svg")
    with Store.open(db) as store:
        asked = resolved(store, question)
        shown = describe(store, " ".join(position), asked)
        tree = family_of(store, shown["position_id"], asked) if family else []
    white_below = shown["side"] == "w"
    if svg is not None:
        _write_svg(shown, white_below, svg)
    if json:
        shown |= {"family": told(tree)} if family else {}
        click.echo(dumps(shown, indent=2))
        return
    coloured = _can_colour()
    text = [*_board(shown, white_below, coloured), "", *shown_lines(shown)]
    if family:
        text += ["", *lines(tree, shown["position_id"], asked.threshold, unicode=can_show("├●◐"))]
    # click is told to leave the escape sequences: they are the board's alone.
    click.echo(encodable("\n".join(text)), color=coloured)


def _can_colour() -> bool:
    """What the environment says (NO_COLOR and its like), or whether standard output is a terminal."""
    of_environment = click.get_current_context().color
    return sys.stdout.isatty() if of_environment is None else of_environment


def _best(shown: Mapping[str, Any], who: str) -> str | None:
    """The best move of net or search (UCI)."""
    move: Mapping[str, str] = (shown[who] or {}).get("best") or {}
    return move.get("uci")


def _board(shown: Mapping[str, Any], white_below: bool, coloured: bool) -> list[str]:
    from valuerepair.report.show import board_lines, can_show

    net, deep = _best(shown, "net"), _best(shown, "deep")
    unicode = can_show("♔♚·")
    return board_lines(shown["fen"], white_below=white_below, colours=coloured, unicode=unicode, net=net, deep=deep)


def _write_svg(shown: Mapping[str, Any], white_below: bool, path: str) -> None:
    from valuerepair import outputs
    from valuerepair.files import written_whole
    from valuerepair.report.boards import single

    played = (shown["origin"]["played"] or {}).get("uci")
    net, deep = _best(shown, "net"), _best(shown, "deep")
    drawn = single(shown["fen"], played=played, net=net, deep=deep, white_below=white_below)
    with written_whole(path, outputs.BOARD) as partial:
        partial.write_text(drawn, "utf-8")
