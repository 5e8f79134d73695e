"""Opening the file of a store: whether it is a store, of which version, and which process writes it."""

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
# Board keys are random, so the positions of a second touch pages all over their index. These stay in memory until they
# are committed; the cache holds the whole index of two million positions. With SQLite's default of 2 MiB each page
# would be written many times over. The log is written back at 64 MiB too: an import of evaluations would fill SQLite's
# default of 4 MiB between two commits.
_CACHE_KIB = 64 * 1024
_LOG_PAGES = 16_384
# The logs that a writer that is at work, or was killed, leaves next to a store.
LOGS = ("-wal", "-journal")


def check_file(path: str, *, create: bool, advice: str = "give another --db") -> bool:
    """Whether the file exists. Raises ValueRepairError if it cannot be a store, UsageError if the path is empty."""
    if not path:
        raise UsageError(f"the name of a store is empty; {advice}")
    if os.path.isdir(path):
        raise ValueRepairError(f"{path} is a folder, not a valuerepair store; {advice}")
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueRepairError(f"{path} is a device, pipe or socket, not a valuerepair store; {advice}")
    if not os.path.exists(path):
        folder = os.path.dirname(os.path.realpath(path))
        if not create:
            raise ValueRepairError(f"there is no store at {path}; make one with vr mine, or {advice}")
        if not os.path.isdir(folder):
            raise ValueRepairError(f"the folder {folder} for the store does not exist; make it, or {advice}")
        return False
    if not create and os.path.getsize(path) == 0:
        raise ValueRepairError(f"{path} is an empty file, not a valuerepair store; {advice}")
    # SQLite takes a file of one byte for an empty one, and would turn it into a database.
    if os.path.getsize(path) == 1:
        raise ValueRepairError(f"{path} is not a valuerepair store; {advice}")
    return True


def connect(path: str, write: bool, *, is_raw: bool = False) -> StoreConnection:
    """A connection in autocommit mode that refuses to write unless `write`; `is_raw` as in `StoreConnection`."""
    if write:
        return _open(path, "rwc", is_raw)
    if os.access(os.path.dirname(os.path.realpath(path)), os.W_OK) and os.access(path, os.W_OK):
        # Not mode=ro: such a connection could not remove the -wal and -shm files that it makes.
        connection = _open(path, "rw", is_raw)
        close_when_leaving(connection)
        connection.execute("PRAGMA query_only = ON")
        return connection
    # Readers of a WAL file need its -shm file. If none can be made and no writer left one, the file cannot change.
    return _open(path, "ro" if log_sizes(path) else "ro&immutable=1", is_raw)


def log_sizes(path: str) -> list[int]:
    """The size in bytes of each log that a store has. SQLite puts it beside the file that a link leads to."""
    sizes, file = [], os.path.realpath(path)
    for end in LOGS:
        with suppress(FileNotFoundError):
            sizes.append(os.stat(file + end).st_size)
    return sizes


def _open(path: str, mode: str, is_raw: bool = False) -> StoreConnection:
    log.debug("%s: for %s", path, "writing" if mode == "rwc" else "reading")
    address = f"file:{quote(os.path.realpath(path))}?mode={mode}"
    try:
        connection = sqlite3.connect(address, _BUSY_S, isolation_level=None, factory=StoreConnection, uri=True)
    except sqlite3.OperationalError as error:
        raise ValueRepairError(explained(path, str(error))) from error
    return connection.set_up(path, is_raw=is_raw)


def upgrade(connection: StoreConnection, write: bool) -> None:
    """Checks that the file is a store, migrates an older one, and sets the connection up.

    A connection that `is_raw` also accepts tables of another form, which a check then reports.
    """
    path = connection.path
    version = schema.version(connection, path)
    if version == 0 and not write:
        raise ValueRepairError(f"{path} is an empty database, not a valuerepair store; give another --db")
    # Before the first query: a view in place of a table may run for ever, a trigger may run at any write.
    if version and not connection.is_raw:
        schema.check_form(connection, path, version)
    if version < schema.SCHEMA_VERSION:
        if write:
            connection.execute("PRAGMA journal_mode = WAL")
            schema.migrate(connection, path)
        else:  # a reader opens another connection to write by, under its lock
            with closing(WriteLock(path)), closing(connect(path, write=True)) as writer:
                schema.migrate(writer, path)
    if write:
        connection.execute("PRAGMA journal_mode = WAL")
        # With WAL the store survives a kill and a power cut undamaged; a power cut may lose the last commits.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = {-_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")


class WriteLock:
    """Holds the right to write to a store.

    The lock is held on a side file ``STORE.lock``, not on the store: closing any descriptor of the store itself would
    drop the locks SQLite has on it. The side file names the holder's process and is removed with the lock. `was_left`:
    there was a side file already, or a log of SQLite's, which a writer that died leaves behind. `file` is the store's
    file itself, where a link leads.
    """

    def __init__(self, store_path: str) -> None:
        """Takes the lock, before SQLite opens the store. Raises ValueRepairError if another process holds it."""
        self.file = os.path.realpath(store_path)
        path = self.file + ".lock"
        self._held, self._is_spoiled = ExitStack(), False
        try:
            self._descriptor = self._held.enter_context(claimed(path))
            # SQLite would make its files with the mode of the store, and nobody could write them later on.
            if os.path.exists(self.file) and not os.access(self.file, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.file)
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
                f"{store_path} cannot be written: {error.strerror} for {error.filename or path}; give another --db"
            ) from error

    def check_undamaged(self, connection: StoreConnection) -> None:
        """Has SQLite check every page if the last writer died, which may have been by a power cut.

        That takes a second for a million positions. Raises ValueRepairError for a damaged store; the lock's side file
        then stays, so that the next writer checks again.
        """
        if self.was_left and (damage := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            self._is_spoiled = True
            raise ValueRepairError(explained(connection.path, f"its last writer died; malformed: {damage}"))

    def _unmark(self) -> None:
        if not self._is_spoiled:
            os.ftruncate(self._descriptor, 0)  # an empty file is removed

    def close(self) -> None:
        """Removes the side file and releases the lock."""
        self._held.close()
