"""Values of options as a configuration file has them: what an option is called there, and what it takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import click


def long_names(option: click.Option) -> list[str]:
    """``["oracle", "deep"]`` of ``--oracle/--deep``."""
    return [name[2:] for name in option.opts if name.startswith("--")]


def first_name(option: click.Option) -> str:
    """The name of an option for all commands; of -q it is quiet, also where its long name is another."""
    return "quiet" if option.name == "be_quiet" else (long_names(option) or [option.name or ""])[0]


def all_options(command: click.Command) -> list[click.Option]:
    """The options of a command and of those below it."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = [option for option in command.params if isinstance(option, click.Option)]
    return [*own, *(option for child in below for option in all_options(child))]


def checked(option: click.Option, value: Any) -> Any:
    """The value as click's default map wants it. Raises ValueError with what it must be.

    An option that may be repeated takes an array, or one value. Text may be written as a number (``alpha = 170``).
    """
    if option.multiple:
        return [_single(option, each) for each in (value if isinstance(value, list) else [value])]
    return _single(option, value)


def _single(option: click.Option, value: Any) -> Any:
    wanted = _wanted(option)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "true or false": isinstance(value, bool),
        "a whole number": number and isinstance(value, int),
        "a number": number,
        "text": isinstance(value, str) or number,
    }
    if not fits[wanted]:
        raise ValueError(f"must be {wanted}")
    if wanted == "true or false":
        return value
    value = str(value) if wanted == "text" else value
    try:
        option.type.convert(value, option, None)
    except click.BadParameter as error:
        raise ValueError(error.message.rstrip(".")) from None
    return value


def _wanted(option: click.Option) -> str:
    if option.is_flag:
        return "true or false"
    if option.count or isinstance(option.type, click.IntRange | type(click.INT)):
        return "a whole number"
    return "a number" if isinstance(option.type, click.FloatRange | type(click.FLOAT)) else "text"


def shown(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean threshold?``, or nothing."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
