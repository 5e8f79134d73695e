"""Full disks, read-only stores and folders, two writers, jumps of the clock, archives that break off."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from tests.faults.conftest import Note
from tests.match_doubles import fake_side, read_games, write_book
from tests.mining_doubles import dump, mine_by_key, random_games, wait_for
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.errors import TruncatedInput, ValueRepairError
from valuerepair.store.store import Store

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


@pytest.mark.parametrize("size", ["250k", "300k", "400k"])
def test_a_full_disk_in_mining(
    archive: Path, tmp_path: Path, disk: Callable[[str], Path], size: str, note: Note
) -> None:
    db = disk(f"size={size}") / "a.db"
    with pytest.raises(ValueRepairError) as caught:
        mine_by_key(archive, db)
    assert "the disk is full" in str(caught.value)
    assert caught.value.exit_code == 1
    kept = dump(db)["deep_values"] if db.exists() else []
    disk("size=50m")
    mine_by_key(archive, db)
    mine_by_key(archive, tmp_path / "whole.db")
    assert set(kept) <= set(dump(db)["deep_values"])
    assert dump(db)["deep_values"] == dump(tmp_path / "whole.db")["deep_values"]
    note(
        f"a disk of {size} fills up in `vr mine`", 1, str(caught.value).replace(str(db), "a.db"), "1; 0 with more room"
    )


def test_a_full_disk_in_a_match(tmp_path: Path, disk: Callable[[str], Path], note: Note) -> None:
    folder = disk("size=8k")
    write_book(tmp_path / "book.pgn")
    fixed = ("--openings", str(tmp_path / "book.pgn"), "--nodes", "9", "-o", str(folder / "m.pgn"))
    command = [sys.executable, "-m", "valuerepair", "match", fake_side("one"), fake_side("two"), *fixed]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    message = done.stderr.strip().splitlines()[-1]
    disk("size=1m")
    again = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert sorted(int(game.headers["Round"]) for game in read_games(folder / "m.pgn")) == list(range(1, 9))
    note("a disk of 8k fills up in `vr match`", 1, message.replace(str(folder), ""), "1; 0 with more room")


def test_a_read_only_disk(archive: Path, disk: Callable[[str], Path], note: Note) -> None:
    db = disk("size=50m") / "a.db"
    mine_by_key(archive, db)
    before = db.read_bytes()
    disk("ro")
    with Store.open(db) as store:
        assert len(store.frame()) > 0
    with pytest.raises(ValueRepairError) as caught:
        mine_by_key(archive, db)
    assert db.read_bytes() == before
    note("the store lies on a read-only disk", 1, str(caught.value).replace(str(db), "a.db"), "1; readers 0")
    disk("rw")


def test_two_writers(archive: Path, tmp_path: Path, note: Note) -> None:
    db = tmp_path / "a.db"
    command = [sys.executable, "-m", "tests.mining_doubles", str(archive), str(db), "0.01"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    wait_for(first, db, 1)
    message = ""
    for _ in range(10):
        with pytest.raises(ValueRepairError) as caught:
            mine_by_key(archive, db)
        message = str(caught.value)
    assert first.wait(120) == 0
    mine_by_key(archive, tmp_path / "whole.db")
    assert dump(db) == dump(tmp_path / "whole.db")
    message = message.replace(str(db), "a.db").replace(str(first.pid), "N")
    note("a second `vr mine` on the same store", 10, message, "1; the first: 0")


def test_jumps_of_the_clock(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: Note) -> None:
    mine_by_key(archive, tmp_path / "whole.db")
    dice, real, calls = random.Random(6), time.time, [0]

    def jumping() -> float:
        calls[0] += 1
        return real() + dice.choice((-1, 1)) * dice.uniform(0, 4e8)

    monkeypatch.setattr(time, "time", jumping)
    mine_by_key(archive, tmp_path / "jumps.db")
    monkeypatch.undo()
    assert dump(tmp_path / "jumps.db") == dump(tmp_path / "whole.db")
    note("the clock jumps by up to 12 years, at every look", 1, "nothing", "0")


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_content_size=False).compress,
}


@pytest.mark.parametrize("ending", PACK)
def test_archives_that_break_off(archive: Path, tmp_path: Path, ending: str, note: Note) -> None:
    options = SampleOptions(per_game=None, min_ply=0, threads=1)
    whole = [position for batch in sample([str(archive)], options, ReadReport()) for position in batch]
    packed, dice, reason = PACK[ending](archive.read_bytes()), random.Random(7), ""
    path = tmp_path / f"random.pgn{ending}"
    for _ in range(25):
        path.write_bytes(packed[: dice.randrange(20, len(packed))])
        report, positions = ReadReport(), []
        with contextlib.suppress(ValueRepairError):  # there may be no whole game before the cut
            positions = [position for batch in sample([str(path)], options, report) for position in batch]
        assert report.truncated, "not noticed"
        reason = report.truncated[0][1]
        assert [p.fen for p in positions] == [p.fen for p in whole[: len(positions)]]
        assert "cut off" in report.rejected or not positions
    note(
        f"a `{ending}` archive breaks off",
        25,
        reason,
        str(TruncatedInput.exit_code),
        "nothing: what came before is used",
    )
