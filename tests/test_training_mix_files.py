"""What a mixture is written as: tars and links that both trainers read, into a new folder, whole or not at all."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lczero_training import run_python
from tests.mix_sides import games_in, sides_in
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.training.mix import MixOptions, mix


@pytest.fixture
def sides(tmp_path: Path) -> MixOptions:
    return sides_in(tmp_path)


def test_tars_are_such_as_the_loader_reads(sides: MixOptions, tmp_path: Path) -> None:
    """csrc/loader/chunk_source/tar_chunk_source.cc: regular files, the name in 100 bytes, sizes in octal, .gz."""
    mix(sides, tmp_path / "out", quiet=True)
    data, at, names = (tmp_path / "out" / "mix-00000.tar").read_bytes(), 0, []
    while data[at]:
        head = data[at : at + 512]
        assert head[156:157] == b"0"
        names.append(head[:100].rstrip(b"\0").decode())
        size = int(head[124:136].rstrip(b"\0"), 8)
        assert len(gzip.decompress(data[at + 512 : at + 512 + size])) % 8356 == 0
        at += 512 + (size + 511) // 512 * 512
    assert names == [f"game_{i:08d}.gz" for i in range(100)]
    assert len(data) >= at + 1024


_READ = """
import glob, json, random, sys
import chunkparser
parser = chunkparser.ChunkParserInner.__new__(chunkparser.ChunkParserInner)
parser.init_structs()
parser.sample, parser.diff_focus_min, parser.diff_focus_slope = 1, 1, 0
parser.diff_focus_q_weight, parser.diff_focus_pol_scale = 6.0, 3.5
files = [name for folder in glob.glob(sys.argv[1]) for name in glob.glob(folder + "*.gz")]
read = [[int.from_bytes(r[8340:8344], "little") for r in parser.single_file_gen(name)] for name in files]
print(json.dumps(read))
"""


def test_the_older_trainer_reads_the_links(sides: MixOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """lczero-training's own reader (tf/chunkparser.py), over the folders as its train.py globs them."""
    monkeypatch.setattr("valuerepair.training.mix.SHARD_CHUNKS", 40)
    manifest = mix(replace(sides, form="links"), tmp_path / "out", quiet=True)
    read = run_python(tmp_path / "trainer", _READ, f"{tmp_path}/out/*/")
    assert len(read) == manifest["games"]
    assert sum(map(len, read)) == manifest["positions"]
    assert sum(game[0] < 2000 for game in read) == 40


def test_links_share_the_files(sides: MixOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valuerepair.training.mix.SHARD_CHUNKS", 40)
    manifest = mix(replace(sides, form="links"), tmp_path / "out", quiet=True)
    assert manifest["linked"] + manifest["copied"] == 100
    assert manifest["linked"] >= 40  # the repair games are loose
    assert sum(path.stat().st_nlink == 2 for path in (tmp_path / "out").glob("*/*.gz")) == manifest["linked"]
    tars = mix(sides, tmp_path / "tars", quiet=True)
    assert {g.tobytes() for g in games_in(tmp_path / "out").values()} == {
        g.tobytes() for g in games_in(tmp_path / "tars").values()
    }
    assert tars["games"] == manifest["games"]


@pytest.mark.parametrize("content", ["file", "folder"])
def test_an_output_that_is_not_empty_is_refused(sides: MixOptions, tmp_path: Path, content: str) -> None:
    out = tmp_path / "out"
    if content == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "mine").write_text("mine")
    with pytest.raises(UsageError, match=r"not empty|is a file"):
        mix(sides, out, quiet=True)
    assert (out if content == "file" else out / "mine").read_text() == "mine"


def test_an_empty_folder_is_taken(sides: MixOptions, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    mix(sides, tmp_path / "out", quiet=True)
    assert (tmp_path / "out" / "manifest.json").exists()


def test_nothing_is_left_when_it_fails(sides: MixOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("valuerepair.training.chunk_output.TarShard.add", full)
    with pytest.raises(ValueRepairError, match="No space left on device; nothing was written to"):
        mix(sides, tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".*"))
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 0, 10))
    with pytest.raises(ValueRepairError, match=r": 0\.\d*[1-9]\d* MB are needed, 0.00 MB are free"):
        mix(sides, tmp_path / "out", quiet=True)
