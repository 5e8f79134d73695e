"""The command line is documentation under test: help, examples, reference, start-up."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from valuerepair.cli import COMMANDS, cli
from valuerepair.cli.reference import render, walk

ROOT = Path(__file__).parents[1]
HEAVY = ("numpy", "pandas", "numba", "onnxruntime", "chess", "matplotlib", "statsmodels", "pyarrow")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_reference_is_current() -> None:
    assert (ROOT / "docs" / "cli.md").read_text("utf-8") == render()


@pytest.mark.parametrize(("name", "text"), list(walk(cli, "vr")), ids=lambda v: v if v.startswith("vr") else "")
def test_every_command_has_help_and_an_example(name: str, text: str) -> None:
    assert "Example:" in text, f"{name} has no example"
    assert name in text.split("Example:")[1], f"the example of {name} does not call it"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_imports_nothing_heavy(name: str) -> None:
    program = (
        "import sys\nfrom valuerepair.cli import cli\n"
        f"try:\n    cli.main([{name!r}, '--help'])\nexcept SystemExit:\n    pass\n"
        f"loaded = [m for m in {HEAVY!r} if m in sys.modules]\nsys.exit(' '.join(loaded) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"vr {name} --help imports {done.stderr}"


def _documented_calls() -> list[tuple[str, str]]:
    calls = []
    for page in PAGES:
        for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", page.read_text("utf-8"), re.S):
            for line in block.splitlines():
                calls += [(page.name, part) for part in re.findall(r"(?:^|[&;|$(] *)(vr [a-z][^&;|#)]*)", line)]
    return calls


@pytest.mark.parametrize(("page", "call"), _documented_calls())
def test_documented_commands_exist_with_their_options(page: str, call: str) -> None:
    texts = dict(walk(cli, "vr"))
    words = call.split()
    name = " ".join(words[:3]) if " ".join(words[:3]) in texts else " ".join(words[:2])
    assert name in texts, f"{page}: no command {name!r}"
    for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", call):
        assert option in texts[name], f"{page}: {name} has no {option}"


def test_internal_links_lead_somewhere() -> None:
    broken = []
    for page in [*PAGES, ROOT / "CHANGELOG.md", ROOT / "data" / "README.md"]:
        targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
        broken += [f"{page.name}: {t}" for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not broken
