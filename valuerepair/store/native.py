"""Numbers of a statement without a Python object for each cell: SQLite's library called by a compiled loop.

It is the library that Python's own sqlite3 uses, on the connection that it opened: transactions hold, and there is no
second copy of SQLite whose closing of the file would drop the first one's POSIX locks. The connection's pointer comes
from SQLite itself, which hands it to an extension while the connection opens. Where any of this is not to be had, and
where a statement says anything but rows of numbers, Python's own way is left to read, and to complain.
"""

from __future__ import annotations

import importlib
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A store with fewer positions is read sooner than the compiler of the loop is imported.
MANY_POSITIONS = 100_000
_ROWS_AT_ONCE = 65_536  # between two looks at Ctrl-C
_OK = 0
_OPENING = threading.Lock()
_here = threading.local()
_USED = ("sqlite3_step", "sqlite3_column_type", "sqlite3_column_double", "sqlite3_column_int64")


def _unlock() -> None:
    """In a forked process the thread that opens a connection may be gone."""
    global _OPENING
    _OPENING = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_unlock)


class NativeConnection(sqlite3.Connection):
    """A connection that may know where SQLite keeps it; `handle` is None where not, and once it is closed."""

    handle: int | None = None
    _thread = 0

    def own(self, handle: int | None) -> None:
        """Takes SQLite's pointer to this connection, for this thread to use."""
        self.handle, self._thread = handle, threading.get_ident()

    def close(self) -> None:
        self.handle = None
        super().close()

    @property
    def usable(self) -> int | None:
        """The pointer, in the thread that opened the connection."""
        return self.handle if self._thread == threading.get_ident() else None


def connect(address: str, kind: type[NativeConnection], **options: Any) -> NativeConnection:
    """`sqlite3.connect` of a URI; the connection knows its pointer where that can be found."""
    with _OPENING, _watched() as opened:
        connection: NativeConnection = sqlite3.connect(address, uri=True, factory=kind, **options)
    connection.own(opened[0] if len(opened) == 1 else None)
    return connection


@contextmanager
def _watched() -> Iterator[list[int]]:
    """The pointers of the connections that this thread opens meanwhile."""
    opened: list[int] = []
    library = _library()
    if library is None:
        yield opened
        return
    _here.opened = opened
    asked = library.sqlite3_auto_extension(_entry()) == _OK
    try:
        yield opened
    finally:
        if asked:
            library.sqlite3_cancel_auto_extension(_entry())
        _here.opened = None


@cache
def _entry() -> Any:
    """What SQLite calls for each connection that opens, in the thread that opens it.

    It is made once and for all: SQLite may still be about to call it for another thread when it is cancelled.
    """
    import ctypes

    def note(handle: int | None, *_: object) -> int:
        opened = getattr(_here, "opened", None)
        if handle and opened is not None:
            opened.append(handle)
        return _OK

    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(note)


@cache
def _library() -> Any:
    """SQLite's functions as Python's sqlite3 sees them; None where they are not to be found."""
    import ctypes

    try:
        import _sqlite3

        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_libversion.restype = ctypes.c_char_p
        if library.sqlite3_libversion().decode() != sqlite3.sqlite_version:
            return None
        library.sqlite3_bind_int64.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
        library.sqlite3_bind_parameter_index.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
        library.sqlite3_prepare_v2.argtypes = (
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
        )  # fmt: skip
        text = (ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p)
        library.sqlite3_bind_text.argtypes = text
        for name in ("sqlite3_finalize", "sqlite3_column_count"):
            getattr(library, name).argtypes = (ctypes.c_void_p,)
        for name in ("sqlite3_auto_extension", "sqlite3_cancel_auto_extension", *_USED):
            getattr(library, name)
    except (ImportError, AttributeError, OSError):
        return None
    return library


@cache
def _addresses() -> NDArray[np.int64]:
    import ctypes

    return np.array([ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value for name in _USED], np.int64)


def floats(
    connection: sqlite3.Connection, query: str, asked: Mapping[str, Any] = MappingProxyType({})
) -> list[NDArray[np.float64]] | None:
    """The columns of a query, NaN for NULL; None where another way has to read them."""
    found: list[NDArray[np.float64]] | None = _read(connection, query, asked, np.dtype(np.float64))
    return found


def integers(
    connection: sqlite3.Connection, query: str, asked: Mapping[str, Any] = MappingProxyType({})
) -> list[NDArray[np.int64]] | None:
    """The columns of a query of whole numbers; None where another way has to read them."""
    found: list[NDArray[np.int64]] | None = _read(connection, query, asked, np.dtype(np.int64))
    return found


def _read(connection: sqlite3.Connection, query: str, asked: Mapping[str, Any], kind: np.dtype[Any]) -> Any:
    handle = connection.usable if isinstance(connection, NativeConnection) else None
    if handle is None or not many_positions(connection):
        return None
    from valuerepair.store import cell_kernel

    fill: Any = cell_kernel.read_integers if kind == np.int64 else cell_kernel.read_floats
    with _prepared(handle, query, asked) as (statement, width):
        parts, code = [], cell_kernel.ROW if statement else cell_kernel.MISFIT
        while code == cell_kernel.ROW:
            cells = np.empty((width, _ROWS_AT_ONCE), kind)
            rows, code = fill(_addresses(), statement, cells)
            parts.append(cells[:, :rows])
    if code != cell_kernel.DONE:
        return None
    return [np.concatenate([part[column] for part in parts]) for column in range(width)]


def many_positions(connection: sqlite3.Connection) -> bool:
    """Whether the store has so many positions that reading them this way pays."""
    (newest,) = connection.execute("SELECT max(id) FROM positions").fetchone()
    return isinstance(newest, int) and newest >= MANY_POSITIONS


def import_meanwhile(connection: sqlite3.Connection, module: str) -> None:
    """Imports a module in a thread where there is much to read: the compiled loop leaves Python to others."""
    if module in sys.modules or not isinstance(connection, NativeConnection) or not connection.usable:
        return
    if many_positions(connection):
        threading.Thread(target=importlib.import_module, args=(module,), name=f"import {module}").start()


@contextmanager
def _prepared(handle: int, query: str, asked: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """The pointer of a statement and its number of columns; (0, 0) where it cannot be made."""
    import ctypes

    library, place = _library(), ctypes.c_void_p()
    if library.sqlite3_prepare_v2(handle, query.encode(), -1, ctypes.byref(place), None) != _OK or not place.value:
        yield 0, 0
        return
    try:
        bound = all(_bind(library, place.value, name, value) for name, value in asked.items())
        yield (place.value, library.sqlite3_column_count(place)) if bound else (0, 0)
    finally:
        library.sqlite3_finalize(place)


def _bind(library: Any, statement: int, name: str, value: Any) -> bool:
    """Whether the value of a parameter could be given; one that the statement does not have needs none."""
    import ctypes

    number = library.sqlite3_bind_parameter_index(statement, f":{name}".encode())
    if not number:
        return True
    if isinstance(value, int):
        return bool(library.sqlite3_bind_int64(statement, number, value) == _OK)
    words, copied = str(value).encode(), ctypes.c_void_p(-1)
    return bool(library.sqlite3_bind_text(statement, number, words, len(words), copied) == _OK)
