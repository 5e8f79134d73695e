"""The checks of a store: the sample store passes, and each way to corrupt it is found by the check that is for it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.cli_tree import SAMPLE
from tests.merge_stores import Row, write_store
from valuerepair.nets.net import open_net
from valuerepair.question import Question
from valuerepair.store.check import KINDS, StoreCheck, check_store
from valuerepair.store.store import Store


@pytest.fixture
def db(tmp_path: Path) -> Path:
    with Store.open(shutil.copy(SAMPLE, tmp_path / "v.db"), write=True):
        pass  # brought to the present version
    return tmp_path / "v.db"


def corrupt(db: Path, statement: str, before: str = "PRAGMA foreign_keys = OFF") -> None:
    with closing(sqlite3.connect(db)) as connection:
        connection.execute(before)
        changed = connection.execute(statement).rowcount
        connection.commit()
        assert changed != 0 or statement.startswith(("DROP", "PRAGMA"))


def wrong(db: Path) -> dict[str, StoreCheck]:
    with Store.open(db, is_raw=True) as store:
        return {check.name: check for check in check_store(store) if check.wrong}


def test_the_sample_store_is_right_by_all_checks(db: Path) -> None:
    with Store.open(db, is_raw=True) as store:
        checks = list(check_store(store))
    assert [check for check in checks if check.wrong] == []
    assert len(checks) > 20
    # Of what the sample has no rows of: test_store_expanded.py has.
    reached = "expanded: steps and chances, with searches"
    assert {check.name for check in checks if not check.checked} <= {
        "a value or a failure, not both",
        "files: nets and the split",
        reached,
    }


ONE = "(SELECT min(id) FROM positions)"
FIRST = f"stage = 'full' AND position_id = {ONE}"
CORRUPTIONS = [
    ("DROP INDEX plays_by_key", "tables, indices and version", "index plays_by_key is missing"),
    (f"DELETE FROM positions WHERE id = {ONE}", "rows that others point to", "without its row in positions"),
    ("DELETE FROM runs WHERE id = 2", "rows that others point to", "without its row in runs"),
    (f"UPDATE net_values SET w = w + 0.1 WHERE net_id = 1 AND position_id = {ONE}", "net values: W + D + L is 1", ""),
    (f"UPDATE net_values SET q = q + 0.1 WHERE net_id = 1 AND position_id = {ONE}", "net values: W + D + L is 1", ""),
    ("UPDATE net_values SET q = 1.5 WHERE net_id = 3 AND position_id = (SELECT min(position_id) FROM net_values "
     "WHERE net_id = 3)", "net values: Q in [-1, 1]", "Q 1.5"),
    (f"UPDATE deep_values SET d = d + 90 WHERE {FIRST}", "deep values: W + D + L is", ""),
    (f"UPDATE deep_values SET cp = 1, mate = 3 WHERE {FIRST}", "deep values: a score", ""),
    (f"INSERT INTO failures VALUES (1, 'full', {ONE}, 'crashed', 3, 1)", "a value or a failure", "crashed"),
    ("UPDATE priors SET p = 1.5 WHERE rank = 1", "priors", ""),
    ("DELETE FROM net_values WHERE net_id = 1 AND position_id IN (SELECT position_id FROM priors)", "priors", ""),
    (f"DELETE FROM deep_values WHERE {FIRST}", "screening", ""),
    (f"UPDATE screened SET probability = 0 WHERE position_id = {ONE}", "screening", ""),
    ("UPDATE alpha_fits SET alpha = -3", "alpha fits", "alpha -3"),
    ("UPDATE plays SET z = -z WHERE number = 0", "games played", "1-0"),
    ("UPDATE runs SET counts = '{' WHERE id = 1", "runs: JSON", "run 1"),
    ("UPDATE games SET headers = 'x' WHERE id = 1", "games: headers", ""),
    ("UPDATE screens SET model = '' WHERE id = 1", "screens: models", "screen 1"),
    (f"UPDATE positions SET fen = 'nonsense w - - 0 1' WHERE id = {ONE}", "positions: FEN", "nonsense"),
    (f"UPDATE positions SET key = key + 1 WHERE id = {ONE}", "positions: key of the FEN", ""),
    (f"UPDATE positions SET pieces = 3 WHERE id = {ONE}", "positions: side, phase, pieces", ""),
    (f"UPDATE positions SET moves = substr(moves, 3) WHERE id = {ONE}", "positions: moves lead", "not legal"),
    (f"UPDATE positions SET moves = substr(moves, 1, length(moves) - 4) WHERE id = {ONE}", "positions: moves lead",
     "lead to"),
    (f"UPDATE positions SET played = 'a1a1' WHERE id = {ONE}", "moves played are legal", "a1a1"),
    (f"UPDATE net_values SET best_move = 65 WHERE net_id = 1 AND position_id = {ONE}", "net values: the best move", ""),
    (f"UPDATE deep_values SET best_move = 'h1a8' WHERE {FIRST}", "deep values: best move", "h1a8"),
    (f"UPDATE deep_values SET pv = pv || ' a1h7' WHERE {FIRST}", "deep values: best move", "not legal"),
    ("UPDATE deep_values SET stage = 'after:a1a8' WHERE stage = 'after:a3b4'", "deep values: best move", "not legal"),
    ("UPDATE oracles SET limits = '{\"nodes\":9}' WHERE id = 1", "oracles: digests", "stockfish"),
    ("UPDATE oracles SET limits = 'zz' WHERE id = 1", "oracles: digests", "stockfish"),
    ("UPDATE oracles SET options = '5' WHERE id = 1", "oracles: JSON", "stockfish"),
    ("UPDATE runs SET versions = '[]' WHERE id = 1", "runs: JSON", "run 1"),
    ("UPDATE net_values SET d = NULL WHERE net_id = 1", "net values: W + D + L is 1", "not all"),
    (f"UPDATE net_values SET best_p = -0.1 WHERE net_id = 1 AND position_id = {ONE}", "net values: Q in", "prior -0.1"),
    (f"UPDATE net_values SET entropy = 7.5 WHERE net_id = 1 AND position_id = {ONE}", "net values: Q in", "7.5"),
    (f"UPDATE net_values SET best_move = -5 WHERE net_id = 1 AND position_id = {ONE}", "net values: the best move", ""),
    (f"UPDATE net_values SET best_move = 99999 WHERE position_id = {ONE}", "net values: the best move", ""),
    ("UPDATE priors SET move = 65 WHERE rank = 1", "priors: the moves", "b1b1"),
    (f"UPDATE deep_values SET l = NULL WHERE {FIRST}", "deep values: W + D + L is", "not all"),
    (f"UPDATE deep_values SET seldepth = -1 WHERE {FIRST}", "deep values: a score", "stage full"),
    ("UPDATE deep_values SET stage = '25x' WHERE stage = '250'", "deep values: a score", "stage 25x"),
    (f"UPDATE deep_values SET pv = 'zz' WHERE {FIRST}", "deep values: best move", "not legal"),
    (f"UPDATE positions SET moves = x'ff' WHERE id = {ONE}", "positions: moves lead", "not legal"),
    (f"UPDATE positions SET moves = x'ffff' WHERE id = {ONE}", "positions: moves lead", "not legal"),
    ("UPDATE screened SET nodes = -1 WHERE cut_at IS NULL", "screening", ""),
    ("UPDATE screens SET alpha = 0 WHERE id = 1", "screens: models", "screen 1"),
    ("UPDATE plays SET result = '2-0', z = 1 WHERE number = 0", "games played: result", "2-0"),
    ("UPDATE plays SET key = key + 1 WHERE number = 0", "games played: key", "game 0"),
    ("UPDATE plays SET fen = 'zz w ' || fen WHERE number = 0", "games played: key", "game 0"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "name", "example"), CORRUPTIONS)
@pytest.mark.slow
def test_each_corruption_is_found_by_its_check(statement: str, name: str, example: str, db: Path) -> None:
    corrupt(db, statement)
    checks = [check for check_name, check in wrong(db).items() if check_name.startswith(name)]
    assert len(checks) == 1
    assert checks[0].wrong >= 1
    assert example in checks[0].example
    assert checks[0].example


def test_a_damaged_file_is_found_and_asked_no_further(db: Path) -> None:
    content = bytearray(db.read_bytes())
    for page in range(20, 60):
        content[4096 * page + 100 : 4096 * page + 300] = b"\xff" * 200
    db.write_bytes(content)
    with Store.open(db, is_raw=True) as store:
        checks = list(check_store(store))
    assert [check.name for check in checks if check.wrong] == ["SQLite: the file is whole"]
    assert len(checks) == 2


def test_a_comment_of_the_schema_is_no_difference_and_a_column_is(db: Path) -> None:
    change = "UPDATE sqlite_master SET sql = replace(sql, 'z REAL', '{}') WHERE name = 'plays'"
    for text, expected in (("-- another remark\n z REAL", []), ("z TEXT", ["table plays differs"])):
        corrupt(db, change.format(text), before="PRAGMA writable_schema = ON")
        checks = wrong(db)
        assert [check.example for name, check in checks.items() if name.startswith("tables")] == expected


ODD = {
    "INTEGER": ("'zz'", "x'00'", "0.25", "1e300"),
    "REAL": ("'zz'", "x'00'"),
    "TEXT": ("x'00'",),
    "BLOB": ("'zz'",),
}


def test_a_cell_of_another_kind_is_named_and_the_store_is_asked_no_further(tmp_path: Path) -> None:
    """SQLite takes any kind into any column; who reads it then says that this command tells which cell it is."""
    passage = {(1, 1): (True, True, 0.1)}
    rows = [Row(1, 0, 1, 1, {1: 0.1}, {1: ("full", 50, 9)}, passage), Row(2, 0, 1, 1, {}, {1: ("failed", 0, 0)})]
    path, tried = write_store(tmp_path / "v.db", rows, {(1, 1): (150.0, 400)}, 1), 0
    with Store.open(path, write=True, is_raw=True) as store:
        store.connection.execute("PRAGMA foreign_keys = OFF")
        for table, column, kind in columns_of(path):
            for odd in ODD[kind]:
                store.connection.execute("BEGIN")
                store.connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {odd}")
                checks = list(check_store(store))
                store.connection.execute("ROLLBACK")
                assert [check.name for check in checks if check.wrong] == [KINDS]
                assert checks[-1].example.startswith(f"{table}.{column}: ")
                tried += 1
    assert tried > 100


def columns_of(path: Path) -> list[tuple[str, str, str]]:
    """Table, column and kind of all that have rows, but the numbers of rows: those SQLite itself keeps whole."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        filled = [name for name in tables if connection.execute(f"SELECT EXISTS (SELECT 1 FROM {name})").fetchone()[0]]
        described = [(table, row) for table in filled for row in connection.execute(f"PRAGMA table_info({table})")]
    return [(table, row[1], row[2]) for table, row in described if row[1] != "id"]


def test_the_net_gives_the_values_of_the_sample_again(db: Path, maia_file: str) -> None:
    with Store.open(db) as store, open_net(maia_file, device="cpu") as net:
        frame = store.frame(Question(net=maia_file)).head(40)
        again = net.evaluate(store.positions(frame["position_id"].tolist()))
    np.testing.assert_allclose(again.q, frame["net_q"], atol=1e-3)  # sums of float32 in the order of another machine
