"""Archives in, judged positions out: `mine`, `confirm`, `expand`."""

from __future__ import annotations

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
    resolved,
    shown_progress,
    split_of,
)
from valuerepair.command import recorded_command
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.question import Question, Worst

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from valuerepair.archives.options import SampleOptions
    from valuerepair.judge.split import Split
    from valuerepair.nets.heads import Heads
    from valuerepair.runs.confirmed import Confirmed
    from valuerepair.runs.evaluators import Opened, OpenedImport
    from valuerepair.runs.expansion import ExpandSummary
    from valuerepair.runs.summary import MineSummary
    from valuerepair.store.store import Store


def mine(
    archives: Path | Iterable[Path],
    store: Path = "valuerepair.db",
    sample: SampleOptions | None = None,
    *,
    net: str | None = None,
    deep: str | None = None,
    question: Asked = None,
    screen: str = "auto",
    heads: Heads | None = None,
    device: str = "auto",
    cluster: str | None = None,
    limit: int | None = None,
    retry_failed: bool = False,
    workers: int | None = None,
    quiet: bool = True,
) -> MineSummary:
    """Scores positions of archives by a net at one node and by a deep search, and keeps all in `store`: `vr mine`.

    `archives` are files or folders; `sample` says which positions, None: one of each game. `net` is a name or file,
    `deep` a deep search as ``stockfish:nodes=100000``, None what this machine has. `screen` is that of
    `vr mine`, as in ``"auto,recall=0.99"``; `question`: what counts as a candidate; its net and oracle
    are not looked at. `heads` of the net and the `device` it runs on; `cluster` is where Dask mines, as
    ``tcp://HOST:8786``. `limit`: the most deep searches to make this time; `retry_failed`: search positions again on
    which the engine failed. `workers`: searches at once. `quiet`: no progress on standard error.

    The store is made if it is not there; the same call goes on with what an interrupted one has left. An interruption
    (Ctrl-C) raises Interrupted, with everything scored so far kept. Returns the `MineSummary`, whose `lines()` are what
    `vr mine` says. Raises ValueRepairError and UsageError.
    """
    from valuerepair.archives.open import total_bytes
    from valuerepair.archives.options import SampleOptions
    from valuerepair.runs.options import MineOptions
    from valuerepair.screening.model import parse_screen

    paths = paths_of(archives)
    options = MineOptions(
        question=plain(question),
        sample=sample or SampleOptions(),
        limit=limit,
        retry_failed=retry_failed,
        screen=parse_screen(screen),
        command=recorded_command("mine", *paths),
    )
    opening = _opening(paths, net, deep, heads, device, cluster, workers)
    total_bytes(paths)  # raises for a missing file, before anything is made or loaded
    with (
        opened_store(store, create=True) as opened,
        shown_progress("mining", None, "positions", quiet=quiet, own_eta=True) as progress,
    ):
        progress.stage("opening the net and the deep search")
        with opening as run:
            options = run.fitting(options)
            if isinstance(question, Worst):
                options = replace(options, question=_by_share(opened, question, *run.names))
            summary = run.run(paths, options, opened, progress)
    return finished(summary, summary.state == "interrupted")


def _opening(
    paths: list[str],
    net: str | None,
    deep: str | None,
    heads: Heads | None,
    device: str,
    cluster: str | None,
    workers: int | None,
) -> AbstractContextManager[Opened | OpenedImport]:
    """What opens net and deep search, on this machine or on a cluster."""
    from valuerepair.nets.heads import Heads
    from valuerepair.runs.evaluators import open_run

    chosen = heads or Heads()
    net_options = {"device": device, "value_head": chosen.value, "policy_head": chosen.policy}
    if cluster is None:
        return open_run(paths, deep, net, workers, **net_options)
    from valuerepair.cluster.connection import parse_cluster
    from valuerepair.cluster.evaluators import open_on_cluster

    return open_on_cluster(parse_cluster(cluster), deep, net, workers, **net_options)


def _by_share(store: Store, asked: Worst, net: str, oracle: str) -> Question:
    """The question with the threshold that the share has in what the store holds already of these two."""
    try:
        return resolved(store, asked_with(asked, net=net, oracle=oracle))
    except ValueRepairError as error:
        raise UsageError(f"--threshold {asked}: goes by what is in the store: {error}") from None


def confirm(
    store: Path,
    question: Asked = None,
    *,
    deep: str | None = None,
    nodes: int | None = None,
    times: float | None = None,
    limit: int | None = None,
    retry_failed: bool = False,
    workers: int | None = None,
    show: int = 5,
    quiet: bool = True,
) -> Confirmed:
    """Looks at a store's candidates again by a deeper search, and says who was right: `vr confirm`.

    How deep the second look is: `nodes`, or `times` those of the first one (10 where neither is given), or by another
    search, `deep`. `question.net` may be the net's file, for searches with it. At most `limit` candidates are looked at
    this time; `retry_failed` searches again what an engine failed on. `show` of the worst cases of each verdict are in
    the report. `quiet`: no progress on standard error.

    The same call goes on with what an interrupted one has left. An interruption (Ctrl-C) raises Interrupted, with every
    second look kept. Returns a `Confirmed`: `summary` of this call, `verdicts` (rates with intervals), the whole
    `report`; its `lines()` are what `vr confirm` says. Raises ValueRepairError where there is no candidate, and
    UsageError.
    """
    from valuerepair.runs.confirm import ConfirmOptions, confirm_candidates
    from valuerepair.runs.second_oracle import Depth

    path, depth = os.fspath(store), Depth(deep, nodes, times)
    options = ConfirmOptions(limit, retry_failed, recorded_command("confirm", "--db", path))
    with (
        opened_store(path, write=True) as opened,
        shown_progress("confirming", None, "searches", quiet=quiet) as progress,
    ):
        asked = resolved(opened, question)
        confirmed = confirm_candidates(opened, asked, depth, options, workers=workers, show=show, progress=progress)
    return finished(confirmed, confirmed.summary.state == "interrupted")


def expand(
    store: Path,
    question: Asked = None,
    *,
    by: str = "line,parents,children,game",
    rounds: int = 2,
    nodes: int | None = None,
    positions: int | None = None,
    audit: float = 0.05,
    deep: str | None = None,
    workers: int | None = None,
    seed: int = 0,
    split: Split | Path | None = None,
    quiet: bool = True,
) -> ExpandSummary:
    """Goes out from a store's candidates to what lies around them, and keeps what it finds: `vr expand`.

    `question`: whose candidates, and what counts as one. `by` are the steps, `rounds` how many of them; `nodes` or
    `positions` end it, in all. `audit` is the share of inferred candidates that is searched, 1 for all. `deep` says
    where the engine is, if the store does not know. With a `split` it goes out from candidates of its part ``train``
    alone; of a split's file the store keeps a copy. The same call goes on with what an interrupted one has left. An
    interruption (Ctrl-C) raises Interrupted, with everything found so far kept. Returns the `ExpandSummary`, whose
    `lines()` are what `vr expand` says. Raises ValueRepairError and UsageError.
    """
    from valuerepair.judge.split import keep_split
    from valuerepair.runs.expand import ExpandOptions
    from valuerepair.runs.expand_store import open_expansion
    from valuerepair.runs.neighbourhood import parse_steps

    path = os.fspath(store)
    options = ExpandOptions(
        steps=parse_steps(by),
        rounds=rounds,
        nodes=nodes,
        positions=positions,
        audit=audit,
        seed=seed,
        split=split_of(split),
        command=recorded_command("expand", "--db", path),
    )
    with (
        opened_store(path, write=True) as opened,
        shown_progress("expanding", None, "positions", quiet=quiet, own_eta=True) as progress,
    ):
        asked = resolved(opened, question)
        if isinstance(split, str | os.PathLike):
            keep_split(opened, split)
        with open_expansion(opened, asked, deep=deep, workers=workers) as work:
            summary = work(options, progress)
    return finished(summary, summary.state == "interrupted")
