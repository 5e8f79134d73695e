"""A folder that appears whole or not at all: written under a hidden name beside its own, then renamed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from valuerepair.errors import UsageError, ValueRepairError


@contextlib.contextmanager
def whole_folder(out: str | Path) -> Iterator[Path]:
    """The folder to write to; it becomes `out` when the block ends well, and vanishes otherwise.

    Raises UsageError when `out` is a file or a folder with anything in it, ValueRepairError when nothing can be
    written (no right, no room).
    """
    target = Path(os.path.abspath(out))
    check_empty(target, out)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_left(target)
        partial = target.parent / f".{target.name}.{os.getpid()}.part"
        partial.mkdir()
    except OSError as error:
        raise ValueRepairError(f"{out}: cannot be written: {error.strerror or error}") from None
    try:
        yield partial
        check_empty(target, out)
        os.rename(partial, target)
    except OSError as error:
        where = error.filename or out
        raise ValueRepairError(f"{where}: {error.strerror or error}; nothing was written to {out}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_empty(target: Path, out: str | Path) -> None:
    """Raises UsageError unless `target` is free: missing, or an empty folder. `out` is what the user wrote."""
    if target.is_dir():
        if any(target.iterdir()):
            raise UsageError(f"{out}: the folder is not empty; give a new one")
    elif target.exists():
        raise UsageError(f"{out}: is a file, not a folder")


def check_room(target: Path, needed: int) -> None:
    """Raises ValueRepairError when `needed` bytes do not fit on the disk of `target`."""
    free = shutil.disk_usage(target).free
    if needed > free:
        raise ValueRepairError(f"{target.parent}: {_size(needed)} are needed, {_size(free)} are free")


def _size(number: int) -> str:
    return f"{number / 1e9:,.2f} GB" if number >= 1e9 else f"{number / 1e6:,.2f} MB"


def _clear_left(target: Path) -> None:
    """Removes what a killed run left: hidden folders of this name whose process is gone."""
    for left in target.parent.glob(f".{target.name}.*.part"):
        pid = left.name.removesuffix(".part").rpartition(".")[2]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
