"""The command line is documentation under test: help, examples, reference, start-up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
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


# An option more has to take another's place: each is a decision that its user has to make.
MOST_OPTIONS = 307
MOST_OF = {"train": 18, "mine": 24, "books": 16}


def option_count(command: click.Command) -> int:
    """The number of options of a command and of all its subcommands.

    The -q, -v and --help of every command do not count, nor do options of groups that do nothing without a subcommand.
    """
    context = click.Context(command, info_name="vr")
    common = {"quiet", "verbose", "help"}
    of_subcommands = 0
    if isinstance(command, click.Group):
        children = (command.get_command(context, name) for name in command.list_commands(context))
        of_subcommands = sum(option_count(child) for child in children if child is not None)
        if not command.invoke_without_command:
            return of_subcommands
    options = [option for option in command.params if isinstance(option, click.Option) and option.name not in common]
    return of_subcommands + len(options)


def test_there_are_no_more_options() -> None:
    assert option_count(cli) <= MOST_OPTIONS
    context = click.Context(cli)
    for name, most in MOST_OF.items():
        command = cli.get_command(context, name)
        assert command is not None
        own = click.Command(name, params=command.params)
        assert option_count(own) <= most, name
