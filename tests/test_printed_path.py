"""The lines that the program prints after ``next:`` run in a shell as they are, with a net of one's own, to the end of
the loop."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests import random_nets
from tests.vr_runs import Done, here

ROOT = Path(__file__).parents[1]
NET_NAME = "my-net.pb.gz"
CALLED = "vr is called with:"
# What makes the printed lines quick: a line is run as it was printed, and what it leaves open is small.
SMALL = """
[books]
limit = 4
"""


def prepared(folder: Path, config: str = SMALL) -> Path:
    """A folder with games, a net unknown to the program, and a `vr` that prints its arguments."""
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "data" / "wild.pgn.zst", folder / "games.pgn.zst")
    kind = replace(random_nets.BY_NAME["se-dense-policy"], blocks=1, moves_left=False)
    random_nets.write(kind, folder / NET_NAME)
    (folder / "valuerepair.toml").write_text(config)
    (folder / "bin").mkdir()
    shim = folder / "bin" / "vr"
    shim.write_text(f"#!/bin/sh\nprintf '{CALLED}'\nprintf '%s\\0' \"$@\"\n")
    shim.chmod(0o755)
    return folder


def shell(line: str, folder: Path) -> Done:
    """The line, in bash, with less to search; what bash has `vr` called with runs in this process."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    bash = ["bash", "-c", line.replace("--nodes 800", "--nodes 4")]
    done = subprocess.run(
        bash, capture_output=True, text=True, cwd=folder, env={**os.environ, "PATH": path}, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.endswith("\0")
    assert done.stdout.count(CALLED) == 1, "bash calls it once"
    return here(*done.stdout.removeprefix(CALLED).removesuffix("\0").split("\0"), cwd=folder)


def printed(done: Done) -> str:
    """The command after ``next:``, which is the last line."""
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert last.startswith("next: vr "), done.stdout
    return last.removeprefix("next: ")


def followed(line: str, folder: Path) -> list[str]:
    """The lines that are printed from this one on, each run, to the one that prints none."""
    lines = []
    while True:
        lines.append(line)
        done = shell(line, folder)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        nexts = [printed_line for printed_line in done.stdout.splitlines() if printed_line.startswith("next:")]
        if not nexts:
            return lines
        assert nexts == done.stdout.splitlines()[-1:]
        line = nexts[0].removeprefix("next: ")


MINE = ("mine", "games.pgn.zst", "--net", NET_NAME, "--deep", "mcts:nodes=4", "--threshold", "0.1", "--screen", "off")


def test_each_command_leads_to_the_end_of_the_loop(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "a folder")
    few = ("--threshold", "worst:1%", "--deep", "mcts:nodes=12")
    for first in ((*MINE, "--positions", "300"), ("split",), (*MINE, "--positions", "320"), ("confirm", *few)):
        lines = followed(printed(here(*first, cwd=folder)), folder)
        assert [line.split()[1] for line in lines] == ["books", "selfplay", "stats"]
        assert all(f"--net {NET_NAME}" in line for line in lines if " selfplay " in line)
    pytest.importorskip("jax")
    pytest.importorskip("optax")
    train = ("train", "--db", "valuerepair.db", "--net", NET_NAME, "--steps", "8", "--set", "batch=64")
    line = printed(here(*train, "-o", "trained.pb.gz", cwd=folder))
    assert line.split()[1] == "compare"
    assert followed(line, folder) == [line]


def test_a_folder_and_a_store_with_blanks(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "of mine")
    command = (*MINE, "--positions", "60", "--db", "my store.db")
    books = printed(here(*command, cwd=folder))
    assert "--db 'my store.db'" in books
    lines = followed(f"{books} -o 'a book'", folder)
    assert [line.split()[1] for line in lines] == ["books", "selfplay", "stats"]
    assert "'a book/book.pgn'" in lines[1]
