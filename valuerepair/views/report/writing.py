"""Writing a page: what a store holds -> one HTML file, which appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.store.queries import QFrom, check_threshold
from valuerepair.views.report.content import content_of
from valuerepair.views.report.document import document
from valuerepair.views.report.points import DEFAULT_POINTS, choose
from valuerepair.views.report.steps import Steps
from valuerepair.views.report.texts import OF_ALL, with_texts

if TYPE_CHECKING:
    from valuerepair.store import Store


@dataclass(frozen=True, slots=True)
class Written:
    """What a page holds: `positions` with a disagreement, `shown` of them, `candidates` among all; `size` in bytes."""

    positions: int
    shown: int
    candidates: int
    size: int


def write(
    store: Store,
    path: str | os.PathLike[str],
    *,
    net: str | None = None,
    oracle: str | None = None,
    alpha: float | None = None,
    q_from: QFrom = "cp",
    threshold: float = 0.55,
    points: int = DEFAULT_POINTS,
    seed: int = 0,
    on_step: Callable[[str, float], None] = lambda step, done: None,
) -> Written:
    """Writes the report on what `net` and `oracle` (default: the pair with most) have scored as one HTML file.

    At most about `points` positions are shown one by one (`points.choose`); figures are of all. `on_step` is told what
    comes next and the share of the work that is done (`steps`). Raises UsageError for a threshold outside (0, 2] or too
    few points, ValueRepairError when nothing is scored, OSError when the folder cannot be written.
    """
    check_threshold(threshold)
    if points < 1:
        raise UsageError(f"--points {points}: must be at least 1")
    with _replaced(Path(path)) as partial:
        with _unchanging(store):
            begin = Steps(store, points, on_step).begin
            begin("values")
            frame = store.frame(net, oracle, alpha, q_from, only=OF_ALL)
            every = frame[~np.isnan(frame["disagreement"])]
            if every.empty:
                other = "wdl" if q_from == "cp" else "cp"
                raise ValueRepairError(
                    f"nothing to report: none of the {len(frame):,} positions has a deep score from {q_from}; "
                    f"try --q-from {other}"
                )
            shown = choose(every, threshold, points, seed)
            begin("positions")
            rows = with_texts(store, every.iloc[shown.rows])
            content = content_of(store, every, shown, rows, threshold, begin)
        partial.write_bytes(document(content))
        size = partial.stat().st_size
    candidates = int((every["disagreement"].abs() >= threshold).sum())
    return Written(len(every), len(shown.rows), candidates, size)


@contextmanager
def _unchanging(store: Store) -> Iterator[None]:
    """All questions within see the same state, whatever a writer commits meanwhile."""
    if store.connection.in_transaction:
        yield
        return
    store.connection.execute("BEGIN")
    try:
        yield
    finally:
        store.connection.execute("COMMIT")


@contextmanager
def _replaced(target: Path) -> Iterator[Path]:
    """A file beside `target` that takes its place when all went well."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.absolute().parent)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(target)) from None
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        umask = os.umask(0)
        os.umask(umask)
        partial.chmod(0o666 & ~umask)  # mkstemp makes private files
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
