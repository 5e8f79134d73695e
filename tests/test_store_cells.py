"""Stores that somebody changed: every command that reads one says in a line which cell is wrong, or reads on.

Some damage to each table is tried here; the file as a whole is a target of tests/fuzz.
"""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli_tree import SAMPLE
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.store.cells import Column, columns
from valuerepair.store.plays import outcomes
from valuerepair.store.reached import sampled_nodes
from valuerepair.store.store import Store

# Every command that reads a store, and what makes it read much; `{out}` is a folder.
READERS: dict[str, list[str]] = {
    "stats": ["stats", "--worst", "2", "--json"],
    "show": ["show", "17"],
    "export": ["export", "-o", "{out}/rows.csv"],
    "books": ["books", "--threshold", "0.35", "-o", "{out}/books"],
    "plot": ["plot", "scatter", "-o", "{out}/plot.svg"],
    "split": ["split", "--families", "0.2", "-o", "{out}/split.json"],
    "report": ["report", "--threshold", "0.35", "-o", "{out}/report.html"],
    "compare": ["compare", "maia-1900", "meangirl-8"],
    "merge": ["merge", "-o", "{out}/merged.db"],
    "check": ["doctor"],
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Remarks of thousands of commands would fill the memory."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample with a hundred and twenty positions; tables that it has nothing in have a row or more."""
    path = tmp_path_factory.mktemp("small") / "small.db"
    make_small(path)
    return path


def make_small(path: Path) -> None:
    with Store.open(shutil.copy(SAMPLE, path), write=True) as store:
        net, oracle = store.pick()
        execute = store.connection.execute
        execute("INSERT INTO calibrations VALUES (?, ?, 400.0, 'cp', '{}', 20, 10, '2026-01-01')", (net, oracle))
        execute("PRAGMA foreign_keys = OFF")
        several = "SELECT position_id FROM priors UNION SELECT position_id FROM deep_values WHERE stage = 'second'"
        several = f"SELECT position_id FROM ({several} UNION SELECT position_id FROM screened WHERE NOT searched)"
        several = f"SELECT id FROM positions WHERE id IN ({several} LIMIT 60) OR id % 15 = 2"
        execute(f"CREATE TEMP TABLE picked AS {several}")
        for table in (column.table for column in columns().values() if column.name == "position_id"):
            execute(f"DELETE FROM {table} WHERE position_id NOT IN (SELECT id FROM picked)")
        execute("DELETE FROM positions WHERE id NOT IN (SELECT id FROM picked)")
        execute("DELETE FROM games WHERE id NOT IN (SELECT game_id FROM positions)")
        execute("DELETE FROM plays WHERE number > 3")
        execute("UPDATE plays SET (key, fen) = (SELECT key, fen FROM positions WHERE id = 17)")
        execute("INSERT INTO files VALUES ('net', hex(zeroblob(32)), '/nets/a.pb.gz'), ('split', '', '/a.json')")
        number = "(SELECT max(id) FROM positions)"
        execute(f"INSERT INTO failures VALUES ({oracle}, 'second', {number}, 'it was tired', 3, 1)")
        reached = f"{net}, {oracle}, id, 17, 17, 'child', 1, 1, 0, NULL, NULL, NULL, 9, 1, 1, 1"
        execute(f"INSERT INTO expanded SELECT {reached} FROM positions WHERE id <> 17 ORDER BY id LIMIT 5")
        execute("UPDATE positions SET kind = 'aside' WHERE id = (SELECT max(position_id) FROM expanded)")
        store.commit()
        execute("VACUUM")
        execute("PRAGMA journal_mode = DELETE")


def damaged(source: Path, path: Path, column: Column, damage: str, where: str) -> bool:
    """Copies a store and damages a column of it; whether SQLite lets that be."""
    shutil.copy(source, path)
    with closing(sqlite3.connect(path)) as connection:
        try:
            text = f"UPDATE OR IGNORE {column.table} SET {column.name} = {damage.format(column.name)} WHERE {where}"
            changed = connection.execute(text).rowcount
        except sqlite3.Error:
            return False
        connection.commit()
    return changed > 0


def run(name: str, path: Path, out: Path) -> Result:
    """A reader of `READERS` on a store, in this process."""
    words = [word.format(out=out) for word in READERS[name]]
    out.mkdir(exist_ok=True)
    return CliRunner().invoke(cli, [*words, *([str(path)] if name in ("merge", "check") else ["--db", str(path)])])


def said(result: Result) -> str:
    """The line that a command ends with; empty where it reads on. Anything else that it ends with is raised."""
    if isinstance(result.exception, ValueRepairError):
        assert "\n" not in str(result.exception)
        return str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return ""


@pytest.mark.parametrize("name", READERS)
def test_what_is_whole_is_read(name: str, small: Path, tmp_path: Path) -> None:
    assert name == "check" or run(name, small, tmp_path).exit_code == 0


ONE = "id = 17"
CHANGED = [
    ("runs.counts", "replace(hex(zeroblob(50000)), '00', '[')", "id = 1", "stats"),
    ("games.headers", "'{{\"ECO\":[1]}}'", "1", "report"),
    ("positions.fen", "'8/8/8/8/8/8/8/8 w - - 0 1'", ONE, "show"),
    ("positions.start_fen", "'zz'", ONE, "split"),
    ("positions.moves", "x'ffff'", ONE, "export"),
    ("positions.ply", "4611686018427387904", ONE, "export"),
    ("net_values.q", "9e999", "position_id = 17", "stats"),
    ("net_values.best_move", "99999", "position_id = 17", "show"),
    ("deep_values.cp", "'12 or so'", "position_id = 17 AND stage = 'full'", "report"),
    ("alpha_fits.alpha", "-1.0", "1", "stats"),
    ("screened.probability", "0.0", "position_id = 17", "stats"),
    ("plays.z", "17.0", "1", "show"),
]


@pytest.mark.parametrize(("place", "damage", "where", "name"), CHANGED)
def test_a_changed_cell_is_named(place: str, damage: str, where: str, name: str, small: Path, tmp_path: Path) -> None:
    column = columns()[place]
    path = tmp_path / "a.db"
    assert damaged(small, path, column, damage, where)
    line = said(run(name, path, tmp_path / "out"))
    key = ", ".join(rf"{part} \S+" for part in column.key)
    assert re.match(rf"\S+a\.db is damaged: table {column.table}, row {key}, column {column.name}: .+ is ", line), line
    assert f"`vr doctor {path}`" in line


@pytest.mark.parametrize("name", ["books", "report"])
@pytest.mark.parametrize(
    "fen", ["7k/8/8/8/8/8/8/K7 w - - 0 70000", "P6k/8/8/8/8/8/8/K7 w - - 0 1", "7k/7R/8/8/8/8/8/K7 w - - 0 1"]
)
def test_a_fen_that_no_game_reaches_is_named(fen: str, name: str, small: Path, tmp_path: Path) -> None:
    """Those of the right form, too: a counter beyond lc0's, a pawn on the last rank, a king that could be taken."""
    path = tmp_path / "a.db"
    assert damaged(small, path, columns()["positions.fen"], f"'{fen}'", "1")
    line = said(run(name, path, tmp_path / "out"))
    assert re.match(r"\S+a\.db is damaged: table positions, row id \d+, column \w+: .+ is ", line), line


def read(name: str, path: Path, out: Path) -> tuple[str, str]:
    """Reads a store by a command and deletes it: what the command said, and what is wrong with how it ended."""
    started, line, fault = time.process_time(), "", ""
    try:
        line = said(run(name, path, out))
    except Exception as error:
        fault = f"{error!r} at {traceback.extract_tb(error.__traceback__)[-1]}"
    if (seconds := time.process_time() - started) > 20:
        fault = f"{seconds:.0f} s"
    path.unlink()
    shutil.rmtree(out)
    return line, fault


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


@pytest.mark.parametrize(
    ("script", "different"),
    [
        (
            f"ALTER TABLE positions RENAME TO hidden; CREATE VIEW positions AS {ENDLESS} "
            "SELECT h.* FROM n CROSS JOIN hidden h",
            "table positions",
        ),
        (
            f"CREATE TRIGGER t AFTER UPDATE ON runs BEGIN INSERT INTO files {ENDLESS} SELECT i, i, i FROM n; END",
            "trigger t",
        ),
        ("ALTER TABLE plays ADD COLUMN more", "table plays"),
    ],
)
def test_other_tables_than_a_stores_are_not_asked(script: str, different: str, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    shutil.copy(small, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    before = path.read_bytes()
    for name in ("stats", "merge"):
        assert different in said(run(name, path, tmp_path / "out")), name
    with pytest.raises(ValueRepairError, match=different):
        Store.open(path, write=True)
    assert path.read_bytes() == before


def spoiled(data: bytes, dice: random.Random, kind: str) -> bytes:
    """A file of pages of 4096 bytes, some of them overwritten, or the file cut off."""
    if kind == "cut":
        return data[: dice.randrange(1, len(data))]
    pages = [data[i : i + 4096] for i in range(0, len(data), 4096)]
    for number in dice.sample(range(1, len(pages)), dice.choice((1, 5, 20))):
        of_kind = {"noise": dice.randbytes(4096), "zeros": bytes(4096), "another": dice.choice(pages)}
        pages[number] = of_kind[kind]
    return b"".join(pages)


@pytest.mark.parametrize("kind", ["cut", "noise", "zeros", "another"])
def test_overwritten_pages_end_in_a_line(kind: str, small: Path, tmp_path: Path) -> None:
    assert spoil(small, tmp_path, kind, count=6, seed=1) > 1


def spoil(small: Path, folder: Path, kind: str, count: int, seed: int) -> int:
    """Spoils `count` copies of a store and reads each by one of the commands; how many of these could not."""
    data, ended, faults = small.read_bytes(), 0, []
    for number in range(count):
        dice = random.Random(f"{seed} {number}")
        path, name = folder / f"{number}.db", dice.choice([*READERS])
        path.write_bytes(spoiled(data, dice, kind))
        line, fault = read(name, path, folder / f"{number}")
        ended += bool(line)
        if fault:
            faults.append(f"{name}: {kind}, number {number} of seed {seed}: {fault}")
    assert not faults, "\n".join(faults)
    return ended


@pytest.mark.parametrize(
    ("place", "damage"),
    [("deep_values.cp", "'12 or so'"), ("net_values.q", "9e999"), ("plays.plies", "x'00'"), ("positions.pieces", "77")],
)
def test_no_bad_cell_is_merged(place: str, damage: str, small: Path, tmp_path: Path) -> None:
    path, column = tmp_path / "a.db", columns()[place]
    assert damaged(small, path, column, damage, "1")
    line = said(run("merge", path, tmp_path / "out"))
    assert f"a.db is damaged: table {column.table}, row " in line
    assert f"column {column.name}: " in line
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("place", ["screened.nodes", "deep_values.nodes", "plays.z"])
def test_a_sum_takes_no_text_for_0(place: str, small: Path, tmp_path: Path) -> None:
    path, column = tmp_path / "a.db", columns()[place]
    assert damaged(small, path, column, "'many'", "1")
    if column.table == "deep_values":  # those of screened positions are not counted again
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DELETE FROM screened")
            connection.commit()
    with Store.open(path) as store:
        pair = store.pick()
        sums: dict[str, Callable[[], object]] = {
            "screened.nodes": lambda: sampled_nodes(store, *pair),
            "deep_values.nodes": lambda: sampled_nodes(store, *pair),
            "plays.z": lambda: outcomes(store),
        }
        with pytest.raises(ValueRepairError, match=f"table {column.table}, row .*, column {column.name}: 'many' is"):
            sums[place]()


def test_a_pipe_or_a_device_is_no_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        for name in ("stats", "merge", "check"):
            assert "not a valuerepair store" in said(run(name, path, tmp_path / "out"))


def test_after_a_crash_the_writer_looks_at_every_page(small: Path, tmp_path: Path) -> None:
    path, lock = tmp_path / "a.db", tmp_path / "a.db.lock"
    data = bytearray(small.read_bytes())
    with closing(sqlite3.connect(small)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'priors'").fetchone()
    data[4096 * (root - 1) : 4096 * root] = bytes(4096)
    path.write_bytes(data)
    lock.write_text("123456")  # as a writer leaves it that is killed
    for _ in range(2):
        with pytest.raises(ValueRepairError, match="its last writer died; malformed"):
            Store.open(path, write=True)
    Store.open(path).close()
    lock.unlink()
    Store.open(path, write=True).close()
    shutil.copy(small, path)
    lock.write_text("123456")
    Store.open(path, write=True).close()
    assert not lock.exists()


CRASHED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
connection.execute("PRAGMA cache_size = 1")  # pages are written before the transaction ends
connection.execute("UPDATE runs SET state = 'finished'")
connection.execute("BEGIN")
connection.execute("UPDATE positions SET ply = 77")
os._exit(0)
"""


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_log_without_a_lock_is_of_a_writer_that_died(mode: str, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    shutil.copy(small, path)
    with Store.open(path) as store:
        plies = store.connection.execute("SELECT ply FROM positions").fetchall()
    subprocess.run([sys.executable, "-c", CRASHED, path, mode], check=True)
    assert Path(f"{path}-{'wal' if mode == 'WAL' else 'journal'}").stat().st_size > 0
    left = {kept: kept.read_bytes() for kept in tmp_path.iterdir() if not kept.name.endswith("-shm")}
    for name in ("stats", "show", "merge"):
        for left_file, data in left.items():
            left_file.write_bytes(data)
        line = said(run(name, path, tmp_path / "out"))
        shutil.rmtree(tmp_path / "out")
        assert not line or (name, mode) == ("merge", "DELETE"), (name, line)
    with Store.open(path, write=True) as store:
        assert store.connection.execute("SELECT ply FROM positions").fetchall() == plies
    for left_file, data in left.items():
        left_file.write_bytes(data)
    with closing(sqlite3.connect(small)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'priors'").fetchone()
    with path.open("r+b") as file:
        file.seek(4096 * (root - 1))
        file.write(bytes(4096))
    for _ in range(2):
        with pytest.raises(ValueRepairError, match="its last writer died; malformed"):
            Store.open(path, write=True)
