"""The connection to a store: it checks all rows that are read, and reports errors of the file in one line."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, NoReturn
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.store.cells import JSON, Column, check_histories, columns, columns_of, rows_in_doubt

_ROWS_AT_ONCE = 1_000  # between two checks for Ctrl-C
_NO_TEXT = re.compile(r"decode to UTF-8 column '([^']+)'")
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

    With `is_raw` cells are not checked, for code that reports wrong ones. `schema` is SQLite's name of the file, which
    may be attached to another one. `cache` is that of `store.columns`.
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

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
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
        """[columns, n] cells of a query of numbers, NaN for NULL. Floats hold whole numbers up to 2^53: all but keys.

        For many rows: it checks whole arrays against the kinds of their columns, not each cell by itself.
        """
        cursor = self.cursor(sqlite3.Cursor)
        self.text_factory = _no_text
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

        A missing key, which is NaN among floats, is out of order too.
        """
        if not (numbers[1:] > numbers[:-1]).all() or np.isnan(numbers[:1]).any():
            raise ValueRepairError(explained(self.path, "malformed: rows are out of order"))

    def damaged(self, column: Column, cell: object, why: str) -> ValueRepairError:
        """The error for a wrong cell of a column; it names the row."""
        place = f"table {column.table}, {self._row(column, cell)}, column {column.name}"
        shown = repr(cell)
        shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
        return ValueRepairError(f"{self.path} is damaged: {place}: {shown} is {why}; {_next_step(self.path)}")

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
        if (match := _NO_TEXT.search(str(error))) is not None:
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


def _no_text(text: bytes) -> NoReturn:
    raise ValueError(f"a text among numbers: {text[:_SHOWN]!r}")


def _next_step(path: str) -> str:
    return f"`vr store check --db {path}` looks at every cell"


def explained(path: str, message: str) -> str:
    if "not a database" in message:
        return f"{path} is not a valuerepair store; give another --db"
    if "disk is full" in message or "disk I/O error" in message:
        return f"{path}: the disk is full or failing; make room, and run the same command again to resume"
    if "readonly" in message or "unable to open" in message:
        return f"{path} cannot be opened for this: no permission for the file or its folder; give another --db"
    if "locked" in message:
        return f"{path} is locked by another program; wait until it is done"
    if "malformed" in message or "Could not decode" in message or "codec can't decode" in message:
        return f"{path} is damaged ({message}); take a copy of yours, or save what is left: `sqlite3 {path} .recover`"
    return f"{path}: {message}"
