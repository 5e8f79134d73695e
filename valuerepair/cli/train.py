"""`vr train`: from an old net and positions to a new net."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, get_args

import click

from valuerepair import outputs
from valuerepair.cli.files import Output
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import ARCHIVE, FILE, JSON, SEED, SPLIT, QuestionOptions, head_options, question, split_of
from valuerepair.cli.verbosity import is_quiet
from valuerepair.nets.heads import Heads
from valuerepair.question import Question
from valuerepair.store import DEFAULT_PATH
from valuerepair.training.options import MOST_STEPS, PASSES, POLICY, Average, Only, TrainOptions

if TYPE_CHECKING:
    from valuerepair.store.store import Store
    from valuerepair.training.train import Training

_DEFAULTS = TrainOptions()


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "net output store split steps batch lr only seed",
        "Which positions": "threshold expanded share candidates weights draw",
        "Targets": "oracle alpha calibration q-ratio policy policy-kl",
        "Learning": "warmup schedule l2 average",
        "Judging on the way": "holdout every patience",
        "Net": "value-head policy-head",
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
@SPLIT(help="A file of vr split: learn only from its part train, of which --holdout is a share.")
@click.option("--only", type=click.Choice(get_args(Only)), default="all", help="Which parameters change.")
@click.option(
    "--steps", type=int, help=f"Training steps.  [default: {PASSES} passes over the positions, at most {MOST_STEPS:,}]"
)
@click.option("--batch", default=_DEFAULTS.batch, help="Positions per step.")
@click.option("--lr", default=_DEFAULTS.lr, help="Learning rate after the warm-up.")
@click.option(
    "--warmup", type=int, help="Steps in which the learning rate rises.  [default: 100, at most a fifth of all]"
)
@click.option(
    "--schedule",
    default=_DEFAULTS.schedule,
    help="How the rate falls: cosine, or to a tenth at these steps (1500,1800).",
)
@click.option(
    "--policy",
    metavar="net|judge[:SHARE]",
    help=f"The store's positions teach the old policy, with a share for the judge's best move.  [default: {POLICY}]",
)
@click.option(
    "--policy-kl",
    type=float,
    help="Weight of the KL divergence from that policy, or from the old one.  [default: 1 with --store, else 0]",
)
@click.option(
    "--q-ratio",
    default=_DEFAULTS.q_ratio,
    help="For chunks: share of the search's Q in the value target.",
)
@click.option(
    "--average",
    type=click.Choice(get_args(Average)),
    default="none",
    help="Write an average of the parameters.",
)
@click.option("--weights", metavar="FORMULA", help="A formula of vr weights, or the .parquet that its --side wrote.")
@click.option("--l2", default=_DEFAULTS.l2, help="Weight of L2 regularisation.")
@click.option(
    "--share",
    type=float,
    help="Draw candidates as this share of positions, and weigh their values back.  [default: as they come]",
)
@click.option("--candidates", type=int, help="Train on this many candidates, drawn by --seed.  [default: all]")
@click.option(
    "--draw",
    type=FILE,
    metavar="FILE.parquet",
    help="Draw the store's positions by these weights, and weigh their values back.",
)
@click.option("--holdout", default=_DEFAULTS.holdout, help="Share of the games to judge by, not to train on.")
@click.option("--every", type=int, help="Steps between judgements.  [default: a twentieth of --steps]")
@click.option("--patience", default=_DEFAULTS.patience, help="Stop after this many judgements without gain; 0: never.")
@head_options
@question(net="The net to train, a .pb.gz.", auto="a stored fit to results or slope, else 170")
@SEED(help="Seed for the order of the positions.")
@JSON
def command(
    chunks: tuple[str, ...],
    output: str,
    store: str | None,
    split: str | None,
    question: QuestionOptions,
    json: bool,
    **given: Any,
) -> None:
    """Train a net: from an old .pb.gz to a new one that lc0 plays, on a CPU or a GPU.

    CHUNKS are folders of lc0 training chunks of version 6 (.gz) and plain tars of them, as vr mix makes them; --store
    trains on mined positions, without self-play. The net is judged on the way on games held out, by all positions and
    not only by candidates. Of the change to the best of these nets as much is written as those games support; the
    file is read again by lc0 and compared. Stop with Ctrl-C; the same command continues. Needs
    pip install 'valuerepair[train]'.

    \b
    Example:
      vr train mixture --net old.pb.gz -o new.pb.gz
      vr train --store valuerepair.db --net old.pb.gz -o new.pb.gz
      vr train --store valuerepair.db --policy judge:0.3 --net old.pb.gz -o new.pb.gz
      vr train --store valuerepair.db --share 0 --net old.pb.gz -o control.pb.gz
      vr train --store valuerepair.db --split split.json --net old.pb.gz -o new.pb.gz
      vr train mixture --net old.pb.gz -o new.pb.gz --only value --steps 500 --average ema
    """
    from json import dumps

    from valuerepair.errors import UsageError
    from valuerepair.training.train import train

    if question.net is None:
        raise UsageError("--net: which net is to be trained?")
    options = TrainOptions(**{each.name: given[each.name] for each in fields(TrainOptions)})
    kept = split_of(split)
    asked = _resolved(question, store, options.heads)
    found = train(question.net, output, chunks, store, asked, options, split=kept, quiet=is_quiet() or json)
    if json:
        click.echo(dumps({**found.about, "curve": found.rows}, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join([*found.lines(), *_next(question.net, output, store, split, found)]))


def _next(net: str, output: str, store: str | None, split: str | None, found: Training) -> list[str]:
    """The comparison of the new net with the old one, on what training did not see, by the alpha that it learned."""
    if store is None or split is None:
        return []
    words = ["vr remeasure --net", shlex.quote(net), "--net", shlex.quote(output), "--split", shlex.quote(split)]
    if store != DEFAULT_PATH:
        words += ["--db", shlex.quote(store)]
    if (alpha := found.about["options"]["alpha"]) is not None:
        words += ["--alpha", f"{alpha:g}"]
    return [f"next: {' '.join(words)}"]


def _resolved(question: QuestionOptions, store: str | None, heads: Heads) -> Question:
    """The question to the store about the net that is trained; without a store only its threshold counts."""
    from valuerepair.errors import UsageError
    from valuerepair.nets.registry import locate
    from valuerepair.nets.weights import read_net_file
    from valuerepair.store.store import Store

    path = str(locate(question.net))
    file = read_net_file(path)
    # By the file's name a store has the values of the usual heads.
    asked = replace(question, net=file.sha256 + heads.variant if heads.variant else path)
    if store is not None:
        with Store.open(store) as opened:
            if file.header is not None:  # else it cannot be trained at all, which `train` says
                _check_known(opened, asked.net, path)
            return asked.to_train_by(opened)
    if not isinstance(asked.threshold, float):
        raise UsageError(f"--threshold {asked.threshold}: is a share of a store's positions; give a number, or --store")
    return Question(threshold=asked.threshold)


def _check_known(store: Store, net: str | None, path: str) -> None:
    """Raises UsageError for a net that the store has no values of."""
    from valuerepair.errors import UsageError, ValueRepairError

    known, _ = store.names(*store.pick())
    try:
        store.pick(net)
    except ValueRepairError:
        names = store.nets().set_index("sha256")["name"]
        first = str(names[known]) if names.tolist().count(names[known]) == 1 else known[:12]
        words = shlex.join(["vr", "remeasure", "--db", store.path, "--net", first, "--net", path])
        raise UsageError(f"{path}: {store.path} has no values of this net; first run: {words}") from None
