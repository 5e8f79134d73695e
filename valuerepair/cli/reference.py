"""Writes docs/cli.md from the help of all commands: `python -m valuerepair.cli.reference [--check] docs/cli.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from valuerepair.cli import CONTEXT, cli

HEAD = """# Command line reference

Made by `python -m valuerepair.cli.reference docs/cli.md`; CI checks that it is current.

Exit codes: 0 done; 1 something failed (one line says what); 2 the command line is wrong; 130 interrupted.
"""


def walk(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """(full name, help text) of a command and of all its subcommands."""
    ctx = click.Context(
        command, info_name=name, parent=parent, **{**CONTEXT, "max_content_width": 100}, terminal_width=100
    )
    yield ctx.command_path, command.get_help(ctx)
    if isinstance(command, click.Group):
        for child in command.list_commands(ctx):
            sub = command.get_command(ctx, child)
            if sub is not None and not sub.hidden:
                yield from walk(sub, child, ctx)


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


def render() -> str:
    """The complete page."""
    parts = [f"## {name}\n\n```text\n{text.rstrip()}\n```\n" for name, text in walk(cli, "vr")]
    return HEAD + "\n" + "\n".join(parts)


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    page = Path(next(argument for argument in arguments if not argument.startswith("--")))
    text = render()
    if not check:
        page.write_text(text, "utf-8")
        return 0
    if page.exists() and page.read_text("utf-8") == text:
        return 0
    print(f"{page} is not current; run: python -m valuerepair.cli.reference {page}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
