"""`valuerepair.toml`, which sets defaults of options (click's default map), and `vr config`, which shows them.

The file has a table for each command, and `[defaults]` for all commands that have the option. A key is an option's long
name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from json import dumps
from typing import Any

import click
from click.core import ParameterSource

from valuerepair.cli.removed import instead_of
from valuerepair.errors import UsageError, nearest
from valuerepair.files import read_toml

FILE = "valuerepair.toml"
DEFAULTS = "defaults"


@dataclass(frozen=True)
class Config:
    """The `tables` of a configuration file by name; `path` is its name as the user gave it."""

    path: str
    tables: Mapping[str, Any]

    def table(self, words: Iterable[str]) -> Mapping[str, Any]:
        """The table of a command, ``[books.check]`` for the words ``books check``; empty if the file has none."""
        table: Any = self.tables
        for word in words:
            table = table.get(word, {}) if isinstance(table, dict) else {}
        return table if isinstance(table, dict) else {}

    def default_map(self, command: click.Command, *words: str) -> dict[str, Any]:
        """Click's default map of a command and of its subcommands. Raises UsageError for a wrong key or value."""
        where, own_table = ".".join(words), self.table(words)
        options = options_of(command)
        subcommands = command.commands if isinstance(command, click.Group) else {}
        for key, value in own_table.items():
            if key not in options and not (key in subcommands and isinstance(value, dict)):
                kind = "no such command or option" if isinstance(value, dict) else "no such option"
                advice = _advice(" ".join(("vr", *words)), key)
                raise self.wrong(f"[{where}] {key}", advice or kind + nearest(key, [*options, *subcommands]))
        defaults: dict[str, Any] = {}
        for name, table in ((DEFAULTS, self.tables.get(DEFAULTS, {})), (where, own_table)):
            for key in table.keys() & options.keys():
                defaults[options[key].name or ""] = self._checked(options[key], table[key], f"[{name}] {key}")
        for name, child in subcommands.items():
            defaults[name] = self.default_map(child, *words, name)
        return defaults

    def check_names(self, context: click.Context) -> None:
        """Raises UsageError for a table that belongs to no command, and a key of `[defaults]` that no command has."""
        group = context.command
        assert isinstance(group, click.Group)
        names = [DEFAULTS, *group.list_commands(context)]
        for name, table in self.tables.items():
            if not isinstance(table, dict):
                raise self.wrong(name, f"is outside any table; put it under [{DEFAULTS}] or a command, as [mine]")
            if name not in names:
                raise self.wrong(f"[{name}]", "no such command" + nearest(name, names))
        keys, option_names = set(self.tables.get(DEFAULTS, {})), set[str]()
        for name in names[1:] if keys else ():
            command = group.get_command(context, name)
            assert command is not None
            option_names |= {key for subcommand in tree(command) for key in options_of(subcommand)}
            if keys <= option_names:
                return
        for key in sorted(keys - option_names):
            raise self.wrong(f"[{DEFAULTS}] {key}", "no command has such an option" + nearest(key, option_names))

    def wrong(self, where: str, problem: str) -> UsageError:
        """The error that names the file and the place in it."""
        return UsageError(f"{self.path}: {where}: {problem}")

    def _checked(self, option: click.Option, value: Any, where: str) -> Any:
        """The value as it would be typed; a flag's is a bool. Raises UsageError if the option does not take it."""
        items = value if option.multiple and isinstance(value, list) else [value]
        for item in items:
            problem = None
            if "\0" in str(item):
                problem = "has a NUL character"
            elif isinstance(item, bool) != option.is_flag or not isinstance(item, bool | int | float | str):
                problem = "must be true or false" if option.is_flag else "must be text or a number"
            elif not option.is_flag:
                try:
                    option.type.convert(str(item), option, None)
                except click.BadParameter as error:
                    problem = error.message.rstrip(".")
            if problem is not None:
                written = dumps(value, default=str, ensure_ascii=False)
                raise self.wrong(f"{where} = {written}", problem)
        typed = [item if option.is_flag else str(item) for item in items]
        return typed if option.multiple else typed[0]


def read(config_path: str | None) -> Config | None:
    """The file that --config or the environment names, else ./valuerepair.toml, else None. Raises UsageError."""
    if config_path is None and not os.path.isfile(FILE):
        return None
    path = FILE if config_path is None else config_path
    if path == os.devnull:  # no settings, even if there is a valuerepair.toml
        return Config(path, {})
    return Config(path, read_toml(path))


def load(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    """The callback of --config: makes the file available to all commands, and to completion."""
    try:
        context.obj = read(path)
    except UsageError:
        if not context.resilient_parsing:
            raise


def options_of(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by their long names."""
    return {
        name[2:]: option
        for option in command.params
        if isinstance(option, click.Option)
        for name in option.opts
        if name.startswith("--")
    }


def variable_of(context: click.Context, option: click.Parameter) -> str:
    """The environment variable that sets an option of a command."""
    shared = option.envvar if isinstance(option.envvar, str) and os.environ.get(option.envvar) else None
    return shared or f"{context.auto_envvar_prefix}_{option.name}".upper()


def _advice(command: str, key: str) -> str:
    """What to do instead of the option `key`, which `command` (``vr mine``) no longer has; "" if it never had it."""
    return (instead_of(command, f"--{key}") or "").partition(": ")[2]


def check_environment(prefix: str, command: click.Command, *words: str) -> None:
    """Raises UsageError for an environment variable that names the command `words` but none of its options.

    Checks the subcommands, too: their variables begin with the same words.
    """
    stem = "_".join([prefix, *words, ""]).replace("-", "_").upper()
    variables = [f"{stem}{option.name}".upper() for option in command.params]
    subcommands = command.commands if isinstance(command, click.Group) else {}
    stems_below = tuple(f"{stem}{child}_".replace("-", "_").upper() for child in subcommands)
    for key in os.environ:
        if key.startswith(stem) and key not in [*variables, f"{stem}HELP"] and not key.startswith(stems_below):
            name = " ".join(["vr", *words])
            advice = _advice(name, key.removeprefix(stem).lower().replace("_", "-"))
            problem = advice or f"{name} has no such option{nearest(key, variables)}"
            raise UsageError(f"{key} is set in the environment: {problem}")
    for child, subcommand in subcommands.items():
        check_environment(prefix, subcommand, *words, child)


def tree(command: click.Command) -> Iterator[click.Command]:
    """A command and all its subcommands."""
    yield command
    if isinstance(command, click.Group):
        for child in command.commands.values():
            yield from tree(child)


# -- vr config --------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option("--json", is_flag=True, help="Print one JSON object per option and line.")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...], json: bool) -> None:
    """Show which values of options are in force, and where each comes from.

    With a COMMAND, all its options; without one, everything that the file or the environment sets. All of the file is
    checked. Values take precedence in this order: the command line, the environment (VALUEREPAIR_MINE_THRESHOLD for
    --threshold of vr mine), the command's table in the file, [defaults] in the file, and the built-in default.

    \b
    Example:
      vr config
      vr config mine
      vr --config other.toml config books check --json
    """
    root, config = context.find_root(), context.obj
    group = root.command
    assert isinstance(group, click.Group)
    rows = []
    for name in group.list_commands(root):
        command = group.get_command(root, name)
        if command is not None:
            root.default_map = {name: config.default_map(command, name)} if config else {}
            rows += list(_rows(click.Context(command, info_name=name, parent=root), config))
    path = " ".join(words)
    rows = [row for row in rows if (row["command"] == path if words else row["source"] != "built in")]
    if words and not rows:
        raise click.UsageError(f"No such command {path!r}.", root)
    if json:
        for row in rows:
            click.echo(dumps({key: value for key, value in row.items() if key != "shown"}))
        return
    click.echo(f"file: {config.path if config else 'none'}")
    for row in rows:
        name = row["option"] if words else f"{row['command']} {row['option']}"
        click.echo(f"{name:<32} {row['shown']:<24} {row['source']}")


def _rows(context: click.Context, config: Config | None) -> Iterator[dict[str, Any]]:
    """A row for each option of a command and its subcommands: `command`, `option`, `value` (for JSON), `shown` (for a
    terminal), `source` (where the value comes from)."""
    words = context.command_path.split()[1:]
    for key, option in options_of(context.command).items():
        value, source = option.consume_value(context, {})
        if source == ParameterSource.ENVIRONMENT:
            origin = variable_of(context, option)
        elif source == ParameterSource.DEFAULT_MAP and config is not None:
            origin = f"{config.path} [{'.'.join(words) if key in config.table(words) else DEFAULTS}]"
        else:
            origin, value = "built in", option.get_default(context)
        # In newer versions of click a missing value is not None but an object of another class.
        if isinstance(value, str | int | float | list | tuple):
            value = _as_json(option.type_cast_value(context, value), value)
        else:
            value = [] if option.multiple else None
        in_words = re.search(r"\[default: ([^]]+)\]", option.help or "") if value in (None, []) else None
        row = {"command": " ".join(words), "option": f"--{key}", "value": value}
        yield row | {"shown": in_words[1] if in_words else _shown(value), "source": origin}
    if isinstance(context.command, click.Group):
        for name, child in context.command.commands.items():
            yield from _rows(click.Context(child, info_name=name, parent=context), config)


def _as_json(value: Any, typed: Any) -> Any:
    """The value for JSON; as it was `typed`, if JSON has no such value."""
    if isinstance(value, tuple | list):
        return [_as_json(item, str(item)) for item in value]
    return value if isinstance(value, str | int | float | bool) or value is None else typed


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
