"""`valuerepair.toml`: defaults of options, a table for each command and `[defaults]` for all that have the option.

A key is a long name of the option without its dashes. In `[defaults]` it is the first one: `oracle`, not `deep`, of an
option that is called both, since `--deep` means another thing elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from valuerepair.cli.config_values import all_options, checked, first_name, long_names, nearest, shown
from valuerepair.errors import UsageError

FILE = "valuerepair.toml"
DEFAULTS = "defaults"


@dataclass(frozen=True)
class Config:
    """What stands in a file; `path` is the file as it was named."""

    path: str
    tables: Mapping[str, Mapping[str, Any]]

    def of(self, command: click.Command, name: str) -> dict[str, Any]:
        """Click's default map of one command and of those below it. Raises UsageError for what is wrong there."""
        return self._map(command, self.tables.get(name, {}), f"[{name}]")

    def _map(self, command: click.Command, table: Mapping[str, Any], where: str) -> dict[str, Any]:
        options = [option for option in command.params if isinstance(option, click.Option)]
        found: dict[str, Any] = {}
        for option in options:
            if (key := first_name(option)) in self.tables.get(DEFAULTS, {}) and option.name:
                found[option.name] = self._checked(option, self.tables[DEFAULTS][key], f"[{DEFAULTS}] {key}")
        below = command.commands if isinstance(command, click.Group) else {}
        by_name = {name: option for option in options for name in long_names(option)}
        for key, value in table.items():
            if key in below and isinstance(value, dict):
                continue
            if key not in by_name:
                kind = "no such command or option" if isinstance(value, dict) else "no such option"
                raise self.wrong(f"{where} {key}", kind + nearest(key, [*by_name, *below]))
            found[by_name[key].name or ""] = self._checked(by_name[key], value, f"{where} {key}")
        for name, child in below.items():
            given = table.get(name, {})
            found[name] = self._map(child, given if isinstance(given, dict) else {}, f"{where[:-1]}.{name}]")
        return found

    def check_defaults(self, commands: Iterable[click.Command]) -> None:
        """Raises UsageError for a key of `[defaults]` that is an option of no command."""
        lacking, known = set(self.tables.get(DEFAULTS, {})), set()
        for command in commands:
            known |= {first_name(option) for option in all_options(command)}
            if lacking <= known:
                return
        key = min(lacking - known)
        raise self.wrong(f"[{DEFAULTS}] {key}", "no command has such an option" + nearest(key, known))

    def origin(self, option: click.Option, command: str) -> str:
        """``valuerepair.toml [fit.alpha]``: where the value of an option of a command stands."""
        table: Any = self.tables
        for name in command.split():
            table = table.get(name, {}) if isinstance(table, dict) else {}
        own = isinstance(table, dict) and any(name in table for name in long_names(option))
        return f"{self.path} [{command.replace(' ', '.') if own else DEFAULTS}]"

    def wrong(self, where: str, what: str) -> UsageError:
        """The error that names the file and the place in it."""
        return UsageError(f"{self.path}: {where}: {what}")

    def _checked(self, option: click.Option, value: Any, where: str) -> Any:
        try:
            return checked(option, value)
        except ValueError as error:
            raise self.wrong(f"{where} = {shown(value)}", str(error)) from None


def find(given: str | None, commands: Iterable[str] | None) -> Config | None:
    """The file that --config or the environment names, else ./valuerepair.toml, else None. Raises UsageError.

    `commands` are the tables that there may be; None: any.
    """
    if given is None and not os.path.isfile(FILE):
        return None
    path = FILE if given is None else given
    config = Config(path, _read(path))
    allowed = [DEFAULTS, *(commands or ())]
    for name, table in config.tables.items():
        if not isinstance(table, dict):
            raise config.wrong(name, f"stands outside a table; put it under [{DEFAULTS}] or a command, as [mine]")
        if commands is not None and name not in allowed:
            raise config.wrong(f"[{name}]", "no such command" + nearest(name, allowed))
    return config


def _read(path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        tables: dict[str, Any] = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}") from None
    except ValueError as error:  # TOML or UTF-8
        raise UsageError(f"{path}: is no TOML file: {' '.join(str(error).split())}") from None
    return tables
