"""Training: its data (`write_chunks`, `write_game_chunks`, `mix`, `rescore`, `weigh_chunks`) and `train`."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from valuerepair import signals
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
from valuerepair.store import db_option
from valuerepair.training.options import SHARE_OF_GAMES

if TYPE_CHECKING:
    from valuerepair.archives.options import SampleOptions
    from valuerepair.judge.split import Split
    from valuerepair.nets.options import Heads
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
    net: Path,
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

    `chunks` are folders and tars, `store` a store that has values of this net; `question` chooses the candidates among
    its positions (the question's net is ignored, and alpha None means that of all commands, `Store.alpha`); `options`
    say how to train, as in ``TrainOptions(steps=500, only="value")``; training never sees the held-out positions of
    `split`. The same call resumes an interrupted one. `quiet`: no progress on standard error.

    Returns the `Training`; its `lines()` are the output of `vr train`. Its `curve` is a frame with a row each time the
    net was judged, the first of the old net: `step`, `lr`, `train_loss` (mean since the row before), and for held-out
    games `loss`, `value`, `policy`, `moves_left`, `policy_kl`, `top_1`, `judge_move`, `mean_dq`, `rate`,
    `newly_wrong`. Its `about`: net, options, games, `amplitude` (`lambda`, and `measures` of the
    written net), and `written`: the step whose net was written, and the difference (`q`, `p`) of the file from the
    trained parameters. Raises UsageError, also for a net without values in the store, and ValueRepairError.
    """
    from valuerepair.training.options import TrainOptions
    from valuerepair.training.train import train

    options = options or TrainOptions()
    store_path = None if store is None else os.fspath(store)
    held_out = split_of(split)
    net = os.fspath(net)
    resolved_question = _question_for_net(net, store_path, question, options.heads)
    try:
        training = train(
            net,
            os.fspath(output),
            paths_of(chunks),
            store_path,
            resolved_question,
            options,
            split=held_out,
            quiet=quiet,
        )
    except KeyboardInterrupt:
        if not signals.is_stage():
            log.info("not done yet: run the same command again to resume")
        raise
    changed = training.about["written"]["changed"]
    if store_path is None or not isinstance(split, str | os.PathLike) or not changed:
        return training
    return replace(training, next_step=_comparison(net, os.fspath(output), store_path, os.fspath(split), training))


def _question_for_net(net: str, store: str | None, question: Asked, heads: Heads) -> Question:
    """The resolved question about the net that is trained; without a store only its threshold counts."""
    from valuerepair.nets.registry import locate
    from valuerepair.nets.weights import read_net_file

    path = str(locate(net))
    file = read_net_file(path)
    # The store has the values of the default heads under the file's name.
    question = asked_with(question, net=file.sha256 + heads.variant if heads.variant else path)
    if store is not None:
        with opened_store(store) as opened:
            if file.header is not None:  # else it cannot be trained at all, as `train` reports
                _check_has_values(opened, plain(question).net, path)
            return resolved(opened, question)
    if isinstance(question, Worst):
        raise UsageError(f"--threshold {question}: is a share of a store's positions; give a number, or --store")
    return Question(threshold=question.threshold)


def _check_has_values(store: Store, net: str | None, path: str) -> None:
    """Raises UsageError for a net without values in the store."""
    from valuerepair.judge.compared_nets import measuring_command

    store.pick()  # raises for an empty store, which lacks more than this net
    try:
        store.pick(net)
    except ValueRepairError:
        words = measuring_command(store, path)
        raise UsageError(f"{path}: {store.path} has no values of this net; first run: {words}") from None


def _comparison(net: str, output: str, store: str, split: str, training: Training) -> str:
    """The command that compares the new net with the old one, on positions that training did not see, by the alpha of
    the training."""
    words = ["vr", "remeasure", "--net", net, "--net", output, "--split", split, *db_option(store)]
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

    The positions are those that `train` learns from, by the same alpha, with the judge's value. `question` chooses the
    candidates among them, `options` (`ChunkOptions`) the positions to draw and the contents of their records. `net` is
    the file of the question's net, whose policy is needed (None: the question's own, or the path in the store). With a
    `split` positions are of its part for training, or of `options.part`. `form` is ``tar`` or ``files``; `folder` must
    be new, or that of an interrupted call, which resumes. `quiet`: no progress on standard error.

    Returns the content of manifest.json in the folder. Raises UsageError and ValueRepairError.
    """
    from valuerepair.judge.labelled import open_stored
    from valuerepair.judge.split import PARTS, TRAIN, check_part
    from valuerepair.outputs import check_folder
    from valuerepair.training.store_chunks import summary, write_chunks

    check_folder(folder)
    if options is not None and options.part != PARTS[TRAIN]:
        check_part(options.part, split)
    held_out = split_of(split)
    with opened_store(store) as opened:
        training_question, remarks = opened.for_training(resolved(opened, question))
        identity = opened.frame(training_question, text=False, only=("position_id",)).attrs["net"]
        with (
            open_stored(opened, identity, net or plain(question).net, device=device, threads=threads) as used,
            shown_progress("writing", "chunks", quiet=quiet) as progress,
        ):
            for line in remarks:
                log.info(line)
            manifest = write_chunks(
                opened, folder, used, training_question, options, split=held_out, form=form, progress=progress
            )
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
    """Puts the judge's values into existing training chunks: `vr rescore`.

    `chunks` are folders and tars of lc0's training chunks; `out` is a new folder, which gets all of them under their
    names. Records of positions that are judged in the store get the judge's value in `fields`: ``q`` (best_*, root_*,
    and played_* shifted with them), ``result`` (result_*) or ``both``; all others stay byte for byte. `question`
    chooses the values, by the alpha of `train`; with `candidates_only` those of its candidates alone. With a `split`
    only positions of its part for training give their values. Returns the `Rescored`, whose `lines()` are the output of
    `vr rescore`. Raises UsageError and ValueRepairError.
    """
    from valuerepair.training.rescore import rescore

    with opened_store(store) as opened:
        return rescore(
            paths_of(chunks),
            opened,
            os.fspath(out),
            resolved(opened, question),
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

    `repair` and `normal` are folders and tars of lc0's training chunks. `share` is the share of repair games in the
    mixture, counted `by` ``games`` or ``positions``; the mixture has at most `total` of them, None: the largest mixture
    of that share. `form` is ``tar``, or ``links`` for folders of hard links. Games are drawn and shuffled by `seed` and
    content. Returns the `Mixture`: `manifest` is the content of manifest.json, `lines()` are the output of `vr mix`.
    Raises UsageError and ValueRepairError.
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
    """Weighs the positions of training chunks by how much the search changed the net's judgement: `vr weights`.

    `chunks` are folders and tars of lc0's training chunks; `formula` is ``diff-focus``, ``position-sampling`` or
    ``soft``, with its parameters as in ``diff-focus:min=0.1,slope=2``. With `calibration` ``fitted`` the search's Q
    expected given the net's Q replaces the net's Q. `plot` is a file (.png, .svg, .pdf) for a figure, `side` one
    (.parquet) for the weights, `sampled` a new folder for chunks of records drawn by weight, about the share `keep` of
    all (None: by the unscaled weights). Returns the `WeighedChunks`: `measured` and, with `sampled`, the `manifest`;
    its `lines()` are the output of `vr weights`. Raises UsageError and ValueRepairError.
    """
    from valuerepair.files import check_new_folder
    from valuerepair.training.weighted import WeighedChunks, measure, write_sampled
    from valuerepair.training.weights import formula_text, parse_formula

    chosen = parse_formula(formula)
    if keep is not None and (sampled is None or not 0 < keep <= 1):
        raise UsageError(f"--keep {keep:g}: needs --sampled, and must be above 0 and at most 1")
    # A wrong argument is reported before many games are read.
    if sampled is not None:
        check_new_folder(sampled, paths_of(chunks))
    if plot is not None:
        from valuerepair.report import style

        style.format_of(plot)
    weights_file = None if side is None else os.fspath(side)
    measured = measure(paths_of(chunks), chosen, weights_file, calibration=calibration, quiet=quiet)
    if plot is not None:
        from valuerepair.report.training import draw_weights

        style.save(draw_weights(measured.tally, formula_text(chosen)), plot)
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
    """Writes games of archives as training chunks, one for each game, in order: `vr chunks`.

    `archives` are files or folders; `sample` chooses the games (filters by headers, share and seed), `options` the
    contents of the records, as in ``GameChunkOptions(policy="judge", policy_share=0.5)``. `net` gives the input format,
    and the policy if the options need it; values by the judge of the `store` (by `question`) take precedence over the
    evaluations in the game. Games that the `split` holds out are skipped. `form`: ``tar``, or ``files`` for a file for
    each game. `quiet`: no progress on standard error.

    The same call resumes an interrupted one. An interruption (Ctrl-C) raises Interrupted, with all complete tars kept.
    Returns the `GameChunksSummary`: `manifest` is the content of manifest.json in the folder, `report` describes the
    reading; its `lines()` are the output of `vr chunks`. Raises ValueRepairError and UsageError.
    """
    from valuerepair.training.game_chunks import write_game_chunks

    with (
        nullcontext() if store is None else opened_store(store) as opened,
        shown_progress("chunks", "bytes", quiet=quiet) as progress,
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
