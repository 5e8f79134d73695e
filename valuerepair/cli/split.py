"""`vr split`: what is held out from training, to judge by."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import DB, OUTPUT, SEED
from valuerepair.cli.printing import print_result


@click.command()
@DB
@click.option("-o", "--output", type=OUTPUT, default="split.json", metavar="FILE", help="The file to write.")
@click.option("--games", default=0.15, help="Share of games to hold out.")
@click.option("--families", default=0.10, help="Share of positions to hold out by opening or material family.")
@SEED(help="Seed of the draw of games and families.")
def command(db: str, output: str, **options: Any) -> None:
    """Choose what training never sees, to judge by: games, and families of positions.

    Games are drawn by hash, so that adding games moves none to another part. Families of openings and of material are
    drawn until they hold about the given share; other positions of their games are neither trained on nor judged by.
    The values of the positions play no part in the draw. The file can be read and edited; other commands take it as
    --split. Prints the size of each part.

    \b
    Example:
      vr split -o split.json
      vr split --games 0.2 --families 0
    """
    print_result(lambda: vr.make_split(db, output, **options), of_files=True)
