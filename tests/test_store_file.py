"""Opening stores: files that are none, versions, locks, full disks, read-only places."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from valuerepair.runs.mine import mine
from valuerepair.runs.options import MineOptions

from tests.mining_doubles import KeyNet, KeyOracle, dump, mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.values import AlphaFit
from valuerepair.errors import ValueRepairError
from valuerepair.question import Question
from valuerepair.store import files, schema
from valuerepair.store.check import digest_check, integrity_checks
from valuerepair.store.rows import OracleIdentity
from valuerepair.store.store import Store


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_games(tmp_path_factory.mktemp("archive") / "random.pgn", 30)


def sqlite_file(path: Path, script: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path


def message(path: Path, **how: bool) -> str:
    with pytest.raises(ValueRepairError) as caught:
        Store.open(path, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_new_store_is_marked_and_in_wal_mode(tmp_path: Path, archive: Path) -> None:
    path = tmp_path / "a.db"
    mine_by_key(archive, path)
    connection = sqlite3.connect(path)
    pragmas = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    assert pragmas == [schema.APPLICATION_ID, schema.SCHEMA_VERSION]
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert not (tmp_path / "a.db.lock").exists()


def test_a_store_nothing_was_written_to_is_not_left_behind(tmp_path: Path) -> None:
    Store.open(tmp_path / "a.db", create=True).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [{}, {"write": True}, {"create": True}])
def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path, how: dict[str, bool]) -> None:
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"\x00\x01not a database at all" * 100)
    other = sqlite_file(tmp_path / "other.db", "CREATE TABLE games (id INTEGER)")
    marked = sqlite_file(tmp_path / "marked.db", "PRAGMA application_id = 7; CREATE TABLE t (x)")
    before = {path: path.read_bytes() for path in (junk, other, marked)}
    assert message(junk, **how) == f"{junk} is not a valuerepair store; give another --db"
    assert "is a database of another program" in message(other, **how)
    assert "is a database of another program" in message(marked, **how)
    assert "is a folder" in message(tmp_path, **how)
    assert before == {path: path.read_bytes() for path in before}
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".lock"]


def test_a_missing_or_empty_file(tmp_path: Path) -> None:
    assert "there is no store at" in message(tmp_path / "a.db")
    assert "make one with vr mine" in message(tmp_path / "a.db", write=True)
    assert "does not exist" in message(tmp_path / "no" / "a.db", create=True)
    (tmp_path / "empty.db").touch()
    assert "is an empty file" in message(tmp_path / "empty.db")


def test_a_newer_store_is_refused(tmp_path: Path, archive: Path) -> None:
    path = tmp_path / "a.db"
    mine_by_key(archive, path)
    sqlite_file(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    for how in ({}, {"write": True}, {"create": True}):
        assert "was written by a newer valuerepair" in message(path, **how)


def test_older_stores_are_migrated_for_readers_too(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    mine_by_key(archive, path)
    before = dump(path)
    last = schema.SCHEMA_VERSION
    host = "ALTER TABLE runs ADD COLUMN host TEXT DEFAULT 'here'"
    newer = {**schema.MIGRATIONS, last + 1: host, last + 2: "CREATE TABLE later (x)"}
    monkeypatch.setattr(schema, "MIGRATIONS", newer)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", last + 2)
    with Store.open(path) as store:
        assert store.connection.execute("SELECT DISTINCT host FROM runs").fetchall() == [("here",)]
        assert store.connection.execute("PRAGMA user_version").fetchone()[0] == last + 2
        assert len(store.frame()) > 0
    after = dump(path)
    assert after["positions"] == before["positions"]
    assert after["later"] == []


# What version 10 has added, taken back.
BEFORE_KINDS = "DROP INDEX positions_beside; ALTER TABLE positions DROP COLUMN kind; PRAGMA user_version = 9"


def test_a_store_of_before_it_knew_kinds(tmp_path: Path, archive: Path) -> None:
    """What ``vr mine --off-game`` drew is told by the options of its run, and is no part of the archive's rates;
    what was only reached from candidates has no kind."""
    path = tmp_path / "a.db"
    mine_by_key(archive, path)
    with Store.open(path) as store:
        before = store.frame(only=("position_id", "deep_q", "kind"))
    assert {*before["kind"]} == {"game"}
    whole = "SELECT position_id FROM deep_values WHERE stage = 'full' ORDER BY position_id"
    sqlite_file(
        path,
        f"""{BEFORE_KINDS};
        INSERT INTO runs (identity, command, options, seed, versions, started, state)
            VALUES ('other', 'vr mine --off-game', '{{"aside":true}}', 0, '{{}}', '2026', 'finished');
        UPDATE positions SET run_id = (SELECT max(id) FROM runs) WHERE id IN ({whole} LIMIT 5);
        INSERT INTO expanded SELECT (SELECT min(id) FROM nets), oracle_id, position_id, position_id, position_id,
            'child', 1, 1, 0, NULL, NULL, NULL, 9, 1, 1, run_id FROM deep_values
            WHERE stage = 'full' AND position_id IN ({whole} LIMIT 3 OFFSET 5);
        UPDATE deep_values SET stage = 'expanded' WHERE position_id IN (SELECT position_id FROM expanded)""",
    )
    with Store.open(path) as store:
        assert store.connection.execute("PRAGMA user_version").fetchone()[0] == schema.SCHEMA_VERSION
        assert [check.name for check in integrity_checks(store) if check.wrong] == []
        games, every = store.frame(), store.frame(Question(expanded="searched"))
    ids = before["position_id"].tolist()
    assert games["position_id"].tolist() == ids[8:]
    assert every["position_id"].tolist() == ids
    assert every["kind"].fillna("none").tolist() == ["aside"] * 5 + ["none"] * 3 + ["game"] * (len(ids) - 8)
    assert every["deep_q"].tolist() == before["deep_q"].tolist()
    assert every["weight"].tolist() == [1.0] * len(ids)
    assert every["step"].fillna("none").tolist()[:8] == ["none"] * 5 + ["child"] * 3


def test_the_own_search_goes_by_its_number_in_a_store_of_before(tmp_path: Path, archive: Path) -> None:
    """Its digest is what it was, so that runs go on."""
    path, search = tmp_path / "a.db", OracleIdentity("mcts", "valuerepair 0.1.0 search 1", "a", {"nodes": 5}, {}, "net")
    mine_by_key(archive, path)
    with Store.open(path, write=True) as store:
        number = store.add_oracle(search)
    before = "UPDATE oracles SET label = 'valuerepair 0.1.0 search 1 net nodes=5' WHERE kind = 'mcts'"
    sqlite_file(path, f"{BEFORE_KINDS}; {before}")
    with Store.open(path, write=True) as store:
        assert store.add_oracle(search) == number
        assert store.oracles()["label"].tolist()[-1] == search.label == "valuerepair search 1 net nodes=5"
        assert not digest_check(store).wrong


def test_a_store_of_before_it_knew_where_nets_lie(tmp_path: Path, archive: Path) -> None:
    path = tmp_path / "a.db"
    mine_by_key(archive, path)
    sqlite_file(path, f"{BEFORE_KINDS}; DROP TABLE files; PRAGMA user_version = 8")
    with Store.open(path) as store:
        (key,) = store.nets()["sha256"]
        assert store.connection.execute("PRAGMA user_version").fetchone()[0] == schema.SCHEMA_VERSION
        assert files.net_option(store, key) is None
        assert files.reason_missing(store, "key-net", key) == "the store does not know where the net key-net is"
        assert len(store.frame()) > 0
    net = tmp_path / "key-net.pb.gz"
    net.write_bytes(b"a net")
    identity = replace(KeyNet.identity, sha256=hashlib.sha256(b"a net").hexdigest(), path=str(net))
    with Store.open(path, write=True) as store:
        store.add_net(identity, "fen_only")
        assert files.find_net(store, identity.key) == str(net)
        net.write_bytes(b"another net")
        assert files.find_net(store, identity.key) is None


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    mine_by_key(archive, path)
    before = dump(path)
    later = schema.SCHEMA_VERSION + 1
    bad = {**schema.MIGRATIONS, later: "CREATE TABLE later (x); INSERT INTO nowhere VALUES (1)"}
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", bad)
        patch.setattr(schema, "SCHEMA_VERSION", later)
        assert "no such table" in message(path, write=True)
    assert dump(path) == before


def test_one_writer_at_a_time_but_readers_any(tmp_path: Path, archive: Path) -> None:
    path = tmp_path / "a.db"
    mine_by_key(archive, path)
    with Store.open(path, write=True):
        assert f"is being written by another vr (process {os.getpid()})" in message(path, write=True)
        with Store.open(path) as reader:
            assert len(reader.frame()) > 0
    Store.open(path, write=True).close()


def test_a_link_to_a_store_is_the_store(tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, link = tmp_path / "a.db", tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    mine_by_key(archive, link)
    with Store.open(link, write=True) as writer:
        assert f"{path} is being written by another vr" in message(path, write=True)
        assert f"{link} is being written by another vr" in message(link, write=True)
        with writer.writing() as connection:
            connection.execute("DELETE FROM deep_values")
        writer.commit()
        # A reader without the right to write opens a file without a log as one that cannot change.
        monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
        with Store.open(link) as reader:
            assert reader.connection.execute("SELECT count(*) FROM deep_values").fetchone() == (0,)
        monkeypatch.undo()
    assert os.listdir(link.parent) == ["link.db"]


def test_readers_leave_no_files_and_cannot_write(tmp_path: Path, archive: Path) -> None:
    path = tmp_path / "a.db"
    mine_by_key(archive, path)
    with Store.open(path) as store:
        assert len(store.frame()) > 0
        with pytest.raises(ValueRepairError, match="cannot be opened for this"):
            store.connection.execute("DELETE FROM runs")
        with pytest.raises(ValueError, match="open for reading only"):
            store.set_alpha(1, 1, AlphaFit(1.0, 1.0, 1.0, "slope", 1, 0.0))
    assert [p.name for p in tmp_path.iterdir()] == ["a.db"]


def test_a_killed_writer_leaves_no_lock(tmp_path: Path, archive: Path) -> None:
    path = tmp_path / "a.db"
    mine_by_key(archive, path)
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sys, time\nfrom valuerepair.store.store import Store\n"
         "store = Store.open(sys.argv[1], write=True)\nprint('open', flush=True)\ntime.sleep(60)", str(path)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"open\n"
    assert f"(process {holder.pid})" in message(path, write=True)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    Store.open(path, write=True).close()


def test_a_full_disk_ends_the_run_and_keeps_what_was_committed(tmp_path: Path, archive: Path) -> None:
    full, roomy = tmp_path / "full.db", tmp_path / "roomy.db"
    with Store.open(full, create=True) as store, KeyOracle() as oracle:
        (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages + 8}")
        with pytest.raises(ValueRepairError, match="the disk is full"):
            mine([str(archive)], MineOptions(sample=SampleOptions(per_game=4)), store, KeyNet(), oracle)
    mine_by_key(archive, full)
    mine_by_key(archive, roomy)
    assert dump(full)["deep_values"] == dump(roomy)["deep_values"]
    with Store.open(full) as store:
        assert store.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@pytest.mark.parametrize("folder_mode", [0o555, 0o777])
def test_a_read_only_store_is_read_and_not_written(tmp_path: Path, archive: Path, folder_mode: int) -> None:
    path = tmp_path / "sub" / "a.db"
    path.parent.mkdir()
    mine_by_key(archive, path)
    # Root may write anywhere: as another user.
    for folder in [path.parent, *path.parent.parents]:
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    path.parent.chmod(folder_mode)
    path.chmod(0o444)
    program = (
        "import os, sys\nfrom valuerepair.store.store import Store\n"
        "with Store.open(sys.argv[1]) as store:\n    store.frame()\n"  # loads all modules, which only root may read
        "os.getuid() or os.setuid(65534)\n"
        "print(len(Store.open(sys.argv[1]).frame()) > 0)\n"
        "try:\n    Store.open(sys.argv[1], write=True)\nexcept Exception as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    path.parent.chmod(0o755)
    lines = done.stdout.splitlines()
    assert lines[0] == "True", done.stderr
    assert "cannot be written: Permission denied" in lines[1]
    assert os.listdir(path.parent) == ["a.db"]  # SQLite's files would have the mode of the store, for good
