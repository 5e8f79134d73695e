"""On systems that lack what Linux has: what is read and shown works, and what is not possible says so in a line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cli_tree import SAMPLE
from tests.vr_runs import here

ROOT = Path(__file__).parents[1]
# What Windows has not, or not as Linux has it; taken away before anything of the package is imported.
WITHOUT = """
import asyncio, os, select, sys  # there asyncio is another one; from 3.13 on this one asks for sysconf
for module in ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp"):
    sys.modules[module] = None
for home, names in (os, ("killpg", "pread", "pwrite", "sched_getaffinity", "sysconf")), (select, ("poll",)):
    for name in names:
        delattr(home, name)
"""


def without(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120)


def vr_without(*arguments: str) -> subprocess.CompletedProcess[str]:
    return without("from valuerepair.__main__ import main\nmain()", *arguments)


def test_the_package_and_every_help_can_be_had() -> None:
    done = without(
        "import valuerepair as vr\n"
        "from click.testing import CliRunner\n"
        "from tests.cli_tree import TREE\n"
        "from valuerepair.cli import cli\n"
        "assert all(getattr(vr, name) is not None for name in vr.__all__)\n"
        "for path in TREE:\n"
        "    found = CliRunner().invoke(cli, [*path.split()[1:], '--help'])\n"
        "    assert found.exit_code == 0, (path, found.exception)\n"
        "print(len(TREE))\n"
    )
    assert done.stderr == ""
    assert int(done.stdout) > 30


def test_a_store_is_read_and_what_is_found_written(tmp_path: Path) -> None:
    command = ("export", "--db", str(SAMPLE), "--threshold", "0.35", "-o")
    done = vr_without(*command, str(tmp_path / "there.csv"))
    assert done.returncode == 0, done.stderr
    assert here(*command, tmp_path / "here.csv", cwd=tmp_path).returncode == 0
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes() != b""


def test_the_own_search_works() -> None:
    """And says what is too large for it, by its indices where the system does not say how much memory it has."""
    done = without(
        "from tests.mcts_doubles import FakeNet\n"
        "import valuerepair as vr\n"
        "from valuerepair.chess.positions import STARTPOS_FEN, Position\n"
        "from valuerepair.mcts.forest import Forest\n"
        "[(_, found)] = Forest(FakeNet(), trees=1).search([Position(STARTPOS_FEN)], 20)\n"
        "print(found.nodes)\n"
        "try:\n    Forest(FakeNet(), trees=1000, nodes=10**6)\n"
        "except vr.ValueRepairError as error:\n    print(error)\n"
    )
    assert done.stderr == ""
    nodes, error = done.stdout.splitlines()
    assert nodes == "20"
    assert error.startswith("1,000,000 nodes in 1000 trees need ")
    assert " GiB of memory; at most about " in error


def test_without_locks_what_another_process_may_be_writing_is_left(tmp_path: Path) -> None:
    (tmp_path / ".mixture.0123abcd.part").mkdir()
    done = without(
        "from valuerepair.files import whole_folder\n"
        "with whole_folder(sys.argv[1]) as folder:\n    (folder / 'a').touch()\n",
        str(tmp_path / "mixture"),
    )
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path)) == [".mixture.0123abcd.part", "mixture"]


def test_long_work_and_engines_are_refused_in_a_line(tmp_path: Path) -> None:
    shutil.copy(SAMPLE, tmp_path / "all.db")
    merged = vr_without("merge", str(SAMPLE), "--into", str(tmp_path / "all.db"))
    assert merged.returncode == 1
    assert merged.stderr.count("\n") == 1
    assert "this system has no locks that end with their process" in merged.stderr
    assert os.listdir(tmp_path) == ["all.db"]
    engine = without(
        "import valuerepair as vr\n"
        "from valuerepair.oracles.open import open_oracle\n"
        "try:\n    open_oracle('uci:' + sys.executable + ',nodes=1', net_path=None)\n"
        "except vr.ValueRepairError as error:\n    print(error)\n"
    )
    assert engine.stderr == ""
    assert engine.stdout.count("\n") == 1
    assert "the engine cannot be run: this system has no process groups" in engine.stdout
