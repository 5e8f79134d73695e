"""Laws of merging, on stores drawn at random: any order, idempotence, union of keys; nothing points nowhere."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.merge_stores import Row, contents, write_store
from valuerepair.chess.origins import KINDS, NEIGHBOUR
from valuerepair.store.merge import merge

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
Contents = dict[str, Counter[tuple[object, ...]]]


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
