"""What training learns from (`write_chunks`, `write_game_chunks`, `mix`, `rescore`, `weigh_chunks`) and `train`."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from valuerepair.api.calls import (
    Asked,
    Path,
    Stored,
    asked_with,
    finished,
    opened_store,
    paths_of,
    plain,
    resolved,
    shown_progress,
    split_of,
)
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.question import Calibrated, Question, Worst
from valuerepair.store import DEFAULT_PATH
from valuerepair.training.options import SHARE_OF_GAMES

if TYPE_CHECKING:
    from valuerepair.archives.options import SampleOptions
    from valuerepair.judge.split import Split
    from valuerepair.nets.heads import Heads
    from valuerepair.store.store import Store
    from valuerepair.training.chunk_output import ChunkForm
    from valuerepair.training.game_chunks import GameChunkOptions, GameChunksSummary
    from valuerepair.training.mix import By, Form, Mixture
    from valuerepair.training.options import TrainOptions
    from valuerepair.training.rescore import Fields, Rescored
    from valuerepair.training.store_chunks import ChunkOptions
    from valuerepair.training.train import Training
    from valuerepair.training.weighted import WeighedChunks

log = logging.getLogger(__name__)


def train(
    net: str,
    output: Path,
    chunks: Path | Iterable[Path] = (),
    store: Path | None = None,
    question: Asked = None,
    options: TrainOptions | None = None,
    *,
    split: Split | Path | None = None,
    quiet: bool = True,
) -> Training:
    """Trains a net (.pb.gz) on training chunks, on a store, or on both, and writes the new one to `output`: `vr train`.

    `chunks` are folders and tars, `store` a store that has values of this net; `question` says which of its positions
    are candidates (its net is not looked at; with its alpha None, by a stored fit to the slope or to results, else by
    170), `options` how to train, as in ``TrainOptions(steps=500, only="value")``, `split` what it never sees of the
    store. The same call goes on with what an interrupted one has left. `quiet`: no progress on standard error.

    Returns the `Training`; its `lines()` are what `vr train` says. Its `curve` is a frame with a row each time the net
    was judged, the first of the old net: `step`, `lr`, `train_loss` (mean since the row before), and of games held out
    `loss`, `value`, `policy`, `moves_left`, `policy_kl`, `top_1`, `judge_move`, `mean_dq`, `rate`, `rate_calibrated`,
    `newly_wrong`. Its `about`: net, options, games, `amplitude` (`lambda`, and `measures` of what was written), and
    `written`: the step whose net was written, and by how much (`q`, `p`) the file is off the trained parameters.
    Raises UsageError, also for a net that the store has no values of, and ValueRepairError.
    """
    from valuerepair.training.options import TrainOptions
    from valuerepair.training.train import train

    options = options or TrainOptions()
    paths = [] if chunks == () else paths_of(chunks)
    where = None if store is None else os.fspath(store)
    held_out = split_of(split)
    asked = _about_net(net, where, question, options.heads)
    training = train(net, os.fspath(output), paths, where, asked, options, split=held_out, quiet=quiet)
    if where is None or not isinstance(split, str | os.PathLike):
        return training
    return replace(training, next_step=_comparison(net, os.fspath(output), where, os.fspath(split), training))


def _about_net(net: str, store: str | None, asked: Asked, heads: Heads) -> Question:
    """The question about the net that is trained, resolved; without a store only its threshold counts."""
    from valuerepair.nets.registry import locate
    from valuerepair.nets.weights import read_net_file

    path = str(locate(net))
    file = read_net_file(path)
    # By the file's name a store has the values of the usual heads.
    asked = asked_with(asked, net=file.sha256 + heads.variant if heads.variant else path)
    if store is not None:
        with opened_store(store) as opened:
            if file.header is not None:  # else it cannot be trained at all, which `train` says
                _check_known(opened, plain(asked).net, path)
            return resolved(opened, asked, to_train=True)
    if isinstance(asked, Worst):
        raise UsageError(f"--threshold {asked}: is a share of a store's positions; give a number, or --store")
    return Question(threshold=asked.threshold)


def _check_known(store: Store, net: str | None, path: str) -> None:
    """Raises UsageError for a net that the store has no values of."""
    known, _ = store.names(*store.pick())
    try:
        store.pick(net)
    except ValueRepairError:
        names = store.nets().set_index("sha256")["name"]
        first = str(names[known]) if names.tolist().count(names[known]) == 1 else known[:12]
        words = shlex.join(["vr", "remeasure", "--db", store.path, "--net", first, "--net", path])
        raise UsageError(f"{path}: {store.path} has no values of this net; first run: {words}") from None


def _comparison(net: str, output: str, store: str, split: str, training: Training) -> str:
    """The command that compares the new net with the old one, on what training did not see, by the alpha that it
    learned."""
    words = ["vr", "remeasure", "--net", net, "--net", output, "--split", split]
    if store != DEFAULT_PATH:
        words += ["--db", store]
    if (alpha := training.about["options"]["alpha"]) is not None:
        words += ["--alpha", f"{alpha:g}"]
    return shlex.join(words)


def write_chunks(
    store: Stored,
    folder: Path,
    question: Asked = None,
    options: ChunkOptions | None = None,
    *,
    net: str | None = None,
    split: Split | Path | None = None,
    form: ChunkForm = "tar",
    device: str = "auto",
    threads: int | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """Writes a store's judged positions as lc0's training chunks, one record each: `vr export --format chunks`.

    The positions are those that `train` learns from, by the same alpha, and their value is the judge's. `question` says
    which of them are candidates, `options` (`ChunkOptions`) which are drawn and what their records say. `net` is the
    file of the question's net, whose policy is needed (None: the question's own, or where the store knows it to be).
    With a `split` positions are of its part to train on, or of `options.part`. `form` is ``tar`` or ``files``; `folder`
    must be new, or what an interrupted call has left, which is gone on with. `quiet`: no progress on standard error.

    Returns what manifest.json in the folder says. Raises UsageError and ValueRepairError.
    """
    from valuerepair.judge.labelled import open_stored
    from valuerepair.outputs import check_folder
    from valuerepair.training.store_chunks import summary, write_chunks

    check_folder(folder)
    held_out = split_of(split)
    with opened_store(store) as opened:
        asked, said = opened.for_training(resolved(opened, question, to_train=True))
        which = opened.frame(asked, text=False, only=("position_id",)).attrs["net"]
        with (
            open_stored(opened, which, net or plain(question).net, device=device, threads=threads) as used,
            shown_progress("writing", None, "chunks", quiet=quiet) as progress,
        ):
            for line in said:
                log.info(line)
            manifest = write_chunks(opened, folder, used, asked, options, split=held_out, form=form, progress=progress)
    for line in summary(manifest, folder):
        log.info(line)
    return manifest


def rescore(
    chunks: Path | Iterable[Path],
    store: Stored,
    out: Path,
    question: Asked = None,
    *,
    fields: Fields = "q",
    candidates_only: bool = False,
    split: Split | Path | None = None,
    quiet: bool = True,
) -> Rescored:
    """Puts the judge's values into training chunks that exist: `vr rescore`.

    `chunks` are folders and tars of lc0's training chunks; `out` is a new folder, which gets all of them under their
    names. Records of positions that the store has judged get the judge's value in `fields`: ``q`` (best_*, root_*, and
    played_* moved with them), ``result`` (result_*) or ``both``; all others stay to the byte. `question` says whose
    values, by the alpha that `train` learns by; with `candidates_only` its candidates alone. With a `split` only
    positions of its part to train on give their values. Returns the `Rescored`, whose `lines()` are what `vr rescore`
    says. Raises UsageError and ValueRepairError.
    """
    from valuerepair.training.rescore import rescore

    with opened_store(store) as opened:
        return rescore(
            paths_of(chunks),
            opened,
            os.fspath(out),
            resolved(opened, question, to_train=True),
            fields=fields,
            candidates_only=candidates_only,
            split=split_of(split),
            quiet=quiet,
        )


def mix(
    repair: Path | Iterable[Path],
    normal: Path | Iterable[Path],
    folder: Path,
    *,
    share: float = SHARE_OF_GAMES,
    by: By = "games",
    form: Form = "tar",
    total: int | None = None,
    seed: int = 0,
    quiet: bool = True,
) -> Mixture:
    """Mixes chunks of games from repair books with those of other games, in the new folder `folder`: `vr mix`.

    `repair` and `normal` are folders and tars of lc0's training chunks. `share` is that of the repair games in the
    mixture, counted `by` ``games`` or ``positions``; `total` is how many of them the mixture has at most, None: the
    largest mixture of that share. `form` is ``tar``, or ``links`` for folders of hard links. Games are drawn and
    shuffled by `seed` and content. Returns the `Mixture`: `manifest` is the content of manifest.json, `lines()` are
    what `vr mix` says. Raises UsageError and ValueRepairError.
    """
    from valuerepair.training.mix import MixOptions, Mixture, mix

    options = MixOptions(tuple(paths_of(repair)), tuple(paths_of(normal)), share, by, form, total, seed=seed)
    return Mixture(os.fspath(folder), mix(options, os.fspath(folder), quiet=quiet))


def weigh_chunks(
    chunks: Path | Iterable[Path],
    formula: str = "diff-focus",
    *,
    calibration: Calibrated = "none",
    plot: Path | None = None,
    side: Path | None = None,
    sampled: Path | None = None,
    keep: float | None = None,
    quiet: bool = True,
) -> WeighedChunks:
    """Weighs the positions of training chunks by what the search changed in the net's judgement: `vr weights`.

    `chunks` are folders and tars of lc0's training chunks; `formula` is ``diff-focus``, ``position-sampling`` or
    ``soft``, with its parameters as in ``diff-focus:min=0.1,slope=2``. With `calibration` ``fitted`` the net's Q is
    replaced by the search's Q to be expected given it. `plot` is a file (.png, .svg, .pdf) for a figure, `side` one
    (.parquet) for the weights, `sampled` a new folder for chunks of records drawn by weight, of which it has about the
    share `keep` (None: by the weights as they are). Returns the `WeighedChunks`: `measured` and, with `sampled`, the
    `manifest`; its `lines()` are what `vr weights` says. Raises UsageError and ValueRepairError.
    """
    from valuerepair.files import check_new_folder
    from valuerepair.training.weighted import WeighedChunks, measure, write_sampled
    from valuerepair.training.weights import parse_formula, written

    chosen = parse_formula(formula)
    if keep is not None and (sampled is None or not 0 < keep <= 1):
        raise UsageError(f"--keep {keep:g}: goes with --sampled, and lies above 0 and not above 1")
    # What is wrong with the call is said before many games are read.
    if sampled is not None:
        check_new_folder(sampled)
    if plot is not None:
        from valuerepair.report import style

        style.format_of(plot)
    weights_file = None if side is None else os.fspath(side)
    measured = measure(paths_of(chunks), chosen, weights_file, calibration=calibration, quiet=quiet)
    if plot is not None:
        from valuerepair.report import weights_plot

        style.save(weights_plot.draw(measured.tally, written(chosen)), plot)
    if sampled is None:
        return WeighedChunks(measured)
    folder = os.fspath(sampled)
    return WeighedChunks(measured, folder, write_sampled(measured, folder, keep=keep, quiet=quiet))


def write_game_chunks(
    archives: Path | Iterable[Path],
    folder: Path,
    sample: SampleOptions | None = None,
    options: GameChunkOptions | None = None,
    *,
    net: str | None = None,
    store: Stored | None = None,
    question: Question | None = None,
    split: Split | Path | None = None,
    form: ChunkForm = "tar",
    device: str = "auto",
    threads: int | None = None,
    quiet: bool = True,
) -> GameChunksSummary:
    """Writes games of archives as training chunks, one a game, in order: `vr chunks`.

    `archives` are files or folders; `sample` says which games (its filters by headers, its share and seed), `options`
    what the records say, as in ``GameChunkOptions(policy="judge", policy_share=0.5)``. `net` gives the input format,
    and the policy where the options ask for it; what the judge of the `store` says of a position (by `question`) goes
    before the evaluation that the game holds. Games that the `split` holds out are left out. `form`: ``tar``, or
    ``files`` for a file a game. `quiet`: no progress on standard error.

    The same call goes on with what an interrupted one has left. An interruption (Ctrl-C) raises Interrupted, with all
    complete tars kept. Returns the `GameChunksSummary`: `manifest` is the content of manifest.json in the folder,
    `report` says what was read; its `lines()` are what `vr chunks` says. Raises ValueRepairError and UsageError.
    """
    from valuerepair.training.game_chunks import write_game_chunks

    with (
        nullcontext() if store is None else opened_store(store) as opened,
        shown_progress("chunks", None, "bytes", quiet=quiet) as progress,
    ):
        written = write_game_chunks(
            paths_of(archives),
            folder,
            sample,
            options,
            net=net,
            store=opened,
            question=question,
            split=split_of(split),
            form=form,
            device=device,
            threads=threads,
            progress=progress,
        )
    return finished(written, written.interrupted)
