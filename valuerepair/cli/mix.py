"""`vr mix`: repair games and normal games in one set of training data."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import FILE, NEW_FOLDER, SEED
from valuerepair.cli.printing import fail_if_broken_off, is_quiet, print_result
from valuerepair.training.options import SHARE_OF_GAMES


@click.command()
@click.option(
    "--repair", multiple=True, type=FILE, required=True, metavar="DIR", help="Chunks of games from repair books."
)
@click.option("--normal", multiple=True, type=FILE, required=True, metavar="DIR", help="Chunks of other self-play.")
@click.option("--share", type=float, default=SHARE_OF_GAMES, help="Share of repair games in the mixture.")
@click.option("-o", "--output", type=NEW_FOLDER, required=True, metavar="DIR", help="A new or empty folder.")
@SEED(help="Seed of the choice and order of games.")
def command(repair: tuple[str, ...], normal: tuple[str, ...], share: float, output: str, seed: int) -> None:
    """Mix training chunks of repair games with those of normal games, in a given share.

    DIR is a folder of lc0 training chunks of version 6 (.gz) and plain tars of them, or one such tar. The mixture is
    the largest with this share, in tars for lczero-training's loader. Repair games have fewer positions, as the book's
    plies are not recorded, so the share is printed by games and by positions. Games are drawn and shuffled by seed and
    content; manifest.json says what is in the mixture.

    \b
    Example:
      vr mix --repair repair-chunks --normal lc0-data --share 0.40 -o mixture
    """
    result = print_result(
        lambda: vr.mix(repair, normal, output, share=share, seed=seed, quiet=is_quiet()), of_files=True
    )
    fail_if_broken_off(result.broken_off)
