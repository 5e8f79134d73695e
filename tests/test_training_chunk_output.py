"""Folders of packed chunks: tars that tarfile and lczero-training's loader read, whole shards, runs that go on."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.training import chunk_output
from valuerepair.training.chunk_output import MANIFEST, UNFINISHED, ChunkForm, ChunkOutput
from valuerepair.training.store_chunks import ChunkOptions

RUN = {"inputs": ["games.pgn"]}
OPTIONS = ChunkOptions(seed=3)
CHUNKS = [gzip.compress(bytes([i]) * (8356 * (1 + i % 3)), mtime=0) for i in range(25)]


@pytest.fixture(autouse=True, scope="module")
def ten_chunks_a_shard() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_output, "SHARD_CHUNKS", 10)
        yield


class Stopped(Exception):
    """A run that ends before its end."""


def write(
    folder: Path,
    form: ChunkForm = "tar",
    stop: int | None = None,
    options: ChunkOptions = OPTIONS,
    drawn: str | None = None,
) -> dict[str, Any]:
    """All of CHUNKS, or as far as `stop`; goes on where the folder has some."""
    run = RUN if drawn is None else {**RUN, "store": drawn}
    with ChunkOutput(folder, run, options, form=form) as output:
        for i in range(output.chunks, len(CHUNKS)):
            if i == stop:
                raise Stopped
            output.add(CHUNKS[i], 1 + i % 3)
        return output.finish({"games": len(CHUNKS)})


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def unpacked(folder: Path) -> list[tuple[str, bytes]]:
    """Names and contents of all chunks in order."""
    found: list[tuple[str, bytes]] = []
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                found.append((member.name, file.read()))
    return found + [(path.name, path.read_bytes()) for path in sorted(folder.glob("*.gz"))]


@pytest.mark.parametrize("form", ["tar", "files"])
def test_all_chunks_are_there_in_order(tmp_path: Path, form: ChunkForm) -> None:
    manifest = write(tmp_path / "out", form)
    names, chunks = zip(*unpacked(tmp_path / "out"), strict=True)
    assert list(chunks) == CHUNKS
    assert names == tuple(f"game_{i:08d}.gz" for i in range(25))
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert (manifest["chunks"], manifest["records"], manifest["games"]) == (25, sum(1 + i % 3 for i in range(25)), 25)
    assert [facts["chunks"] for facts in manifest["files"].values()] == [10, 10, 5]
    assert sum(facts["records"] for facts in manifest["files"].values()) == manifest["records"]
    assert (manifest["inputs"], manifest["options"], manifest["form"]) == (["games.pgn"], asdict(OPTIONS), form)
    others = set(content(tmp_path / "out")) - {"manifest.json"}
    assert others == (set(manifest["files"]) if form == "tar" else set(names))


def test_tars_are_such_as_the_loader_reads(tmp_path: Path) -> None:
    """csrc/loader/chunk_source/tar_chunk_source.cc: typeflag 0, the name in 100 bytes, sizes in octal until NUL."""
    write(tmp_path / "out")
    data, at = (tmp_path / "out" / "chunks-00000.tar").read_bytes(), 0
    found: list[bytes] = []
    while data[at]:
        head = data[at : at + 512]
        assert head[156:157] == b"0"
        assert head[:100].rstrip(b"\0").decode() == f"game_{len(found):08d}.gz"
        size = int(head[124:136].split(b"\0")[0], 8)
        assert head[136:147] == b"0" * 11  # no time: the same run gives the same bytes
        found.append(data[at + 512 : at + 512 + size])
        at += 512 + (size + 511) // 512 * 512
    assert found == CHUNKS[:10]
    assert len(data) == at + 1024


@given(stops=st.lists(st.integers(0, len(CHUNKS)), max_size=4), form=st.sampled_from(["tar", "files"]))
@settings(max_examples=25, deadline=None)
def test_stopped_runs_end_with_the_same_bytes(stops: Sequence[int], form: ChunkForm) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "straight", form)
        for stop in stops:
            with ChunkOutput(folder / "out", RUN, OPTIONS, form=form) as output:
                for i in range(output.chunks, max(stop, output.chunks)):
                    output.add(CHUNKS[i], 1 + i % 3)
            left = unpacked(folder / "out")
            assert len(left) % 10 == 0
            assert [chunk for _, chunk in left] == CHUNKS[: len(left)]
        write(folder / "out", form)
        assert content(folder / "out") == content(folder / "straight")


_KILLED = """
import sys, time
from tests.test_training_chunk_output import CHUNKS, OPTIONS, RUN, ChunkOutput, chunk_output
chunk_output.SHARD_CHUNKS = 10
with ChunkOutput(sys.argv[1], RUN, OPTIONS, form=sys.argv[2]) as output:
    for i in range(17):
        output.add(CHUNKS[i], 1 + i % 3)
    print("far enough", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("form", ["tar", "files"])
def test_a_killed_run_goes_on(tmp_path: Path, form: ChunkForm) -> None:
    write(tmp_path / "straight", form)
    with subprocess.Popen([sys.executable, "-c", _KILLED, tmp_path / "out", form], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"far enough\n"
        with pytest.raises(ValueRepairError, match="another process writes chunks there"):
            write(tmp_path / "out", form)
        os.kill(process.pid, signal.SIGKILL)
    write(tmp_path / "out", form)
    assert content(tmp_path / "out") == content(tmp_path / "straight")


def test_another_runs_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        write(tmp_path / "out", stop=15)
    before = content(tmp_path / "out")
    with pytest.raises(UsageError, match=r"chunks of another run \(options: seed: 3, not 4\); give a new"):
        write(tmp_path / "out", options=ChunkOptions(seed=4))
    with pytest.raises(UsageError, match=r"chunks of another run \(options: seed: 3, not the default\); give a new"):
        write(tmp_path / "out", options=ChunkOptions(), drawn="store 1")  # options count before what they change
    with pytest.raises(UsageError, match=r'another run \(form: "tar", not "files"\)'):
        write(tmp_path / "out", "files")
    assert content(tmp_path / "out") == before


def test_a_run_goes_on_that_was_begun_before_an_option_existed(tmp_path: Path) -> None:
    """Earlier versions wrote down all options that they knew; `part` may be later."""
    write(tmp_path / "straight")
    with pytest.raises(Stopped):
        write(tmp_path / "out", stop=15)
    left = tmp_path / "out" / UNFINISHED
    before = json.loads(left.read_text())
    before["run"]["options"] = {name: value for name, value in asdict(OPTIONS).items() if name != "part"}
    left.write_text(json.dumps(before))
    write(tmp_path / "out")
    assert content(tmp_path / "out") == content(tmp_path / "straight")
    assert "part" in json.loads((tmp_path / "out" / MANIFEST).read_text())["options"]


def test_what_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        write(tmp_path / "out")
    with pytest.raises(UsageError, match="is a file"):
        write(tmp_path / "out" / "mine")
    (tmp_path / "out" / "mine").rename(tmp_path / "out" / "unfinished.json")
    with pytest.raises(UsageError, match="is not a list of chunks that a stopped run left"):
        write(tmp_path / "out")
    assert content(tmp_path / "out") == {"unfinished.json": b"mine"}


def test_finished_chunks_are_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "out")
    before = content(tmp_path / "out")
    with pytest.raises(UsageError, match=r"holds finished chunks \(manifest\.json\); give a new folder"):
        write(tmp_path / "out")
    assert content(tmp_path / "out") == before


@pytest.mark.parametrize("change", ["cut", "gone"])
def test_a_shard_that_changed_is_noticed(tmp_path: Path, change: str) -> None:
    with pytest.raises(Stopped):
        write(tmp_path / "out", stop=15)
    shard = tmp_path / "out" / "chunks-00000.tar"
    if change == "cut":
        shard.write_bytes(shard.read_bytes()[:-1])
    else:
        shard.unlink()
    with pytest.raises(ValueRepairError, match=r"chunks-00000\.tar: is missing or has changed"):
        write(tmp_path / "out")


@pytest.mark.parametrize("change", ["cut", "gone"])
@pytest.mark.parametrize("number", [0, 7, 19])
def test_a_loose_chunk_that_changed_is_noticed(tmp_path: Path, change: str, number: int) -> None:
    with pytest.raises(Stopped):
        write(tmp_path / "out", "files", stop=24)
    chunk = tmp_path / "out" / f"game_{number:08d}.gz"
    if change == "cut":
        chunk.write_bytes(b"")
    else:
        chunk.unlink()
    shard = f"game_{number // 10 * 10:08d}.gz"
    with pytest.raises(ValueRepairError, match=f"{shard} or one of the files after it: is missing or has changed"):
        write(tmp_path / "out", "files")


def test_loose_chunks_are_on_the_disk_before_they_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr("valuerepair.files.os.fsync", noted)
    with ChunkOutput(tmp_path / "out", RUN, OPTIONS, form="files") as output:
        for i in range(10):
            output.add(CHUNKS[i], 1 + i % 3)
        listed = (tmp_path / "out" / UNFINISHED).stat().st_ino
        assert set(synced[: synced.index(listed)]) >= {path.stat().st_ino for path in (tmp_path / "out").glob("*.gz")}


@pytest.mark.parametrize("form", ["tar", "files"])
def test_a_full_disk_leaves_whole_shards(tmp_path: Path, form: ChunkForm, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(shard: object, name: str, packed: bytes) -> None:
        if name == "game_00000013.gz":
            raise OSError(28, "No space left on device")
        add(shard, name, packed)

    which = "TarShard" if form == "tar" else "_LooseShard"
    import valuerepair.training.chunk_output as module

    add = getattr(module, which).add
    monkeypatch.setattr(getattr(module, which), "add", full)
    with pytest.raises(ValueRepairError, match="No space left on device; once chunks can be written there"):
        write(tmp_path / "out", form)
    assert [chunk for _, chunk in unpacked(tmp_path / "out")] == CHUNKS[:10]
    monkeypatch.undo()
    write(tmp_path / "out", form)
    assert [chunk for _, chunk in unpacked(tmp_path / "out")] == CHUNKS
