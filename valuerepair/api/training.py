"""What training learns from and the training itself: `train`, `write_chunks`, `write_game_chunks`, `rescore`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from valuerepair.api.calls import Path, Stored, opened_store, paths_of
from valuerepair.question import Question

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.archives.options import SampleOptions
    from valuerepair.judge.split import Split
    from valuerepair.training.chunk_output import ChunkForm
    from valuerepair.training.game_chunks import GameChunkOptions
    from valuerepair.training.options import TrainOptions
    from valuerepair.training.rescore import Fields, Rescored
    from valuerepair.training.store_chunks import ChunkOptions

log = logging.getLogger(__name__)


def train(
    net: str,
    output: Path,
    chunks: Path | Iterable[Path] = (),
    store: Path | None = None,
    question: Question | None = None,
    options: TrainOptions | None = None,
    *,
    split: Split | None = None,
    quiet: bool = True,
) -> pd.DataFrame:
    """Trains a net (.pb.gz) on training chunks, on a store, or on both, and writes the new one to `output`: `vr train`.

    `chunks` are folders and tars, `store` a store that has values of this net; `question` says which of its positions
    are candidates (with its alpha None, by a stored fit to the slope or to results, else by 170), `options` how to
    train, as in ``TrainOptions(steps=500, only="value")``, `split` what it never sees of the store. The same call goes
    on with what an interrupted one has left. `quiet`: no progress on standard error.

    Returns the curve: a row each time the net was judged, the first of the old net: `step`, `lr`, `train_loss` (mean
    since the row before), and of games held out `loss`, `value`, `policy`, `moves_left`, `policy_kl`, `top_1`,
    `judge_move`, `mean_dq`, `rate`, `rate_calibrated`, `newly_wrong`. attrs: net, options, games, `amplitude`
    (`lambda`, and `measures` of what was written), and `written`: the step whose net was written, and by how much (`q`,
    `p`) the file is off the trained parameters. Raises ValueRepairError and UsageError.
    """
    from valuerepair.training.train import train

    paths = [] if chunks == () else paths_of(chunks)
    where = os.fspath(store) if store is not None else None
    return train(net, output, paths, where, question, options, split=split, quiet=quiet).curve


def write_chunks(
    store: Stored,
    folder: Path,
    question: Question | None = None,
    options: ChunkOptions | None = None,
    *,
    net: str | None = None,
    split: Split | None = None,
    form: ChunkForm = "tar",
    device: str = "auto",
    threads: int | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """Writes a store's judged positions as lc0's training chunks, one record each: `vr export --format chunks`.

    The positions are those that `train` learns from, by the same alpha, and their value is the judge's. `question` says
    which of them are candidates, `options` (`ChunkOptions`) which are drawn and what their records say. `net` is the
    file of the question's net, whose policy is needed (None: where the store knows it to be). With a `split` positions
    are of its part to train on, or of `options.part`. `form` is ``tar`` or ``files``; `folder` must be new, or what an
    interrupted call has left, which is gone on with. `quiet`: no progress on standard error.

    Returns what manifest.json in the folder says. Raises UsageError and ValueRepairError.
    """
    from valuerepair.chess.progress import Progress
    from valuerepair.judge.labelled import open_stored
    from valuerepair.training.store_chunks import write_chunks

    asked = question or Question()
    with opened_store(store) as opened:
        asked, said = opened.for_training(asked)
        which = opened.frame(asked, text=False, only=("position_id",)).attrs["net"]
        with (
            open_stored(opened, which, net, device=device, threads=threads) as used,
            Progress("writing", unit="chunks", quiet=quiet) as progress,
        ):
            for line in said:
                log.info(line)
            return write_chunks(opened, folder, used, asked, options, split=split, form=form, progress=progress)


def rescore(
    chunks: Path | Iterable[Path],
    store: Stored,
    out: Path,
    question: Question | None = None,
    *,
    fields: Fields = "q",
    candidates_only: bool = False,
    split: Split | None = None,
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
            question,
            fields=fields,
            candidates_only=candidates_only,
            split=split,
            quiet=quiet,
        )


def write_game_chunks(
    archives: Path | Iterable[Path],
    folder: Path,
    sample: SampleOptions | None = None,
    options: GameChunkOptions | None = None,
    *,
    net: str | None = None,
    store: Stored | None = None,
    question: Question | None = None,
    split: Split | None = None,
    form: ChunkForm = "tar",
    device: str = "auto",
    threads: int | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """Writes games of archives as training chunks, one a game, in order: `vr chunks`.

    `archives` are files or folders; `sample` says which games (its filters by headers, its share and seed), `options`
    what the records say, as in ``GameChunkOptions(policy="judge", policy_share=0.5)``. `net` gives the input format,
    and the policy where the options ask for it; what the judge of the `store` says of a position (by `question`) goes
    before the evaluation that the game holds. Games that the `split` holds out are left out. `form`: ``tar``, or
    ``files`` for a file a game. `quiet`: no progress on standard error.

    Returns what manifest.json in the folder says. The same call goes on with what an interrupted one has left. An
    interruption (Ctrl-C) ends it as a `KeyboardInterrupt`; complete tars stay. Raises ValueRepairError and UsageError.
    """
    from valuerepair.chess.progress import Progress
    from valuerepair.training.game_chunks import write_game_chunks

    with (
        nullcontext() if store is None else opened_store(store) as opened,
        Progress("chunks", None, "bytes", quiet=quiet) as progress,
    ):
        written = write_game_chunks(
            paths_of(archives),
            folder,
            sample,
            options,
            net=net,
            store=opened,
            question=question,
            split=split,
            form=form,
            device=device,
            threads=threads,
            progress=progress,
        )
    if written.manifest is None:
        raise KeyboardInterrupt
    return written.manifest
