"""`vr merge`: shards mined apart are as if mined into one; contradictions; screening; stores of all kinds."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli_tree import vr
from tests.climbing_doubles import ALPHA, THRESHOLD, climb_by_key, ladder_options, options_for, true_q
from tests.climbing_doubles import net_q as shifted_q
from tests.merge_stores import NODES, Row, contents, large_store, write_store
from tests.mining_doubles import KeyOracle, mine_by_key, random_games
from valuerepair.errors import ValueRepairError
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.report.stats import store_figures
from valuerepair.store import schema
from valuerepair.store.merge import Merged, merge
from valuerepair.store.store import Store

Captured = pytest.CaptureFixture[str]


def merged(folder: Path, *parts: Path) -> tuple[Path, Merged]:
    target = folder / f"merged-{time.monotonic_ns()}.db"
    return target, merge([str(part) for part in parts], str(target))


# -- shards -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Two shards of games, of which some begin alike, mined apart, and both mined into one store."""
    folder = tmp_path_factory.mktemp("shards")
    archives = [random_games(folder / f"{seed}.pgn", 25, seed) for seed in (1, 2)]
    for name, used in (("a.db", archives[:1]), ("b.db", archives[1:]), ("both.db", archives)):
        for archive in used:
            mine_by_key(archive, folder / name)
    return folder / "a.db", folder / "b.db", folder / "both.db"


def test_shards_merged_are_as_mined_into_one(shards: tuple[Path, Path, Path], tmp_path: Path) -> None:
    a, b, both = shards
    target, account = merged(tmp_path, a, b)
    clock = ("started", "finished", "counts", "fitted")
    merged_rows, expected = contents(target, clock), contents(both, clock)
    assert account.contradictions == []
    assert merged_rows == expected
    frames = []
    for path in (target, both):
        with Store.open(path) as store:
            frames.append(
                store.frame(Question(alpha=200.0)).drop(columns=["position_id", "game_id"]).sort_values("key")
            )
    pd.testing.assert_frame_equal(*(frame.reset_index(drop=True) for frame in frames))


def test_mining_goes_on_in_a_merged_store(shards: tuple[Path, Path, Path], tmp_path: Path) -> None:
    target, _ = merged(tmp_path, *shards[:2])
    before = contents(target, ("finished",))
    oracle = KeyOracle()
    mine_by_key(shards[0].parent / "1.pgn", target, oracle=oracle)
    # What failed is tried again, nothing else.
    assert {position.key for position in oracle.searched} <= {row[2] for row in before["failures"]}
    after = contents(target, ("finished",))
    assert {table: after[table] for table in after if table != "runs"} == {
        table: before[table] for table in before if table != "runs"
    }
    assert len(after["runs"]) == len(before["runs"])


# -- screening --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ladders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Two shards mined with a ladder, and the second one without."""
    folder = tmp_path_factory.mktemp("ladders")
    archives = [random_games(folder / f"{seed}.pgn", 120, seed) for seed in (3, 4)]
    for name, archive in zip(("a.db", "b.db"), archives, strict=True):
        climb_by_key(archive, folder / name, options_for(ladder_options(audit=0.1)))
    climb_by_key(archives[1], folder / "off.db", options_for(None))
    return folder / "a.db", folder / "b.db", folder / "off.db"


@pytest.mark.slow
def test_weights_of_screened_shards_stand_for_all(ladders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    a, b, _ = ladders
    target, _ = merged(tmp_path, a, b)
    with Store.open(target) as store:
        frame = store.frame(Question(alpha=ALPHA))
        keys = [key % 2**64 for (key,) in store.connection.execute("SELECT key FROM positions")]
        (failed,) = store.connection.execute("SELECT count(*) FROM failures").fetchone()
        (cut,) = store.connection.execute("SELECT count(*) FROM screened WHERE NOT searched").fetchone()
        shares = {r for (r,) in store.connection.execute("SELECT probability FROM screened WHERE cut_at NOT NULL")}
        figures = store_figures(store, Question(alpha=ALPHA, threshold=THRESHOLD))["scored"]
    assert cut > 50
    assert len(shares) > 5  # the shards drew their audits with other chances
    assert frame["weight"].sum() == pytest.approx(len(keys) - failed)
    truth = np.mean([abs(shifted_q(key) - true_q(key)) >= THRESHOLD for key in keys])
    (row,) = [counts for counts in figures["by_threshold"] if counts["threshold"] == THRESHOLD]
    assert row["low"] <= truth <= row["high"]
    screening = figures["screening"]
    assert screening["cut"] == cut
    assert screening["recall_low"] <= screening["recall"] <= screening["recall_high"]


@pytest.mark.slow
def test_what_another_store_searched_without_a_ladder_stands_for_itself(
    ladders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    a, b, off = ladders
    for parts in ((a, b, off), (off, b, a)):
        target, _ = merged(tmp_path, *parts)
        with Store.open(off) as store:
            whole = set(store.frame(Question(alpha=ALPHA))["key"])
        with Store.open(target) as store:
            frame = store.frame(Question(alpha=ALPHA))
            # One that was cut in a shard and failed without a ladder is stood for by those like it.
            query = "SELECT count(*) FROM failures WHERE position_id NOT IN (SELECT position_id FROM screened)"
            (failed,) = store.connection.execute(query).fetchone()
            (positions,) = store.connection.execute("SELECT count(*) FROM positions").fetchone()
        assert set(frame.loc[frame["key"].isin(whole), "weight"]) == {1.0}
        assert frame["weight"].max() > 1
        assert frame["weight"].sum() == pytest.approx(positions - failed)


def test_of_two_passages_the_likelier_audit_is_kept_whether_it_was_made_or_not(tmp_path: Path) -> None:
    full = {1: ("full", 50, NODES)}
    for audited in (True, False):
        likely = Row(1, 0, 1, 1, {1: 0.1}, full if audited else {}, {(1, 1): (True, True, 0.1)})
        seldom = Row(1, 0, 1, 2, {1: 0.1}, {} if audited else full, {(1, 1): (True, True, 0.02)})
        parts = [
            write_store(tmp_path / f"{name}{audited}.db", [row], {})
            for name, row in (("a", likely), ("b", seldom))
            if row.deep
        ]
        target, _ = merged(tmp_path, *parts)
        (passage,) = contents(target)["screened"]
        assert passage[8] == (0.1 if audited else 0.02)


# -- contradictions ---------------------------------------------------------------------------------------------------

PLAIN = Row(1, 0, 1, 1, {1: 0.1}, {1: ("full", 50, NODES)})
KINDS = {
    "another history": Row(1, 1, 1, 1, {1: 0.1}, {1: ("full", 50, NODES)}),
    "another net value": Row(1, 0, 1, 2, {1: 0.3}, {1: ("full", 50, NODES)}),
    "another deep value": Row(1, 0, 1, 2, {1: 0.1}, {1: ("full", 60, 2 * NODES)}),
    "a value here, a failure there": Row(1, 0, 1, 1, {1: 0.1}, {1: ("failed", 0, 0)}),
}


@pytest.mark.parametrize("kind", [*KINDS, "two alpha fits"])
def test_contradictions_are_told_and_settled_by_rule(kind: str, tmp_path: Path) -> None:
    a = write_store(tmp_path / "a.db", [PLAIN], {(1, 1): (150.0, 400)})
    b = write_store(
        tmp_path / "b.db",
        [KINDS.get(kind, PLAIN)],
        {(1, 1): (250.0, 900) if kind == "two alpha fits" else (150.0, 400)},
    )
    target, account = merged(tmp_path, a, b)
    assert kind in [contradiction.kind for contradiction in account.contradictions]
    assert account.contradictions[0].count == 1
    rows = contents(target)
    (position,), (net_value,), (deep,), (fit,) = (
        rows[table] for table in ("positions", "net_values", "deep_values", "alpha_fits")
    )
    assert isinstance(position[3], bytes)
    assert len(position[3]) // 2 == (1 if kind == "another history" else 0)  # the longer of two histories
    assert net_value[2] == 0.1  # the older run's
    assert (deep[3], deep[11]) == ((60, 2 * NODES) if kind == "another deep value" else (50, NODES))
    assert fit[2] == (250.0 if kind == "two alpha fits" else 150.0)
    assert not rows["failures"]
    assert len(list(tmp_path.iterdir())) == 3


def test_values_of_another_history_are_left_out(tmp_path: Path) -> None:
    deeper = Row(1, 0, 1, 1, {1: 0.1}, {1: ("full", 50, 2 * NODES)})
    longer = Row(1, 2, 1, 1, {1: 0.2, 2: 0.3}, {1: ("full", 50, NODES), 2: ("full", 1, NODES)})
    a, b = write_store(tmp_path / "a.db", [deeper], {}), write_store(tmp_path / "b.db", [longer], {})
    rows = contents(merged(tmp_path, a, b)[0])
    assert [row[0:3] for row in rows["net_values"]] == [("aa fen_only", 1, 0.1)]
    assert [row[0] for row in rows["deep_values"]] == ["pp"]


# -- stores of all kinds ----------------------------------------------------------------------------------------------


def test_older_stores_are_read_and_stay_as_they_are(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", write_store(tmp_path / "new.db", [PLAIN], {})
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        oldest, script = next(iter(schema.MIGRATIONS.items()))
        connection.executescript(script)
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {oldest}")
        connection.execute(
            "INSERT INTO runs VALUES (9, 'old run', 'vr mine', '{}', 0, '{}', '2025', NULL, 'finished', '{}')"
        )
    before = old.read_bytes(), new.read_bytes()
    target, _ = merged(tmp_path, old, new)
    assert len(contents(target)["runs"]) == 4
    assert (old.read_bytes(), new.read_bytes()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["new.db", "old.db", target.name])


@pytest.mark.parametrize("is_link", [False, True])
def test_a_store_that_is_being_written_gives_what_is_committed(is_link: bool, tmp_path: Path) -> None:
    path = named = write_store(tmp_path / "a.db", [PLAIN], {})
    if is_link:  # the log is beside the file, not beside the link
        named = tmp_path / "elsewhere" / "link.db"
        named.parent.mkdir()
        named.symlink_to(path)
    with Store.open(path, write=True) as store:
        with store.writing() as connection:
            connection.execute("INSERT INTO alpha_fits VALUES (1, 1, 150, NULL, NULL, 'l1', 400, 0.1, '2026')")
        store.commit()
        with store.writing() as connection:
            connection.execute("DELETE FROM net_values")
        rows = contents(merged(tmp_path, named)[0])
    assert (len(rows["alpha_fits"]), len(rows["net_values"])) == (1, 1)


def test_bad_input_is_one_line_and_leaves_nothing(tmp_path: Path, capsys: Captured) -> None:
    good = write_store(tmp_path / "good.db", [PLAIN], {})
    (tmp_path / "text.db").write_text("not a store, but long enough to be looked at " * 40)
    (tmp_path / "empty.db").write_bytes(b"")
    (tmp_path / "link.db").symlink_to(good)
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
    before = {path.name for path in tmp_path.iterdir()}
    os.chdir(tmp_path)
    for words, code, complaint in (
        ("missing.db", 1, "there is no store at missing.db"),
        ("good.db text.db", 1, "text.db is not a valuerepair store"),
        ("good.db empty.db", 1, "empty.db is an empty file"),
        ("good.db other.db", 1, "another program"),
        (".", 1, "is a folder"),
        ("good.db good.db", 2, "good.db is given twice"),
        ("good.db link.db", 2, "link.db is given twice: good.db is the same file"),
        ("good.db -o good.db", 2, "both merged and merged into"),
        ("good.db -o link.db", 2, "both merged and merged into"),
        ("good.db -o no/m.db", 2, "no/m.db"),
    ):
        status, out, err = vr(["merge", *words.split()], capsys)
        assert (status, out) == (code, ""), err
        assert err.startswith("vr: ")
        assert complaint in err
        assert err.count("\n") == 1
        assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("target", [["-o", "m.db"], ["-o", "t.db"]])
def test_the_damaged_store_is_named(target: list[str], tmp_path: Path, capsys: Captured) -> None:
    """The last quarter of a file is overwritten; its header and schema stay as they are."""
    write_store(tmp_path / "a.db", [PLAIN], {})
    write_store(tmp_path / "t.db", [PLAIN], {})
    bad = tmp_path / "b.db"
    large_store(bad, 0, 400)
    whole = bad.read_bytes()
    bad.write_bytes(whole[: -len(whole) // 4] + b"\xff" * (len(whole) // 4))
    os.chdir(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    status, out, err = vr(["merge", "a.db", "b.db", *target], capsys)
    assert (status, out) == (1, "")
    assert err.startswith("vr: b.db: damaged (")
    assert err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("log", ["-wal", "-journal"])
def test_the_log_of_a_store_that_is_gone_is_not_played_into_a_new_one(log: str, tmp_path: Path) -> None:
    """As after a kill of `vr mine` and an `rm` of its store alone: SQLite believes any log of the right name."""
    a = write_store(tmp_path / "a.db", [PLAIN], {})
    gone = write_store(tmp_path / "gone.db", [PLAIN, Row(2, 0, 1, 1)], {})
    with closing(sqlite3.connect(gone)) as connection:
        connection.execute("PRAGMA journal_mode = WAL" if log == "-wal" else "PRAGMA cache_spill = 1")
        connection.execute("UPDATE net_values SET q = 0.9")
        if log == "-wal":
            connection.commit()
        left = Path(f"{gone}{log}").read_bytes()
    Path(f"{tmp_path}/new.db{log}").write_bytes(left)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueRepairError, match=rf"new\.db{log} is the log of a store that no longer exists"):
        merge([str(a)], str(tmp_path / "new.db"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("target", [["-o", "m.db"], ["-o", "t.db"]])
def test_a_full_disk_is_one_line_and_leaves_nothing(target: list[str], tmp_path: Path) -> None:
    """A limit on the size of files: what SQLite then says is what it says of a full disk."""
    large_store(tmp_path / "a.db", 0, 4000)
    before = contents(write_store(tmp_path / "t.db", [PLAIN], {}))
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000)); "
        f"from valuerepair.__main__ import main; sys.argv = ['vr', 'merge', 'a.db', '-q', *{target}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "the disk is full or failing: make room" in done.stderr
    assert "nothing was kept" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "t.db"]
    assert contents(tmp_path / "t.db") == before


@pytest.mark.parametrize("into", [False, True])
def test_ctrl_c_leaves_what_was_there(into: bool, tmp_path: Path) -> None:
    a, b = (write_store(tmp_path / f"{n}.db", [PLAIN], {}) for n in "ab")
    shutil.copy(a, tmp_path / "target.db")

    class Interrupted(Progress):
        def advance(self, amount: int = 1) -> None:
            self.done += amount
            if self.done > 1:
                raise KeyboardInterrupt

    before = contents(tmp_path / "target.db")
    with pytest.raises(KeyboardInterrupt):
        merge(
            [str(a), str(b)],
            str(tmp_path / ("target.db" if into else "new.db")),
            progress=Interrupted("merging", quiet=True),
        )
    assert contents(tmp_path / "target.db") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "b.db", "target.db"]


def test_the_command(shards: tuple[Path, Path, Path], tmp_path: Path, capsys: Captured) -> None:
    a, b, _ = map(str, shards)
    os.chdir(tmp_path)
    code, out, err = vr(["merge", a, b, "-q"], capsys)
    assert (code, out, err) == (0, "", "")
    code, out, err = vr(["merge", a, "-o", "merged.db"], capsys)
    assert code == 0, err
    assert "0 of them new" in out
    assert vr(["merge", a, "-o", "merged.db", "-q"], capsys) == (0, "", "")
