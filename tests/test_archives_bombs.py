"""Archives that unpack without end: bounded by `max_bytes`, and memory flat with and without it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
import zstandard

from tests.fuzz.inputs import games
from tests.v6_records import positions_of, records_of
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.errors import UsageError

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
PEAK = """
import resource, sys
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.errors import ValueRepairError
report = ReadReport()
most = int(sys.argv[2]) or None
try:
    for batch in sample([sys.argv[1]], SampleOptions(max_bytes=most, threads=1), report):
        pass
except ValueRepairError as error:
    print(error, file=sys.stderr)
print(report.bytes_read, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def bomb(path: Path, ending: str, content: bytes, mebibytes: int) -> Path:
    """So many mebibytes of the same content, packed as members of eight mebibytes one behind the other."""
    piece = (content * ((8 << 20) // len(content) + 1))[: 8 << 20]
    path.write_bytes(PACK[ending](piece) * (mebibytes // 8))
    return path


def read(path: Path, most: int = 0) -> tuple[int, int, str]:
    """Bytes read, the peak of memory in MiB, and what was said, of a process of its own."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PEAK, str(path), str(most)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=True)
    count, peak = done.stdout.split()
    return int(count), int(peak), done.stderr


def test_a_bounded_archive_is_the_beginning_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.pgn.zst"
    whole = b"".join(games()[:20])
    path.write_bytes(PACK[".zst"](whole))
    ends = len(b"".join(games()[:7])) + 100  # in the middle of the eighth game
    report = ReadReport()
    assert sum(map(len, sample([str(path)], SampleOptions(max_bytes=ends), report))) == 7
    assert report.rejected == {"cut off": 1}
    ((source, why),) = report.truncated
    assert source == str(path)
    assert why.startswith(f"there are more than {ends:,} bytes, the limit")
    exact = ReadReport()
    assert sum(map(len, sample([str(path)], SampleOptions(max_bytes=len(whole)), exact))) == 20
    assert not exact.truncated
    with pytest.raises(UsageError, match="--max-bytes 0: give at least 1"):
        SampleOptions(max_bytes=0)


def test_tars_are_bounded_too(tmp_path: Path) -> None:
    moves = ["e2e4", "c7c5", "g1f3", "d7d6", "d2d4", "c5d4", "f3d4", "g8f6", "b1c3", "a7a6"]
    packed = gzip.compress(records_of(positions_of(moves), moves).tobytes())
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i in range(3):
            info = tarfile.TarInfo(f"game_{i}.gz")
            info.size = len(packed)
            tar.addfile(info, BytesIO(packed))
    report = ReadReport()
    options = SampleOptions(max_bytes=600 + len(packed) + -len(packed) % 512, min_ply=0)
    assert sum(map(len, sample([str(tmp_path / "a.tar")], options, report))) == 1
    ((_, why),) = report.truncated
    assert "bytes, the limit" in why


@pytest.mark.faults
@pytest.mark.parametrize(
    ("name", "content", "mebibytes"),
    [
        ("a.pgn", b"\0", 1024),
        ("a.pgn", b"1. e4 e5 ", 1024),
        ("a.pgn", b'[Event "x"]\n\n1. e4 {', 1024),
        ("a.pgn", b'[Event "x"]\n\n1. e4 e5 *\n\n', 128),  # millions of games, each of which is read
        ("a.epd", b"4k3/8/8/8/8/8/8/4K2R w K - id ", 1024),
        ("a.jsonl", b'{"fen":"4k3/8/8/8/8/8/8/4K2R w K -","evals":[', 1024),
    ],
    ids=["zeros", "one game", "comments", "games", "epd line", "dump line"],
)
def test_memory_is_flat_however_much_is_unpacked(tmp_path: Path, name: str, content: bytes, mebibytes: int) -> None:
    few = mebibytes // 16
    small = read(bomb(tmp_path / name, ".zst", content, few))
    large = read(bomb(tmp_path / name, ".zst", content, mebibytes))
    bounded = read(tmp_path / name, few << 20)
    assert (small[0], large[0], bounded[0]) == (few << 20, mebibytes << 20, few << 20)
    assert large[1] < small[1] + 150, (small, large)
    assert bounded[1] < small[1] + 50
