"""The complete repair, from games to a repaired net: `repair`."""

from __future__ import annotations

import logging
import os
import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from valuerepair.api.calls import Path, paths_of

if TYPE_CHECKING:
    from valuerepair.pipeline.page import RepairOutcome

log = logging.getLogger(__name__)


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
