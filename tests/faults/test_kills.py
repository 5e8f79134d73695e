"""kill -9 at random moments of what writes a store or plays a book: the same command ends as if nothing had been."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.match_doubles import write_book
from tests.mining_doubles import dump
from valuerepair.play.pgn import read_written
from valuerepair.store.store import Store

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


@pytest.fixture(scope="module")
def mined(shared_data: Path, stockfish: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 200 positions of games and beside them, split, with the net's and Stockfish's values."""
    folder = tmp_path_factory.mktemp("mined")
    archive, net = shared_data / "pgn" / "lichess-blitz.pgn", shared_data / "nets" / "maia-1100.pb.gz"
    what = ("--positions", "200", "--off-game", "random_move:0.3", "--deep", "stockfish:nodes=20000", "--net", net)
    for words in (("mine", archive, *what, "--threshold", "0.3"), ("split", "--games", "0.3")):
        process = start("-m", "valuerepair", *map(str, words), "--db", "a.db", cwd=folder)
        said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    return folder / "a.db"


@pytest.mark.parametrize(
    ("words", "within"),
    [
        (["mine", "ARCHIVE", "--net", "OLD", "--positions", "300", "--deep", "stockfish:nodes=2000"], 8.0),
        (["confirm", "--deep", "stockfish:nodes=200000"], 8.0),
        (["expand", "--positions", "100"], 6.0),
        (["compare", "maia-1100", "NEW"], 4.0),
        (["compare", "maia-1100", "NEW", "--deep", "stockfish:nodes=100000"], 8.0),
    ],
)
def test_kill_9_in_mining_and_in_what_goes_on_from_a_store(
    mined: Path, shared_data: Path, tmp_path: Path, words: list[str], within: float
) -> None:
    nets = shared_data / "nets"
    files = {"OLD": nets / "maia-1100.pb.gz", "NEW": nets / "maia-1900.pb.gz"}
    files["ARCHIVE"] = shared_data / "pgn" / "lichess-blitz.pgn"

    def going_on(run: int | str) -> subprocess.Popen[str]:
        db = tmp_path / f"{run}.db"
        if not db.exists() and words[0] != "mine":
            shutil.copy(mined, db)
        return start("-m", "valuerepair", *[str(files.get(word, word)) for word in words], "--db", str(db))

    def said(run: int | str) -> dict[str, Any]:
        with Store.open(tmp_path / f"{run}.db") as store:
            assert store.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return dump(tmp_path / f"{run}.db") | {"runs": []}  # which count what each process did

    whole = going_on("whole")
    printed = whole.communicate(timeout=300)
    assert whole.returncode == 0, printed
    expected = said("whole")
    assert len(expected["net_values"]) + len(expected["deep_values"]) > sum(
        len(dump(mined)[table]) for table in ("net_values", "deep_values")
    )

    def check(run: int) -> None:
        assert said(run) == expected

    killed_often(going_on, check, within)


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
