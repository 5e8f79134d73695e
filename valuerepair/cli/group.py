"""The group behind `vr`: commands are imported when they are used, and each gets what all commands have in common."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from valuerepair.cli import verbosity
from valuerepair.cli.completion_values import add_completion
from valuerepair.cli.config_values import first_name
from valuerepair.cli.ending import reader_may_go


class LazyGroup(click.Group):
    """A group whose commands are modules of this package, each with a `command`, imported on first use.

    `modules` is name -> (module below valuerepair.cli, one-line help).
    """

    def __init__(self, *given: Any, modules: Mapping[str, tuple[str, str]] | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self.modules = modules or {}
        verbosity.add_options(self)
        add_completion(self)

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        with reader_may_go():  # of the help
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with reader_may_go():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        if cmd_name not in self.commands:
            module = importlib.import_module(f"valuerepair.cli.{self.modules[cmd_name][0]}")
            self.commands[cmd_name] = equipped(module.command, cmd_name)
        return self.commands[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.modules and not ctx.resilient_parsing and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.modules, 1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.modules.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names come from the table: no command is imported for them."""
        found = [CompletionItem(n, help=text) for n, (_, text) in self.modules.items() if n.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def equipped(command: click.Command, path: str) -> click.Command:
    """The command with -q and -v, completion, and variables for its options, and so all commands below it."""
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            equipped(child, f"{path} {name}")
    if not isinstance(command, click.Group) or command.invoke_without_command:
        verbosity.add_options(command)
    add_completion(command)
    for option in command.params:
        if isinstance(option, click.Option) and option.envvar is None:
            option.envvar = variables(path, first_name(option))
    return command


def variables(path: str, option: str) -> list[str]:
    """The environment variables of an option: ``VALUEREPAIR_FIT_ALPHA_NORM``; the store's also ``VALUEREPAIR_DB``."""
    own = f"VALUEREPAIR_{path} {option}".upper().replace(" ", "_").replace("-", "_")
    return [own, "VALUEREPAIR_DB"] if option == "db" else [own]
