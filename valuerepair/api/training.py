"""Training: its data (`write_chunks`, `mix`) and `train`; and `repair`, from games to a repaired net."""

from __future__ import annotations

import logging
import os
import pathlib
import shlex
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from valuerepair import stop
from valuerepair.api.calls import (
    Path,
    Stored,
    finished,
    opened_store,
    paths_of,
    resolved,
    shown_progress,
)
from valuerepair.errors import UsageError, ValueRepairError, check_word
from valuerepair.question import Question
from valuerepair.store import DEFAULT_PATH, db_option
from valuerepair.store.alpha import for_training
from valuerepair.store.pairs import pick
from valuerepair.store.view import frame
from valuerepair.training.options import SHARE_OF_GAMES, parse_policy

if TYPE_CHECKING:
    from valuerepair.archives.options import SampleOptions
    from valuerepair.pipeline.page import RepairOutcome
    from valuerepair.store.store import Store
    from valuerepair.training.game_chunks import GameChunksSummary, PolicyFrom
    from valuerepair.training.mix import Mixture
    from valuerepair.training.options import TrainOptions
    from valuerepair.training.rescore import Rescored
    from valuerepair.training.store_chunks import Result, StoreChunks
    from valuerepair.training.train import Training

    Chunks: TypeAlias = GameChunksSummary | Rescored | StoreChunks

log = logging.getLogger(__name__)


def train(
    net: Path,
    output: Path,
    chunks: Path | Iterable[Path] = (),
    store: Path | None = None,
    question: Question | None = None,
    options: TrainOptions | None = None,
    *,
    quiet: bool = True,
) -> Training:
    """Trains a net (.pb.gz) on training chunks, on a store, or on both, and writes the new one to `output`: `vr train`.

    `chunks` are folders and tars, `store` a store that has values of this net; `question` says whose values are learned
    (its net and threshold are ignored, and alpha None means that of all commands); `options` say how to train, as in
    ``TrainOptions(steps=500, only="value")``. Training never sees what the store holds out; the default split is made
    if there is none. The same call resumes an interrupted one. `quiet`: no progress on standard error.

    Returns the `Training`; its `lines()` are the output of `vr train`. Its `curve` is a frame with a row each time the
    net was judged, the first of the old net: `step`, `lr`, `train_loss` (mean since the row before), and for held-out
    games `loss`, `value`, `policy`, `moves_left`, `policy_kl`, `judge_move`, `mean_dq`, `rate`. Its `about`: net,
    options, games, `amplitude` (`lambda`, and `measures` of the written net), and `written`: the step whose net was
    written, and the difference (`q`, `p`) of the file from the trained parameters. Raises UsageError, also for a net
    without values in the store, and ValueRepairError.
    """
    from valuerepair.training.options import TrainOptions
    from valuerepair.training.train import train

    options = options or TrainOptions()
    store_path = None if store is None else os.fspath(store)
    net = os.fspath(net)
    resolved_question = _question_for_net(net, store_path, question or Question())
    try:
        training = train(
            net,
            os.fspath(output),
            paths_of(chunks),
            store_path,
            resolved_question,
            options,
            quiet=quiet,
        )
    except KeyboardInterrupt:
        if not stop.is_stage():
            log.info("not done yet: run the same command again to resume")
        raise
    changed = training.about["written"]["changed"]
    if store_path is None or not changed:
        return training
    return replace(training, next_step=shlex.join(["vr", "compare", net, os.fspath(output), *db_option(store_path)]))


def _question_for_net(net: str, store: str | None, question: Question) -> Question:
    """The resolved question about the net that is trained."""
    from valuerepair.nets.registry import locate
    from valuerepair.nets.weights import read_net_file

    path = str(locate(net))
    file = read_net_file(path)
    question = replace(question, net=path)
    if store is None:
        return question
    with opened_store(store) as opened:
        if file.header is not None:  # else it cannot be trained at all, as `train` reports
            _check_has_values(opened, path)
        return resolved(opened, question)


def _check_has_values(store: Store, path: str) -> None:
    """Raises UsageError for a net without values in the store."""
    from valuerepair.measure.compared_nets import measuring_command

    pick(store)  # raises for an empty store, which lacks more than this net
    try:
        pick(store, path)
    except ValueRepairError:
        words = measuring_command(store, path)
        raise UsageError(f"{path}: {store.path} has no values of this net; first run: {words}") from None


def write_chunks(
    sources: Path | Iterable[Path],
    folder: Path,
    *,
    store: Stored | None = None,
    net: Path | None = None,
    question: Question | None = None,
    policy: str | None = None,
    result: Result | None = None,
    sample: SampleOptions | None = None,
    quiet: bool = True,
) -> Chunks:
    """Writes lc0's training chunks with the judge's values into the new folder `folder`: `vr chunks`.

    `sources` are archives: each game becomes a chunk (`training.game_chunks`); or training chunks: they are written
    again under their names (`training.rescore`); or none: each judged position of the store becomes a chunk of one
    record (`training.store_chunks`), as `train` learns from it. `store` has the judge's values, None: for games none,
    else the store in the working folder. `question` chooses them, by the alpha of `train`. `net` gives the input format
    and the policy; None: for a store its own net. `policy` is ``played`` (the default for games), ``net`` (that for a
    store), or ``judge``, with ``judge:0.3`` for a share of it in the default; chunks keep theirs. `result` is ``game``,
    or ``judge`` (the default for a store): a win, draw or loss drawn by the judge's W/D/L. `sample` chooses games by
    their headers. What the store holds out is not written; the default split is made if there is none. `quiet`: no
    progress on standard error.

    The same call resumes an interrupted one of games or a store. An interruption (Ctrl-C) raises Interrupted, with all
    complete tars kept. The result has `lines()`, the output of `vr chunks`, and `broken_off`, archives that break off.
    Raises ValueRepairError and UsageError.
    """
    from valuerepair.files import check_folder
    from valuerepair.training.chunk_files import hold_chunks

    paths, question = paths_of(sources), question or Question()
    net = None if net is None else os.fspath(net)
    if result is not None:
        check_word("--result", result, ("game", "judge"))
    if sample is not None and (not paths or hold_chunks(paths)):
        raise UsageError("--min-elo, --time-control: choose games of archives; there are none")
    check_folder(folder)
    if not paths:
        return _store_chunks(folder, store or DEFAULT_PATH, net, question, policy, result, quiet)
    if hold_chunks(paths):
        if policy is not None or net is not None:
            raise UsageError(
                f"--{'net' if policy is None else 'policy'}: training chunks keep their policies and planes"
            )
        return _rescored(paths, folder, store or DEFAULT_PATH, question, result, quiet)
    if result == "judge":
        raise UsageError("--result judge: chunks of games have the games' results")
    return _game_chunks(paths, folder, store, net, question, policy, sample, quiet)


def _store_chunks(
    folder: Path,
    store: Stored,
    net: str | None,
    question: Question,
    policy: str | None,
    result: Result | None,
    quiet: bool,
) -> StoreChunks:
    from valuerepair.mining.judges import open_net_again
    from valuerepair.training.judged import open_to_learn
    from valuerepair.training.store_chunks import write_store_chunks

    _, share = parse_policy(policy or "net", "net", "judge")
    with open_to_learn(store) as opened:
        used, notes = for_training(opened, resolved(opened, replace(question, net=net or question.net)))
        identity = frame(opened, used, text=False, only=("position_id",)).attrs["net"]
        with (
            open_net_again(opened, identity, net or question.net) as opened_net,
            shown_progress("writing", "chunks", quiet=quiet) as progress,
        ):
            for line in notes:
                log.info(line)
            return write_store_chunks(
                opened,
                folder,
                opened_net,
                used,
                policy_share=share,
                result=result or "judge",
                progress=progress,
            )


def _rescored(
    chunks: list[str],
    folder: Path,
    store: Stored,
    question: Question,
    result: Result | None,
    quiet: bool,
) -> Rescored:
    from valuerepair.training.judged import open_to_learn
    from valuerepair.training.rescore import rescore

    with open_to_learn(store) as opened, shown_progress("rescoring", "bytes", quiet=quiet) as progress:
        used, notes = for_training(opened, resolved(opened, question))
        for line in notes:
            log.info(line)
        return rescore(chunks, opened, os.fspath(folder), used, result=result or "game", progress=progress)


def _game_chunks(
    archives: list[str],
    folder: Path,
    store: Stored | None,
    net: str | None,
    question: Question,
    policy: str | None,
    sample: SampleOptions | None,
    quiet: bool,
) -> GameChunksSummary:
    from valuerepair.training.game_chunks import write_game_chunks
    from valuerepair.training.judged import open_to_learn

    played: PolicyFrom = "played"
    policy_from, share = parse_policy(policy or played, played, "net", "judge")
    with (
        nullcontext() if store is None else open_to_learn(store) as opened,
        shown_progress("chunks", "bytes", quiet=quiet) as progress,
    ):
        written = write_game_chunks(
            archives,
            folder,
            sample,
            policy=policy_from,
            policy_share=share,
            net=net,
            store=opened,
            question=question,
            progress=progress,
        )
    return finished(written, written.interrupted)


def mix(
    repair: Path | Iterable[Path],
    normal: Path | Iterable[Path],
    folder: Path,
    *,
    share: float = SHARE_OF_GAMES,
    seed: int = 0,
    quiet: bool = True,
) -> Mixture:
    """Mixes chunks of games from repair books with those of other games, in the new folder `folder`: `vr mix`.

    `repair` and `normal` are folders and tars of lc0's training chunks. `share` is the share of repair games in the
    mixture, which is the largest with that share. Games are drawn and shuffled by `seed` and content. Returns the
    `Mixture`: `manifest` is the content of manifest.json, `lines()` are the output of `vr mix`. Raises UsageError and
    ValueRepairError.
    """
    from valuerepair.training.mix import mix

    return mix(paths_of(repair), paths_of(normal), os.fspath(folder), share=share, seed=seed, quiet=quiet)


def repair(
    archives: Path | Iterable[Path] = (),
    net: str | None = None,
    output: Path = "repair",
    *,
    deep: str | None = None,
    positions: int | None = None,
    control: bool | None = None,
    seed: int | None = None,
    db: Path | None = None,
    quiet: bool = True,
) -> RepairOutcome:
    """Repairs a net from games to a report, in the folder `output`: `vr repair`, whose commands it runs as processes.

    Missing arguments come from the folder's repair.toml, else they have their defaults: `net` maia-1900, `deep` the
    judge of this machine, `positions` 50,000 (all other sizes are in proportion), `seed` 0. `control`: also train a net
    without candidates. `db` is a store that is already mined; a copy of it replaces `archives`. The same call, or one
    with the folder alone, resumes an interrupted one.

    Returns the `RepairOutcome`: whether the net is shown to be a `better_judge` and a `better_player`, the net
    `repaired`, the comparisons (`judged`) with intervals, the `matches`, the `page`; its `lines()` are the output of
    `vr repair`. Raises UsageError for invalid arguments, ValueRepairError if a stage fails, whose message is on
    standard error.
    """
    from valuerepair.pipeline.page import finish
    from valuerepair.pipeline.run import Repair, read_settings, run

    folder = pathlib.Path(output)
    values: dict[str, Any] = {
        "archives": tuple(paths_of(archives)), "net": net, "deep": deep, "positions": positions, "control": control,
        "seed": seed, "db": db and os.fspath(db),
    }  # fmt: skip
    given = {name: value for name, value in values.items() if value not in (None, ())}
    repair = Repair.of(folder, read_settings(folder, given))
    try:
        run(repair, quiet=quiet)
    except KeyboardInterrupt:
        log.info(f"not done yet: vr repair -o {os.fspath(output)} resumes it")
        raise
    return finish(repair)
