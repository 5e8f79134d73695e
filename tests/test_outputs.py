"""Commands never replace a user's file, and what they write appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli_tree import LEAVES, SAMPLE, options_of, vr
from valuerepair.cli.files import Output
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import MADE_AGAIN, check_folder, check_output, claimed, whole_folder, written_whole

Captured = pytest.CaptureFixture[str]
MUCH = b"mine" + bytes(1 << 20)


def tree(folder: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


# -- the rule ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a.db", "net.pb.gz", "net.onnx", "games.pgn", "games.pgn.zst", "a.epd", "a.jsonl", "a"]
)
def test_a_store_a_net_and_an_archive_are_never_replaced(name: str, tmp_path: Path) -> None:
    check_output(tmp_path / name)
    (tmp_path / name).write_bytes(b"theirs")
    with pytest.raises(UsageError, match="already exists"):
        check_output(tmp_path / name)


@pytest.mark.parametrize("ending", MADE_AGAIN)
def test_what_a_store_gives_again_is_replaced(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"a{ending}").write_bytes(b"old")
    check_output(tmp_path / f"a{ending}")
    (tmp_path / f"folder{ending}").mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        check_output(tmp_path / f"folder{ending}")


def test_no_folder_and_no_right_to_write_are_errors_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="there is no folder"):
        check_output(tmp_path / "none" / "a.png")
    with pytest.raises(UsageError, match="is a file"):
        check_folder(tmp_path / "file" / "out")
    for name in ("-", "/dev/null"):
        with pytest.raises(UsageError, match=name):
            check_output(name)
    monkeypatch.setattr(os, "access", lambda *_: False)
    for check in (check_output, check_folder):
        with pytest.raises(UsageError, match="cannot be written to"):
            check(tmp_path / "a.png")


FILES = [
    (path.partition(" ")[2], option.opts[0])
    for path, command in LEAVES.items()
    for option in options_of(command)
    if isinstance(option.type, Output)
]


@pytest.mark.parametrize(("command", "option"), FILES)
def test_an_output_that_exists_is_refused_before_the_work_begins(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Whatever else the command needs: its arguments are not even looked at."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "valuable.pgn").write_bytes(b"theirs")
    code, out, err = vr([*command.split(), option, "valuable.pgn"], capsys)
    assert (code, out) == (2, "")
    assert "valuable.pgn" in err or "Missing argument" in err
    assert tree(tmp_path) == {"valuable.pgn": b"theirs"}


@pytest.mark.slow
def test_a_page_a_plot_and_a_book_are_made_again_and_a_foreign_book_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE, "valuerepair.db")
    for words in ("report", "plot", "export -o a.csv", "books -o book", "split"):
        for _ in range(2):
            assert vr([*words.split(), "-q"], capsys)[0] == 0, words
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "book.pgn").write_bytes(b"theirs")
    code, _, err = vr(["books", "-o", "theirs"], capsys)
    assert code == 2
    assert "theirs/book.pgn" in err
    assert tree(tmp_path / "theirs") == {"book.pgn": b"theirs"}


# -- files and folders that appear whole -------------------------------------------------------------------------------


def test_the_writer_leaves_what_was_there_where_it_fails(tmp_path: Path) -> None:
    target = tmp_path / "own"
    target.write_bytes(b"old")

    def write(content: bytes) -> None:
        with written_whole(target) as partial:
            partial.write_bytes(content)
            if not content:
                raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="own"):
        write(b"")
    assert tree(tmp_path) == {"own": b"old"}
    write(MUCH)
    assert tree(tmp_path) == {"own": MUCH}


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "own")
    with written_whole(tmp_path / "link") as partial:
        partial.write_bytes(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "own").read_bytes() == b"new"


def test_a_device_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    with pytest.raises(UsageError, match="is not a file"), written_whole(tmp_path / "link"):
        pytest.fail("began")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("whole", ["written_whole", "whole_folder"])
def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path, whole: str) -> None:
    program = (
        f"import os, sys, signal\nfrom valuerepair.files import {whole} as whole\n"
        "with whole(sys.argv[1]) as partial:\n    print(partial.name, flush=True)\n"
        "    os.kill(os.getpid(), getattr(signal, sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "out")]
    killed = subprocess.run([*command, "SIGKILL"], check=False, stdout=subprocess.PIPE, text=True)
    assert killed.returncode == -signal.SIGKILL
    living = subprocess.Popen([*command, "SIGSTOP"], stdout=subprocess.PIPE, text=True)
    assert living.stdout is not None
    name = living.stdout.readline().strip()
    assert os.listdir(tmp_path) == [name]
    living.kill()
    living.wait()
    with whole_folder(tmp_path / "new") as partial:
        (partial / "chunk").touch()
    assert os.listdir(tmp_path) == ["new"]
    with pytest.raises(UsageError, match="not empty"), whole_folder(tmp_path / "new"):
        pytest.fail("began")


def test_where_the_file_system_has_no_locks_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_lock(descriptor: int, operation: int) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr("fcntl.flock", no_lock)
    with pytest.raises(ValueRepairError, match="no locks"), claimed(tmp_path / "lock"):
        pytest.fail("began")
    assert os.listdir(tmp_path) == []
