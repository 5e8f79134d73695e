"""A full disk, two writers, archives that break off."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from tests.mining_doubles import dump, mine_by_key, random_games, wait_for
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.errors import ValueRepairError

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[2]


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
    with pytest.raises(ValueRepairError, match="the disk is full") as caught:
        mine_by_key(archive, db)
    assert caught.value.exit_code == 1
    kept = dump(db)["deep_values"] if db.exists() else []
    disk("size=50m")
    mine_by_key(archive, db)
    mine_by_key(archive, tmp_path / "whole.db")
    assert set(kept) <= set(dump(db)["deep_values"])
    assert dump(db)["deep_values"] == dump(tmp_path / "whole.db")["deep_values"]


def test_two_writers(archive: Path, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    command = [sys.executable, "-m", "tests.mining_doubles", str(archive), str(db), "0.01"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    wait_for(first, db, 1)
    with pytest.raises(ValueRepairError, match=str(first.pid)):
        mine_by_key(archive, db)
    assert first.wait(120) == 0
    mine_by_key(archive, tmp_path / "whole.db")
    assert dump(db) == dump(tmp_path / "whole.db")


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_content_size=False).compress,
}


@pytest.mark.parametrize("ending", PACK)
def test_archives_that_break_off(archive: Path, tmp_path: Path, ending: str) -> None:
    options = SampleOptions(per_game=None, min_ply=0, threads=1)
    whole = [position for batch in sample([str(archive)], options, ReadReport()) for position in batch]
    packed, dice = PACK[ending](archive.read_bytes()), random.Random(7)
    path = tmp_path / f"random.pgn{ending}"
    for _ in range(25):
        path.write_bytes(packed[: dice.randrange(20, len(packed))])
        report, positions = ReadReport(), []
        with contextlib.suppress(ValueRepairError):  # there may be no whole game before the cut
            positions = [position for batch in sample([str(path)], options, report) for position in batch]
        assert report.truncated, "not noticed"
        assert [p.fen for p in positions] == [p.fen for p in whole[: len(positions)]]
        assert "cut off" in report.rejected or not positions
