"""`vr weights`: how much each training position counts."""

from __future__ import annotations

import click

from valuerepair import outputs
from valuerepair.cli.files import Output
from valuerepair.cli.options import CALIBRATION, FILE, JSON, NEW_FOLDER, PLOT_FILE
from valuerepair.cli.verbosity import is_quiet
from valuerepair.question import Calibrated


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
def command(
    chunks: tuple[str, ...],
    formula: str,
    calibration: Calibrated,
    plot: str | None,
    side: str | None,
    sampled: str | None,
    keep: float | None,
    json: bool,
) -> None:
    """Weigh training positions by what the search changed in the net's judgement.

    Prints how the weights are spread, how many positions they count for, and which ones they favour. DIR is a folder of
    lc0 training chunks of version 6 (.gz) and plain tars of them, or one such tar. With --sampled a record is kept with
    a probability of its weight; such chunks are no longer whole games, so rescore before, not after, and turn off the
    trainer's own weighting. With --calibration fitted the net's Q is replaced by the search's Q to be expected given
    it, so that a net on another scale is not taken for a blind one.

    \b
    Example:
      vr weights mixture --plot weights.png
      vr weights mixture --formula diff-focus:min=0.1,slope=2 --side weights.parquet
      vr weights mixture --formula soft:threshold=0.3,floor=0.05 --keep 0.25 --sampled focused
    """
    from json import dumps

    from valuerepair.errors import UsageError
    from valuerepair.files import check_new_folder
    from valuerepair.training.weighted import measure, write_sampled
    from valuerepair.training.weights import lines, parse_formula, written

    chosen = parse_formula(formula)
    if keep is not None and (sampled is None or not 0 < keep <= 1):
        raise UsageError(f"--keep {keep:g}: goes with --sampled, and lies above 0 and not above 1")
    # What is wrong with the command line is said before many games are read.
    if sampled is not None:
        check_new_folder(sampled)
    if plot is not None:
        from valuerepair.report import style

        style.format_of(plot)
    found = measure(chunks, chosen, side, calibration=calibration, quiet=is_quiet() or json)
    if plot is not None:
        from valuerepair.report import weights_plot

        style.save(weights_plot.draw(found.tally, written(chosen)), plot)
    result = found.as_json()
    if sampled is not None:
        result = write_sampled(found, sampled, keep=keep, quiet=is_quiet() or json)
    if json:
        click.echo(dumps(result, indent=2, ensure_ascii=False))
    elif not (is_quiet() and (side or sampled or plot)):
        curve = (found.calibration.words(),) if found.calibration is not None else ()
        for line in (written(chosen), *curve, *lines(result, found.tally.kept(result.get("factor", 1.0)))):
            click.echo(line)
        if found.left_out.reasons:
            click.echo(f"left out: {found.left_out}; first: {found.left_out.examples[0]}")
        if sampled is not None:
            click.echo(f"{sampled}: {result['kept']['positions']:,} positions of {result['kept']['games']:,} games")
