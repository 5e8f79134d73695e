"""Runs that end before they are done: kill -9, signals, a second writer."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.mining_doubles import dump, mine_by_key, random_games, rows, wait_for
from valuerepair.store.store import Store


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_games(tmp_path_factory.mktemp("archive") / "random.pgn", 150)


@pytest.fixture(scope="module")
def whole(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[object, ...]]]:
    """What the store of a run says that nothing stopped."""
    db = tmp_path_factory.mktemp("whole") / "a.db"
    mine_by_key(archive, db)
    return dump(db)


def start(archive: Path, db: Path, delay: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.mining_doubles", str(archive), str(db), str(delay)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def test_killed_at_any_moment_and_resumed_it_ends_as_if_never_killed(
    archive: Path, tmp_path: Path, whole: dict[str, list[tuple[object, ...]]]
) -> None:
    dice = random.Random(5)
    db, found = tmp_path / "killed.db", [0]
    while len(found) < 4 and found[-1] < 450:
        process = start(archive, db, delay=0.015)
        # Some kills come while the run sets up or reads, the others after some more searches.
        if dice.random() < 0.7:
            wait_for(process, db, found[-1] + dice.randrange(1, 60))
        time.sleep(dice.uniform(0, 0.3))
        process.kill()
        process.communicate()
        found.append(rows(db))
    assert found == sorted(found)
    assert any(0 < count < 560 for count in found), f"never killed in the middle: {found}"
    assert start(archive, db, delay=0).wait() == 0
    assert dump(db) == whole


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_cleanly_and_the_next_run_goes_on(
    archive: Path, tmp_path: Path, whole: dict[str, list[tuple[object, ...]]], number: int
) -> None:
    db = tmp_path / "a.db"
    process = start(archive, db, delay=0.02)
    wait_for(process, db, 1)
    asked = time.monotonic()
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert time.monotonic() - asked < 9
    assert process.returncode == 130
    assert "run the same command again" in said
    with Store.open(db) as store:
        ((state, counts),) = store.connection.execute("SELECT state, counts FROM runs").fetchall()
    assert state == "interrupted"
    assert '"scored":' in counts
    mine_by_key(archive, db)
    assert dump(db) == whole


def test_a_signal_does_not_wait_for_what_is_in_flight(archive: Path, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    process = start(archive, db, delay=8)
    wait_for(process, db, 1, "net_values")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    # Not to the end of the output: the stand-in's own threads still sleep when it has said all.
    assert any(line.startswith("scored: 0 of") for line in process.stdout)
    process.kill()
    process.wait()
