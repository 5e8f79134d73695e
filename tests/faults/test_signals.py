"""SIGINT and SIGTERM at random moments of four commands: no traceback, exit 130, a sound store, nothing left behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli_tree import SAMPLE
from tests.match_doubles import write_book

pytestmark = pytest.mark.faults
SIGNALS = int(os.environ.get("VALUEREPAIR_FAULT_SIGNALS", "40"))
ARCHIVE = Path(__file__).parents[2] / "data" / "games.pgn.zst"
DEEP = ("--deep", "stockfish:nodes=20000")
COMMANDS = {
    "mine": ("mine", str(ARCHIVE), *DEEP, "--positions", "200"),
    "confirm": ("confirm", "--threshold", "0.35", "--deep", "stockfish:nodes=100000"),
    "compare": ("compare", "NET", "OTHER", "--threshold", "0.35", "--part", "all"),
    "selfplay": ("selfplay", "book.pgn", "--net", "NET", "--nodes", "20", "-o", "games.pgn", "--training", "chunks"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_at_any_moment(command: str, tmp_path: Path, shared_data: Path, stockfish: str) -> None:
    nets = {"NET": "maia-1900.pb.gz", "OTHER": "meangirl-8.pb.gz"}
    words = [str(shared_data / "nets" / nets[word]) if word in nets else word for word in COMMANDS[command]]
    if command == "mine":
        words += ["--net", str(shared_data / "nets" / nets["NET"])]
    dice = random.Random(command)
    ends = dict[int, int]()
    for number in range(SIGNALS // len(COMMANDS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_book(folder / "book.pgn")
        if command in ("confirm", "compare"):
            shutil.copy(SAMPLE, folder / "valuerepair.db")
        pipe: Any = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, "-m", "valuerepair", *words], stdout=pipe, stderr=pipe, text=True, cwd=folder
        )
        time.sleep(dice.uniform(0.05, 8.0))
        process.send_signal(dice.choice((signal.SIGINT, signal.SIGTERM)))
        out, err = process.communicate(timeout=60)
        ends[process.returncode] = ends.get(process.returncode, 0) + 1
        assert "Traceback" not in err, err
        assert process.returncode in (0, 130) or (process.returncode < 0 and not err), (process.returncode, out, err)
        for store in folder.glob("*.db"):
            with closing(sqlite3.connect(store)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        expected = {"book.pgn", "valuerepair.db", "games.pgn", "chunks"}
        assert {path.name for path in folder.iterdir()} <= expected, [*folder.iterdir()]
    assert ends.get(130, 0) > 0, ends
