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
    settings = CONTEXT | {"max_content_width": 100, "terminal_width": 100}
    ctx = click.Context(command, info_name=name, parent=parent, **settings)
    yield ctx.command_path, command.get_help(ctx)
    if isinstance(command, click.Group):
        for child in command.list_commands(ctx):
            subcommand = command.get_command(ctx, child)
            if subcommand is not None:
                yield from walk(subcommand, child, ctx)


def render() -> str:
    """The complete page."""
    parts = [f"## {name}\n\n```text\n{text.rstrip()}\n```\n" for name, text in walk(cli, "vr")]
    return HEAD + "\n" + "\n".join(parts)


def main(arguments: list[str]) -> int:
    page, text = Path(arguments[-1]), render()
    if "--check" not in arguments:
        page.write_text(text, "utf-8")
        return 0
    if page.exists() and page.read_text("utf-8") == text:
        return 0
    print(f"{page} is not current; run: python -m valuerepair.cli.reference {page}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
