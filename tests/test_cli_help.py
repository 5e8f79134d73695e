"""The help of the commands: each has an example, none loads heavy packages, and there are no more options than now."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from tests.cli_tree import TREE, options_of
from valuerepair.cli import COMMANDS

HEAVY = ("numpy", "pandas", "numba", "onnxruntime", "chess", "matplotlib", "statsmodels", "pyarrow")
# An option more has to take another's place: each is a decision that its user has to make.
MOST_COMMANDS, MOST_OPTIONS = 23, 146


@pytest.mark.parametrize("path", TREE)
def test_every_command_has_an_example_that_calls_it(path: str) -> None:
    example = str(TREE[path].help).partition("Example:")[2]
    assert path in example


def test_no_help_loads_heavy_packages() -> None:
    calls = [["--help"], *([name, "--help"] for section in COMMANDS.values() for name in section)]
    program = (
        "import sys\nfrom valuerepair.cli import cli\n"
        f"for words in {calls}:\n"
        "    try:\n        cli.main(words)\n    except SystemExit:\n        pass\n"
        f"    loaded = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "    if loaded:\n        sys.exit(f'{words}: {loaded}')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_there_are_no_more_commands_and_options() -> None:
    """Those that do something; -q, -v and -h of every command do not count."""
    commands = [c for c in TREE.values() if not isinstance(c, click.Group) or c.invoke_without_command]
    common = {"quiet", "verbose", "help", "version"}
    options = [option for c in commands for option in options_of(c) if option.name not in common]
    assert (len(commands) <= MOST_COMMANDS, len(options) <= MOST_OPTIONS) == (True, True), (len(commands), len(options))
