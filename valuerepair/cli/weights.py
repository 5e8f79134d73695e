"""`vr weights`: how much each training position counts."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair import outputs
from valuerepair.cli.files import Output
from valuerepair.cli.options import CALIBRATION, FILE, JSON, NEW_FOLDER, PLOT_FILE
from valuerepair.cli.printing import fail_if_broken_off, is_quiet, print_result


@click.command()
@click.argument("chunks", type=FILE, nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--formula",
    default="diff-focus",
    metavar="NAME[:PARAMETER=VALUE,...]",
    help="diff-focus, position-sampling (lczero-training's) or soft (that of the books).",
)
@CALIBRATION
@click.option("--plot", type=PLOT_FILE, metavar="FILE", help="Also draw it, as .png, .svg or .pdf.")
@click.option(
    "--side",
    type=Output(outputs.WEIGHTS),
    metavar="FILE",
    help="Write the weights to a Parquet file: chunk, record, weight.",
)
@click.option(
    "--sampled", type=NEW_FOLDER, metavar="DIR", help="Write chunks of records drawn by weight to a new folder."
)
@click.option("--keep", type=float, help="Scale weights so that --sampled keeps this share of the positions.")
@JSON
def command(chunks: tuple[str, ...], json: bool, **options: Any) -> None:
    """Weigh training positions by what the search changed in the net's judgement.

    Prints how the weights are spread, how many positions they count for, and which ones they favour. DIR is a folder of
    lc0 training chunks of version 6 (.gz) and plain tars of them, or one such tar. With --sampled a record is kept with
    a probability of its weight; such chunks are no longer whole games, so rescore before, not after, and turn off the
    trainer's own weighting. With --calibration fitted the net's Q is replaced by the search's Q expected at that net Q,
    so that a net on another scale is not taken for a blind one.

    \b
    Example:
      vr weights mixture --plot weights.png
      vr weights mixture --formula diff-focus:min=0.1,slope=2 --side weights.parquet
      vr weights mixture --formula soft:threshold=0.3,floor=0.05 --keep 0.25 --sampled focused
    """
    writes = any(options[name] for name in ("side", "sampled", "plot"))
    result = print_result(lambda: vr.weigh_chunks(chunks, quiet=is_quiet() or json, **options), json, of_files=writes)
    fail_if_broken_off(result.broken_off)
