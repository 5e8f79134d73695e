"""What a command prints: the result of its call, as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import click

from valuerepair import signals
from valuerepair.cli.verbosity import is_quiet, log
from valuerepair.errors import Interrupted, TruncatedInput

# How the lines begin that name the next step.
_WHAT_NEXT = ("next: ", "not done yet: ", "lc0 itself plays by ")


class Result(Protocol):
    """What a call of the public interface returns to a command.

    Its `as_json()` is one JSON object, for commands with ``--json``; `details()`, if it has them, are printed with -v.
    """

    def lines(self) -> list[str]:
        """The result as text for a terminal."""


R = TypeVar("R", bound=Result)


def print_result(call: Callable[[], R], as_json: bool = False, *, of_files: bool = False, to_stderr: bool = False) -> R:
    """Prints the result of a call, also if a signal ends it, and returns it. Raises what the call raises.

    Text that only describes files that were written (`of_files`) is not printed with -q. It goes to standard error if
    the file is incomplete, because a signal ended the work, or if `to_stderr` says so.
    """
    try:
        result = call()
    except Interrupted as interrupted:
        _print(interrupted.result, as_json, of_files, of_files)
        raise
    _print(result, as_json, of_files, to_stderr)
    return result


def _print(result: Any, as_json: bool, of_files: bool, to_stderr: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.as_json(), indent=2))
    elif not (of_files and is_quiet()):
        lines = [line for line in result.lines() if not (signals.is_stage() and line.startswith(_WHAT_NEXT))]
        click.echo("\n".join(lines), err=to_stderr)
    for line in result.details() if hasattr(result, "details") else ():
        log.debug(line)


def fail_if_broken_off(archives: Sequence[tuple[str, str]]) -> None:
    """Raises TruncatedInput if there are `archives` that broke off, each with the place. Called after the result."""
    if archives:
        source, how = archives[0]
        raise TruncatedInput(f"{source}: {how}; everything before that was used")


def print_one(result: Any, as_json: bool) -> None:
    """Prints one of several results as soon as it is known: its text, or its JSON on one line."""
    click.echo(json.dumps(result.as_json()) if as_json else "\n".join(result.lines()))
