"""`vr train`: from an old net and positions to a new net."""

from __future__ import annotations

from typing import Any, get_args

import click

import valuerepair as vr
from valuerepair import outputs
from valuerepair.cli.files import Output
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import (
    ARCHIVE,
    FILE,
    HEADS,
    SEED,
    SPLIT,
    question,
    settings_of,
)
from valuerepair.cli.printing import print_result
from valuerepair.cli.verbosity import is_quiet
from valuerepair.errors import UsageError
from valuerepair.training.options import MOST_STEPS, PASSES, POLICY, SETTINGS, Only, TrainOptions

_DEFAULTS = TrainOptions()


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "net output store split steps lr only seed set",
        "Which positions": "threshold expanded share draw",
        "Targets": "oracle alpha calibration policy heads",
    },
)
@click.argument("chunks", type=ARCHIVE, nargs=-1, metavar="[CHUNKS]...")
@click.option(
    "-o",
    "--output",
    type=Output(outputs.NET, regular=True),
    required=True,
    metavar="FILE",
    help="The new net, a .pb.gz.",
)
@click.option("--store", type=FILE, metavar="DB", help="Learn the oracle's values of this store's positions.")
@SPLIT(help="A file of vr split: learn only from its part train.")
@click.option("--only", type=click.Choice(get_args(Only)), default="all", help="Which parameters change.")
@click.option(
    "--steps", type=int, help=f"Training steps.  [default: {PASSES} passes over the positions, at most {MOST_STEPS:,}]"
)
@click.option("--lr", default=_DEFAULTS.lr, help="Learning rate after the warm-up.")
@click.option(
    "--policy",
    metavar="net|judge[:SHARE]",
    help=f"The store's positions teach the old policy, with a share for the judge's best move.  [default: {POLICY}]",
)
@click.option(
    "--share",
    type=float,
    help="Draw candidates as this share of positions, and weigh their values back.  [default: as they come]",
)
@click.option(
    "--draw",
    type=FILE,
    metavar="FILE.parquet",
    help="Draw the store's positions by these weights, and weigh their values back.",
)
@HEADS
@question(net="The net to train, a .pb.gz.", auto="a stored fit to results or slope, else 170")
@click.option(
    "--set",
    multiple=True,
    metavar="NAME=VALUE",
    help=f"A parameter of training, of {', '.join(SETTINGS)}; may be repeated.",
)
@SEED(help="Seed for the order of the positions.")
def command(
    chunks: tuple[str, ...],
    output: str,
    store: str | None,
    split: str | None,
    question: vr.Question | vr.Worst,
    **given: Any,
) -> None:
    """Train a net: from an old .pb.gz to a new one that lc0 plays, on a CPU or a GPU.

    CHUNKS are folders of lc0 training chunks of version 6 (.gz) and plain tars of them, as vr mix makes them; --store
    trains on mined positions, without self-play. The net is judged on the way on games held out, by all positions and
    not only by candidates. Of the change to the best of these nets as much is written as those games support; the
    file is read again by lc0 and compared. Beside it lies a .training.json: options, curve, and what was written. Stop
    with Ctrl-C; the same command continues. Needs pip install 'valuerepair[train]'.

    \b
    Example:
      vr train mixture --net old.pb.gz -o new.pb.gz
      vr train --store valuerepair.db --net old.pb.gz -o new.pb.gz
      vr train --store valuerepair.db --policy judge:0.3 --net old.pb.gz -o new.pb.gz
      vr train --store valuerepair.db --share 0 --net old.pb.gz -o control.pb.gz
      vr train --store valuerepair.db --split split.json --net old.pb.gz -o new.pb.gz
      vr train mixture --net old.pb.gz -o new.pb.gz --only value --steps 500 --set q_ratio=1
    """
    net = (question.question if isinstance(question, vr.Worst) else question).net
    if net is None:
        raise UsageError("--net: which net is to be trained?")
    heads: vr.Heads = given.pop("heads")
    settings = settings_of({"set": given.pop("set")}, listed="`vr train --help` names them all")
    options = TrainOptions(**given, value_head=heads.value, policy_head=heads.policy).with_settings(settings)
    print_result(lambda: vr.train(net, output, chunks, store, question, options, split=split, quiet=is_quiet()))
