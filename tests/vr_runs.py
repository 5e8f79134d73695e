"""`vr` with its words in a folder: as a process of its own, or in this one, which need not import everything anew.

Both go through the same function, all but the end of the interpreter; test_cli_errors compares them.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli_tree import typed
from valuerepair.cli import cli
from valuerepair.cli.ending import run

Done = subprocess.CompletedProcess[str]


def in_a_process(*words: str | Path, cwd: Path) -> Done:
    command = [sys.executable, "-m", "valuerepair", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=240)


def here(*words: str | Path, cwd: Path) -> Done:
    """Exit code, standard output and standard error; what is no error for the user is raised."""
    arguments = [str(word) for word in words]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with typed(arguments), pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code = run(cli)
    printed, complaint = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess(arguments, code, printed, complaint)
