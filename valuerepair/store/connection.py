"""The connection to a store: rows of cells that can be, or one line that says what is wrong with the file."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any, NoReturn
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.store.cells import JSON, Column, check_histories, columns, rows_in_doubt

_ROWS_AT_ONCE = 1_000  # between two looks at Ctrl-C
_NO_TEXT = re.compile(r"decode to UTF-8 column '([^']+)'")
_SHOWN = 60  # characters of a cell
_HISTORY = ("positions.start_fen", "positions.moves", "positions.fen")


class StoreCursor(sqlite3.Cursor):
    """Rows of a query, compared with the kinds of their columns before anybody has them.

    SQLite says of which table's column a cell is (``full_column_names``, see `StoreConnection`); what a query computes
    from cells is not compared, unless it is named as a column: ``AS "expanded.step"``. Unless `follows` is set to
    False, histories are played, too: of a million rows that takes seconds.
    """

    follows: bool = True
    connection: StoreConnection
    _columns: Sequence[tuple[int, Column]] = ()
    _history: Sequence[int] = ()

    def execute(self, sql: str, parameters: Any = ()) -> StoreCursor:
        try:
            super().execute(sql, parameters)
        except sqlite3.DatabaseError as error:
            self.connection.explain(error)
        if super().description is not None and not self.connection.is_raw:
            names = [name for name, *_ in super().description]
            self._columns = [(i, columns()[name]) for i, name in enumerate(names) if name in columns()]
            played = self.follows and {*_HISTORY[:2]} <= {*names}
            self._history = [names.index(name) for name in _HISTORY if name in names] if played else ()
        return self

    @property
    def description(self) -> Any:
        """As of any cursor: a column by its own name."""
        described = super().description
        return described and tuple(
            (columns()[name].name if name in columns() else name, *rest) for name, *rest in described
        )

    def executemany(self, sql: str, parameters: Iterable[Any]) -> StoreCursor:
        try:
            super().executemany(sql, parameters)
        except sqlite3.DatabaseError as error:
            self.connection.explain(error)
        return self

    def fetchone(self) -> Any:
        return next(self, None)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        try:
            return self._checked(super().fetchmany(size or self.arraysize))
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self.connection.explain(error)

    def fetchall(self) -> list[Any]:
        try:
            return self._checked(super().fetchall())
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self.connection.explain(error)

    def __next__(self) -> Any:
        try:
            row = super().__next__()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self.connection.explain(error)
        return self._checked([row])[0]

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # rows come in pieces, not each by itself
        return chain.from_iterable(iter(lambda: self.fetchmany(_ROWS_AT_ONCE), []))

    def _checked(self, rows: list[Any]) -> list[Any]:
        """The rows. Raises ValueRepairError for a cell that is not of its column's kind, or a history that leads
        elsewhere."""
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
    """A connection to a store, `path`. What SQLite says of a bad file, a full disk or a lock is one line for the user.

    Raises ValueRepairError. With `is_raw` cells are taken as they are, for those who say what is wrong with them.
    `schema` is what SQLite calls the file, which may be attached to another one.
    `kept` is for `columns`: what it read last, and the state of the store then.
    """

    path: str = ""
    schema: str = "main"
    is_raw: bool = False
    kept: Any = None

    def set_up(self, path: str, *, is_raw: bool = False) -> StoreConnection:
        """Names the file, and has SQLite mistrust it."""
        self.path, self.is_raw = path, is_raw
        self.execute("PRAGMA trusted_schema = OFF")
        self.execute("PRAGMA cell_size_check = ON")
        self.execute("PRAGMA full_column_names = ON")  # `StoreCursor` needs them
        return self

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._cursors = WeakSet[sqlite3.Cursor]()

    def cursor(self, factory: Any = StoreCursor) -> Any:
        cursor = super().cursor(factory)
        self._cursors.add(cursor)
        return cursor

    def close(self) -> None:
        """Also while statements are under way, for which SQLite would keep the file open."""
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
        try:
            return super().executescript(script)
        except sqlite3.DatabaseError as error:
            self.explain(error)

    def numbers(
        self,
        query: str,
        parameters: Mapping[str, Any],
        width: int,
        kind: type[np.float64 | np.int64] = np.float64,
    ) -> NDArray[Any]:
        """[width, n] columns of a query of numbers, NaN for NULL. Floats hold whole numbers up to 2^53: all but keys.

        Many rows at once: the arrays are compared with the kinds of their columns, and not each cell by itself.
        """
        cursor = self.cursor(sqlite3.Cursor)
        self.text_factory = _no_text
        try:
            cursor.execute(query, parameters)
            rows = chain.from_iterable(iter(lambda: cursor.fetchmany(_ROWS_AT_ONCE), []))
            cells = np.ascontiguousarray(np.fromiter(chain.from_iterable(rows), kind).reshape(-1, width).T)
        except (TypeError, ValueError, OverflowError):
            self.text_factory = str
            self.execute(query, parameters).fetchall()  # says which cell it is, if that is not in an expression
            self._search(name for name, column in columns().items() if column.table in query)
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
        """The first row of a query that has one. Raises ValueRepairError where a table has lost it."""
        if (row := self.execute(query, parameters).fetchone()) is None:
            raise self.lost()
        return row

    def rows_of(self, ids: Sequence[int], query: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """The row of each of the `ids`, in their order: `query` joins these, ``json_each(:ids) j``, with tables.

        Raises ValueRepairError where a table that they need has lost a row.
        """
        rows = self.execute(f"{query} ORDER BY j.key", {**(parameters or {}), "ids": json.dumps([*ids])}).fetchall()
        if len(rows) != len(ids):
            raise self.lost()
        return rows

    def check_numbers(self) -> None:
        """Compares the types of all cells, and the numbers among them with their bounds, within SQLite.

        Raises ValueRepairError as reading the row would. Of a million positions that takes seconds.
        """
        for table, described in groupby(columns().values(), lambda column: column.table):
            names, (condition, bounds) = ", ".join(column.name for column in described), rows_in_doubt(table)
            self.execute(f"SELECT {names} FROM {self.schema}.{table} WHERE {condition} LIMIT 1", bounds).fetchall()

    def check_ascending(self, numbers: NDArray[Any]) -> None:
        """Raises ValueRepairError where rows do not come in the order of their key, each once, as of a whole table.

        A key that is missing, NaN among floats, is out of order too.
        """
        if not (numbers[1:] > numbers[:-1]).all() or np.isnan(numbers[:1]).any():
            raise ValueRepairError(explained(self.path, "malformed: rows are out of order"))

    def damaged(self, column: Column, cell: object, why: str) -> ValueRepairError:
        """The error for a cell of a column; it finds the row."""
        place = f"table {column.table}, {self._row(column, cell)}, column {column.name}"
        shown = repr(cell)
        shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
        return ValueRepairError(f"{self.path} is damaged: {place}: {shown} is {why}; {_next_step(self.path)}")

    def lost(self) -> ValueRepairError:
        """The error for a row that points to one that is not there; it finds the first."""
        for table, _, parent, number in self._as_they_are("PRAGMA foreign_key_check"):
            pointers = self._as_they_are(f"PRAGMA foreign_key_list({table})")
            column = columns()[f"{table}.{next(row[3] for row in pointers if row[0] == number)}"]
            missing = f"SELECT {column.name} FROM {table} WHERE {column.name} NOT IN (SELECT id FROM {parent}) LIMIT 1"
            for (cell,) in self._as_they_are(missing):  # an index may say otherwise than its table
                return self.damaged(column, cell, f"the number of no row of {parent}")
        return ValueRepairError(f"{self.path} has lost rows; {_next_step(self.path)}")

    def _as_they_are(self, query: str, parameters: Sequence[object] = ()) -> list[Any]:
        """All rows, not compared with anything: for the search of what is wrong, which a page may stop, too."""
        try:
            return super().cursor(sqlite3.Cursor).execute(query, parameters).fetchall()
        except sqlite3.DatabaseError as error:
            raise ValueRepairError(explained(self.path, str(error))) from error

    def _row(self, column: Column, cell: object) -> str:
        # As bytes: a text that is none in UTF-8 is known as bytes only.
        same = f"CAST({column.name} AS BLOB) IS CAST(? AS BLOB)"
        query = f"SELECT {', '.join(column.key)} FROM {self.schema}.{column.table} WHERE {same} LIMIT 1"
        self.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            row = next(iter(self._as_they_are(query, (cell,))), None)
        finally:
            self.text_factory = str
        key_cells = zip(column.key, row or ["unknown"] * len(column.key), strict=True)
        return "row " + ", ".join(f"{name} {value}" for name, value in key_cells)

    def explain(self, error: Exception) -> NoReturn:
        """Raises what SQLite says of the file as one line for the user; what the program did wrong as it is."""
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            raise error
        if (match := _NO_TEXT.search(str(error))) is not None:
            self._search([match[1]])
        elif "JSON" in str(error):
            self._search(JSON)
        raise ValueRepairError(explained(self.path, str(error))) from error

    def _search(self, names: Iterable[str]) -> None:
        """Raises ValueRepairError for the first cell of these columns that is no text, or not of its kind."""
        for column in (columns()[name] for name in names if name in columns()):
            query = f"SELECT {column.name} FROM {self.schema}.{column.table}"
            self.text_factory = bytes
            try:
                cells = [cell for (cell,) in self._as_they_are(query)]
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
        return f"{path}: the disk is full or failing; make room and give the same command again: it goes on"
    if "readonly" in message or "unable to open" in message:
        return f"{path} cannot be opened for this: no permission for the file or its folder; give another --db"
    if "locked" in message:
        return f"{path} is locked by another program; wait until it is done"
    if "malformed" in message or "Could not decode" in message or "codec can't decode" in message:
        return f"{path} is damaged ({message}); take a copy of yours, or save what is left: `sqlite3 {path} .recover`"
    return f"{path}: {message}"
