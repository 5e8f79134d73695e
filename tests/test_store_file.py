"""Opening stores: files that are none, versions, locks, full disks, read-only places; what is written; faults."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.cli_tree import SAMPLE
from tests.merge_stores import Row, contents, write_store
from tests.scale.million import FULL, NET
from valuerepair.chess.origins import Kind, Origin
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.doctor import check_file
from valuerepair.errors import ValueRepairError
from valuerepair.store.check import faults
from valuerepair.store.rows import DeepResult, Run, RunRecord
from valuerepair.store.store import APPLICATION_ID, VERSION, Store

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
AFTER_NF3 = "rnbqkbnr/pppppppp/8/8/8/5N2/PPPPPPPP/RNBQKB1R b KQkq - 1 1"
RECORD = RunRecord("a run", "vr mine", {"positions": 5}, {})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_store(tmp_path / "a.db", [Row(1, nets=(1,), deep={1: "searched"})])


def message(path: Path, **how: bool) -> str:
    with pytest.raises(ValueRepairError) as caught:
        Store.open(path, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def script(path: Path, statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)
    return path


def position(key: int, kind: Kind = "game", moves: tuple[str, ...] = (), game: int = 1) -> Position:
    origin = Origin("a.pgn", game, kind=kind, game_key=game)
    return Position(AFTER_NF3 if moves else START, START, moves, len(moves), key, True, origin)


def test_a_new_store_is_marked_and_in_wal_mode(path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        pragmas = ("application_id", "user_version", "journal_mode", "integrity_check")
        found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
    assert found == [APPLICATION_ID, VERSION, "wal", "ok"]
    assert [file.name for file in tmp_path.iterdir()] == ["a.db"]


def test_a_store_nothing_was_written_to_is_not_left_behind(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db", create=True) as store:
        store.add_net(NET)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [{}, {"write": True}, {"create": True}])
def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path, how: dict[str, bool]) -> None:
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"\x00\x01not a database at all" * 100)
    other = script(tmp_path / "other.db", "CREATE TABLE games (id INTEGER)")
    marked = script(tmp_path / "marked.db", "PRAGMA application_id = 7; CREATE TABLE t (x)")
    before = {path: path.read_bytes() for path in (junk, other, marked)}
    assert "cannot be opened as a store (file is not a database)" in message(junk, **how)
    for file in (other, marked):
        assert message(file, **how) == f"{file} is not a valuerepair store; give another --db"
    assert str(tmp_path) in message(tmp_path, **how)
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


def test_a_missing_or_empty_file(tmp_path: Path) -> None:
    for how in ({}, {"write": True}):
        assert "vr mine makes one" in message(tmp_path / "a.db", **how)
    assert "cannot be written: No such file or directory" in message(tmp_path / "no" / "a.db", create=True)
    (tmp_path / "empty.db").touch()
    assert "empty.db is not a valuerepair store" in message(tmp_path / "empty.db")


@pytest.mark.parametrize(("version", "words"), [(VERSION - 1, "an older"), (VERSION + 1, "a newer")])
def test_a_store_of_another_version_is_refused(path: Path, version: int, words: str) -> None:
    script(path, f"PRAGMA user_version = {version}")
    for how in ({}, {"write": True}, {"create": True}):
        assert f"was written by {words} valuerepair (store version {version})" in message(path, **how)


def test_one_writer_at_a_time_but_readers_any(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with Store.open(link, write=True) as writer:
        for name in (path, link):
            assert f"{name} is being written by another vr" in message(name, write=True)
        writer.use(threshold=0.4)
        with Store.open(path) as reader:
            assert reader.setting("threshold") is None
            writer.commit()
            assert reader.setting("threshold") == 0.4
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                reader.use(threshold=0.5)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db", "link.db"]


def test_a_killed_writer_keeps_what_it_committed_and_no_lock(path: Path) -> None:
    program = """
import sys, time
from valuerepair.store.store import Store
store = Store.open(sys.argv[1], write=True)
store.use(threshold=0.4); store.commit()
store.use(threshold=0.3); print('open', flush=True); time.sleep(60)"""
    holder = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"open\n"
    assert "is being written" in message(path, write=True)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with Store.open(path, write=True) as store:
        assert store.setting("threshold") == 0.4
    assert [file.name for file in path.parent.iterdir()] == ["a.db"]


def test_a_piece_that_fails_is_not_written_at_all(path: Path) -> None:
    """What was written before it stays."""
    with Store.open(path, write=True) as store:
        store.use(threshold=0.4)
        with suppress(sqlite3.OperationalError), store.writing() as connection:
            connection.execute("DELETE FROM net_values")
            store.use(threshold=0.3)
            connection.execute("nonsense")
    with Store.open(path) as store:
        assert (store.setting("threshold"), store.counts()["net_values"]) == (0.4, 1)


def test_a_full_disk_keeps_what_was_committed(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.use(threshold=0.4)
        store.commit()
        (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(sqlite3.OperationalError, match="full"), store.running(RECORD):
            store.use(**{f"setting {i}": "long " * 999 for i in range(99)})
    with Store.open(path) as store:
        assert (store.setting("threshold"), store.setting("setting 0")) == (0.4, None)
        assert store.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@pytest.mark.parametrize("folder_mode", [0o555, 0o777])
def test_a_read_only_store_is_read_and_not_written(tmp_path: Path, folder_mode: int) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    path = write_store(folder / "a.db", [Row(1)])
    # Root may write anywhere: as another user.
    for parent in path.parents:
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    folder.chmod(folder_mode)
    path.chmod(0o444)
    program = """
import fcntl, os, sys
from valuerepair.store.store import Store
Store.open(sys.argv[1]).close()  # loads all modules, which only root may read
os.getuid() or os.setuid(65534)
with Store.open(sys.argv[1]) as store: print(store.counts()["positions"])
try: Store.open(sys.argv[1], write=True)
except Exception as error: print(error)"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    folder.chmod(0o755)
    lines = done.stdout.splitlines()
    assert lines[0] == "1", done.stderr
    assert lines[1].startswith(f"{path} cannot be written: Permission denied")
    assert os.listdir(folder) == ["a.db"]  # SQLite's files would have the mode of the store, for good


# -- what is written --------------------------------------------------------------------------------------------------


def test_a_run_of_the_same_work_is_the_same_run(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db", create=True) as store:
        with suppress(KeyError), store.running(RECORD) as run:
            store.add_positions(PositionBatch.from_positions([position(1)]), run)
            run.counts["games"] = 3
            raise KeyError
        query = "SELECT id, state, counts FROM runs"
        assert store.connection.execute(query).fetchall() == [(1, "interrupted", '{"games":3}')]
        with store.running(RECORD) as again:
            assert (again.id, again.resumed, again.counts) == (1, True, {"games": 3})
            assert store.connection.execute(query).fetchone()[1] == "running"
        with store.running(replace(RECORD, identity="another")) as other:
            assert (other.id, other.resumed) == (2, False)
        assert [row[1] for row in store.connection.execute(query)] == ["finished", "finished"]


def test_a_position_of_a_game_takes_the_place_of_the_same_one_beside_games(tmp_path: Path) -> None:
    """Once; the first history stays otherwise."""
    run = Run(1)
    with Store.open(tmp_path / "a.db", create=True) as store, store.running(RECORD):
        judge = store.add_judge(FULL)
        beside = PositionBatch.from_positions([position(1, "random_move"), position(2), position(1, "search_node")])
        first = store.add_positions(beside, run)
        assert first[0] == first[2] != first[1]
        for number in {*first.tolist()}:
            store.add_deep(number, judge, DeepResult(cp=5), run)
        moved = [position(1, "game", ("g1f3",), game=2), position(2, "game", ("g1f3",), game=2)]
        assert store.add_positions(PositionBatch.from_positions(moved), run).tolist() == first[:2].tolist()
        kept = [(p.origin.kind, p.moves, p.origin.game) for p in store.positions(first[:2])]
        assert kept == [("game", ("g1f3",), 2), ("game", (), 1)]
        assert store.without_value(judge, first[:2]).tolist() == [True, False]  # the value was of another history
        assert store.add_positions(beside, run).tolist() == first.tolist()
        assert store.positions(first[:1])[0].origin.kind == "game"


def test_a_score_takes_the_place_of_a_failure_and_not_the_reverse(path: Path) -> None:
    run, ids = Run(1), np.array([1], np.int64)
    with Store.open(path, write=True) as store:
        judge = store.add_judge(FULL)
        store.add_failure(1, judge, "crashed", run)
        assert store.without_value(judge, ids).tolist() == [True]
        store.add_failure(1, judge, "crashed again", run)
        store.add_deep(1, judge, DeepResult(cp=5, pv=("e2e4", "e7e5")), run, weight=3.0)
        store.add_failure(1, judge, "too late", run)
        assert store.without_value(judge, ids).tolist() == [False]
    (row,) = [row for row in contents(path)["deep_values"] if row[0] == FULL.digest]
    assert (row[2], row[13:]) == (5, ("e2e4 e7e5", 3.0, None, "run 1"))


def test_nets_and_judges_are_known_by_their_content(path: Path) -> None:
    with Store.open(path, write=True) as store:
        net, judge, short = (
            store.add_net(NET),
            store.add_judge(FULL),
            store.add_judge(replace(FULL, limits={"nodes": 5})),
        )
        assert store.add_net(replace(NET, name="renamed", path="/nets/a.pb.gz")) == net
        assert store.add_net(replace(NET, variant="-f16")) != net
        assert store.add_judge(replace(FULL, sha256="another program"), short) == judge
        assert store.add_judge(FULL) == judge != short
        query = "SELECT name, path, (SELECT short_id FROM judges WHERE id = ?) FROM nets WHERE id = ?"
        assert store.connection.execute(query, (judge, net)).fetchone() == ("drawn-net", "/nets/a.pb.gz", short)


# -- `vr doctor` of a store --------------------------------------------------------------------------------------------


def test_the_sample_is_sound() -> None:
    checked = check_file(SAMPLE)
    assert checked.sound
    assert checked.figures["positions"] == 1500
    assert checked.lines()[1].startswith("  1,500 positions, 2,776 net values, 704 deep values")


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("DELETE FROM positions WHERE id = 7", "a row of .*_values points to none of positions"),
        ("UPDATE positions SET fen = 'nonsense w - - 0 1' WHERE id = 7", "position 7: row 6: .*nonsense"),
        ("UPDATE positions SET key = key + 1 WHERE id = 7", "position 7: .* its key is another's"),
        ("UPDATE positions SET moves = substr(moves, 3) WHERE id = 7", "position 7: row 6, move 0 .*: not legal"),
        ("UPDATE positions SET moves = substr(moves, 1, length(moves) - 4) WHERE id = 7", "position 7: its moves lead"),
        ("UPDATE positions SET moves = x'ff' WHERE id = 7", "position"),
    ],
)
def test_each_fault_is_found(statement: str, found: str, tmp_path: Path) -> None:
    db = shutil.copy(SAMPLE, tmp_path / "v.db")
    with closing(sqlite3.connect(db)) as connection:
        connection.execute(statement)
        connection.commit()
    checked = check_file(db)
    assert not checked.sound
    assert len(checked.details) == 1
    assert re.search(found, checked.details[0])


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    content = bytearray(SAMPLE.read_bytes())
    for page in range(20, 60):
        content[4096 * page + 100 : 4096 * page + 300] = b"\xff" * 200
    (tmp_path / "v.db").write_bytes(content)
    with Store.open(tmp_path / "v.db") as store:
        (line,) = faults(store)
    assert line.startswith("the file is damaged: ")
    assert "\n" not in line
