"""Compilation of the kernels, and a cache on disk that notices every change of their sources.

Numba's own ``cache=True`` checks only the file of the cached function: a caller keeps the old code of a function that
changed in another module. Therefore all compiled kernels are in a folder named by a hash of all kernel sources. After
any change everything is compiled again; folders of other versions are removed after a month without use.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event

from valuerepair import files

PACKAGE = Path(__file__).parents[1]
# Every module that defines a kernel or a table for kernels, relative to the package. A test keeps the list complete.
KERNEL_SOURCES = (
    "chess/*.py", "archives/chunk_boards.py", "archives/evaluation_dump.py", "archives/pgn.py", "archives/select.py",
    "archives/split.py", "nets/planes.py", "nets/policy.py", "mcts/*.py", "training/records.py",
)  # fmt: skip
KEEP_DAYS = 30.0  # for folders of other versions
PATIENCE_S = 2.0  # seconds of compilation after which it is logged

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_config: Any = numba.config  # its settings are created at import, so type checkers do not know them
_types: Any = numba.types


def source_key(package: Path = PACKAGE) -> str:
    """SHA-256 (hex) over the names and contents of the kernel sources and the version of Numba."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(p for pattern in KERNEL_SOURCES for p in package.glob(pattern)):
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(package).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def cache_root() -> Path:
    """The parent of the folders of compiled kernels: ``$NUMBA_CACHE_DIR``, else ``kernels`` in the cache folder."""
    if _config.CACHE_DIR:
        return Path(_config.CACHE_DIR)
    return files.cache_root() / "kernels"


def open_cache(root: Path, key: str) -> Path | None:
    """The folder of `key` in `root`, made if needed; None if it is not writable, which means no cache."""
    folder = root / key[:32]
    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)
        if is_new:
            _drop_old(root, keep=folder)
    except OSError:
        return None
    return folder


def _drop_old(root: Path, keep: Path) -> None:
    """Removes folders of other versions that no process has opened for `KEEP_DAYS`."""
    oldest = time.time() - KEEP_DAYS * 86400
    for folder in root.iterdir():
        is_cache = len(folder.name) == 32 and not set(folder.name) - set("0123456789abcdef")
        if is_cache and folder != keep and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)


try:
    CACHE_FOLDER = open_cache(cache_root(), source_key())
except (OSError, RuntimeError):  # unreadable sources (a zipped package), or no home folder
    CACHE_FOLDER = None


class KernelLocator:
    """Tells Numba to cache the kernels of this package in the folder for its sources.

    Numba's own locators use a folder for each place where the package is installed, so a second environment or another
    copy of the same sources would compile everything again.
    """

    def __init__(self, path: str, line: int, folder: Path) -> None:
        self._py_file = path  # for Numba's warnings
        self._line, self._folder = line, folder

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> KernelLocator | None:
        """The locator of a function; None without a cache, and if its file is not one of `KERNEL_SOURCES`."""
        source = Path(path)
        if CACHE_FOLDER is None or not source.is_relative_to(PACKAGE):
            return None
        source = source.relative_to(PACKAGE)
        if not any(source.match(pattern) for pattern in KERNEL_SOURCES):
            return None
        return cls(path, function.__code__.co_firstlineno, CACHE_FOLDER / source.parent)

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Empty: the name of the folder has the hash of the sources."""
        return ""

    def get_disambiguator(self) -> str:
        return str(self._line)


class CompilingNotice(event.Listener):
    """Logs once that compilation took `patience_s` seconds or more; kernels from the cache do not count.

    On a terminal this is a warning, elsewhere a debug message, because it is about this machine only.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s, self._was_logged = patience_s, False
        self._compiling = 0  # a kernel, the kernel that it calls, and so on
        self._began, self._seconds = 0.0, 0.0  # of the outermost kernel; of all that are compiled

    def on_start(self, event: object) -> None:
        if not self._compiling:
            self._began = time.monotonic()
        self._compiling += 1

    def on_end(self, event: object) -> None:
        """Called when a kernel is compiled; kernels that call it may still be compiling."""
        self._compiling -= 1
        seconds = self._seconds + time.monotonic() - self._began
        if not self._compiling:
            self._seconds = seconds
        if seconds >= self._patience_s and not self._was_logged:
            self._was_logged = True
            level = logging.WARNING if sys.stderr.isatty() else logging.DEBUG
            log.log(level, "compiling for this machine; only the first time, up to a minute or two")


NOTICE = CompilingNotice()
_event: Any = event
_event.register("numba:compile", NOTICE)


def kernel(function: F) -> F:
    """Compiles a function on its first call: no GIL, division as in C, a cache on disk if its folder is writable.

    It must not make arrays (Numba would refuse to compile it). In exchange it does not count references to its
    arguments, which made the search twice as fast. `allocating_kernel` is for functions that make arrays or receive an
    array from another kernel.
    """
    return _compiled(function)


def inlined_kernel(function: F) -> F:
    """A `kernel` that is inlined in every caller: passing the arrays of a forest costs more than a small step."""
    return _compiled(function, inlined=True)


def allocating_kernel(function: F) -> F:
    """A `kernel` that makes arrays, or calls one that returns an array."""
    return _compiled(function, allocates=True)


def _compiled(function: F, *, allocates: bool = False, inlined: bool = False) -> F:
    # These settings hold only while a kernel is declared; older versions of Numba ignore the second.
    previous = _config.CACHE_DIR, getattr(_config, "CACHE_LOCATOR_CLASSES", "")
    _config.CACHE_DIR = str(CACHE_FOLDER or "")
    _config.CACHE_LOCATOR_CLASSES = f"{__name__}.KernelLocator,UserProvidedCacheLocator" if CACHE_FOLDER else ""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": allocates, "forceinline": inlined}
    try:
        compiled: Any = numba.njit(cache=CACHE_FOLDER is not None, **options)(function)
    finally:
        _config.CACHE_DIR, _config.CACHE_LOCATOR_CLASSES = previous
    compiled.get_call_template = _without_literals(compiled.get_call_template)
    typed: F = compiled
    return typed


def _without_literals(template: Callable[..., Any]) -> Callable[..., Any]:
    """Types a call like ``f(rows, 0)`` as ``f(rows, n)``; otherwise Numba would compile f once for each constant."""

    def typed_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        keywords = {name: _types.unliteral(numba_type) for name, numba_type in kws.items()}
        return template(tuple(map(_types.unliteral, args)), keywords)

    return typed_template
