"""What reads a store while another process writes it: every command sees one state of it, whatever is committed."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli_tree import SAMPLE
from valuerepair.cli import cli
from valuerepair.store.connection import connect


class Writer:
    """Takes scored positions out of a store, and puts one back whenever it is asked."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        query = "SELECT position_id FROM deep_values WHERE stage = 'full' ORDER BY position_id DESC LIMIT 60"
        ids = [number for (number,) in self.connection.execute(query)]
        self.rows = [
            self.connection.execute("SELECT * FROM deep_values WHERE position_id = ?", (number,)).fetchall()
            for number in ids
        ]
        self.connection.executemany("DELETE FROM deep_values WHERE position_id = ?", [(number,) for number in ids])
        self.written = 0

    def write(self, statement: str) -> None:
        if self.rows and statement.lstrip().upper().startswith(("SELECT", "WITH")):
            for row in self.rows.pop():
                self.connection.execute(f"INSERT INTO deep_values VALUES ({', '.join('?' * len(row))})", row)
            self.written += 1


@pytest.mark.parametrize(
    "words",
    [
        ["stats", "--json"],
        ["stats", "--worst", "3", "-v"],
        ["plot", "scatter", "-o", "plot.svg"],
        ["plot", "results", "-o", "plot.svg"],
        ["books", "-o", "books"],
        ["export", "-o", "rows.csv"],
        ["split", "-o", "split.json"],
        ["report", "--threshold", "0.4", "-o", "report.html"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
@pytest.mark.slow
def test_a_writer_at_work_changes_nothing_half_way(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE, "valuerepair.db")
    with closing((writer := Writer(Path("valuerepair.db"))).connection):

        def watched(path: str, write: bool, *, is_raw: bool = False) -> Any:
            connection = connect(path, write, is_raw=is_raw)
            connection.set_trace_callback(writer.write)
            return connection

        monkeypatch.setattr("valuerepair.store.store.connect", watched)
        found = CliRunner().invoke(cli, [words[0], "--db", "valuerepair.db", *words[1:]])
    assert found.exit_code == 0, found.output
    assert writer.written
