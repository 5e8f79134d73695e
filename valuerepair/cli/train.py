"""`vr train`: from an old net and positions to a new net."""

from __future__ import annotations

from typing import Any, get_args

import click

import valuerepair as vr
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import (
    ALPHA,
    ARCHIVE,
    EXPANDED_TO_LEARN,
    FILE,
    ORACLE,
    SEED,
    SPLIT,
    AlphaOption,
    settings_of,
)
from valuerepair.cli.printing import fail_if_broken_off, is_quiet, print_result
from valuerepair.question import Expanded
from valuerepair.training.options import MOST_STEPS, PASSES, POLICY, SETTINGS, Only, TrainOptions

_DEFAULTS = TrainOptions()


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "net output db split steps lr only policy seed set",
        "Which values": "oracle alpha expanded control",
    },
)
@click.argument("chunks", type=ARCHIVE, nargs=-1, metavar="[CHUNKS]...")
@click.option("--net", required=True, metavar="NET", help="The net to train, a .pb.gz.")
@click.option(
    "-o",
    "--output",
    type=FILE,
    required=True,
    metavar="FILE",
    help="The new net, a .pb.gz.",
)
@click.option("--db", type=FILE, envvar="VR_DB", help="Learn the judge's values for the positions of this store.")
@SPLIT(help="A file of vr split: learn only from its part train, and from no chunk with a position that it holds out.")
@click.option("--only", type=click.Choice(get_args(Only)), default="all", help="Which parameters to train.")
@click.option(
    "--steps", type=int, help=f"Training steps.  [default: {PASSES} passes over the positions, at most {MOST_STEPS:,}]"
)
@click.option("--lr", default=_DEFAULTS.lr, help="Learning rate after the warm-up.")
@click.option(
    "--policy",
    metavar="net|judge[:SHARE]",
    help=f"Policy target of the store's positions: the old policy, with a share for the judge's best move.  "
    f"[default: {POLICY}]",
)
@click.option("--control", is_flag=True, help="Learn no candidates: what training does without them.")
@ORACLE
@ALPHA
@click.option("--expanded", type=click.Choice(get_args(Expanded)), default="no", help=EXPANDED_TO_LEARN)
@click.option(
    "--set",
    multiple=True,
    metavar="NAME=VALUE",
    help=f"A training parameter ({', '.join(SETTINGS)}); may be repeated.",
)
@SEED(help="Seed for the order of the positions.")
def command(
    chunks: tuple[str, ...],
    net: str,
    output: str,
    db: str | None,
    split: str | None,
    oracle: str | None,
    alpha: AlphaOption,
    expanded: Expanded,
    **options: Any,
) -> None:
    """Train an lc0 net: an old .pb.gz becomes a new one, on a CPU or a GPU.

    CHUNKS are folders of lc0 training chunks of version 6 (.gz) and uncompressed tars of them, as vr mix writes them;
    --db trains on mined positions, without self-play. During training the net is judged on held-out games, by all their
    positions and not only by candidates. The best net is written, with as much of its change as the held-out games
    support; lc0 reads the file again to check it. A file .training.json beside it has the options, the curve and what
    was written. Stop with Ctrl-C; the same command continues. Needs pip install 'valuerepair[train]'.

    \b
    Example:
      vr train mixture --net old.pb.gz -o new.pb.gz
      vr train --db valuerepair.db --net old.pb.gz -o new.pb.gz
      vr train --db valuerepair.db --policy judge:0.3 --set amplitude=0.5 --net old.pb.gz -o new.pb.gz
      vr train --db valuerepair.db --control --net old.pb.gz -o control.pb.gz
      vr train --db valuerepair.db --split split.json --set disagreement_weight=0.5 --net old.pb.gz -o new.pb.gz
      vr train mixture --net old.pb.gz -o new.pb.gz --only value --steps 500 --lr 5e-5 --set q_ratio=1
    """
    settings = settings_of({"set": options.pop("set")}, listed="`vr train --help` names them all")
    train_options = TrainOptions(**options).with_settings(settings)
    question = vr.Question(oracle=oracle, alpha=alpha.alpha, q_from=alpha.q_from, expanded=expanded)
    result = print_result(
        lambda: vr.train(net, output, chunks, db, question, train_options, split=split, quiet=is_quiet())
    )
    fail_if_broken_off(result.broken_off)
