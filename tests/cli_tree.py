"""Every command of `vr`, for tests of what they have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from valuerepair.cli import CONTEXT, cli
from valuerepair.cli.ending import run

SAMPLE = Path(__file__).parents[1] / "data" / "sample.db"


def walk(
    command: click.Command = cli, parent: click.Context | None = None, name: str = "vr"
) -> Iterator[click.Context]:
    """A context of each command, groups first."""
    context = click.Context(command, info_name=name, parent=parent, **CONTEXT)
    yield context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            assert below is not None
            yield from walk(below, context, child)


TREE = {context.command_path: context.command for context in walk()}
LEAVES = {path: command for path, command in TREE.items() if not isinstance(command, click.Group)} | {
    "vr books": TREE["vr books"]
}


def options_of(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option)]


@contextmanager
def typed(words: list[str]) -> Iterator[None]:
    """As if `vr` had been called with these words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["vr", *words])
        yield


def vr(words: list[str], captured: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `vr` with these words, in this process."""
    captured.readouterr()
    with typed(words):
        try:
            code = run(cli)
        except SystemExit as end:
            code = int(end.code or 0)
    said = captured.readouterr()
    return code, said.out, said.err


def parse(call: list[str], command: click.Command = cli, parent: click.Context | None = None) -> None:
    """Parses as `vr` would, without doing anything. Raises click.UsageError."""
    if command is cli and call[:1] == ["--version"]:
        return
    word = call[0] if call else ""
    if isinstance(command, click.Group) and word and not word.startswith("-"):
        # A command keeps the names of its help option from the first context that asks for them.
        within = click.Context(command, parent=parent, **command.context_settings)
        sub = command.get_command(within, word)
        assert sub is not None, f"no command {word!r}"
        parse(call[1:], sub, within)
        return
    command.make_context("vr", list(call), parent=parent)
