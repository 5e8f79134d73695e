"""The command line is documentation under test: help, examples, reference, start-up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from valuerepair.cli import COMMANDS, cli
from valuerepair.cli.reference import render, walk

ROOT = Path(__file__).parents[1]
HEAVY = ("numpy", "pandas", "numba", "onnxruntime", "chess", "matplotlib", "statsmodels", "pyarrow")


def test_reference_is_current() -> None:
    assert (ROOT / "docs" / "cli.md").read_text("utf-8") == render()


@pytest.mark.parametrize(("name", "text"), list(walk(cli, "vr")), ids=lambda v: v if v.startswith("vr") else "")
def test_every_command_has_help_and_an_example(name: str, text: str) -> None:
    assert "Example:" in text, f"{name} has no example"
    assert name in text.split("Example:")[1], f"the example of {name} does not call it"


@pytest.mark.parametrize("name", [name for section in COMMANDS.values() for name in section])
def test_help_imports_nothing_heavy(name: str) -> None:
    program = (
        "import sys\nfrom valuerepair.cli import cli\n"
        f"try:\n    cli.main([{name!r}, '--help'])\nexcept SystemExit:\n    pass\n"
        f"loaded = [m for m in {HEAVY!r} if m in sys.modules]\nsys.exit(' '.join(loaded) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"vr {name} --help imports {done.stderr}"
