"""`vr config`: which options are in force, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import click
from click.core import ParameterSource

from valuerepair.cli.config_file import Config
from valuerepair.cli.config_values import long_names


@dataclass(frozen=True)
class InForce:
    """One option: its value as JSON has it, and whose it is: file and table, a variable, or built in."""

    command: str
    option: str
    value: Any
    source: str


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object an option and line.")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Say which values of options are in force, and where each comes from.

    With a COMMAND all its options; without one, what a file or the environment sets for any command. The file is
    checked whole. A value on the command line wins over the environment (VALUEREPAIR_MINE_THRESHOLD for --threshold of
    vr mine), that over the file's table of the command, that over [defaults] in it, that over what is built in.

    \b
    Example:
      vr config
      vr config mine
      vr --config other.toml config fit alpha --json
    """
    import json

    root = context.find_root()
    config: Config | None = root.obj
    asked = _commands(root, words[0] if words else None)
    if config is not None:
        everything = asked if not words else _commands(root, None)
        config.check_defaults(list(everything.values()))
        for name, each in everything.items():
            config.of(each, name)
    found = [row for name, each in asked.items() for row in _rows(root, each, name, config)]
    path = " ".join(words)
    rows = [row for row in found if (row.command == path if words else row.source != "built in")]
    if words and not rows:
        raise click.UsageError(f"No such command {path!r}.", root)
    if as_json:
        for row in rows:
            click.echo(json.dumps(asdict(row)))
        return
    click.echo(f"file: {config.path if config else 'none'}")
    for row in rows:
        name = row.option if words else f"{row.command} {row.option}"
        click.echo(f"{name:<32} {_shown(row.value):<24} {row.source}")


def _commands(root: click.Context, only: str | None) -> dict[str, click.Command]:
    group = root.command
    assert isinstance(group, click.Group)
    names = group.list_commands(root) if only is None else [only]
    found = {name: group.get_command(root, name) for name in names}
    return {name: each for name, each in found.items() if each is not None}


def _rows(root: click.Context, each: click.Command, name: str, config: Config | None) -> Iterator[InForce]:
    """The options of a command and of those below it."""
    root.default_map = {name: config.of(each, name)} if config else {}
    yield from _below(click.Context(each, info_name=name, parent=root), config)


def _below(context: click.Context, config: Config | None) -> Iterator[InForce]:
    path = context.command_path.partition(" ")[2]
    for option in context.command.params:
        if isinstance(option, click.Option):
            value, source = option.consume_value(context, {})
            if source == ParameterSource.ENVIRONMENT:
                value = option.type_cast_value(context, value)
            if source == ParameterSource.DEFAULT:
                value = option.get_default(context)
            yield InForce(path, f"--{long_names(option)[0]}", _plain(value), _source(option, source, path, config))
    if isinstance(context.command, click.Group):
        for name, child in context.command.commands.items():
            yield from _below(click.Context(child, info_name=name, parent=context), config)


def _source(option: click.Option, source: ParameterSource, path: str, config: Config | None) -> str:
    if source == ParameterSource.ENVIRONMENT:
        import os

        names = [option.envvar] if isinstance(option.envvar, str) else option.envvar or []
        return next((name for name in names if os.environ.get(name)), "environment")
    if source == ParameterSource.DEFAULT_MAP and config is not None:
        return config.origin(option, path)
    return "built in"


def _plain(value: Any) -> Any:
    """The value, or None for what click has for no value."""
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool) else None


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "-"
    return (
        str(value).lower()
        if isinstance(value, bool)
        else " ".join(map(str, value if isinstance(value, list) else [value]))
    )
