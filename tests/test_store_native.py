"""Numbers read by SQLite's own library in a compiled loop: the same as Python's sqlite3 reads, or nothing."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valuerepair.errors import ValueRepairError
from valuerepair.store import Store, columns, native
from valuerepair.store.connect import connect

SAMPLE = Path(__file__).parents[1] / "data" / "sample.db"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that counts as a large one."""
    monkeypatch.setattr(native, "MANY_POSITIONS", 0)
    return Path(shutil.copy(SAMPLE, tmp_path / "store.db"))


@pytest.fixture
def connection(path: Path) -> Iterator[native.NativeConnection]:
    with closing(connect(str(path), write=True)) as opened:
        assert isinstance(opened, native.NativeConnection)
        yield opened


def read(found: list[Any] | None) -> list[Any]:
    """What was read, which must have been."""
    assert found is not None
    return found


def pythons_way(connection: native.NativeConnection, query: str, asked: dict[str, Any], width: int) -> Any:
    handle = connection.handle
    connection.own(None)
    try:
        return columns.read_cells(connection, query, asked, width)
    finally:
        connection.own(handle)


def test_all_columns_are_those_of_pythons_way(path: Path) -> None:
    found = []
    for way in ("native", "python"):
        with Store.open(path) as store:
            assert isinstance(store.connection, native.NativeConnection)
            assert store.connection.usable
            if way == "python":
                store.connection.own(None)
            net, oracle = store.pick()
            found.append(dict(columns.columns(store.connection, net, oracle, columns.NUMBERS)))
    assert list(found[0]) == list(found[1])
    assert set(columns.NUMBERS) <= set(found[0])
    assert len(found[0]["key"]) > 500
    for name, column in found[0].items():
        assert column.dtype == found[1][name].dtype
        np.testing.assert_array_equal(column, found[1][name])


def test_it_is_this_way_that_reads(connection: native.NativeConnection) -> None:
    ids, keys = read(native.integers(connection, "SELECT id, key FROM positions ORDER BY id"))
    expected = connection.execute("SELECT id, key FROM positions ORDER BY id").fetchall()
    assert list(zip(ids.tolist(), keys.tolist(), strict=True)) == expected
    assert min(keys) < -(2**53)  # a double would not hold them


def test_words_and_numbers_are_bound_by_name(connection: native.NativeConnection) -> None:
    query = "SELECT id FROM positions WHERE phase = :phase AND side = :side AND id > :least ORDER BY id"
    asked = {"phase": "endgame", "side": "b", "least": 100, "unused": "x"}
    (found,) = read(native.integers(connection, query, asked))
    assert found.tolist() == [row[0] for row in connection.execute(query, asked)]
    assert len(found)


@pytest.mark.parametrize("rows", [0, 1, native._ROWS_AT_ONCE - 1, native._ROWS_AT_ONCE, native._ROWS_AT_ONCE + 1])
def test_any_number_of_rows(connection: native.NativeConnection, rows: int) -> None:
    counted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    query = f"{counted} SELECT i, nullif(i % 3, 0) / 2.0 FROM n LIMIT :n"
    number, half = read(native.floats(connection, query, {"n": rows}))
    expected = np.arange(1, rows + 1)
    np.testing.assert_array_equal(number, expected)
    np.testing.assert_array_equal(half, np.where(expected % 3 == 0, np.nan, expected % 3 / 2))


@pytest.mark.parametrize("cell", ["'text'", "'12'", "x'00'"])
def test_what_is_no_number_is_left_to_python(connection: native.NativeConnection, cell: str) -> None:
    query = f"SELECT 1.5 UNION ALL SELECT {cell}"
    assert native.floats(connection, query) is None
    assert native.integers(connection, query) is None


@pytest.mark.parametrize("cell", ["NULL", "1.5"])
def test_a_whole_number_is_one(connection: native.NativeConnection, cell: str) -> None:
    assert native.integers(connection, f"SELECT 1 UNION ALL SELECT {cell}") is None


def test_the_largest_numbers_are_rounded_as_pythons(connection: native.NativeConnection) -> None:
    numbers = [2**53 + 1, -(2**63), 2**63 - 1, 1e-308, 5e-324, -0.0, 1.7976931348623157e308]
    query = " UNION ALL ".join(f"SELECT {number!r}" for number in numbers)
    (found,) = read(native.floats(connection, query))
    (expected,) = pythons_way(connection, query, {}, 1)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("query", ["SELECT nothing FROM nowhere", "", "SELECT abs(-9223372036854775808)"])
def test_what_sqlite_refuses_is_left_to_python(connection: native.NativeConnection, query: str) -> None:
    assert native.floats(connection, query) is None


def test_a_damaged_store_is_said_in_one_line(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * 20)
        file.write(b"\xa5" * (path.stat().st_size - 4096 * 20))
    with Store.open(path) as store, pytest.raises(ValueRepairError, match="damaged") as said:
        store.frame(text=False)
    assert "\n" not in str(said.value)


def test_a_text_among_numbers_is_said_in_one_line(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE net_values SET q = 'much' WHERE position_id % 7 = 0")
    with Store.open(path) as store, pytest.raises(ValueRepairError, match="vr verify-store"):
        store.frame(text=False)


def test_the_transaction_of_the_connection_holds(connection: native.NativeConnection, path: Path) -> None:
    query = "SELECT count(*) FROM positions"
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN")
    before = connection.execute(query).fetchone()[0]
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("PRAGMA foreign_keys = OFF")
        other.execute("DELETE FROM positions WHERE id % 2 = 0")
    assert read(native.integers(connection, query))[0].tolist() == [before]
    connection.execute("COMMIT")
    assert read(native.integers(connection, query))[0][0] < before
    connection.execute("BEGIN")
    connection.execute("DELETE FROM positions WHERE id > 10")
    assert read(native.integers(connection, query))[0][0] < 10


@pytest.mark.parametrize("query", ["SELECT id FROM positions", "SELECT fen FROM positions", "SELECT bad"])
def test_no_statement_stays_open(connection: native.NativeConnection, path: Path, query: str) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("UPDATE positions SET ply = ply")
    native.integers(connection, query)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0  # a reader would be in its way


def test_not_after_closing_nor_in_another_thread(path: Path) -> None:
    opened = connect(str(path), write=False)
    assert isinstance(opened, native.NativeConnection)
    seen: list[int | None] = []
    thread = threading.Thread(target=lambda: seen.append(opened.usable))
    thread.start()
    thread.join()
    assert opened.usable
    assert seen == [None]
    opened.close()
    assert opened.usable is None


def test_connections_opened_side_by_side_know_their_own(path: Path) -> None:
    wrong: list[object] = []

    def open_often() -> None:
        for number in range(50):
            with closing(native.connect("file::memory:", columns.KeepingConnection)) as mine:
                mine.execute("CREATE TABLE positions (id)")
                mine.execute("INSERT INTO positions VALUES (?)", (number,))
                found = native.integers(mine, "SELECT id FROM positions")
                if found is None or found[0].tolist() != [number]:
                    wrong.append(found)
            sqlite3.connect(":memory:").close()

    threads = [threading.Thread(target=open_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_without_the_library_python_reads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_library", lambda: None)
    with Store.open(path) as store:
        assert isinstance(store.connection, native.NativeConnection)
        assert store.connection.usable is None
        assert len(store.frame(text=False)) > 500


def test_a_small_store_is_read_by_python(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "MANY_POSITIONS", 1_000_000)
    with closing(connect(str(path), write=False)) as opened:
        assert native.integers(opened, "SELECT id FROM positions") is None
