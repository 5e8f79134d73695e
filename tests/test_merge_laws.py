"""Laws of merging, on stores drawn at random: idempotence, any order, union of keys; nothing points nowhere."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.merge_stores import NETS, NODES, ORACLES, RUNS, Row, contents, write_store
from valuerepair.chess.origins import KINDS
from valuerepair.errors import ValueRepairError
from valuerepair.question import Question
from valuerepair.store import schema
from valuerepair.store.merge import merge
from valuerepair.store.merge_sources import OTHERS, RULES
from valuerepair.store.store import Store

some = st.integers(1, 2)
deep = st.tuples(
    st.sampled_from(["full", "full", "failed", ""]), st.integers(-300, 300), st.sampled_from([NODES, 2 * NODES])
)
passage = st.tuples(st.booleans(), st.booleans(), st.sampled_from([0.02, 0.1]))
rows = st.builds(
    Row,
    key=st.integers(1, 6),
    history=st.integers(0, 2),
    game=st.integers(1, 3),
    run=st.integers(1, len(RUNS)),
    kind=st.sampled_from(["game", *KINDS, None]),
    net_q=st.dictionaries(some, st.floats(-1, 1)),
    deep=st.dictionaries(some, deep),
    passages=st.dictionaries(st.tuples(some, some), passage),
)  # fmt: skip
fits = st.dictionaries(st.tuples(some, some), st.tuples(st.sampled_from([150.0, 200.0]), st.integers(300, 302)))
stores = st.tuples(st.lists(rows, max_size=6, unique_by=lambda row: row.key), fits, st.integers(0, 2))
law = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Drawn = tuple[list[Row], dict[tuple[int, int], tuple[float, int]], int]


def chosen(path: Path) -> tuple[str, str] | None:
    """The net and the oracle that commands take without a word of them; None where nothing is scored."""
    with Store.open(path) as store, contextlib.suppress(ValueRepairError):
        return store.names(*store.pick())
    return None


class Folder:
    """Stores in a folder of their own."""

    def __init__(self, path: Path) -> None:
        self.path, self._made = path, 0

    def _name(self) -> Path:
        self._made += 1
        return self.path / f"{self._made}.db"

    def store(self, drawn: Drawn) -> Path:
        return write_store(self._name(), *drawn)

    def merged(self, *parts: Path) -> Path:
        name = self._name()
        merge([str(part) for part in parts], str(name))
        return name

    def copy(self, part: Path) -> Path:
        return Path(shutil.copy(part, self._name()))


def in_folder(check: Any) -> Any:
    """Runs a law in a folder of its own for each example."""

    def run(*drawn: Drawn) -> None:
        with tempfile.TemporaryDirectory() as name:
            check(Folder(Path(name)), *drawn)

    return run


def test_every_table_is_merged() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        schema.migrate(connection, "store")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {*OTHERS, *(rule.table for rule in RULES)}


@law
@given(stores)
def test_one_store_merged_is_itself(drawn: Drawn) -> None:
    def check(folder: Folder, drawn: Drawn) -> None:
        a = folder.store(drawn)
        before = a.read_bytes()
        assert contents(folder.merged(a)) == contents(a)
        assert chosen(folder.merged(a)) == chosen(a)
        assert contents(folder.merged(a, folder.copy(a))) == contents(a)
        assert a.read_bytes() == before

    in_folder(check)(drawn)


@law
@given(stores, stores)
@pytest.mark.slow
def test_any_order_and_again_is_the_same(first: Drawn, second: Drawn) -> None:
    def check(folder: Folder, first: Drawn, second: Drawn) -> None:
        a, b = folder.store(first), folder.store(second)
        both = folder.merged(a, b)
        assert contents(folder.merged(b, a)) == contents(both)
        assert chosen(folder.merged(b, a)) == chosen(both)
        assert contents(folder.merged(both, a)) == contents(both)
        assert contents(folder.merged(b, both)) == contents(both)
        into = folder.copy(a)
        merge([str(b)], str(into))
        assert contents(into) == contents(both)
        assert chosen(into) == chosen(both)
        merge([str(b), str(a)], str(into))
        assert contents(into) == contents(both)

    in_folder(check)(first, second)


def test_of_two_judges_with_as_many_positions_the_last_one_stays_the_one_that_is_asked(tmp_path: Path) -> None:
    """Whatever their numbers, which a merge gives by the labels."""
    folder = Folder(tmp_path)
    by_judge = {1: ("full", 50, NODES), 2: ("full", 90, NODES)}
    for first, last in ((1, 2), (2, 1)):
        parts = [
            folder.store(([Row(run, 0, 1, run, net_q={1: 0.1}, deep={judge: by_judge[judge]})], {}, 0))
            for run, judge in ((1, first), (2, last))
        ]
        for part in parts:
            with closing(sqlite3.connect(part, isolation_level=None)) as connection:
                connection.execute("UPDATE oracles SET label = 'oracle z' WHERE id = 1")
        into = [folder.copy(part) for part in parts]
        merge([str(parts[1])], str(into[0]))
        merge([str(parts[0])], str(into[1]))
        merged = [*into, folder.merged(*parts), folder.merged(folder.merged(*parts[::-1]))]
        assert [chosen(store) for store in merged] == [(NETS[0][1], ORACLES[last - 1][1])] * len(merged)


@law
@given(stores, stores, stores)
@pytest.mark.slow
def test_three_stores_have_one_history_in_any_order(first: Drawn, second: Drawn, third: Drawn) -> None:
    def check(folder: Folder, *drawn: Drawn) -> None:
        parts = [folder.store(drawn_store) for drawn_store in drawn]
        merged = [contents(folder.merged(*(parts[i] for i in order))) for order in ((0, 1, 2), (2, 0, 1), (1, 0, 2))]
        for table in ("positions", "net_values", "deep_values", "failures", "alpha_fits", "plays", "runs", "priors"):
            assert merged[0][table] == merged[1][table] == merged[2][table], table

    in_folder(check)(first, second, third)


@law
@given(stores, stores)
def test_all_keys_are_there_and_nothing_points_nowhere(first: Drawn, second: Drawn) -> None:
    def check(folder: Folder, first: Drawn, second: Drawn) -> None:
        a, b = folder.store(first), folder.store(second)
        both = folder.merged(a, b)
        with closing(sqlite3.connect(both)) as connection:
            keys = {key for (key,) in connection.execute("SELECT key FROM positions")}
            assert keys == {row.key for row in (*first[0], *second[0])}
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            same = "v.oracle_id = f.oracle_id AND v.stage = f.stage AND v.position_id = f.position_id"
            query = f"SELECT count(*) FROM failures f JOIN deep_values v ON {same}"
            assert connection.execute(query).fetchone() == (0,)
            # Each value is one that a store had with the history that is kept.
            query = (
                "SELECT p.key, length(p.moves) / 2, n.net_id, n.q FROM net_values n "
                "JOIN positions p ON p.id = n.position_id"
            )
            had = {(r.key, r.history, net, q) for r in (*first[0], *second[0]) for net, q in r.net_q.items()}
            names = dict(connection.execute("SELECT id, sha256 FROM nets"))
            numbers = {sha256: number for number, (_, sha256) in enumerate(NETS, 1)}
            for key, history, net, q in connection.execute(query):
                assert (key, history, numbers[names[net]], q) in had

    in_folder(check)(first, second)


@settings(law, max_examples=4)
@given(stores, stores)
@pytest.mark.slow
def test_frames_are_the_same_in_any_order(first: Drawn, second: Drawn) -> None:
    def check(folder: Folder, first: Drawn, second: Drawn) -> None:
        a, b = folder.store(first), folder.store(second)
        frames = []
        for parts in ((a, b), (b, a)):
            with Store.open(folder.merged(*parts)) as store:
                for sha256 in ("aa", "bb"):
                    for digest in ("pp", "qq"):
                        net = NETS[[s for _, s in NETS].index(sha256)][0]
                        oracle = ORACLES[[d for _, d in ORACLES].index(digest)][0]
                        scored = store.connection.execute(
                            "SELECT count(*) FROM deep_values v JOIN net_values n ON n.position_id = v.position_id "
                            "JOIN nets ON nets.id = n.net_id JOIN oracles o ON o.id = v.oracle_id "
                            "WHERE nets.sha256 = ? AND o.digest = ?", (sha256, digest)
                        ).fetchone()[0]  # fmt: skip
                        if scored:
                            frame = store.frame(Question(net=net, oracle=oracle, alpha=200.0)).drop(
                                columns=["position_id", "game_id"]
                            )
                            frames.append((parts == (a, b), net, oracle, frame.sort_values("key").to_csv(index=False)))
        ahead = [columns[1:] for columns in frames if columns[0]]
        assert ahead == [columns[1:] for columns in frames if not columns[0]]

    in_folder(check)(first, second)
