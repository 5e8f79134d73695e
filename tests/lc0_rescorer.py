"""lc0's rescorer, the program that Leela's training pipeline runs over every chunk, where there is one to run."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.v6_records import CANONICAL

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


def check_valid(records: NDArray[np.void]) -> None:
    """What it demands of records (lc0 src/trainingdata/rescorer.cc, Validate and ResultForData), for where it cannot
    run."""
    for name in ("root", "best", "played", "result"):
        assert (np.abs(records[f"{name}_q"]) <= 1).all()
        assert ((records[f"{name}_d"] >= 0) & (records[f"{name}_d"] <= 1)).all()
        if name != "result":
            assert (records[f"{name}_m"] >= 0).all()
    assert (np.abs(records["best_q"]) + records["best_d"] <= 1 + 1e-6).all()  # probabilities
    assert np.isin(records["result_q"], (-1, 0, 1)).all()
    assert (records["plies_left"] >= 0).all()
    assert (records["rule50_count"] <= 100).all()
    p = records["probabilities"]
    assert ((p == -1) | ((p >= 0) & (p <= 1))).all()
    np.testing.assert_allclose(np.where(p > 0, p, 0).sum(1), 1, atol=0.01)
    rows = np.arange(len(records))
    assert (p[rows, records["best_idx"]] >= 0).all()
    assert (p[rows, records["played_idx"]] >= 0).all()
    side = records["side_to_move_or_enpassant"].astype(int)
    canonical = np.isin(records["input_format"], CANONICAL)
    assert np.where(canonical, side & (side - 1) == 0, side <= 1).all()
