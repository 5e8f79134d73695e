"""lczero-training's own code, run outside the project."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

VARIABLE = "VALUEREPAIR_LCZERO_TRAINING"


def repository() -> Path:
    """A clone of lczero-training (bare or not); the test is skipped where there is none."""
    named = os.environ.get(VARIABLE)
    if not named or not Path(named).is_dir() or shutil.which("git") is None:
        pytest.skip(f"{VARIABLE} names no clone of github.com/LeelaChessZero/lczero-training")
    return Path(named)


def take(folder: Path, *names: str) -> None:
    """Copies files of the repository's HEAD into a folder."""
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = ["git", "-C", str(repository()), "show", f"HEAD:{name}"]
        target.write_bytes(subprocess.run(source, capture_output=True, check=True).stdout)
