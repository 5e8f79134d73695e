"""Opening archives: every packing, several members, folders, standard input, and streams that break off."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from valuerepair.archives.open import Stream, find_sources, total_bytes
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.training.chunk_files import find_archives

TEXT = b"".join(b'[Event "%d"]\n\n1. e4 e5 2. Nf3 *\n\n' % i for i in range(20_000))


def zstd(data: bytes) -> bytes:
    """One frame of unknown size with a checksum, as a stream has it."""
    packer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return packer.compress(data) + packer.flush()


PACKERS = {
    ".pgn": lambda data: data,
    ".pgn.gz": gzip.compress,
    ".pgn.bz2": bz2.compress,
    ".pgn.xz": lzma.compress,
    ".pgn.zst": zstd,
}


def read(path: Path, size: int = 1 << 20) -> tuple[bytes, str | None]:
    buffer = bytearray(size)
    parts = []
    with Stream(find_sources([str(path)])[0]) as stream:
        while True:
            count = stream.read_into(memoryview(buffer))
            parts.append(bytes(buffer[:count]))
            if count < size:
                return b"".join(parts), stream.broken


@pytest.mark.parametrize("ending", PACKERS)
def test_every_packing_with_one_and_several_members(tmp_path: Path, ending: str) -> None:
    pack = PACKERS[ending]
    path = tmp_path / f"games{ending}"
    path.write_bytes(pack(TEXT))
    assert read(path) == (TEXT, None)
    path.write_bytes(pack(TEXT) + pack(b"") + pack(TEXT[:100]))
    assert read(path, 4096) == (TEXT + TEXT[:100], None)


@pytest.mark.parametrize("ending", [e for e in PACKERS if e != ".pgn"])
def test_the_first_bytes_tell_the_packing(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "games.pgn"
    path.write_bytes(PACKERS[ending](TEXT))
    assert read(path) == (TEXT, None)


@pytest.mark.parametrize("ending", [e for e in PACKERS if e != ".pgn"])
@pytest.mark.parametrize("share", [0.3, 0.999])
def test_what_comes_before_a_cut_is_given_and_the_cut_is_said(tmp_path: Path, ending: str, share: float) -> None:
    text = bytes(range(256)) * 3000 + TEXT
    packed = PACKERS[ending](text)
    path = tmp_path / f"cut{ending}"
    path.write_bytes(packed[: int(len(packed) * share)])
    data, broken = read(path)
    assert text.startswith(data)
    assert broken is not None
    assert "breaks off" in broken
    if share > 0.9 and ending != ".pgn.bz2":  # bzip2 has one block of 900 kB here
        assert len(data) > len(text) // 3


@pytest.mark.parametrize("ending", [".pgn.gz", ".pgn.zst", ".pgn.xz"])
def test_damage_in_the_middle_is_said(tmp_path: Path, ending: str) -> None:
    packed = bytearray(PACKERS[ending](TEXT) * 2)
    for i in range(len(packed) * 3 // 4, len(packed) * 3 // 4 + 40):
        packed[i] ^= 0x5A
    path = tmp_path / f"damaged{ending}"
    path.write_bytes(packed)
    data, broken = read(path)
    assert broken is not None
    assert data.startswith(TEXT)


@pytest.fixture
def zstd_program() -> str:
    path = shutil.which("zstd")
    if path is None:
        pytest.skip("no zstd on this machine (apt-get install zstd)")
    return path


@pytest.mark.parametrize("options", [["--long=31", "--ultra", "-1"], ["-19"], ["--no-check"]])
def test_frames_as_the_zstd_program_makes_them(tmp_path: Path, zstd_program: str, options: list[str]) -> None:
    packed = subprocess.run([zstd_program, "-q", "-c", *options], input=TEXT, capture_output=True, check=True).stdout
    path = tmp_path / "games.zst"
    skippable = (0x184D2A50).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"hello"
    path.write_bytes(packed + skippable + packed)
    assert read(path) == (TEXT * 2, None)


def test_folders_are_walked_in_order_and_others_left_out(tmp_path: Path) -> None:
    for name in ("b.pgn", "a/z.PGN.gz", "a/y.epd", "a/b/x.fen.zst", "notes.txt", "c.pgn.bak"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    sources = find_sources([str(tmp_path)])
    assert [s.identity for s in sources] == ["a/b/x.fen", "a/y.epd", "a/z.pgn", "b.pgn"]
    assert total_bytes([str(tmp_path)]) == 20
    assert total_bytes(["-"]) is None


def test_an_archive_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a.pgn").touch()
    given = [str(tmp_path), str(tmp_path / "a.pgn"), str(tmp_path / "." / "a.pgn")]
    assert [source.path for source in find_sources(given)] == [str(tmp_path / "a.pgn")]


def test_linked_folders_are_entered_once_and_their_own_place_comes_first(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    for path in (folder / "real" / "deep" / "a.pgn", elsewhere / "b.pgn"):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"12345")
    (folder / "earlier").symlink_to("real")
    (folder / "out").symlink_to(elsewhere)
    (folder / "real" / "up").symlink_to(folder)
    (elsewhere / "back").symlink_to(folder)
    (folder / "link.pgn").symlink_to(elsewhere / "b.pgn")
    (folder / "nowhere.txt").symlink_to("gone.txt")
    (folder / "itself").symlink_to("itself")
    (folder / ".#a.pgn").symlink_to("me@host.4711:1")  # Emacs marks a file that is being edited
    (folder / "parent").symlink_to(tmp_path)
    (tmp_path / "not_named.pgn").write_bytes(b"12345")
    for aside in (".Trashes", "lost+found"):
        (folder / aside).mkdir()
        (folder / aside / "c.pgn").write_bytes(b"12345")
    expected = ["link", "out/b", "real/deep/a"]
    assert [source.identity for source in find_sources([str(folder)])] == [f"{name}.pgn" for name in expected]
    for path in (folder / "real" / "deep" / "a.gz", elsewhere / "b.gz", folder / "real" / ".hidden" / "c.gz"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"12345")
    assert find_archives([str(folder)]).names == ["out/b.gz", "real/deep/a.gz"]


def test_missing_files_and_folders_without_archives(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.pgn: no such file"):
        find_sources([str(tmp_path / "nowhere.pgn")])
    with pytest.raises(ValueRepairError, match=r"no \.pgn"):
        find_sources([str(tmp_path)])
    with pytest.raises(UsageError, match="no archive given"):
        find_sources([])


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dripping(io.RawIOBase):
        """A pipe that gives a few bytes at a time."""

        def __init__(self, data: bytes) -> None:
            self._left = data

        def read(self, size: int = -1) -> bytes:
            part, self._left = self._left[:777], self._left[777:]
            return part

    class Stdin:
        buffer = Dripping(zstd(TEXT))

    monkeypatch.setattr(sys, "stdin", Stdin)
    buffer = bytearray(len(TEXT) + 10)
    counted: list[int] = []
    with Stream(find_sources(["-"])[0], counted.append) as stream:
        assert stream.read_into(memoryview(buffer)) == len(TEXT)
        assert stream.broken is None
    assert bytes(buffer[: len(TEXT)]) == TEXT
    assert sum(counted) == len(zstd(TEXT))
