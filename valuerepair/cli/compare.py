"""`vr compare`: nets on the same positions."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import DB, JSON, OUTPUT, SPLIT, device_option, part_option, question
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@click.argument("nets", nargs=-1, required=True, metavar="OLD NEW...")
@DB
@question("|net Q - deep Q| of a candidate; a share is of the old net's positions.", net=None, expanded=None)
@SPLIT(help="A file of vr split: compare only on what it holds out.")
@part_option(help="Which held-out part", default="held-out")
@click.option(
    "--rejudge",
    metavar="SPEC",
    help="Also have a deeper oracle judge 2,000 of the positions, as --deep of `vr mine`: stockfish:nodes=1000000.",
)
@click.option("--rejudge-positions", type=int, hidden=True, help="How many, in place of 2,000.")
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    metavar="FILE",
    help="Write the positions that any net is wrong on: .parquet, .jsonl or .csv.",
)
@click.option("--plot", type=OUTPUT, metavar="FILE", help="Also draw it, as .png, .svg or .pdf.")
@device_option(reference=True)
@JSON
def command(nets: tuple[str, ...], db: str, question: vr.Question | vr.Worst, json: bool, **options: Any) -> None:
    """Compare nets on the positions of a store: who repaired what, by label, with paired intervals.

    Each NEW net is compared with the OLD one; a net is a file, a name or a SHA-256. Values that the store lacks are
    computed from the net's file and stored; stop with Ctrl-C, and the same command continues. Judge by all positions:
    the old net's candidates were chosen because they are its worst errors, and any other net looks better on them. At
    the end there is a row for each kind of position, in games and beside them, and whether the new net is the better
    judge of all of them. With --rejudge a deeper oracle judges positions again: where two nets' verdicts differ, where
    one is near the threshold, and some of all others; the nets are then compared by it, each position weighed by its
    inverse chance.

    \b
    Example:
      vr compare old.pb.gz new.pb.gz
      vr compare old.pb.gz new.pb.gz --split split.json
      vr compare old.pb.gz new.pb.gz --split split.json --rejudge stockfish:nodes=1000000
      vr compare old.pb.gz control.pb.gz new.pb.gz --split split.json --part families
      vr compare maia-1900 new.pb.gz --threshold 0.4 --plot repaired.svg -o wrong.csv
    """
    if options["rejudge_positions"] is None:
        del options["rejudge_positions"]
    print_result(lambda: vr.compare(db, nets, question, quiet=is_quiet(), **options), json)
