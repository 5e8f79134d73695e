"""Every command with a file or folder to write, where the disk is full, its reader leaves or a device stands there."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli_tree import SAMPLE, vr
from tests.faults.conftest import Note
from tests.faults.test_disks import disk
from tests.test_outputs import OUTPUTS, Captured, foreign, reader, refused_in_place_of, tree
from tests.v6_records import positions_of, records_of, write_chunk
from valuerepair import outputs
from valuerepair.cli.files import OutputFolder

__all__ = ["disk", "foreign"]  # fixtures
pytestmark = pytest.mark.faults

CHUNKS, NETS = "chunks", ["--net", "maia-1900", "--net", "maia-1100"]
PIPE = 1 << 16  # what a pipe takes without a reader
# A call of every option that writes, with the names of what it writes; the store is given to those that have one.
FILES: dict[str, list[list[str]]] = {
    "split -o": [["split", "-o", "own.json"]],
    "show --svg": [["show", "17", "--svg", "own.svg"]],
    "report -o": [["report", "-o", "own.html"]],
    "plot -o": [["plot", "by-side", "-o", f"own.{ending}"] for ending in outputs.PLOTS],
    "export -o": [
        ["export", "--format", kind, "-o", f"own.{kind}"]
        for kind in ("csv", "jsonl", "parquet", *outputs.TRAINERS, "epd")
    ],
    "remeasure --plot": [["remeasure", *NETS, "--plot", "own.png"]],
    "remeasure -o": [["remeasure", *NETS, "-o", f"own.{ending}"] for ending in outputs.TABLES],
    "weights --plot": [["weights", CHUNKS, "--plot", "own.png"]],
    "weights --side": [["weights", CHUNKS, "--side", "own.parquet"]],
    "search --tree": [["search", "--nodes", "5", "--net", "NET", "--tree", f"own.{end}"] for end in outputs.TREES],
}
FOLDERS = {
    "books -o": ["books", "--threshold", "0.3", "-o", "own"],
    "mix -o": ["mix", "--repair", CHUNKS, "--normal", CHUNKS, "--share", "0.5", "-o", "own"],
    "rescore -o": ["rescore", CHUNKS, "-o", "own"],
    "weights --sampled": ["weights", CHUNKS, "--sampled", "own"],
}
# Runs that take up what they left; test_disks, test_kills, test_merge and test_training_cli break these off.
STATES = {
    *("repair -o", "selfplay -o", "selfplay --training", "match -o", "experiment match -o", "experiment selfplay -o"),
    *("chunks -o", "train -o", "store merge -o"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, any_maia: Path) -> Path:
    """A folder with chunks that the sample's store judges, and a net."""
    folder = tmp_path_factory.mktemp("inputs")
    moves = ["e2e4", "e7e5", "g1f3", "b8c6", "f1b5", "a7a6", "b5a4", "g8f6", "e1g1", "f8e7"]
    (folder / CHUNKS).mkdir()
    for number in range(40):
        records = records_of(positions_of(moves), moves, root_q=0.9, best_q=0.9, orig_q=-0.9, played_q=0.9)
        write_chunk(folder / CHUNKS / f"game_{number:06d}.gz", records)
    (folder / "NET").symlink_to(any_maia)
    return folder


@pytest.fixture
def here(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / CHUNKS).symlink_to(inputs / CHUNKS)
    shutil.copy(SAMPLE, tmp_path / "valuerepair.db")
    return tmp_path


def call_of(words: list[str], inputs: Path) -> list[str]:
    return [str((inputs / "NET").resolve()) if word == "NET" else word for word in words] + ["-q"]


def ends(call: list[str], code: int, message: str, captured: Captured) -> None:
    """With this exit code, and this in the one line on standard error; nothing where it is 0."""
    end, _, err = vr(call, captured)
    assert (end, err.count("\n"), err[:4]) == (code, bool(code), "vr: " * bool(code)), f"{' '.join(call)}: {err}"
    assert message in err


def fill(folder: Path) -> None:
    """Leaves no byte on its disk."""
    with (folder / "room").open("wb", buffering=0) as room, suppress(OSError):
        while True:
            room.write(bytes(4096))


def test_every_output_is_tried() -> None:
    assert set(OUTPUTS) == {*FILES, *FOLDERS, *STATES}
    for name in FOLDERS:
        assert isinstance(OUTPUTS[name].type, OutputFolder)


def test_what_is_not_of_its_kind(
    foreign: Mapping[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, note: Note
) -> None:
    monkeypatch.chdir(tmp_path)
    tried = sum(refused_in_place_of(name, foreign, tmp_path, capsys) for name in OUTPUTS)
    what = f"{len(OUTPUTS)} outputs of commands where something else stands ({len(foreign)} kinds of content)"
    message = "report.html: already exists and is not a page of valuerepair; remove it, or give another name"
    note(what, tried, message, "2")


@pytest.mark.parametrize("name", FILES)
def test_devices_pipes_and_full_disks(
    name: str, here: Path, inputs: Path, disk: Callable[[str], Path], capsys: Captured, note: Note
) -> None:
    small = disk("size=16m")
    for words in FILES[name]:
        call, own = call_of(words, inputs), Path(words[-1])
        assert vr(call, capsys)[0] == 0
        content = own.read_bytes()
        for device, end in (("/dev/null", 0), ("/dev/full", 1)):
            own.unlink()
            own.symlink_to(device)
            ends(call, end, "No space left on device" if end else "", capsys)
            assert stat.S_ISCHR(own.stat().st_mode)
        own.unlink()
        os.mkfifo(own)
        with reader(own) as read:
            ends(call, 0, "", capsys)
        piped = read()  # whole; a search says how long it took
        assert (piped[:50], piped[-4:], len(piped) // 100) == (content[:50], content[-4:], len(content) // 100)
        with reader(own, 1):
            if len(content) > PIPE:
                ends(call, 1, own.name, capsys)
            else:  # all of it may be on its way before the reader leaves
                assert vr(call, capsys)[0] in (0, 1)
        assert stat.S_ISFIFO(own.stat().st_mode)
        own.unlink()
        own.symlink_to(small / own.name)
        own.write_bytes(content)
        fill(small)
        before = tree(small)
        ends(call, 1, "No space left on device", capsys)
        disk("ro,size=16m")
        ends(call, 2, "cannot be written to", capsys)
        assert tree(small) == before
        disk("rw,size=16m")
        for path in (own, *small.iterdir()):
            path.unlink()
    what = f"`vr {name}` onto /dev/null, /dev/full, pipes, a full disk, a read-only disk"
    note(what, 6 * len(FILES[name]), f"{own}: No space left on device", "0; 1; read-only: 2")


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_on_a_full_disk(
    name: str, here: Path, inputs: Path, disk: Callable[[str], Path], capsys: Captured, note: Note
) -> None:
    small = disk("size=8k")
    call = call_of(FOLDERS[name], inputs)
    call[call.index("own")] = str(small / "own")
    ends(call, 1, "", capsys)
    assert os.listdir(small) == []
    disk("ro,size=8k")
    ends(call, 2, "cannot be written to", capsys)
    disk("rw,size=9m")
    ends(call, 0, "", capsys)
    assert tree(small)
    note(f"`vr {name}` on a full disk, and on a read-only one", 2, "No space left on device", "1; 2; 0 with more room")
