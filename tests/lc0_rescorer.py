"""lc0's rescorer, the program that Leela's training pipeline runs over every chunk, where there is one to run."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

VARIABLE = "VALUEREPAIR_LC0_RESCORER"
TABLES = Path(__file__).parent / "goldens" / "syzygy"


def taken(chunks: Path, out: Path, *options: str) -> int:
    """How many of the chunks in a folder, loose or in tars, it takes; all of these then lie in `out`, a new folder.

    The test is skipped where the variable names no such program.
    """
    program = os.environ.get(VARIABLE, "")
    if not os.access(program, os.X_OK):
        pytest.skip(f"{VARIABLE} names no program of lc0's rescorer")
    for path in chunks.glob("*.tar"):
        with tarfile.open(path) as tar:
            tar.extractall(chunks, filter="data")
    out.mkdir()
    words = [
        program,
        "rescore",
        "--no-delete-files",
        f"--input={chunks}",
        f"--output={out}",
        f"--syzygy-paths={TABLES}",
        *options,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "Exception" not in said, said
    count = re.search(r"Games processed: (\d+)", said)
    assert count is not None, said
    return int(count[1])
