"""What a command prints: the result of its call, as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import click

from valuerepair.cli.verbosity import say_more
from valuerepair.errors import Interrupted


class Result(Protocol):
    """What a call of the public interface returns to a command.

    Its `as_json()` is one JSON object, for commands with ``--json``; `details()`, if it has them, are said with -v.
    """

    def lines(self) -> list[str]:
        """The result as text for a terminal."""


R = TypeVar("R", bound=Result)


def print_result(call: Callable[[], R], as_json: bool = False) -> R:
    """Prints what a call comes to, also if a signal ends it, and returns it. Raises what the call raises."""
    try:
        result = call()
    except Interrupted as interrupted:
        _print(interrupted.result, as_json)
        raise
    _print(result, as_json)
    return result


def _print(result: Any, as_json: bool) -> None:
    click.echo(json.dumps(result.as_json(), indent=2) if as_json else "\n".join(result.lines()))
    if details := getattr(result, "details", None):
        say_more(details())
