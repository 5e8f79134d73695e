"""Which of two rows `vr merge` keeps, and which history, rule by rule: docs/methods.md, "Merging"."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.merge_stores import Row, contents, write_store
from tests.test_merge import PLAIN, merged
from valuerepair.store.merge import merge

# Table, what the row that is kept has, and what the other one has: docs/methods.md, "Merging".
KEPT = [
    ("deep_values", "nodes = 200, depth = 5", "nodes = 100, depth = 30"),
    ("deep_values", "nodes = 200, depth = 6", "nodes = 200, depth = 5"),
    ("net_values", "run_id = 3, best_move = 100", "run_id = 1, best_move = NULL"),
    ("net_values", "run_id = 1, q = 0.1", "run_id = 2, q = 0.2"),
    ("failures", "run_id = 3, attempts = 4", "run_id = 1, attempts = 3"),
    ("alpha_fits", "n = 900, fitted = '2025'", "n = 400, fitted = '2026'"),
    ("alpha_fits", "n = 400, fitted = '2026'", "n = 400, fitted = '2025'"),
    ("alpha_fits", "n = 400, norm = 'slope'", "n = 900, norm = 'l1'"),
    ("alpha_fits", "n = 400, norm = 'results'", "n = 900, norm = 'l2'"),
    ("runs", "state = 'finished', counts = '{}'", "state = 'interrupted', counts = '{\"scored\":1}'"),
    ("runs", "state = 'interrupted', finished = '2026-02'", "state = 'interrupted', finished = '2026-01'"),
    ("positions", "run_id = 1", "run_id = 2"),
    ("positions", "history_known = 1, moves = x''", "history_known = 0, moves = x'0c07'"),
]


@pytest.mark.parametrize(("table", "kept", "other"), KEPT)
def test_of_two_rows_the_one_of_the_rule_is_kept_in_either_order(
    table: str, kept: str, other: str, tmp_path: Path
) -> None:
    rows = [PLAIN, Row(2, 0, 1, 1, {1: 0.1}, {1: ("failed", 0, 0)})]
    one, two = (write_store(tmp_path / f"{name}.db", rows, {(1, 1): (150.0, 400)}) for name in ("one", "two"))
    for path, values in ((one, kept), (two, other)):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"UPDATE {table} SET {values}")
            connection.commit()
    expected = contents(one)[table]
    assert expected != contents(two)[table]
    for parts in ((one, two), (two, one)):
        assert contents(merged(tmp_path, *parts)[0])[table] == expected


@pytest.mark.parametrize(("apart", "told"), [(0.0005, 0), (0.002, 1)])
def test_up_to_a_thousandth_two_net_values_are_the_same(apart: float, told: int, tmp_path: Path) -> None:
    a = write_store(tmp_path / "a.db", [Row(1, 0, 1, 1, {1: 0.1})], {})
    b = write_store(tmp_path / "b.db", [Row(1, 0, 1, 1, {1: 0.1 + apart})], {})
    assert len(merged(tmp_path, a, b)[1].contradictions) == told


def test_the_screen_that_was_fitted_last_is_the_last_in_either_order(tmp_path: Path) -> None:
    """The one with the highest number goes on cutting."""
    stores = []
    for name, fitted in (("early", "2026-01-01"), ("late", "2026-02-01")):
        stores.append(write_store(tmp_path / f"{name}.db", [PLAIN], {}))
        with closing(sqlite3.connect(stores[-1])) as connection:
            connection.execute(f"INSERT INTO screens VALUES (1, 1, 1, 0.5, 170, 0, 'cp', 0.98, '{{}}', '{fitted}', 0)")
            connection.commit()
    for parts in (stores, stores[::-1]):
        with closing(sqlite3.connect(merged(tmp_path, *parts)[0])) as connection:
            fitted_on = [fitted for (fitted,) in connection.execute("SELECT fitted FROM screens ORDER BY id")]
        assert fitted_on == ["2026-01-01", "2026-02-01"]


def test_the_run_that_began_last_is_the_last_in_either_order(tmp_path: Path) -> None:
    stores = [write_store(tmp_path / f"{name}.db", [PLAIN], {}) for name in "ab"]
    with closing(sqlite3.connect(stores[0])) as connection:
        connection.execute("UPDATE runs SET identity = 'run z', started = '2027' WHERE id = 1")
        connection.commit()
    for parts in (stores, stores[::-1]):
        with closing(sqlite3.connect(merged(tmp_path, *parts)[0])) as connection:
            started_on = [started for (started,) in connection.execute("SELECT started FROM runs ORDER BY id")]
        assert started_on == sorted(started_on)
        assert started_on[-1] == "2027"


AUDITED = {(1, 1): (True, True, 0.5)}


@pytest.mark.parametrize(
    ("kept", "other"),
    [
        (Row(1, 1, 1, 1, {}, {1: ("full", 5, 10)}), Row(1, 2, 1, 1, {}, {1: ("full", 5, 90)}, AUDITED)),
        (
            Row(1, 1, 1, 1, {}, {1: ("full", 5, 90)}),
            Row(1, 2, 1, 1, {}, {1: ("full", 5, 10)}, {(1, 2): (True, False, 1.0)}),
        ),
        (Row(1, 2, 1, 1, {}, {1: ("full", 5, 10)}), Row(1, 1, 1, 1, {}, {1: ("full", 5, 10)})),
    ],
    ids=["an audit does not count", "the deepest search", "the longer one"],
)
def test_one_history_is_kept_with_its_values(kept: Row, other: Row, tmp_path: Path) -> None:
    one, two = (write_store(tmp_path / f"{n}.db", [row], {}) for n, row in (("one", kept), ("two", other)))
    merged_rows = contents(merged(tmp_path, one, two)[0])
    for store, source in ((one, two), (two, one)):
        target = shutil.copy(store, tmp_path / "target.db")
        merge([str(source)], str(target))
        for rows in (merged_rows, contents(target)):
            assert rows["positions"] == contents(one)["positions"]
            assert rows["deep_values"] == contents(one)["deep_values"]


def test_what_was_reached_stays_where_its_candidate_has_another_history(tmp_path: Path) -> None:
    """Alone and into a store, in either order."""
    deeper = Row(1, 0, 1, 1, {1: 0.1}, {1: ("full", 50, 200)})
    others = [Row(1, 2, 1, 1, {1: 0.1}, {1: ("full", 50, 100)}), Row(2, 0, 1, 1), Row(3, 0, 1, 1)]
    one, two = write_store(tmp_path / "one.db", [deeper], {}), write_store(tmp_path / "two.db", others, {})
    with closing(sqlite3.connect(two)) as connection:
        for reached, parent in ((2, 1), (3, 2)):
            cells = (reached, parent)
            connection.execute(
                "INSERT INTO expanded VALUES (1, 1, ?, 1, ?, 'child', 1, 1, 1, NULL, NULL, NULL, 0, 0, 1.0, 1)", cells
            )
        connection.commit()
    stores = [merged(tmp_path, *parts)[0] for parts in ((one, two), (two, one))]
    for store, source in ((one, two), (two, one)):
        stores.append(Path(shutil.copy(store, tmp_path / f"into-{store.name}")))
        merge([str(source)], str(stores[-1]))
    for store in stores:
        with closing(sqlite3.connect(store)) as connection:
            rows = connection.execute("""
                SELECT p.key, r.key, o.key, length(r.moves) FROM expanded e JOIN positions p ON p.id = e.position_id
                JOIN positions r ON r.id = e.root_id JOIN positions o ON o.id = e.parent_id ORDER BY p.key""")
            assert rows.fetchall() == [(2, 1, 1, 0), (3, 1, 2, 0)]
