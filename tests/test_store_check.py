"""`vr doctor` of a store: the sample is sound, and what is wrong with another is said in a line."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from valuerepair.doctor import check_file
from valuerepair.store.check import faults
from valuerepair.store.store import Store

SAMPLE = Path(__file__).parents[1] / "data" / "sample.db"


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
