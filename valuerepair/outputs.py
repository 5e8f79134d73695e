"""What may be written where: a file that exists is refused, unless a store gives it again.

A store, a net or an archive is never replaced. Commands that go on with a file of theirs (`vr selfplay`, `vr match`,
`vr train`, `vr merge`) look at it themselves.
"""

from __future__ import annotations

import os
from pathlib import Path

from valuerepair.errors import UsageError

# Pages, plots, tables and splits, which are replaced.
MADE_AGAIN = (".html", ".png", ".svg", ".pdf", ".csv", ".parquet", ".json")
PLOTS = ("png", "svg", "pdf")


def check_output(path: str | os.PathLike[str]) -> None:
    """Raises UsageError unless a file can be written at `path` without the loss of another one."""
    name = os.fspath(path)
    place = Path(os.path.realpath(path))  # a link stays, its target is replaced
    if name == "-":
        raise UsageError("-: give the name of a file")
    if place.is_dir():
        raise UsageError(f"{name}: is a folder; give the name of a file")
    if place.exists() and not (place.is_file() and name.lower().endswith(MADE_AGAIN)):
        raise UsageError(f"{name}: already exists; remove it, or give another name")
    if not place.parent.is_dir():
        raise UsageError(f"{name}: there is no folder {place.parent}; make it, or give another name")
    _check_writable(name, place.parent)


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raises UsageError unless `path` is a writable folder, or one can be made there."""
    name, place = os.fspath(path), Path(os.path.realpath(path))
    if not name:
        raise UsageError("the name of a folder is empty; give one, or . for the current one")
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        part = "" if place == Path(os.path.realpath(path)) else f"{place} "
        raise UsageError(f"{name}: {part}is a file, not a folder; give another name")
    _check_writable(name, place)


def _check_writable(name: str, folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{name}: the folder {folder} cannot be written to; give another name")
