"""The cache folder, files and folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from valuerepair.errors import UsageError, ValueRepairError


def cache_folder(part: str) -> Path:
    """The folder of one part of the cache, made if needed.

    ``$VALUEREPAIR_CACHE``, else ``$XDG_CACHE_HOME/valuerepair``, else ``~/.cache/valuerepair``. Raises
    ValueRepairError when it cannot be made.
    """
    try:
        folder = cache_root() / part
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueRepairError(
            f"the cache folder cannot be made: {reason}; set VALUEREPAIR_CACHE to a folder you can write to"
        ) from None
    return folder


def cache_root() -> Path:
    """Where the cache lies; nothing is made."""
    if own := os.environ.get("VALUEREPAIR_CACHE", ""):
        return Path(own).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "valuerepair"


@contextlib.contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A temporary name beside `target` that becomes `target` when the block ends well, and vanishes otherwise.

    Two processes that write the same file at once both succeed; readers see one whole file or none.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # mkstemp makes private files
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


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
