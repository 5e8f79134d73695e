"""kill -9 at random moments in self-play: the same command ends as if nothing had been."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.match_doubles import write_book
from valuerepair.play.pgn import read_written

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("VALUEREPAIR_FAULT_KILLS", "20"))


def killed_often(start: Callable[[int], subprocess.Popen[str]], check: Callable[[int], None], within: float) -> None:
    """Starts run after run, kills each at a random moment, and starts it again until it is done, `KILLS` kills in all.

    `start` begins (or goes on with) the run of a number; `check` is called with the number when it ended by itself.
    A quarter of the kills come in the first tenth of the time: while it opens its files.
    """
    dice, killed, run = random.Random(1), 0, 0
    while killed < KILLS:
        process = start(run)
        wait = dice.uniform(0, within if dice.random() < 0.75 else within / 10)
        begun = time.monotonic()
        while killed < KILLS and process.poll() is None and time.monotonic() - begun < wait:
            time.sleep(0.005)
        if killed < KILLS and process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            killed += 1
            continue
        said = process.communicate(timeout=600)
        assert process.returncode == 0, said
        check(run)
        run += 1


def start(*command: str, cwd: Path = ROOT) -> subprocess.Popen[str]:
    pipe: Any = subprocess.PIPE
    return subprocess.Popen([sys.executable, *command], stdout=pipe, stderr=pipe, text=True, cwd=cwd)


def test_kill_9_in_self_play(tmp_path: Path, shared_data: Path) -> None:
    net = str(shared_data / "nets" / "maia-1100.pb.gz")
    write_book(tmp_path / "book.pgn")
    fixed = ["--nodes", "4", "--device", "cpu", "--temperature", "0.8", "--repeat", "3"]

    def playing(run: int | str) -> subprocess.Popen[str]:
        files = ["-o", f"{run}.pgn", "--db", f"{run}.db", "--training", f"chunks{run}"]
        return start("-m", "valuerepair", "selfplay", "book.pgn", "--net", net, *fixed, *files, cwd=tmp_path)

    def written(run: int | str) -> tuple[list[str], dict[str, bytes]]:
        chunks = {path.name: path.read_bytes() for path in sorted((tmp_path / f"chunks{run}").glob("*.gz"))}
        return sorted(game.text for game in read_written(tmp_path / f"{run}.pgn")[0]), chunks

    printed = playing("whole").communicate(timeout=300)
    whole = written("whole")
    assert [*map(len, whole)] == [12, 12], printed

    def check(run: int) -> None:
        assert written(run) == whole

    killed_often(playing, check, within=12.0)
