"""Files: what may be written where, files and folders that appear whole or not at all, locks, the cache folder."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import itertools
import json
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from valuerepair import stop
from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.text import size_words

# Pages, plots, tables and results, which the same command gives again. A store, a net or an archive is never replaced.
MADE_AGAIN = (".html", ".png", ".svg", ".pdf", ".csv", ".parquet", ".json")
PLOTS = ("png", "svg", "pdf")
MOST_UNPACKED = 64 << 20  # bytes, for packed files of any size
# Python before any import: -c and -m would take a chess.py from the working folder.
NOT_FROM_HERE = "import sys; sys.path[:] = filter(None, sys.path)"
VR = (sys.executable, "-c", f"{NOT_FROM_HERE}; from valuerepair.__main__ import main; main()")

# -- reading ----------------------------------------------------------------------------------------------------------


def file_sha256(path: str) -> str:
    """SHA-256 of a file, in hex, read in pieces. Raises ValueRepairError when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise ValueRepairError(f"{path}: cannot read it: {error.strerror}") from None
    return digest.hexdigest()


_PACKERS = {b"PK\x03\x04": "zip", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!\x1a\x07": "rar"}


def check_input(path: str) -> None:
    """Raises UsageError for an address, and for a file that a packer of many files made: zip, 7z, rar.

    Others pass, also if there is no such file.
    """
    if path.startswith(("http://", "https://", "ftp://")):
        raise UsageError(f"{path}: is an address; download it first, then give the file")
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        head = file.read(6)
    for magic, name in _PACKERS.items():
        if head.startswith(magic):
            raise UsageError(f"{path}: is a {name} archive: unpack it first, then give what was in it")


def unpack_gzip(content: bytes) -> bytes:
    """The content of gzip data. Raises ValueError for damaged data, and for more than 64 MiB and 16 times its size:
    weights shrink to a sixteenth at most, and a stranger's file must not fill the memory."""
    most = MOST_UNPACKED + 16 * len(content)
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


def read_json(path: str | os.PathLike[str], expected: str) -> dict[str, Any]:
    """The object in a JSON file that is `expected`, such as ``a scheduler file``.

    Raises OSError if the file cannot be read, ValueRepairError if it holds something else.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueRepairError(f"{os.fspath(path)}: is not {expected}: {one_line(error)}") from None
    if not isinstance(content, dict):
        raise ValueRepairError(f"{os.fspath(path)}: is not {expected}")
    return content


# -- what may be written where ----------------------------------------------------------------------------------------


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
    check_folder(place.parent, name)


def check_folder(path: str | os.PathLike[str], name: str = "") -> None:
    """Raises UsageError, which begins with `name` or the path, unless `path` is a writable folder, or can be made."""
    name, place = name or os.fspath(path), Path(os.path.realpath(path))
    if not name:
        raise UsageError("the name of a folder is empty; give one, or . for the current one")
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise UsageError(f"{name}: {place} is a file, not a folder; give another name")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{name}: the folder {place} cannot be written to; give another name")


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
    """Raises UsageError unless `target` is missing or an empty folder. `out` is the user's text."""
    if target.exists() and not target.is_dir():
        raise UsageError(f"{out}: is a file, not a folder")
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{out}: the folder is not empty; give a new one")


def check_room(target: Path, needed: int) -> None:
    """Raises ValueRepairError when `needed` bytes do not fit on the disk of `target`."""
    free = shutil.disk_usage(target).free
    if needed > free:
        raise ValueRepairError(f"{target.parent}: {size_words(needed)} are needed, {size_words(free)} are free")


# -- files and folders that appear whole ------------------------------------------------------------------------------

# Machines may share a folder: only this one knows which of its own processes live.
_HOST = f"{zlib.crc32(platform.node().encode()):08x}"
_RUN = f"{os.getpid()}-{secrets.token_hex(3)}"
_PART = re.compile(rf"\..+\.{_HOST}-((\d+)-[0-9a-f]{{6}})-\d+\.part")
_numbers = itertools.count()
_tidied = set[Path]()


def partial_beside(target: Path) -> Path:
    """A new hidden name beside `target`, for what is not whole yet. Removes what dead processes left beside it."""
    folder = target.parent
    if folder not in _tidied and folder.is_dir():
        _tidied.add(folder)
        for entry in os.scandir(folder):
            if (part := _PART.fullmatch(entry.name)) and part[1] != _RUN and not _is_alive(int(part[2])):
                _remove(Path(entry.path))
    return target.with_name(f".{target.name}.{_HOST}-{_RUN}-{next(_numbers)}.part")


def _is_alive(process: int) -> bool:
    if process == os.getpid():  # a dead one had the same number
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


@contextmanager
def written_whole(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A hidden file next to `target` that becomes `target` when the block ends well, and vanishes otherwise.

    It is on the disk before it gets its name. If two processes write the same file at once, both succeed, and readers
    see one complete file or none. A link stays and its target is replaced. Raises OSError with the name of `target`,
    UsageError for a pipe or a device.
    """
    name, path = os.fspath(target), Path(os.path.realpath(target))
    if path.exists() and not path.is_file():
        raise UsageError(f"{name}: is not a file; give another name")
    partial = partial_beside(path)
    with stop.undoing(lambda: _remove(partial)):
        try:
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))  # the umask sets its permissions
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(partial, path)
        except OSError as error:
            # The error of a full disk has no file name, and the name of the hidden file tells the user nothing.
            if error.errno is not None and error.filename in (None, os.fspath(partial)):
                raise type(error)(error.errno, error.strerror, name) from error
            raise
        finally:
            _remove(partial)


@contextmanager
def whole_folder(out: str | Path) -> Iterator[Path]:
    """The folder to write to; it becomes `out` when the block ends well, and vanishes otherwise.

    Raises UsageError if `out` is a file or a folder that is not empty, ValueRepairError if nothing can be written (no
    permission, disk full).
    """
    check_new_folder(out)
    target = Path(os.path.realpath(out))
    try:
        with scratch_folder(target) as partial:
            yield partial
            os.sync()  # once for all files: one fsync after the other takes minutes for 100,000 chunks
            check_empty(target, out)
            os.rename(partial, target)
    except OSError as error:
        failed_path = error.filename or out
        raise ValueRepairError(f"{failed_path}: {error.strerror or error}; nothing was written to {out}") from None


@contextmanager
def scratch_folder(beside: str | os.PathLike[str]) -> Iterator[Path]:
    """A hidden folder beside this file or folder, which vanishes at the end of the block. Raises OSError."""
    folder = partial_beside(Path(os.path.realpath(beside)))
    with stop.undoing(lambda: _remove(folder)):
        try:
            folder.mkdir(parents=True)
            yield folder
        finally:
            _remove(folder)


class HeldError(Exception):
    """Another process holds the lock of a file that should be `claimed`; `content` is the beginning of the file."""

    def __init__(self, content: bytes) -> None:
        super().__init__("another process holds the file")
        self.content = content


@contextmanager
def claimed(path: str | os.PathLike[str]) -> Iterator[int]:
    """The descriptor of a file that is locked against other processes until the block ends; made if missing.

    The kernel unlocks it when the process dies. A file that is empty at the end is removed. Raises `HeldError` if
    another process holds the lock, OSError if the file cannot be opened, ValueRepairError where there are no locks.
    """
    try:
        import fcntl
    except ImportError:
        raise ValueRepairError(f"{path}: this system has no flock; use Linux, macOS, or WSL on Windows") from None

    def remove_if_empty() -> None:
        if os.fstat(descriptor).st_size == 0:
            Path(path).unlink(missing_ok=True)

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
                remove_if_empty()
                no_locks = f"this file system has no locks ({error.strerror}), which long runs need"
                raise ValueRepairError(f"{path}: {no_locks}; give a place on another disk") from None
            # Otherwise its last holder removed the file after it was opened here: open it again.
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                with stop.undoing(remove_if_empty):
                    try:
                        yield descriptor
                    finally:
                        remove_if_empty()
                return
        finally:
            os.close(descriptor)


# -- the cache --------------------------------------------------------------------------------------------------------


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
