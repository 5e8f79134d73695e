"""`vr merge`: what is kept of stores that differ, what is held out, stores that cannot be merged; and laws: any order,
idempotence, union of keys, nothing points nowhere."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.merge_stores import Row, contents, write_store
from valuerepair.chess.openings import material_family
from valuerepair.chess.origins import KINDS, NEIGHBOUR
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.store import parts
from valuerepair.store.merge import Merged, merge
from valuerepair.store.store import Store

FULL = {1: "searched"}
PLAIN = Row(1, nets=(1,), deep=FULL)


def merged(folder: Path, *parts: Path) -> tuple[Path, Merged]:
    target = folder / "merged.db"
    return target, merge([str(part) for part in parts], str(target))


def change(store: Path, statement: str) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(statement)
        connection.commit()


def cells(store: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(store)) as connection:
        return connection.execute(query).fetchall()


DIFFERENCES = {
    "net values": ("UPDATE net_values SET q = 0.5", "SELECT q FROM net_values", [(0.1,)]),
    "deep values": ("UPDATE deep_values SET cp = 99", "SELECT cp FROM deep_values", [(11,)]),
    "other histories": ("UPDATE positions SET moves = x'0c07'", "SELECT length(moves) FROM positions", [(2,)]),
    "settings": ("UPDATE settings SET value = '150'", "SELECT value FROM settings", [("170",)]),
    "scores and failures": ("UPDATE deep_values SET failed = 'crashed'", "SELECT failed FROM deep_values", [(None,)]),
}


@pytest.mark.parametrize("kind", DIFFERENCES)
def test_differences_are_counted_and_settled_by_rule(kind: str, tmp_path: Path) -> None:
    statement, query, kept = DIFFERENCES[kind]
    a, b = (write_store(tmp_path / name, [PLAIN], {"threshold": 170}) for name in ("a.db", "b.db"))
    change(b, statement)
    target, account = merged(tmp_path, a, b)
    assert {name: n for name, n in account.contradictions.items() if n} == {kind: 1}
    assert cells(target, query) == kept
    assert f"1 {kind}" in account.lines()[0]


def test_a_position_of_a_game_comes_before_the_same_one_beside_games(tmp_path: Path) -> None:
    candidate = Row(2, nets=(1,))
    game = Row(1, 0, 1, 1, "game", (1,), {1: "searched"})
    beside = Row(1, 2, 2, 2, "neighbour", (2,), {1: "failed", 2: "searched"})
    stores = [write_store(tmp_path / "a.db", [beside, candidate]), write_store(tmp_path / "b.db", [game])]
    change(stores[0], "UPDATE positions SET parent_id = 2 WHERE id = 1")
    target, account = merged(tmp_path, *stores)
    rows = contents(target)
    assert [row[8:] for row in rows["positions"] if row[0] == 1] == [
        (3, "game", "train", None, 101, "e2e4", None, None, "run 1")
    ]
    values = {(row[0], row[1]) for table in ("net_values", "deep_values") for row in rows[table]}
    assert values == {("net 1" * 4, 1), ("net 1" * 4, 2), ("full", 1)}  # those of the other history are left out
    assert account.contradictions["other histories"] == 1


def test_neighbours_keep_their_candidates(tmp_path: Path) -> None:
    """Whatever numbers these have."""
    a = write_store(tmp_path / "a.db", [Row(3), Row(4), Row(1)])
    b = write_store(tmp_path / "b.db", [Row(2, origin="neighbour"), Row(1)])
    change(b, "UPDATE positions SET parent_id = 2 WHERE id = 1")
    target, _ = merged(tmp_path, a, b)
    query = "SELECT p.key, q.key FROM positions p JOIN positions q ON q.id = p.parent_id"
    assert cells(target, query) == [(2, 1)]


def test_what_one_store_searched_for_itself_stands_for_itself(tmp_path: Path) -> None:
    """The audits of a screened store stand for what was left out in both."""
    short = {2: "searched"}
    screened = [Row(i, deep={**short, **({1: "audited"} if i == 1 else {})}) for i in range(1, 6)]
    whole = [Row(i, deep=FULL) for i in (1, 2)]
    more = [Row(i, deep={**short, **({1: "audited"} if i == 7 else {})}) for i in range(6, 10)]
    stores = [
        write_store(tmp_path / f"{name}.db", rows) for name, rows in zip("abc", (screened, whole, more), strict=True)
    ]
    target, _ = merged(tmp_path, *stores)
    query = """SELECT p.key, weight FROM deep_values JOIN positions p ON p.id = position_id
        JOIN judges j ON j.id = judge_id WHERE digest = 'full' ORDER BY p.key"""
    assert cells(target, query) == [(1, 1.0), (2, 1.0), (7, 7.0)]


def test_what_is_held_out_stays_so_and_holds_for_what_comes(tmp_path: Path) -> None:
    split = {"games": 0.0, "families": 0.1, "seed": 3}
    a = write_store(tmp_path / "a.db", [Row(1)], {"split": split})
    change(a, "INSERT INTO held_families VALUES ('material', 'KPvK')")
    b = write_store(tmp_path / "b.db", [Row(3, game=2), Row(4, game=2)])
    names = {"SELECT kind, name FROM held_families": [("material", "KPvK")]}
    for stores in ((a, b), (b, a)):
        target, _ = merged(tmp_path, *stores)
        for query, expected in names.items():
            assert cells(target, query) == expected
        with Store.open(target) as store:
            assert store.setting("split") == split
        target.unlink()
    c = write_store(tmp_path / "c.db", [Row(5)], {"split": {**split, "seed": 4}})
    _, account = merged(tmp_path, a, c)
    assert account.contradictions["settings"] == 1


def test_a_game_that_loses_its_position_of_a_held_out_family_is_for_training(tmp_path: Path) -> None:
    """The other store has that position by a longer history, in another game."""
    a = write_store(tmp_path / "a.db", [Row(1), Row(2)], {"split": {"games": 0.0, "families": 0.1, "seed": 3}})
    with Store.open(a, write=True) as store:
        fens = [fen for (fen,) in store.connection.execute("SELECT fen FROM positions ORDER BY key")]
        with store.writing() as connection:
            connection.execute("INSERT INTO held_families VALUES ('material', ?)", (material_family(fens[1]),))
        parts.assign(store)
    b = write_store(tmp_path / "b.db", [Row(2, history=2, game=2)])
    change(b, "DELETE FROM games WHERE id <> 2")
    target, _ = merged(tmp_path, a, b)
    query = "SELECT key, part FROM positions ORDER BY key"
    assert material_family(fens[0]) != material_family(fens[1])
    assert cells(a, query) == [(1, "neither"), (2, "families")]
    assert cells(target, query) == [(1, "train"), (2, "families")]


def test_a_store_that_exists_is_added_to(tmp_path: Path) -> None:
    target = write_store(tmp_path / "merged.db", [PLAIN], {"threshold": 170})
    stores = [write_store(tmp_path / f"{key}.db", [Row(key, nets=(1,), deep=FULL)]) for key in (2, 3)]
    _, account = merged(tmp_path, *stores)
    assert (account.rows["positions"], account.added["positions"]) == (3, 2)
    assert {row[0] for row in contents(target)["positions"]} == {1, 2, 3}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.db", "3.db", "merged.db"]


def test_a_store_that_is_being_written_gives_what_is_committed(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.db", [PLAIN])
    with Store.open(path, write=True) as store:
        store.use(threshold=0.4)
        store.commit()
        store.use(alpha=1)
        rows = contents(merged(tmp_path, path)[0])
    assert [row[0] for row in rows["settings"]] == ["threshold"]


def test_the_log_of_a_store_that_is_gone_is_not_played_into_a_new_one(tmp_path: Path) -> None:
    """As after a kill of `vr mine` and an `rm` of its store alone."""
    a, gone = write_store(tmp_path / "a.db", [PLAIN]), write_store(tmp_path / "gone.db", [PLAIN, Row(2)])
    with closing(sqlite3.connect(gone)) as connection:
        connection.execute("UPDATE net_values SET q = 0.9")
        connection.commit()
        (tmp_path / "merged.db-wal").write_bytes(Path(f"{gone}-wal").read_bytes())
    target, _ = merged(tmp_path, a)
    assert contents(target) == contents(a)


def test_what_cannot_be_merged_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good = write_store(tmp_path / "good.db", [PLAIN])
    Path("text.db").write_text("not a store, but long enough to be looked at " * 40)
    Path("empty.db").write_bytes(b"")
    Path("link.db").symlink_to(good)
    bad = Path(write_store(tmp_path / "damaged.db", [Row(i, nets=(1,)) for i in range(1, 400)]))
    whole = bad.read_bytes()
    bad.write_bytes(whole[: len(whole) // 2] + b"\xff" * (len(whole) // 2))
    write_store(tmp_path / "into.db", [Row(2)])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for words, error, complaint in (
        ("missing.db", ValueRepairError, "no store at missing.db"),
        ("good.db text.db", ValueRepairError, "text.db"),
        ("good.db empty.db", ValueRepairError, "empty.db is not a valuerepair store"),
        ("good.db damaged.db", ValueRepairError, "damaged.db"),
        ("damaged.db -o into.db", ValueRepairError, "damaged.db"),
        ("good.db good.db", UsageError, "twice"),
        ("good.db link.db", UsageError, "twice"),
        ("good.db -o link.db", UsageError, "into itself"),
        ("good.db -o no/m.db", UsageError, "no/m.db"),
    ):
        paths, _, output = words.partition(" -o ")
        with pytest.raises(error, match=complaint) as raised:
            merge(paths.split(), output or "new.db")
        assert "\n" not in str(raised.value)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# -- laws, on stores drawn at random -----------------------------------------------------------------------------------

some = st.integers(1, 2)


def rows_of(origins: list[str], states: list[str]) -> Any:
    return st.builds(
        Row,
        key=st.integers(1, 6),
        history=st.integers(0, 2),
        game=st.integers(1, 3),
        run=st.integers(1, 3),
        origin=st.sampled_from(origins),
        nets=st.sets(some).map(tuple),
        deep=st.dictionaries(some, st.sampled_from(states)),
    )


def lists(origins: list[str], *states: str) -> Any:
    return st.lists(
        rows_of(origins, ["searched", "failed", *states]), max_size=6, min_size=1, unique_by=lambda row: row.key
    )


stores, of_games = lists([*KINDS, NEIGHBOUR], "searched", "audited"), lists(["game"])
law = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Where two stores have the same value, the run that made it is the first store's.
RUN = ("deep_values.run_id",)


class Folder:
    """Stores in a folder of their own."""

    def __init__(self, path: str) -> None:
        self.path, self._made = Path(path), 0

    def name(self) -> Path:
        self._made += 1
        return self.path / f"{self._made}.db"

    def store(self, drawn: list[Row], plays: int = 0) -> Path:
        return write_store(self.name(), drawn, plays=plays)

    def merged(self, *parts: Path) -> Path:
        name = self.name()
        merge([str(part) for part in parts], str(name))
        return name

    def into(self, store: Path, *parts: Path) -> Path:
        copy = Path(shutil.copy(store, self.name()))
        merge([str(part) for part in parts], str(copy))
        return copy


def in_folder(check: Any) -> Any:
    """Runs a law in a folder of its own for each example."""

    def run(*drawn: list[Row]) -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
            check(Folder(name), *drawn)

    return run


@law
@given(stores)
def test_one_store_merged_is_itself(drawn: list[Row]) -> None:
    def check(folder: Folder, drawn: list[Row]) -> None:
        a = folder.store(drawn, 2)
        before = a.read_bytes()
        weight = ("deep_values.weight",)  # the drawn ones do not add up
        one = folder.merged(a)
        assert contents(one, weight) == contents(a, weight)
        assert contents(folder.merged(one)) == contents(folder.into(one, a)) == contents(one)
        assert a.read_bytes() == before

    in_folder(check)(drawn)


@law
@given(stores, stores)
def test_any_order_and_again_is_the_same(first: list[Row], second: list[Row]) -> None:
    def check(folder: Folder, first: list[Row], second: list[Row]) -> None:
        a, b = folder.store(first, 1), folder.store(second, 2)
        both = folder.merged(a, b)
        expected = contents(both, RUN)
        for same in (folder.merged(b, a), folder.merged(both, a), folder.merged(b, both), folder.into(a, b)):
            assert contents(same, RUN) == expected
        assert contents(folder.into(a, b, both), RUN) == expected

    in_folder(check)(first, second)


@law
@given(of_games, of_games, of_games)
def test_three_stores_in_any_order(first: list[Row], second: list[Row], third: list[Row]) -> None:
    def check(folder: Folder, *drawn: list[Row]) -> None:
        a, b, c = (folder.store(drawn_store) for drawn_store in drawn)
        expected = contents(folder.merged(a, b, c), RUN)
        assert contents(folder.merged(c, a, b), RUN) == expected
        assert contents(folder.merged(a, folder.merged(b, c)), RUN) == expected

    in_folder(check)(first, second, third)


@law
@given(stores, stores)
def test_all_keys_are_there_and_each_value_is_of_the_history_that_is_kept(first: list[Row], second: list[Row]) -> None:
    def check(folder: Folder, first: list[Row], second: list[Row]) -> None:
        both = folder.merged(folder.store(first), folder.store(second))
        with closing(sqlite3.connect(both)) as connection:
            keys = {key for (key,) in connection.execute("SELECT key FROM positions")}
            assert keys == {row.key for row in (*first, *second)}
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            query = """SELECT p.key, length(p.moves) / 2, net_id, round(q * net_id, 6) FROM net_values n
                JOIN positions p ON p.id = n.position_id"""
            had = {(r.key, r.history, n, round(0.1 * r.key + 0.01 * r.history, 6)) for r in (*first, *second)
                   for n in r.nets}  # fmt: skip
            assert {*connection.execute(query)} <= had
            query = (
                "SELECT p.key, judge_id FROM deep_values JOIN positions p ON p.id = position_id WHERE failed NOTNULL"
            )
            for key, judge in connection.execute(query):  # a score beats a failure
                assert all(r.deep.get(judge, "failed") == "failed" for r in (*first, *second)
                           if r.key == key and (r.key, r.history) in _kept(connection))  # fmt: skip

    in_folder(check)(first, second)


def _kept(connection: sqlite3.Connection) -> set[tuple[int, int]]:
    return {*connection.execute("SELECT key, length(moves) / 2 FROM positions")}
