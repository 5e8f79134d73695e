"""Columns of a store: the numbers that SQLite has, of what the store holds now; cells that are no numbers."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valuerepair.chess.positions import PHASES
from valuerepair.errors import ValueRepairError
from valuerepair.store import columns, connection
from valuerepair.store.connection import StoreConnection
from valuerepair.store.store import Store

SAMPLE = Path(__file__).parents[1] / "data" / "sample.db"
# The same rows by a join of SQLite's; all but the weights.
JOINED = """
SELECT p.id AS position_id, p.key, p.ply, p.pieces, p.history_known, p.eval_cp, p.eval_mate, p.game_id,
    g.number AS game, g.source, n.q AS net_q, n.w AS net_w, n.d AS net_d, n.l AS net_l, n.entropy AS net_entropy,
    v.nodes, v.depth, v.time_ms, v.cp, v.mate, v.w AS deep_w, v.d AS deep_d, v.l AS deep_l, v.q AS deep_own_q,
    p.side, p.phase, p.kind
FROM deep_values v JOIN net_values n USING (position_id) JOIN positions p ON p.id = position_id
JOIN games g ON g.id = p.game_id
WHERE v.oracle_id = ? AND n.net_id = ? AND v.stage = 'full' ORDER BY position_id
"""
PASSAGES = """
SELECT position_id, searched, probability FROM screened WHERE oracle_id = ? AND net_id = ? AND cut_at NOT NULL
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(SAMPLE, tmp_path / "store.db"))


@pytest.fixture
def memory() -> Iterator[StoreConnection]:
    with closing(sqlite3.connect(":memory:", factory=StoreConnection)) as opened:
        yield opened


def plain(cell: Any) -> Any:
    """A cell of a column as SQLite gives it: None for NaN."""
    return None if cell != cell else cell


def test_columns_are_what_a_join_gives(path: Path) -> None:
    with Store.open(path) as store:
        net, oracle = store.pick()
        found = columns.columns(store.connection, net, oracle, (*columns.NUMBERS, *columns.CODES))
        with closing(sqlite3.connect(path)) as other:
            cursor = other.execute(JOINED, (oracle, net))
            names, rows = [column[0] for column in cursor.description], cursor.fetchall()
            passages = {p: rest for p, *rest in other.execute(PASSAGES, (oracle, net))}
    assert len(rows) > 500
    assert {*names, "weight", *columns.CODES} == set(found)
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        expected = [cell % 2**64 for cell in cells] if name == "key" else list(cells)
        assert [plain(cell) for cell in found[name].tolist()] == expected, name
    np.testing.assert_allclose(found["weight"], weights_by_row(found["position_id"], passages), rtol=1e-12)
    assert len(set(found["weight"].tolist())) > 1
    assert [PHASES[code] for code in found["phase_code"]] == found["phase"].tolist()
    assert ["wb"[code] for code in found["side_code"]] == found["side"].tolist()


def weights_by_row(ids: Iterable[int], passages: dict[int, list[Any]]) -> list[float]:
    """Of what left the ladder, those searched stand for all, by the inverse of their probability."""
    scale = len(passages) / sum(1 / probability for searched, probability in passages.values() if searched)
    return [scale / passages[i][1] if i in passages else 1.0 for i in ids]


def by_another(path: Path, store: Store) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE net_values SET q = -q")


def by_this_one(path: Path, store: Store) -> None:
    with store.writing() as connection:
        connection.execute("UPDATE net_values SET q = -q")


@pytest.mark.parametrize("change", [by_another, by_this_one])
def test_columns_are_of_the_store_as_it_is(path: Path, change: Callable[[Path, Store], None]) -> None:
    with Store.open(path, write=True) as store:
        net, oracle = store.pick()
        before = columns.columns(store.connection, net, oracle, ("net_q",))["net_q"]
        again = columns.columns(store.connection, net, oracle, ("net_q",))["net_q"]
        assert again is before
        change(path, store)
        after = columns.columns(store.connection, net, oracle, ("net_q",))["net_q"]
    assert np.any(before != 0)
    np.testing.assert_array_equal(after, -before)


ONCE = connection._ROWS_AT_ONCE


@pytest.mark.parametrize("rows", [0, 1, ONCE - 1, ONCE, ONCE + 1, 3 * ONCE])
def test_any_number_of_rows(memory: StoreConnection, rows: int) -> None:
    counted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    query = f"{counted} SELECT i, nullif(i % 3, 0) / 2.0 FROM n LIMIT :n"
    number, half = memory.numbers(query, {"n": rows})
    expected = np.arange(1, rows + 1)
    np.testing.assert_array_equal(number, expected)
    np.testing.assert_array_equal(half, np.where(expected % 3 == 0, np.nan, expected % 3 / 2))


def test_board_keys_are_whole(memory: StoreConnection) -> None:
    numbers = [2**53 + 1, -(2**63), 2**63 - 1, 0]
    query = " UNION ALL ".join(f"SELECT {number}" for number in numbers)
    (found,) = memory.numbers(query, {}, np.int64)
    assert found.tolist() == numbers


def test_the_largest_numbers_are_rounded_as_pythons(memory: StoreConnection) -> None:
    numbers = [2**53 + 1, -(2**63), 2**63 - 1, 1e-308, 5e-324, -0.0, 1.7976931348623157e308]
    query = " UNION ALL ".join(f"SELECT {number!r}" for number in numbers)
    (found,) = memory.numbers(query, {})
    assert found.tobytes() == np.array([float(number) for number in numbers]).tobytes()


def test_a_damaged_store_is_said_in_one_line(path: Path) -> None:
    with closing(sqlite3.connect(path)) as whole:
        (root,) = whole.execute("SELECT rootpage FROM sqlite_master WHERE name = 'net_values'").fetchone()
    with path.open("r+b") as file:
        file.seek(4096 * (root - 1))
        file.write(b"\xa5" * 4096)
    with Store.open(path) as store, pytest.raises(ValueRepairError, match="damaged") as said:
        store.frame(text=False)
    assert "\n" not in str(said.value)


def test_a_text_among_numbers_is_said_in_one_line(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE net_values SET q = 'much' WHERE position_id % 7 = 0")
    with Store.open(path) as store, pytest.raises(ValueRepairError, match="vr doctor"):
        store.frame(text=False)


@pytest.mark.parametrize("keys", [[np.nan], [1, np.nan], [np.nan, 2], [2, 1], [1, 1], [1, 2.0**63], [-np.inf, 1]])
def test_keys_out_of_order_or_missing_are_damage(memory: StoreConnection, keys: list[float]) -> None:
    memory.check_ascending(np.array([], np.float64))
    memory.check_ascending(np.array([1.0, 2.0]))
    with pytest.raises(ValueRepairError, match="out of order"):
        memory.check_ascending(np.array(keys))
