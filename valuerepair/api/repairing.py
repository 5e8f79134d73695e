"""The complete repair, from games to a repaired net: `repair`, and its plan: `plan_repair`."""

from __future__ import annotations

import logging
import os
import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from valuerepair.api.calls import Path, paths_of
from valuerepair.errors import UsageError

if TYPE_CHECKING:
    from valuerepair.pipeline.page import RepairOutcome
    from valuerepair.pipeline.run import Repair

log = logging.getLogger(__name__)


def repair(
    archives: Path | Iterable[Path] = (),
    net: str | None = None,
    output: Path = "repair",
    *,
    budget: str | None = None,
    deep: str | None = None,
    test_deep: str | None = None,
    control: bool | None = None,
    threshold: float | None = None,
    normal: Path | Iterable[Path] = (),
    seed: int | None = None,
    store: Path | None = None,
    cluster: str | None = None,
    quiet: bool = True,
) -> RepairOutcome:
    """Repairs a net from games to a report, in the folder `output`: `vr repair`, whose commands it runs as processes.

    Missing arguments come from the folder's repair.toml, else they have their defaults: `net` maia-1900, `budget`
    ``1h``, `deep` the judge of this machine, `test_deep` the same judge at more nodes, `threshold` 0.55, `seed` 0, or
    for a net in the folder of another repair one more than its seed. `control`: also train a net without candidates.
    `store` is a store that is already mined; a copy of it replaces `archives`. `normal` are training chunks of ordinary
    games; `cluster` is where Dask mines. The same call, or one with the folder alone, resumes an interrupted one.

    Returns the `RepairOutcome`: whether the net is shown to be a `better_judge` and a `better_player`, the net
    `repaired`, the comparisons (`judged`) with intervals, the `matches`, the `page`; its `lines()` are the output of
    `vr repair`. Raises UsageError for invalid arguments, ValueRepairError if a stage fails, whose message is on
    standard error.
    """
    from valuerepair.pipeline.page import finish
    from valuerepair.pipeline.run import run

    planned = _planned(
        output, cluster, quiet, archives, normal, store, net=net, budget=budget, deep=deep, test_deep=test_deep,
        control=control, threshold=threshold, seed=seed,
    )  # fmt: skip
    for line in planned.lines():
        log.info(line)
    try:
        run(planned, quiet=quiet)
    except KeyboardInterrupt:
        log.info(f"not done yet: vr repair -o {os.fspath(output)} resumes it")
        raise
    return finish(planned)


def plan_repair(
    archives: Path | Iterable[Path] = (),
    net: str | None = None,
    output: Path = "repair",
    *,
    budget: str | None = None,
    deep: str | None = None,
    test_deep: str | None = None,
    control: bool | None = None,
    threshold: float | None = None,
    normal: Path | Iterable[Path] = (),
    seed: int | None = None,
    store: Path | None = None,
    cluster: str | None = None,
    quiet: bool = True,
) -> Repair:
    """The plan of `repair` for the same arguments, with its times: `vr repair --plan`.

    Measures the speed of this machine unless the folder has it, and runs nothing. A plan may take longer than the
    budget: if that is too small, it is the shortest one. Returns the `Repair`, whose `lines()` and `as_json()` are the
    output of `vr repair --plan`. Raises UsageError and ValueRepairError if something would not run.
    """
    return _planned(
        output, cluster, quiet, archives, normal, store, net=net, budget=budget, deep=deep, test_deep=test_deep,
        control=control, threshold=threshold, seed=seed, for_display=True,
    )  # fmt: skip


def _planned(
    output: Path,
    cluster: str | None,
    quiet: bool,
    archives: Path | Iterable[Path],
    normal: Path | Iterable[Path],
    store: Path | None,
    *,
    for_display: bool = False,
    **settings: Any,
) -> Repair:
    from valuerepair.pipeline.run import planned, read_settings

    settings |= {"archives": tuple(paths_of(archives)), "normal": tuple(paths_of(normal))}
    settings |= {"store": store and os.fspath(store)}
    folder = pathlib.Path(output)
    chosen = read_settings(folder, {name: value for name, value in settings.items() if value not in (None, ())})
    if cluster is not None and chosen.store:
        raise UsageError("--cluster: is for mining, and with --store nothing is mined")
    return planned(folder, chosen, cluster=cluster, quiet=quiet, for_display=for_display)
