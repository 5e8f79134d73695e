"""SIGINT and SIGTERM at random moments of four commands: exit 130, one line, a sound store, nothing left behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli_tree import SAMPLE

pytestmark = pytest.mark.faults
MOMENTS = int(os.environ.get("VALUEREPAIR_FAULT_KILLS", "20"))
GAMES = SAMPLE.with_name("games.pgn.zst")
COMMANDS = {
    "mine": f"mine {GAMES} --positions 40 --deep stockfish:nodes=20000 --device cpu --jobs 1",
    "merge": "merge valuerepair.db copy.db -o all.db",
    "books": "books --threshold 0.35 -o book",
    "stats": "stats --threshold 0.35",
}


def children(session: int) -> list[str]:
    """The processes of a session that still run."""
    found = subprocess.run(["ps", "-s", str(session), "-o", "pid=,stat=,args="], capture_output=True, text=True)
    return [line for line in found.stdout.splitlines() if line.split()[1][0] != "Z"]


@pytest.mark.skipif(not shutil.which("ps"), reason="asks ps for processes left behind")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_at_any_moment(name: str, tmp_path: Path) -> None:
    dice, whole = random.Random(name), 0.0
    for moment in range(MOMENTS):
        folder = tmp_path / str(moment)
        folder.mkdir()
        for copy in ("valuerepair.db", "copy.db") if name != "mine" else ():
            shutil.copy(SAMPLE, folder / copy)
        before, begun = {path.name for path in folder.iterdir()}, time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "valuerepair", *COMMANDS[name].split()],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, start_new_session=True,
        )  # fmt: skip
        if moment:  # the first run is not disturbed: it says how long one takes
            time.sleep(dice.uniform(0.15, whole))  # before, Python itself is still starting
            process.send_signal(dice.choice([signal.SIGINT, signal.SIGTERM]))
        out, err = process.communicate(timeout=120)
        whole = whole or time.monotonic() - begun
        assert "Traceback" not in err
        assert process.returncode in ((0, 130) if moment else (0,)), (out, err)
        deadline = time.monotonic() + 5
        while (left := children(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not left
        new = {path.name for path in folder.iterdir()} - before
        assert new <= {"valuerepair.db", "all.db", "book"}, (new, err)
        if process.returncode == 130:
            assert err.splitlines()[-1] == "vr: interrupted"
        for store in folder.glob("*.db"):
            connection = sqlite3.connect(store)
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            connection.close()
