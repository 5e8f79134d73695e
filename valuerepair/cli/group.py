"""The group behind `vr`, and commands whose help has headings."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from valuerepair.cli import printing
from valuerepair.cli.config import Config, check_environment, tree
from valuerepair.cli.ending import explained_broken_pipe
from valuerepair.errors import UsageError


class LazyGroup(click.Group):
    """A group whose commands are modules of this package, each with a `command`, imported on first use.

    `sections` is heading -> name -> one-line help, as `vr --help` shows them.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections or {}
        self.help_by_name = {name: text for section in self.sections.values() for name, text in section.items()}
        printing.add_options(self)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with explained_broken_pipe():  # for the help
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with explained_broken_pipe():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.help_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.help_by_name:
            return None
        if cmd_name not in self.commands:
            command = importlib.import_module(f"valuerepair.cli.{cmd_name}").command
            for subcommand in tree(command):
                if not isinstance(subcommand, click.Group) or subcommand.invoke_without_command:
                    printing.add_options(subcommand)
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.help_by_name and not ctx.resilient_parsing and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.help_by_name, 1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        resolved = super().resolve_command(ctx, args)
        command = resolved[1]
        if command is not None and not ctx.resilient_parsing:
            check_environment(ctx.auto_envvar_prefix or "", command, name)
        if isinstance(ctx.obj, Config) and command is not None:
            try:
                ctx.obj.check_names(ctx)
                ctx.default_map = {name: ctx.obj.default_map(command, name)}
            except UsageError:
                if not ctx.resilient_parsing:
                    raise
        return resolved

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.help_by_name))
        for heading, commands in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names come from the table: no command is imported for them."""
        names = [
            CompletionItem(name, help=text) for name, text in self.help_by_name.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


class SectionedCommand(click.Command):
    """A command whose options are listed under headings: `sections` is heading -> long names; the others come last."""

    def __init__(self, *args: Any, sections: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = {heading: names.split() for heading, names in (sections or {}).items()}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {
            param.opts[-1].lstrip("-"): record
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None
        }
        sections = {heading: [records.pop(name) for name in names] for heading, names in self.sections.items()}
        for heading, rows in {**sections, "Other options": list(records.values())}.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class SectionedGroup(SectionedCommand, click.Group):
    """A group whose options are listed under headings, with its commands below them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
