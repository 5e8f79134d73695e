"""On systems that lack what Linux has, what is read and shown works."""

from __future__ import annotations

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
    assert int(done.stdout) > 15


def test_a_store_is_read_and_what_is_found_written(tmp_path: Path) -> None:
    command = ("export", "--db", str(SAMPLE), "--threshold", "0.35", "-o")
    done = vr_without(*command, str(tmp_path / "there.csv"))
    assert done.returncode == 0, done.stderr
    assert here(*command, tmp_path / "here.csv", cwd=tmp_path).returncode == 0
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes() != b""
