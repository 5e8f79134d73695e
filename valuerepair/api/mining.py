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
    finished,
    opened_store,
    paths_of,
    recorded_command,
    resolved,
    shown_progress,
)
from valuerepair.question import Question

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from valuerepair.archives.options import SampleOptions
    from valuerepair.mining.again import Confirmed
    from valuerepair.mining.judges import Opened
    from valuerepair.mining.neighbours import Expanded
    from valuerepair.mining.summary import MineSummary

log = logging.getLogger(__name__)


def mine(
    archives: Path | Iterable[Path],
    store: Path = "valuerepair.db",
    sample: SampleOptions | None = None,
    *,
    net: Path | None = None,
    deep: str | None = None,
    question: Question | None = None,
    screen: float | None = 0.5,
    device: str = "auto",
    cluster: str | None = None,
    limit: int | None = None,
    workers: int | None = None,
    quiet: bool = True,
) -> MineSummary:
    """Scores positions of archives by a net at one node and by a deep search, and stores the values: `vr mine`.

    `archives` are files or folders; `sample` chooses the positions, by default one of each game. `net` is a name or
    file, `deep` a deep search such as ``stockfish:nodes=100000``, None the default of this machine. `question` defines
    a candidate, and its threshold is in use from then on; None is what is in use. A twentieth of the nodes is searched
    first, and in full only what is then `screen` thresholds from the net; None: everything. `device` is where the net
    runs, `cluster` the Dask cluster that mines: ``tcp://HOST:8786``. At most `limit` deep searches are made in this
    call, `workers` of them at once; what failed in an earlier call is searched again. `quiet`: no progress on standard
    error.

    The store is made if it is missing; the same call resumes an interrupted one. An interruption (Ctrl-C) raises
    Interrupted; everything scored so far is kept. Returns the `MineSummary`, whose `lines()` are the output of
    `vr mine`. Raises UsageError for missing archives and wrong arguments, ValueRepairError for what fails later.
    """
    from valuerepair.archives.open import total_bytes
    from valuerepair.archives.options import SampleOptions
    from valuerepair.mining.judges import open_run
    from valuerepair.mining.mine import MineOptions
    from valuerepair.mining.mine import mine as scored

    paths = paths_of(archives)
    options = MineOptions(
        sample=sample or SampleOptions(),
        question=question or Question(),
        limit=limit,
        screen=screen,
        command=recorded_command("mine", *paths),
    )
    name, net_options = None if net is None else os.fspath(net), {"device": device}
    opening: AbstractContextManager[Opened]
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
        if question is None:
            options = replace(options, question=resolved(opened, None))
        else:
            opened.use(threshold=question.threshold)
        progress.stage("opening the net and the deep search")
        with opening as run:
            progress.stage("")
            summary = scored(paths, options, opened, run.net, run.judge, progress=progress)
    return finished(summary, summary.state == "interrupted")


def confirm(
    store: Path, question: Asked = None, *, deep: str | None = None, limit: int | None = None, quiet: bool = True
) -> Confirmed:
    """Searches a store's candidates again, deeper, and decides who was right: `vr confirm`.

    The second look is `deep`, by default the first one with ten times its nodes. `question.net` may be the net's file,
    for searches with it. Only the first `limit` candidates are looked at. `quiet`: no progress on standard error.

    The same call resumes an interrupted one. An interruption (Ctrl-C) raises Interrupted; every second look is kept.
    Returns a `Confirmed`: what this call searched (`done`), the `verdicts` of all looks (rates with intervals) and the
    worst `cases` in which the net was right; its `lines()` are the output of `vr confirm`. Raises UsageError for wrong
    arguments, ValueRepairError if there is no candidate.
    """
    from valuerepair.mining import again

    path = os.fspath(store)
    command = recorded_command("confirm", "--db", path)
    with (
        opened_store(path, write=True) as opened,
        shown_progress("confirming", "searches", quiet=quiet) as progress,
    ):
        asked = resolved(opened, question)
        confirmed = again.confirm(opened, asked, deep, limit=limit, command=command, progress=progress)
    return finished(confirmed, confirmed.state == "interrupted")


def expand(
    store: Path, question: Asked = None, *, positions: int | None = None, deep: str | None = None, quiet: bool = True
) -> Expanded:
    """Searches the positions around a store's candidates, and keeps the results: `vr expand`.

    `question` chooses the candidates, of which those that are held out are left alone. The search ends when this many
    `positions` around them have been searched. `deep` names the engine, if the store does not know it. `quiet`: no
    progress on standard error.

    The same call resumes an interrupted one. An interruption (Ctrl-C) raises Interrupted; everything found so far is
    kept. Returns the `Expanded`, whose `lines()` are the output of `vr expand`. Raises UsageError for wrong arguments,
    ValueRepairError if there is nothing to expand.
    """
    from valuerepair.mining import neighbours
    from valuerepair.mining.judges import open_pair_again

    path = os.fspath(store)
    command = recorded_command("expand", "--db", path)
    with (
        opened_store(path, write=True) as opened,
        shown_progress("expanding", "positions", quiet=quiet) as progress,
    ):
        asked = resolved(opened, question)
        with open_pair_again(opened, asked, deep=deep) as (net, judge):
            expanded = neighbours.expand(
                opened, net, judge, asked, positions=positions, command=command, progress=progress
            )
    return finished(expanded, expanded.state == "interrupted")
