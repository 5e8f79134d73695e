"""Archives in, judged positions out: `mine`, `confirm`, `expand`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from valuerepair.api.calls import (
    Asked,
    Path,
    asked_with,
    finished,
    opened_store,
    paths_of,
    plain,
    recorded_command,
    resolved,
    shown_progress,
    split_of,
)
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.question import Question, Worst

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from valuerepair.archives.options import SampleOptions
    from valuerepair.judge.split import Split
    from valuerepair.progress import Progress
    from valuerepair.runs.confirm import Confirmed
    from valuerepair.runs.evaluators import Opened, OpenedImport
    from valuerepair.runs.expand import ExpandOptions
    from valuerepair.runs.expansion import ExpandSummary
    from valuerepair.runs.summary import MineSummary
    from valuerepair.store.store import Store

log = logging.getLogger(__name__)


def mine(
    archives: Path | Iterable[Path],
    store: Path = "valuerepair.db",
    sample: SampleOptions | None = None,
    *,
    net: Path | None = None,
    deep: str | None = None,
    question: Asked = None,
    screen: str = "auto",
    device: str = "auto",
    cluster: str | None = None,
    limit: int | None = None,
    workers: int | None = None,
    quiet: bool = True,
) -> MineSummary:
    """Scores positions of archives by a net at one node and by a deep search, and stores the values: `vr mine`.

    `archives` are files or folders; `sample` chooses the positions, by default one of each game. `net` is a name or
    file, `deep` a deep search such as ``stockfish:nodes=100000``, None the default of this machine. `screen` is as in
    `vr mine`: ``"auto,recall=0.99"``. `question` defines a candidate; its net and oracle are ignored. `device` is where
    the net runs, `cluster` the Dask cluster that mines: ``tcp://HOST:8786``. At most `limit` deep searches are made in
    this call, `workers` of them at once; positions on which the engine failed in an earlier call are searched again.
    `quiet`: no progress on standard error.

    The store is made if it is missing; the same call resumes an interrupted one. An interruption (Ctrl-C) raises
    Interrupted; everything scored so far is kept. Returns the `MineSummary`, whose `lines()` are the output of
    `vr mine`. Raises UsageError for missing archives and wrong arguments, ValueRepairError for what fails later.
    """
    from valuerepair.archives.open import total_bytes
    from valuerepair.archives.options import SampleOptions
    from valuerepair.runs.evaluators import open_run
    from valuerepair.runs.options import MineOptions
    from valuerepair.screening.model import parse_screen

    paths = paths_of(archives)
    options = MineOptions(
        question=plain(question),
        sample=sample or SampleOptions(),
        limit=limit,
        screen=parse_screen(screen),
        command=recorded_command("mine", *paths),
    )
    name, net_options = None if net is None else os.fspath(net), {"device": device}
    opening: AbstractContextManager[Opened | OpenedImport]
    if cluster is None:
        opening = open_run(paths, deep, name, workers, **net_options)
    else:
        from valuerepair.cluster.connection import parse_cluster
        from valuerepair.cluster.evaluators import open_on_cluster

        opening = open_on_cluster(parse_cluster(cluster), deep, name, workers, **net_options)
    total_bytes(paths)  # raises for a missing file, before anything is made or loaded
    with (
        opened_store(store, create=True) as opened,
        shown_progress("mining", "positions", quiet=quiet) as progress,
    ):
        progress.stage("opening the net and the deep search")
        with opening as run:
            options = run.fitting(options)
            if isinstance(question, Worst):
                options = replace(options, question=_by_share(opened, question, *run.names))
            summary = run.run(paths, options, opened, progress)
    return finished(summary, summary.state == "interrupted")


def _by_share(store: Store, question: Worst, net: str, oracle: str) -> Question:
    """The question with a number in place of `worst:SHARE`, from the store's values of this net and oracle."""
    try:
        return resolved(store, asked_with(question, net=net, oracle=oracle), mining=True)
    except ValueRepairError as error:
        raise UsageError(f"--threshold {question}: depends on what is in the store: {error}") from None


def confirm(
    store: Path, question: Asked = None, *, deep: str | None = None, limit: int | None = None, quiet: bool = True
) -> Confirmed:
    """Searches a store's candidates again, deeper, and decides who was right: `vr confirm`.

    The second look is `deep`, by default the first one with ten times its nodes. `question.net` may be the net's file,
    for searches with it. At most `limit` candidates are searched in this call. `quiet`: no progress on standard error.

    The same call resumes an interrupted one. An interruption (Ctrl-C) raises Interrupted; every second look is kept.
    Returns a `Confirmed`: `summary` of this call, `verdicts` (rates with intervals), the whole `report`; its `lines()`
    are the output of `vr confirm`. Raises UsageError for wrong arguments, ValueRepairError if there is no candidate.
    """
    from valuerepair.runs.confirm import ConfirmOptions, confirm_candidates

    path = os.fspath(store)
    options = ConfirmOptions(limit, recorded_command("confirm", "--db", path))
    with (
        opened_store(path, write=True) as opened,
        shown_progress("confirming", "searches", quiet=quiet) as progress,
    ):
        confirmed = confirm_candidates(opened, resolved(opened, question), deep, options, progress=progress)
    return finished(confirmed, confirmed.summary.state == "interrupted")


def expand(
    store: Path,
    question: Asked = None,
    *,
    positions: int | None = None,
    deep: str | None = None,
    split: Split | Path | None = None,
    quiet: bool = True,
) -> ExpandSummary:
    """Searches the positions around a store's candidates, and keeps the results: `vr expand`.

    `question` chooses the candidates. The search ends after this many `positions` in total. `deep` names the engine, if
    the store does not know it. With a `split` only candidates of its part ``train`` are expanded; if it is given as a
    file, the store keeps a copy. `quiet`: no progress on standard error.

    The same call resumes an interrupted one. An interruption (Ctrl-C) raises Interrupted; everything found so far is
    kept. Returns the `ExpandSummary`, whose `lines()` are the output of `vr expand`. Raises UsageError for wrong
    arguments, ValueRepairError if there is nothing to expand.
    """
    from valuerepair.judge.split import keep_split, warning_of_change
    from valuerepair.runs.expand import ExpandOptions

    path = os.fspath(store)
    command = recorded_command("expand", "--db", path)
    options = ExpandOptions(positions=positions, split=split_of(split), command=command)
    with (
        opened_store(path, write=True) as opened,
        shown_progress("expanding", "positions", quiet=quiet) as progress,
    ):
        resolved_question = resolved(opened, question)
        if isinstance(split, str | os.PathLike) and options.split is not None:
            if (warning := warning_of_change(opened, options.split)) is not None:
                log.warning(warning)
            keep_split(opened, split)
        summary = _expanded(opened, resolved_question, options, progress, deep)
    return finished(summary, summary.state == "interrupted")


def _expanded(
    store: Store, question: Question, options: ExpandOptions, progress: Progress, deep: str | None
) -> ExpandSummary:
    """Expands the candidates by the search that found them."""
    import valuerepair.runs.expand
    from valuerepair.runs.evaluators import fitting_screen
    from valuerepair.runs.expansion import KnownGames
    from valuerepair.runs.stored_oracle import open_found
    from valuerepair.screening.model import ScreenOptions

    with open_found(store, question, deep=deep) as (net, opened):
        following = KnownGames.of(store, store.candidates(question)["position_id"].tolist()).following
        screen = fitting_screen(opened.identity, ScreenOptions())
        options = replace(options, question=question, screen=screen)
        return valuerepair.runs.expand.expand(store, net, opened, options, progress=progress, following=following)
