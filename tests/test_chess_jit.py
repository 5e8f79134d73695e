"""The cache of compiled kernels: its key sees every kernel source, its folder may be missing or read-only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest

from valuerepair.chess import jit


@pytest.fixture
def copied_package(tmp_path: Path) -> Path:
    """A copy of the package without compiled files."""
    package = tmp_path / "valuerepair"
    shutil.copytree(jit.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def kernel_modules(package: Path) -> list[Path]:
    return [p for p in sorted(package.rglob("*.py")) if re.search(r"chess\.jit import .*kernel\b", p.read_text())]


def test_the_key_sees_every_module_with_kernels(copied_package: Path) -> None:
    modules = kernel_modules(copied_package)
    assert len(modules) >= 6
    before = jit.source_key(copied_package)
    assert before == jit.source_key()
    keys = {before}
    for module in [*modules, copied_package / "chess" / "rows.py"]:
        text = module.read_text()
        module.write_text(text + "\nCHANGED = 1\n")
        keys.add(jit.source_key(copied_package))
        module.write_text(text)
    assert len(keys) == len(modules) + 2
    assert jit.source_key(copied_package) == before


def run(package: Path, script: str, cache: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=package.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_change_below_a_cached_kernel_takes_effect(copied_package: Path, tmp_path: Path) -> None:
    """The trap this is about: Numba's own cache would go on with the old code of the called function."""
    script = (
        "from valuerepair.chess.board import parse_fens, insufficient_material as dead\n"
        "import numpy as np\n"
        "rows = np.zeros((1, 10), np.uint64)\n"
        "print(dead(rows)[0])"
    )
    cache = tmp_path / "cache"
    assert run(copied_package, script, cache) == "True"
    assert run(copied_package, script, cache) == "True"
    source = copied_package / "chess" / "make.py"
    changed = source.read_text().replace("< 4:\n        return True", "< 4:\n        return False")
    assert changed != source.read_text()
    source.write_text(changed)
    assert run(copied_package, script, cache) == "False"
    assert len([p for p in cache.iterdir() if p.is_dir()]) == 2


@pytest.mark.skipif(not hasattr(numba.config, "CACHE_LOCATOR_CLASSES"), reason="this Numba has a folder for each place")
@pytest.mark.slow
def test_another_copy_of_the_same_sources_compiles_nothing(copied_package: Path, tmp_path: Path) -> None:
    script = (
        "import numpy as np; from valuerepair.chess.board import in_check; print(in_check(np.ones((1, 10), np.uint64)))"
    )
    made = []
    for place in (copied_package, tmp_path / "elsewhere" / "valuerepair"):
        if place != copied_package:
            shutil.copytree(copied_package, place)
        run(place, script, tmp_path / "cache")
        made.append({path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.nb?")})
    assert len(made[0]) > 1
    assert made[1] == made[0]


def test_folders_of_other_versions_go_when_old(tmp_path: Path) -> None:
    old, recent, foreign = tmp_path / ("0" * 32), tmp_path / ("1" * 32), tmp_path / "other"
    long_ago = time.time() - 2 * jit.KEEP_DAYS * 86400
    for folder in (old, recent, foreign):
        folder.mkdir()
        if folder != recent:
            os.utime(folder, (long_ago, long_ago))
    made = jit.open_cache(tmp_path, "f" * 64)
    assert made == tmp_path / ("f" * 32)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["1" * 32, "f" * 32, "other"])
