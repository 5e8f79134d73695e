"""Opening the file behind a store, and what SQLite's complaints mean for the user."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import quote
from weakref import WeakSet

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import HeldError, claimed
from valuerepair.signals import close_when_leaving
from valuerepair.store import schema
from valuerepair.store.columns import KeepingConnection

log = logging.getLogger(__name__)
_BUSY_S = 30.0
# Board keys are random: the pages of their index that a second's positions go to stay in memory until they are
# committed, of two million positions all of them. SQLite's own 2 MiB would write each page many times over. The log is
# written back at 64 MiB too: an import of evaluations would fill SQLite's own 4 MiB between two commits.
_CACHE_KIB = 64 * 1024
_LOG_PAGES = 16_384
_MODES = {
    "rwc": "for writing",
    "rw": "for reading",
    "ro": "for reading",
    "ro&immutable=1": "for reading, it cannot change",
}


@contextmanager
def store_errors(path: str) -> Iterator[None]:
    """Turns what SQLite says of a bad file, a full disk or a lock into one line for the user."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except sqlite3.DatabaseError as error:
        raise ValueRepairError(_explain(path, str(error))) from error
    except UnicodeDecodeError as error:  # bytes in the file that SQLite takes for text
        raise ValueRepairError(_explain(path, "malformed text")) from error


@contextmanager
def cell_errors(path: str) -> Iterator[None]:
    """Turns what reading says of cells that are of no kind their column has, as damage makes them, into one line."""
    with store_errors(path):
        try:
            yield
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueRepairError(
                f"{path} is damaged: a cell is of no kind that its column has ({error}); "
                f"`vr store check --db {path}` says which"
            ) from error


def _explain(path: str, message: str) -> str:
    if "not a database" in message:
        return f"{path} is not a valuerepair store; give another --db"
    if "disk is full" in message or "disk I/O error" in message:
        return f"{path}: the disk is full or failing; make room and give the same command again: it goes on"
    if "readonly" in message or "unable to open" in message:
        return f"{path} cannot be opened for this: no permission for the file or its folder; give another --db"
    if "locked" in message:
        return f"{path} is locked by another program; wait until it is done"
    if "malformed" in message or "Could not decode" in message:
        return f"{path} is damaged ({message}); `sqlite3 {path} .recover` may save what is left"
    return f"{path}: {message}"


def check_file(path: str, *, create: bool) -> bool:
    """Whether the file exists; raises ValueRepairError for what can be no store at all, UsageError for no name."""
    if not path:
        raise UsageError("--db is empty; give the file of a store")
    if os.path.isdir(path):
        raise ValueRepairError(f"{path} is a folder, not a valuerepair store; give a file with --db")
    if not os.path.exists(path):
        folder = os.path.dirname(os.path.abspath(path))
        if not create:
            raise ValueRepairError(f"there is no store at {path}; make one with vr mine, or give another --db")
        if not os.path.isdir(folder):
            raise ValueRepairError(f"the folder {folder} for the store does not exist; make it, or give another --db")
        return False
    if not create and os.path.getsize(path) == 0:
        raise ValueRepairError(f"{path} is an empty file, not a valuerepair store; give another --db")
    return True


def connect(path: str, write: bool) -> sqlite3.Connection:
    """A connection in autocommit mode, that refuses to write unless `write`. The file is not touched yet."""
    if write:
        return _open(path, "rwc")
    if os.access(os.path.dirname(os.path.abspath(path)), os.W_OK) and os.access(path, os.W_OK):
        # Not mode=ro: such a connection could not clear away the -wal and -shm files it makes.
        connection = _open(path, "rw", _ReadingConnection)
        close_when_leaving(connection)
        connection.execute("PRAGMA query_only = ON")
        return connection
    # Readers of a WAL file need its -shm file. Where none can be made and no writer left one, the file cannot change.
    return _open(path, "ro" if os.path.exists(path + "-wal") else "ro&immutable=1")


class _ReadingConnection(KeepingConnection):
    """A connection that can be closed while its statements are under way: else SQLite keeps the file open for them."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._cursors = WeakSet[sqlite3.Cursor]()

    def execute(self, *given: Any) -> sqlite3.Cursor:
        cursor = super().execute(*given)
        self._cursors.add(cursor)
        return cursor

    def close(self) -> None:
        for cursor in list(self._cursors):
            cursor.close()
        super().close()


def _open(path: str, mode: str, kind: type[KeepingConnection] = KeepingConnection) -> sqlite3.Connection:
    log.debug("%s: %s", path, _MODES[mode])
    address = f"file:{quote(os.path.abspath(path))}?mode={mode}"
    return sqlite3.connect(address, timeout=_BUSY_S, isolation_level=None, factory=kind, uri=True)


def upgrade(path: str, connection: sqlite3.Connection, write: bool) -> None:
    """Checks that the file is a store, migrates an older one, and sets the connection up."""
    found = schema.version(connection, path)
    if found == 0 and not write:
        raise ValueRepairError(f"{path} is an empty database, not a valuerepair store; give another --db")
    if found < schema.SCHEMA_VERSION:
        if write:
            connection.execute("PRAGMA journal_mode = WAL")
            schema.migrate(connection, path)
        else:
            _migrate_apart(path)
    if write:
        connection.execute("PRAGMA journal_mode = WAL")
        # With WAL this keeps the store whole through a kill and a power cut; the latter may take the last commits.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = {-_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")


def _migrate_apart(path: str) -> None:
    """Migrates a store that is open for reading, through a connection and a lock of its own."""
    lock = WriteLock(path)
    try:
        with closing(connect(path, write=True)) as connection:
            schema.migrate(connection, path)
    finally:
        lock.release()


class WriteLock:
    """Holds the right to write to a store.

    What is held is a side file ``STORE.lock``, not the store: closing any descriptor of the store itself would drop the
    locks SQLite keeps on it. The side file names the holder's process and goes away with the lock.
    """

    def __init__(self, store_path: str) -> None:
        """Raises ValueRepairError when another process holds it."""
        path = store_path + ".lock"
        self._held = ExitStack()
        try:
            self._descriptor = self._held.enter_context(claimed(path))
            self._held.callback(os.ftruncate, self._descriptor, 0)  # an empty file is removed
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)
        except HeldError as held:
            holder = held.content.decode(errors="replace").strip()
            raise ValueRepairError(
                f"{store_path} is being written by another vr (process {holder or 'unknown'}); "
                "wait until it is done, stop it, or give another --db"
            ) from None
        except OSError as error:
            self._held.close()
            if error.errno == errno.ENOSPC:
                raise
            raise ValueRepairError(
                f"{store_path} cannot be written: {error.strerror} for {path}; give another --db"
            ) from error

    def release(self) -> None:
        """Removes the side file, then lets go of it."""
        self._held.close()
