"""The group behind `vr`, and its defaults from ./valuerepair.toml."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import click

from valuerepair import stop
from valuerepair.cli import printing
from valuerepair.errors import UsageError, nearest
from valuerepair.files import read_toml

DEFAULTS = "valuerepair.toml"  # a table for each command, with the long names of its options


class Commands(click.Group):
    """A group whose commands are in modules of this package, one for each section, imported on first use.

    `sections` is heading -> name -> one-line help, as `vr --help` shows them; `modules` is heading -> module.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, Mapping[str, str]], modules: Mapping[str, str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.module_of = {name: modules[heading] for heading, section in sections.items() for name in section}
        self.help_by_name = {name: text for section in self.sections.values() for name, text in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.help_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.help_by_name:
            return None
        if cmd_name not in self.commands:
            module = importlib.import_module(f"valuerepair.cli.{self.module_of[cmd_name]}")
            # A name that is Python's own has an underscore behind it.
            command: click.Command = vars(module).get(cmd_name) or vars(module)[f"{cmd_name}_"]
            for leaf in _leaves(command):
                printing.add_options(leaf)
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.help_by_name and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.NoSuchCommand(name, possibilities=self.help_by_name, ctx=ctx)
        resolved = super().resolve_command(ctx, args)
        if not ctx.resilient_parsing and not stop.is_stage() and os.path.isfile(DEFAULTS):
            tables = read_toml(DEFAULTS)
            for word in tables.keys() - self.help_by_name.keys():
                raise UsageError(f"{DEFAULTS}: [{word}]: no such command{nearest(word, self.help_by_name)}")
            if resolved[1] is not None:
                ctx.default_map = {name: _defaults(resolved[1], tables.get(name, {}), name)}
        return resolved

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.help_by_name))
        for heading, commands in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


def _leaves(command: click.Command) -> Iterator[click.Command]:
    """The command, or the commands of a group; also the group, if it does something without a command."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield command
    if isinstance(command, click.Group):
        yield from command.commands.values()


def _defaults(command: click.Command, table: Any, where: str) -> dict[str, Any]:
    """Click's default map of a command. Raises UsageError for a key that is none of its options."""
    if not isinstance(table, dict):
        raise UsageError(f"{DEFAULTS}: {where}: is outside any table; put it under a command, as [mine]")
    subcommands = command.commands if isinstance(command, click.Group) else {}
    options = {option.name or "" for option in command.params if isinstance(option, click.Option)}
    defaults: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in subcommands:
            value = _defaults(subcommands[name], value, f"{where}.{name}")
        elif name not in options or isinstance(value, dict):
            raise UsageError(f"{DEFAULTS}: [{where}] {key}: no such option{nearest(name, [*options, *subcommands])}")
        defaults[name] = value
    return defaults
