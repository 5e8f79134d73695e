"""`vr remeasure`: the same positions under several nets."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import (
    DB,
    JSON,
    OUTPUT,
    SPLIT,
    device_option,
    part_option,
    question,
)
from valuerepair.cli.printing import is_quiet, print_result
from valuerepair.errors import UsageError

# Options that need another option: its name, and what its value is.
_OWNERS = {
    "rejudge_positions": ("rejudge", "SPEC"),
}


@click.command()
@click.option(
    "--net",
    multiple=True,
    help="A net by file, name or SHA-256; give at least two, the first is A.",
)
@DB
@question("|net Q - deep Q| of a candidate; a share is of A's positions.", net=None, expanded=None)
@SPLIT(help="A file of vr split: compare only on what it holds out.")
@part_option(help="Which held-out part", default="held-out")
@click.option("--plot", type=OUTPUT, metavar="FILE", help="Also draw it, as .png, .svg or .pdf.")
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    metavar="FILE",
    help="Write the positions that any net is wrong on: .parquet, .jsonl or .csv.",
)
@click.option(
    "--rejudge",
    metavar="SPEC",
    help="Also have a deeper oracle judge some of the positions, as --deep of `vr mine`: stockfish:nodes=1000000.",
)
@click.option("--rejudge-positions", type=int, metavar="N", help="Positions to judge again.  [default: 2000]")
@click.option("--all", is_flag=True, help="Include positions that screening cut, with the value of their last rung.")
@device_option(reference=True)
@JSON
def command(
    net: tuple[str, ...],
    db: str,
    question: vr.Question | vr.Worst,
    output: str | None,
    json: bool,
    **options: Any,
) -> None:
    """Compare nets on the positions of a store: who repaired what, by label, with paired intervals.

    Every net is compared with the first, A. Values that the store lacks are computed from the net's file and stored;
    stop with Ctrl-C, and the same command continues. Judge by all positions: A's candidates were chosen because they
    are A's worst errors, and any other net looks better on them. At the end there is a row for each kind of position,
    in games and beside them, and whether B is the better judge of all of them. With --rejudge a deeper oracle judges
    positions again: where two nets' verdicts differ, where one is near the threshold, and some of all others; the nets
    are then compared by it, each position weighed by its inverse chance.

    \b
    Example:
      vr remeasure --net old.pb.gz --net new.pb.gz
      vr remeasure --net old.pb.gz --net new.pb.gz --split split.json
      vr remeasure --net old.pb.gz --net new.pb.gz --split split.json --rejudge stockfish:nodes=1000000
      vr remeasure --net old.pb.gz --net control.pb.gz --net new.pb.gz --split split.json --part families
      vr remeasure --net maia-1900 --net new.pb.gz --threshold 0.4 --plot repaired.svg -o wrong.csv
    """
    for name, (owner, value) in _OWNERS.items():
        if options[name] is not None and options[owner] is None:
            raise UsageError(f"--{name.replace('_', '-')}: belongs to --{owner} {value}")
    rejudge = None
    if (judge := options["rejudge"]) is not None:
        rejudge = vr.RejudgeOptions(judge, **_positions(options["rejudge_positions"]))
    print_result(
        lambda: vr.remeasure(
            db,
            net,
            question,
            split=options["split"],
            part=options["part"],
            cut=options["all"],
            rejudge=rejudge,
            output=output,
            plot=options["plot"],
            device=options["device"],
            quiet=is_quiet(),
        ),
        json,
    )


def _positions(count: int | None) -> dict[str, int]:
    return {} if count is None else {"positions": count}
