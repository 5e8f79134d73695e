"""Opening the file of a store: is it a store, of which version, and which process writes it."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from contextlib import ExitStack, closing, suppress
from urllib.parse import quote

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import HeldError, claimed
from valuerepair.signals import close_when_leaving
from valuerepair.store import schema
from valuerepair.store.connection import StoreConnection, explained

log = logging.getLogger(__name__)
_BUSY_S = 30.0
# Board keys are random: the pages of their index that a second's positions go to stay in memory until they are
# committed, of two million positions all of them. SQLite's own 2 MiB would write each page many times over. The log is
# written back at 64 MiB too: an import of evaluations would fill SQLite's own 4 MiB between two commits.
_CACHE_KIB = 64 * 1024
_LOG_PAGES = 16_384
# What a writer that is at work, or was killed, leaves beside a store.
LOGS = ("-wal", "-journal")
_MODES = {
    "rwc": "for writing",
    "rw": "for reading",
    "ro": "for reading",
    "ro&immutable=1": "for reading, it cannot change",
}


def check_file(path: str, *, create: bool) -> bool:
    """Whether the file exists; raises ValueRepairError for what can be no store at all, UsageError for no name."""
    if not path:
        raise UsageError("--db is empty; give the file of a store")
    if os.path.isdir(path):
        raise ValueRepairError(f"{path} is a folder, not a valuerepair store; give a file with --db")
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueRepairError(f"{path} is a device, pipe or socket, not a valuerepair store; give another --db")
    if not os.path.exists(path):
        folder = os.path.dirname(os.path.abspath(path))
        if not create:
            raise ValueRepairError(f"there is no store at {path}; make one with vr mine, or give another --db")
        if not os.path.isdir(folder):
            raise ValueRepairError(f"the folder {folder} for the store does not exist; make it, or give another --db")
        return False
    if not create and os.path.getsize(path) == 0:
        raise ValueRepairError(f"{path} is an empty file, not a valuerepair store; give another --db")
    # SQLite takes a file of one byte for an empty one, and would make a database of it.
    if os.path.getsize(path) == 1:
        raise ValueRepairError(f"{path} is not a valuerepair store; give another --db")
    return True


def connect(path: str, write: bool, *, is_raw: bool = False) -> StoreConnection:
    """A connection in autocommit mode, that refuses to write unless `write`; `is_raw` as in `StoreConnection`."""
    if write:
        return _open(path, "rwc", is_raw)
    if os.access(os.path.dirname(os.path.abspath(path)), os.W_OK) and os.access(path, os.W_OK):
        # Not mode=ro: such a connection could not clear away the -wal and -shm files it makes.
        connection = _open(path, "rw", is_raw)
        close_when_leaving(connection)
        connection.execute("PRAGMA query_only = ON")
        return connection
    # Readers of a WAL file need its -shm file. Where none can be made and no writer left one, the file cannot change.
    return _open(path, "ro" if log_sizes(path) else "ro&immutable=1", is_raw)


def log_sizes(path: str) -> list[int]:
    """Bytes of each log that is beside a store."""
    sizes = []
    for end in LOGS:
        with suppress(FileNotFoundError):
            sizes.append(os.stat(path + end).st_size)
    return sizes


def _open(path: str, mode: str, is_raw: bool = False) -> StoreConnection:
    log.debug("%s: %s", path, _MODES[mode])
    address = f"file:{quote(os.path.abspath(path))}?mode={mode}"
    try:
        connection = sqlite3.connect(address, _BUSY_S, isolation_level=None, factory=StoreConnection, uri=True)
    except sqlite3.OperationalError as error:
        raise ValueRepairError(explained(path, str(error))) from error
    return connection.set_up(path, is_raw=is_raw)


def upgrade(connection: StoreConnection, write: bool) -> None:
    """Checks that the file is a store, migrates an older one, and sets the connection up.

    With `is_raw` of the connection another form of the tables is let pass, for a check to name.
    """
    path = connection.path
    version = schema.version(connection, path)
    if version == 0 and not write:
        raise ValueRepairError(f"{path} is an empty database, not a valuerepair store; give another --db")
    # Before anything is asked of the tables: a view in the place of one may run without end, a trigger at any write.
    if version and not connection.is_raw:
        schema.check_form(connection, path, version)
    if version < schema.SCHEMA_VERSION:
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
    locks SQLite keeps on it. The side file names the holder's process and goes away with the lock. `was_left`: there
    was one already, or a log of SQLite's, as a writer leaves them that died.
    """

    def __init__(self, store_path: str) -> None:
        """Raises ValueRepairError when another process holds it. To be made before SQLite opens the store."""
        path = store_path + ".lock"
        self._held, self._is_spoiled = ExitStack(), False
        try:
            self._descriptor = self._held.enter_context(claimed(path))
            if (content := os.pread(self._descriptor, 20, 0)) and not content.isdigit():
                raise OSError(errno.EEXIST, "it is not a lock file of vr, and is left as it is", path)
            self.was_left = bool(content) or any(log_sizes(store_path))
            self._held.callback(self._unmark)
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
                raise ValueRepairError(explained(store_path, "disk is full")) from error
            raise ValueRepairError(
                f"{store_path} cannot be written: {error.strerror} for {path}; give another --db"
            ) from error

    def check_whole(self, connection: StoreConnection) -> None:
        """Has SQLite look at every page where the last writer died: a power cut may have killed it.

        That takes a second for a million positions. Raises ValueRepairError for a damaged store, and does so again.
        """
        if self.was_left and (damage := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            self._is_spoiled = True
            raise ValueRepairError(explained(connection.path, f"its last writer died; malformed: {damage}"))

    def _unmark(self) -> None:
        if not self._is_spoiled:
            os.ftruncate(self._descriptor, 0)  # an empty file is removed

    def release(self) -> None:
        """Removes the side file, then lets go of it."""
        self._held.close()
