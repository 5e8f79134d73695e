"""Folders of packed chunks: tars that tarfile and lczero-training's loader read, whole tars, runs that go on."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chunk_games import packed_in
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.training import chunk_output
from valuerepair.training.chunk_output import ChunkOutput, TarShard

RUN = {"inputs": ["games.pgn"], "result": "game"}
CHUNKS = [gzip.compress(bytes([i]) * (8356 * (1 + i % 3)), mtime=0) for i in range(25)]


@pytest.fixture(autouse=True, scope="module")
def ten_chunks_a_tar() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_output, "SHARD_CHUNKS", 10)
        yield


class Stopped(Exception):
    """A run that ends before its end."""


def write(folder: Path, stop: int | None = None, run: Mapping[str, Any] = RUN) -> dict[str, Any]:
    """All of CHUNKS, or as far as `stop`; goes on where the folder has some."""
    with ChunkOutput(folder, run) as output:
        for i in range(output.chunks, len(CHUNKS)):
            if i == stop:
                raise Stopped
            output.add(CHUNKS[i], 1 + i % 3)
        return output.finish({"games": len(CHUNKS)})


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_all_chunks_are_there_in_order(tmp_path: Path) -> None:
    manifest = write(tmp_path / "out")
    names, chunks = zip(*packed_in(tmp_path / "out").items(), strict=True)
    assert list(chunks) == CHUNKS
    assert names == tuple(f"game_{i:08d}.gz" for i in range(25))
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert (manifest["chunks"], manifest["records"], manifest["games"]) == (25, sum(1 + i % 3 for i in range(25)), 25)
    assert [facts["chunks"] for facts in manifest["files"].values()] == [10, 10, 5]
    assert sum(facts["records"] for facts in manifest["files"].values()) == manifest["records"]
    assert (manifest["inputs"], manifest["result"]) == (["games.pgn"], "game")
    before = content(tmp_path / "out")
    assert set(before) == {"manifest.json", *manifest["files"]}
    with pytest.raises(UsageError, match=r"manifest\.json"):  # finished chunks are not overwritten
        write(tmp_path / "out")
    assert content(tmp_path / "out") == before


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


@given(stops=st.lists(st.integers(0, len(CHUNKS)), max_size=4))
@settings(max_examples=25, deadline=None)
def test_stopped_runs_end_with_the_same_bytes(stops: Sequence[int]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "straight")
        for stop in stops:
            with ChunkOutput(folder / "out", RUN) as output:
                for i in range(output.chunks, max(stop, output.chunks)):
                    output.add(CHUNKS[i], 1 + i % 3)
            left = list(packed_in(folder / "out").values())
            assert len(left) % 10 == 0
            assert left == CHUNKS[: len(left)]
        write(folder / "out")
        assert content(folder / "out") == content(folder / "straight")


_KILLED = """
import sys, time
from tests.test_training_chunk_output import CHUNKS, RUN, ChunkOutput, chunk_output
chunk_output.SHARD_CHUNKS = 10
with ChunkOutput(sys.argv[1], RUN) as output:
    for i in range(17):
        output.add(CHUNKS[i], 1 + i % 3)
    print("far enough", flush=True)
    time.sleep(60)
"""


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    write(tmp_path / "straight")
    with subprocess.Popen([sys.executable, "-c", _KILLED, tmp_path / "out"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"far enough\n"
        with pytest.raises(ValueRepairError, match="another process"):
            write(tmp_path / "out")
        os.kill(process.pid, signal.SIGKILL)
    write(tmp_path / "out")
    assert content(tmp_path / "out") == content(tmp_path / "straight")


def test_another_runs_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        write(tmp_path / "out", stop=15)
    before = content(tmp_path / "out")
    with pytest.raises(UsageError, match="result"):
        write(tmp_path / "out", run={**RUN, "result": "judge"})
    assert content(tmp_path / "out") == before


def test_what_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    for folder in (tmp_path / "out", tmp_path / "out" / "mine"):
        with pytest.raises(UsageError, match=str(folder)):
            write(folder)
    (tmp_path / "out" / "mine").rename(tmp_path / "out" / "unfinished.json")
    with pytest.raises(UsageError, match=r"unfinished\.json"):
        write(tmp_path / "out")
    assert content(tmp_path / "out") == {"unfinished.json": b"mine"}


@pytest.mark.parametrize("change", ["cut", "gone"])
def test_a_tar_that_changed_is_noticed(tmp_path: Path, change: str) -> None:
    with pytest.raises(Stopped):
        write(tmp_path / "out", stop=15)
    shard = tmp_path / "out" / "chunks-00000.tar"
    if change == "cut":
        shard.write_bytes(shard.read_bytes()[:-1])
    else:
        shard.unlink()
    with pytest.raises(ValueRepairError, match=r"chunks-00000\.tar"):
        write(tmp_path / "out")


def test_a_full_disk_leaves_whole_tars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = TarShard.add

    def full(shard: TarShard, name: str, packed: bytes) -> None:
        if name == "game_00000013.gz":
            raise OSError(28, "No space left on device")
        add(shard, name, packed)

    with monkeypatch.context() as patch:
        patch.setattr(TarShard, "add", full)
        with pytest.raises(ValueRepairError, match="No space left on device"):
            write(tmp_path / "out")
    assert [*packed_in(tmp_path / "out").values()] == CHUNKS[:10]
    write(tmp_path / "out")
    assert [*packed_in(tmp_path / "out").values()] == CHUNKS
