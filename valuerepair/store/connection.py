"""The connection to a store.

Opening it checks that the file is a store of a known version, and that no other process writes it. The connection
checks all rows that are read, and reports errors of the file in one line.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any, NoReturn
from urllib.parse import quote
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from valuerepair import stop
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import HeldError, claimed
from valuerepair.store import schema
from valuerepair.store.cells import JSON, Column, check_histories, columns, columns_of, rows_in_doubt

log = logging.getLogger(__name__)

_BUSY_S = 30.0
# Board keys are random, so the positions of one second change pages all over the index of keys. These pages stay in
# memory until they are committed: the cache holds the whole index of two million positions. With SQLite's default of
# 2 MiB each page would be written many times. The log, too, is written back only at 64 MiB: an import of evaluations
# would fill SQLite's default of 4 MiB between two commits.
_CACHE_KIB = 64 * 1024
_LOG_PAGES = 16_384
# The ends of the names of the logs next to a store while it is written, or after its writer was killed.
LOGS = ("-wal", "-journal")
_ROWS_AT_ONCE = 1_000  # between two checks for Ctrl-C
_NOT_UTF8 = re.compile(r"decode to UTF-8 column '([^']+)'")
_SHOWN = 60  # characters of a cell
_HISTORY = ("positions.start_fen", "positions.moves", "positions.fen")


class StoreCursor(sqlite3.Cursor):
    """Rows of a query, each checked against the kinds of its columns before it is returned.

    SQLite names the table and the column of each cell (``full_column_names``, see `StoreConnection`). A computed value
    is checked only if the query names it as a column: ``AS "expanded.step"``. Histories are replayed, too, which takes
    seconds for a million rows, unless `checks_histories` is set to False.
    """

    checks_histories: bool = True
    connection: StoreConnection
    _columns: Sequence[tuple[int, Column]] = ()
    _history: Sequence[int] = ()

    def execute(self, sql: str, parameters: Any = ()) -> StoreCursor:
        with self.connection.explaining():
            super().execute(sql, parameters)
        if super().description is not None and not self.connection.is_raw:
            names = [name for name, *_ in super().description]
            self._columns = [(i, columns()[name]) for i, name in enumerate(names) if name in columns()]
            has_history = {*_HISTORY[:2]} <= {*names}
            history = _HISTORY if has_history and self.checks_histories else ()
            self._history = [names.index(name) for name in history if name in names]
        return self

    @property
    def description(self) -> Any:
        """As in any cursor, with columns by their own names."""
        described = super().description
        return described and tuple(
            (columns()[name].name if name in columns() else name, *rest) for name, *rest in described
        )

    def executemany(self, sql: str, parameters: Iterable[Any]) -> StoreCursor:
        try:  # a UnicodeDecodeError comes from `parameters`, which may be an iterator that reads a file
            super().executemany(sql, parameters)
        except sqlite3.DatabaseError as error:
            self.connection.explain(error)
        return self

    def fetchone(self) -> Any:
        return next(self, None)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        with self.connection.explaining():
            return self._checked(super().fetchmany(size or self.arraysize))

    def fetchall(self) -> list[Any]:
        with self.connection.explaining():
            return self._checked(super().fetchall())

    def __next__(self) -> Any:
        with self.connection.explaining():
            return self._checked([super().__next__()])[0]

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # rows come in pieces, not each by itself
        return chain.from_iterable(iter(lambda: self.fetchmany(_ROWS_AT_ONCE), []))

    def _checked(self, rows: list[Any]) -> list[Any]:
        """The rows. Raises ValueRepairError for a cell that is not of its column's kind, and for a history that does
        not lead to its position."""
        if not rows or not self._columns:
            return rows
        cells = list(zip(*rows, strict=True))
        for i, column in self._columns:
            if (wrong := column.kind.first_wrong(cells[i])) is not None:
                raise self.connection.damaged(column, wrong.cell, wrong.why)
        if self._history:
            start, moves, *fen = (cells[i] for i in self._history)
            if (row := check_histories(start, moves, fen[0] if fen else None)) is not None:
                column = columns()["positions.moves"]
                raise self.connection.damaged(column, moves[row], "not the way from its start to its FEN")
        return rows


class StoreConnection(sqlite3.Connection):
    """A connection to the store `path`; SQLite's errors about the file, its disk or a lock become ValueRepairErrors.

    With `is_raw` cells are not checked, for code that reports wrong ones. `schema` is SQLite's name for the file, which
    may be attached to another one. `cache` belongs to `store.columns`.
    """

    path: str = ""
    schema: str = "main"
    is_raw: bool = False
    cache: Any = None

    def set_up(self, path: str, *, is_raw: bool = False) -> StoreConnection:
        """Sets the path, and tells SQLite not to trust the file."""
        self.path, self.is_raw = path, is_raw
        self.execute("PRAGMA trusted_schema = OFF")
        self.execute("PRAGMA cell_size_check = ON")
        self.execute("PRAGMA full_column_names = ON")  # `StoreCursor` needs them
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cursors = WeakSet[sqlite3.Cursor]()

    def cursor(self, factory: Any = StoreCursor) -> Any:
        with self._open():
            cursor = super().cursor(factory)
        self._cursors.add(cursor)
        return cursor

    @property
    def in_transaction(self) -> bool:
        with self._open():
            return super().in_transaction

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Raises ValueRepairError for what a closed connection cannot do."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            if "closed database" not in str(error):
                raise
            raise ValueRepairError(f"{self.path}: this store is closed; open it again") from None

    def close(self) -> None:
        """Closes all cursors first: for unfinished statements SQLite would keep the file open."""
        for cursor in list(self._cursors):
            cursor.close()
        super().close()

    def execute(self, sql: str, parameters: Any = ()) -> StoreCursor:
        cursor: StoreCursor = self.cursor().execute(sql, parameters)
        return cursor

    def executemany(self, sql: str, parameters: Iterable[Any]) -> StoreCursor:
        cursor: StoreCursor = self.cursor().executemany(sql, parameters)
        return cursor

    def executescript(self, script: str) -> sqlite3.Cursor:
        with self.explaining():
            return super().executescript(script)

    def numbers(
        self,
        query: str,
        parameters: Mapping[str, Any],
        kind: type[np.float64 | np.int64] = np.float64,
    ) -> NDArray[Any]:
        """[columns, n] cells of a query of numbers, NaN for NULL.

        It is fast for many rows, because it checks whole arrays against the kinds of their columns. Floats are exact
        for whole numbers up to 2^53, which all are but keys: read these as int64.
        """
        cursor = self.cursor(sqlite3.Cursor)
        self.text_factory = _refuse_text
        try:
            cursor.execute(query, parameters)
            rows = chain.from_iterable(iter(lambda: cursor.fetchmany(_ROWS_AT_ONCE), []))
            flat = np.fromiter(chain.from_iterable(rows), kind)
            cells = np.ascontiguousarray(flat.reshape(-1, len(cursor.description)).T)
        except (TypeError, ValueError, OverflowError):
            self.text_factory = str
            self.execute(query, parameters).fetchall()  # raises for the wrong cell, unless it is in an expression
            self._check_texts(name for name, column in columns().items() if column.table in query)
            raise
        except sqlite3.DatabaseError as error:
            self.explain(error)
        finally:
            self.text_factory = str
        for (name, *_), column in zip(cursor.description, cells, strict=True):
            bounds = columns()[name].kind if name in columns() else None
            if bounds is not None and bounds.low is not None and ((column < bounds.low) | (column > bounds.high)).any():
                self.execute(query, parameters).fetchall()
        return cells

    def row(self, query: str, parameters: Any = ()) -> Any:
        """The first row of a query. Raises ValueRepairError if a table has lost it."""
        if (row := self.execute(query, parameters).fetchone()) is None:
            raise self.lost()
        return row

    def rows_of(self, ids: Sequence[int], query: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """The row of each of the `ids`, in their order: `query` joins ``json_each(:ids) j`` with tables.

        Raises ValueRepairError if a table has lost one of the rows.
        """
        rows = self.execute(f"{query} ORDER BY j.key", {**(parameters or {}), "ids": json.dumps([*ids])}).fetchall()
        if len(rows) != len(ids):
            raise self.lost()
        return rows

    def check_numbers(self) -> None:
        """Checks the types of all cells and the bounds of all numbers, within SQLite.

        Raises ValueRepairError as reading the row would. For a million positions this takes seconds.
        """
        for table in dict.fromkeys(column.table for column in columns().values()):
            names, (condition, bounds) = ", ".join(column.name for column in columns_of(table)), rows_in_doubt(table)
            self.execute(f"SELECT {names} FROM {self.schema}.{table} WHERE {condition} LIMIT 1", bounds).fetchall()

    def check_ascending(self, numbers: NDArray[Any]) -> None:
        """Raises ValueRepairError if the keys of a table's rows are not in ascending order, each of them once.

        A missing key (NaN) counts as out of order, and so does a key that is not a 64-bit number.
        """
        ends = np.abs(numbers[[0, -1]] if len(numbers) else numbers)
        if not (numbers[1:] > numbers[:-1]).all() or not (ends < 2.0**63).all():
            raise ValueRepairError(explained(self.path, "malformed: rows are out of order"))

    def damaged(self, column: Column, cell: object, why: str) -> ValueRepairError:
        """The error for a wrong cell of a column; it names the row."""
        place = f"table {column.table}, {self._row(column, cell)}, column {column.name}"
        text = repr(cell)
        text = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        return ValueRepairError(f"{self.path} is damaged: {place}: {text} is {why}; {_next_step(self.path)}")

    def lost(self) -> ValueRepairError:
        """The error for a row that refers to a missing row; it names the first such row."""
        for table, _, parent, number in self._unchecked("PRAGMA foreign_key_check"):
            pointers = self._unchecked(f"PRAGMA foreign_key_list({table})")
            column = columns()[f"{table}.{next(row[3] for row in pointers if row[0] == number)}"]
            missing = f"SELECT {column.name} FROM {table} WHERE {column.name} NOT IN (SELECT id FROM {parent}) LIMIT 1"
            for (cell,) in self._unchecked(missing):  # an index may disagree with its table
                return self.damaged(column, cell, f"the number of no row of {parent}")
        return ValueRepairError(f"{self.path} has lost rows; {_next_step(self.path)}")

    def _unchecked(self, query: str, parameters: Sequence[object] = ()) -> list[Any]:
        """All rows, unchecked, to find what is wrong. Raises ValueRepairError if a damaged page prevents this, too."""
        try:
            return super().cursor(sqlite3.Cursor).execute(query, parameters).fetchall()
        except sqlite3.DatabaseError as error:
            raise ValueRepairError(explained(self.path, str(error))) from error

    def _row(self, column: Column, cell: object) -> str:
        # Compared as bytes, because a text that is not UTF-8 can only be read as bytes.
        same = f"CAST({column.name} AS BLOB) IS CAST(? AS BLOB)"
        query = f"SELECT {', '.join(column.key)} FROM {self.schema}.{column.table} WHERE {same} LIMIT 1"
        self.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            row = next(iter(self._unchecked(query, (cell,))), None)
        finally:
            self.text_factory = str
        key_cells = zip(column.key, row or ["unknown"] * len(column.key), strict=True)
        return "row " + ", ".join(f"{name} {value}" for name, value in key_cells)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Within the block, errors of SQLite are raised as `explain` does."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self.explain(error)

    def explain(self, error: Exception) -> NoReturn:
        """Raises SQLite's error about the file as one line for the user, and an error of the program unchanged."""
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            raise error
        if (match := _NOT_UTF8.search(str(error))) is not None:
            self._check_texts([match[1]])
        elif "JSON" in str(error):
            self._check_texts(JSON)
        raise ValueRepairError(explained(self.path, str(error))) from error

    def _check_texts(self, names: Iterable[str]) -> None:
        """Raises ValueRepairError for the first cell of these columns that is not UTF-8, or not of its kind."""
        for column in (columns()[name] for name in names if name in columns()):
            query = f"SELECT {column.name} FROM {self.schema}.{column.table}"
            self.text_factory = bytes
            try:
                cells = [cell for (cell,) in self._unchecked(query)]
            finally:
                self.text_factory = str
            for cell in cells:
                try:
                    text = cell.decode() if isinstance(cell, bytes) else cell
                except UnicodeDecodeError:
                    raise self.damaged(column, cell, "no text in UTF-8") from None
                if (wrong := column.kind.first_wrong([text])) is not None:
                    raise self.damaged(column, wrong.cell, wrong.why)


def _refuse_text(text: bytes) -> NoReturn:
    raise ValueError(f"a text among numbers: {text[:_SHOWN]!r}")


def _next_step(path: str) -> str:
    return f"`vr doctor {path}` looks at every cell"


def explained(path: str, message: str) -> str:
    if "not a database" in message:
        return f"{path} is not a valuerepair store; give another --db"
    if "disk is full" in message or "disk I/O error" in message:
        return f"{path}: the disk is full or failing; make room, and run the same command again to resume"
    if "unable to open" in message and any(log_sizes(path)):
        return (
            f"{path} has changes in {path}-wal, which only a user who may write to the folder can read; "
            f"once that user has run `vr stats --db {path}`, others can read the store"
        )
    if "readonly" in message or "unable to open" in message:
        return f"{path} cannot be opened for this: no permission for the file or its folder; give another --db"
    if "locked" in message:
        return f"{path} is locked by another program; wait until it is done"
    if "malformed" in message or "Could not decode" in message or "codec can't decode" in message:
        return f"{path} is damaged ({message}); take a copy of yours, or save what is left: `sqlite3 {path} .recover`"
    return f"{path}: {message}"


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


_opened = WeakSet["StoreConnection"]()


def _close_all() -> None:
    for connection in [*_opened]:
        with suppress(sqlite3.Error):  # of another thread
            connection.close()


stop.at_exit(_close_all)  # or files of SQLite stay beside a store


def connect(path: str, write: bool, *, is_raw: bool = False) -> StoreConnection:
    """A connection in autocommit mode that refuses to write unless `write`; `is_raw` as in `StoreConnection`."""
    if write:
        writer = _open(path, "rwc", is_raw)
        _opened.add(writer)
        return writer
    if os.access(os.path.dirname(os.path.realpath(path)), os.W_OK) and os.access(path, os.W_OK):
        # Not mode=ro: such a connection could not remove the -wal and -shm files that it makes.
        connection = _open(path, "rw", is_raw)
        _opened.add(connection)
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
        else:  # a reader migrates through another connection, which holds the lock
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
    drop the locks that SQLite has on it. The side file names the holder's process and is removed with the lock.
    `was_abandoned` says that the last writer died: it left its side file or a log of SQLite's. `file` is the path of
    the store itself, not of a link to it.
    """

    def __init__(self, store_path: str) -> None:
        """Takes the lock, before SQLite opens the store. Raises ValueRepairError if another process holds it."""
        self.file = os.path.realpath(store_path)
        path = self.file + ".lock"
        self._held, self._is_spoiled = ExitStack(), False
        try:
            self._descriptor = self._held.enter_context(claimed(path))
            # SQLite would give its files the mode of the store, and nobody could write them later.
            if os.path.exists(self.file) and not os.access(self.file, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.file)
            # A reader of a store with a log has left this file, with the mode that the store had then.
            if os.path.exists(index := self.file + "-shm") and not os.access(index, os.W_OK):
                os.chmod(index, os.stat(self.file).st_mode)
            if (content := os.pread(self._descriptor, 20, 0)) and not content.isdigit():
                raise OSError(errno.EEXIST, "it is not a lock file of vr, and is left as it is", path)
            self.was_abandoned = bool(content) or any(log_sizes(store_path))
            self._held.callback(self._unmark)
            self._held.enter_context(stop.undoing(self._unmark))
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
        """Lets SQLite check every page if the last writer died, perhaps because of a power cut.

        This takes a second for a million positions. Raises ValueRepairError for a damaged store; the lock's side file
        then stays, so that the next writer checks again.
        """
        if self.was_abandoned and (damage := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            self._is_spoiled = True
            raise ValueRepairError(explained(connection.path, f"its last writer died; malformed: {damage}"))

    def _unmark(self) -> None:
        if not self._is_spoiled:
            os.ftruncate(self._descriptor, 0)  # an empty file is removed

    def close(self) -> None:
        """Removes the side file and releases the lock."""
        self._held.close()
