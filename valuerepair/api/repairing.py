"""All of it, from games to a repaired net: `repair`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from valuerepair.api.calls import Path, paths_of

if TYPE_CHECKING:
    from valuerepair.pipeline.page import RepairOutcome


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

    What is not given is what the folder's repair.toml says, else the usual: `net` maia-1900, `budget` ``1h``, `deep`
    the judge of this machine, `test_deep` the same judge at more nodes, `threshold` 0.55. `control`: also train a net
    without candidates. `store` is one that was mined already, whose copy it takes instead of
    `archives`. `normal` are training chunks of ordinary games; `cluster` is where Dask
    mines. The same call, or one with the folder alone, goes on with what an interrupted one has left.

    Returns the `RepairOutcome`: whether the net is shown to be a `better_judge` and a `better_player`, the net
    `repaired`, what was `judged` with intervals, the `matches`, the `page`; its `lines()` are what `vr repair` says.
    Raises UsageError for what makes no sense, ValueRepairError where a stage fails, whose message stands on standard
    error.
    """
    from pathlib import Path as Folder

    from valuerepair.pipeline.page import finish
    from valuerepair.pipeline.run import planned, read_settings, run

    where = None if store is None else os.fspath(store)
    given: dict[str, object] = {"store": where, "net": net, "budget": budget, "deep": deep, "test_deep": test_deep}
    given |= {"control": control, "threshold": threshold, "seed": seed}
    several = {"archives": tuple(paths_of(archives)), "normal": tuple(paths_of(normal))}
    said = {name: value for name, value in {**several, **given}.items() if value not in (None, ())}
    folder = Folder(output)
    found = planned(folder, read_settings(folder, said), cluster=cluster, quiet=quiet)
    run(found, quiet=quiet)
    return finish(found)
