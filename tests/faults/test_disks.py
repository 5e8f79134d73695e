"""A full disk."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mining_doubles import dump, mine_by_key, random_games

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_games(tmp_path_factory.mktemp("archive") / "random.pgn", 100)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small file system of memory; called with mount options, it is made or changed."""
    if os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = False

    def mount(options: str) -> Path:
        nonlocal mounted
        options = f"remount,{options}" if mounted else options
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], capture_output=True)
        if done.returncode and not mounted:
            pytest.skip(f"this machine lets nobody mount: {done.stderr.decode().strip()}")
        mounted = True
        return folder

    yield mount
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_in_mining(archive: Path, tmp_path: Path, disk: Callable[[str], Path]) -> None:
    db = disk("size=300k") / "a.db"
    with pytest.raises(sqlite3.OperationalError, match="full"):
        mine_by_key(archive, db)
    kept = dump(db)["deep_values"] if db.exists() else []
    disk("size=50m")
    mine_by_key(archive, db)
    mine_by_key(archive, tmp_path / "whole.db")
    assert set(kept) <= set(dump(db)["deep_values"])
    assert dump(db)["deep_values"] == dump(tmp_path / "whole.db")["deep_values"]
