"""The cache folder; files and folders that appear complete or not at all; files that one process locks."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import os
import re
import secrets
import shutil
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.outputs import check_folder
from valuerepair.signals import holding, last_check
from valuerepair.text import size_words

_SYNCS = 16  # files that wait for the disk at once
_NO_FLOCK = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK)  # of file systems without locks


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
    """The folder of the cache with all its parts; it is not created."""
    if folder := os.environ.get("VALUEREPAIR_CACHE", ""):
        return Path(folder).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore relative paths.
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "valuerepair"


def file_sha256(path: str) -> str:
    """SHA-256 of a file, in hex, read in pieces. Raises ValueRepairError when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open_regular(path) as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise ValueRepairError(f"{path}: cannot read it: {error.strerror}") from None
    return digest.hexdigest()


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a regular file for reading bytes; the name may lead there by links.

    Raises OSError, and ValueRepairError for a folder, pipe or device, where reading might never begin or never end.
    """
    # Without O_NONBLOCK a named pipe would wait here for its writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
        raise ValueRepairError(f"{os.fspath(path)}: is {kind}, not a file")
    return os.fdopen(descriptor, "rb")


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file. Raises as `open_regular`, and ValueRepairError for more than `most` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, most) + 1)  # bounded also for a file that grows or reports a wrong size
    if len(content) > most:
        raise ValueRepairError(f"{os.fspath(path)}: has more than {most >> 20} MiB, which is too large for its kind")
    return content


def unpack_gzip(content: bytes, most: int) -> bytes:
    """The content of gzip data. Raises ValueError for damaged data, and for more than `most` unpacked bytes."""
    try:
        with gzip.open(io.BytesIO(content)) as packed:
            unpacked = packed.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"damaged gzip data ({error})") from None
    if len(unpacked) > most:
        raise ValueError(f"its gzip data unpacks to more than {most >> 20} MiB, which is too much for its kind")
    return unpacked


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The tables of a TOML file. Raises UsageError if it cannot be read, and for another kind of file."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            tables: dict[str, Any] = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"{os.fspath(path)}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{os.fspath(path)}: is not a TOML file: {one_line(error)}") from None
    return tables


@holding
@contextlib.contextmanager
def written_whole(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A hidden file next to `target` that becomes `target` when the block ends well, and vanishes otherwise.

    It is on the disk before it gets its name. If two processes write the same file at once, both succeed, and readers
    see one complete file or none. A link stays and its target is replaced. Raises OSError with the name of `target`,
    UsageError for a pipe or a device.
    """
    name, path = os.fspath(target), Path(os.path.realpath(target))
    if path.exists() and not path.is_file():
        raise UsageError(f"{name}: is not a file; give another name")
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))  # the umask sets its permissions
        yield partial
        sync(partial)
        os.replace(partial, path)
    except OSError as error:
        # The error of a full disk has no file name, and the name of the hidden file tells the user nothing.
        if error.errno is not None and error.filename in (None, os.fspath(partial)):
            raise type(error)(error.errno, error.strerror, name) from error
        raise
    finally:
        partial.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Waits until the file is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR)  # Windows does not sync a file that is open for reading only
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Iterable[Path]) -> None:
    """As `sync`, for many files, several at once: the disk then writes their entries together."""
    with ThreadPoolExecutor(_SYNCS) as pool:
        for _ in pool.map(sync, paths):
            pass


@holding
@contextlib.contextmanager
def claimed(path: str | os.PathLike[str]) -> Iterator[int]:
    """The descriptor of a file that is locked against other processes until the block ends; made if missing.

    The kernel unlocks it when the process dies. A file that is empty at the end is removed. Raises `HeldError` if
    another process holds the lock, OSError if the file cannot be opened (with EINVAL if it is not a regular file),
    ValueRepairError on a system or file system without such locks.
    """
    no_locks = "has no locks that end with their process (flock), which long runs need"
    try:
        import fcntl
    except ImportError:
        raise ValueRepairError(f"{path}: this system {no_locks}; use Linux, macOS, or WSL on Windows") from None
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HeldError(os.pread(descriptor, 80, 0)) from None
            except OSError as error:
                if error.errno not in _NO_FLOCK:
                    raise
                if os.fstat(descriptor).st_size == 0:
                    Path(path).unlink(missing_ok=True)
                raise ValueRepairError(f"{path}: this file system {no_locks}; give a place on another disk") from None
            # Otherwise its last holder removed the file after it was opened here: open it again.
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                try:
                    yield descriptor
                finally:
                    if os.fstat(descriptor).st_size == 0:
                        Path(path).unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)


class HeldError(Exception):
    """Another process holds the lock of a file that should be `claimed`; `content` is the beginning of the file."""

    def __init__(self, content: bytes) -> None:
        super().__init__("another process holds the file")
        self.content = content


@holding
@contextlib.contextmanager
def whole_folder(out: str | Path) -> Iterator[Path]:
    """The folder to write to; it becomes `out` when the block ends well, and vanishes otherwise.

    Its files are on the disk before it gets its name, except hard links, whose files others wrote. Raises UsageError if
    `out` is a file or a folder that is not empty, ValueRepairError if nothing can be written (no permission, disk
    full), or if another process is writing it.
    """
    check_new_folder(out)
    target = Path(os.path.realpath(out))
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    with contextlib.ExitStack() as lock:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(ValueRepairError):  # without locks, leftovers of killed runs stay
                lock.enter_context(claimed(target.with_name(f".{target.name}.lock")))
                _remove_leftovers(target)
            partial.mkdir()
        except HeldError:
            raise ValueRepairError(f"{out}: another process is writing it; give another name") from None
        except OSError as error:
            raise ValueRepairError(f"{out}: cannot be written: {error.strerror or error}") from None
        try:
            yield partial
            sync_all(path for path in partial.rglob("*") if path.is_file() and path.stat().st_nlink == 1)
            check_empty(target, out)
            last_check()
            os.rename(partial, target)
        except OSError as error:
            failed_path = error.filename or out
            raise ValueRepairError(f"{failed_path}: {error.strerror or error}; nothing was written to {out}") from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _remove_leftovers(target: Path) -> None:
    """Removes what killed runs left next to the new folder."""
    part = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{8}\.part")
    for path in target.parent.iterdir():
        if part.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def check_new_folder(out: str | os.PathLike[str], inputs: Iterable[str] = ()) -> None:
    """Raises UsageError unless `whole_folder` can make the folder: it is missing or empty, its parents are writable,
    and it does not lie in one of the `inputs`, folders that are read."""
    check_folder(out)
    target = Path(os.path.realpath(out))
    for folder in inputs:
        if Path(os.path.realpath(folder)) in target.parents:
            raise UsageError(f"{out}: lies in {folder}, which is an input; give a folder elsewhere")
    check_empty(target, out)
    if os.path.ismount(target):
        raise UsageError(f"{out}: a disk is mounted there; give a folder on it")


def check_empty(target: Path, out: str | os.PathLike[str]) -> None:
    """Raises UsageError unless `target` is free: missing, or an empty folder. `out` is the user's text."""
    if target.is_dir():
        if any(target.iterdir()):
            raise UsageError(f"{out}: the folder is not empty; give a new one")
    elif target.exists():
        raise UsageError(f"{out}: is a file, not a folder")


def check_room(target: Path, needed: int) -> None:
    """Raises ValueRepairError when `needed` bytes do not fit on the disk of `target`."""
    free = shutil.disk_usage(target).free
    if needed > free:
        raise ValueRepairError(f"{target.parent}: {size_words(needed)} are needed, {size_words(free)} are free")
