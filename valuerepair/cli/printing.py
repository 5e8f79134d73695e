"""What a command prints: the result of its call, as text or as JSON; and -q and -v, the same for every command.

-q and -v say what is printed on standard error besides errors. All of it comes from the logger ``valuerepair``, with a
child for each module. -q: nothing. Without either option: remarks (level INFO), and progress. -v: also what is done
(DEBUG): files, engines with their options, nets and providers, uses of caches, times. -vv: also every line between `vr`
and engines.
"""

from __future__ import annotations

import json
import logging
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import click

from valuerepair import stop
from valuerepair.errors import Interrupted, TruncatedInput
from valuerepair.version import __version__

# Beginnings of the lines that name the next step.
_WHAT_NEXT = ("next: ", "not done yet: ", "lc0 itself plays by ")


class Result(Protocol):
    """What a call of the public interface returns to a command.

    Its `as_json()` is one JSON object, for commands with ``--json``; `details()`, if it has them, are lines for -v.
    """

    def lines(self) -> list[str]:
        """The result as text for a terminal."""


R = TypeVar("R", bound=Result)


def print_result(call: Callable[[], R], as_json: bool = False, *, of_files: bool = False) -> R:
    """Prints the result of a call, also if a signal ends it, and returns it. Raises what the call raises.

    Text that only describes files that were written (`of_files`) is not printed with -q. It goes to standard error if
    the file is incomplete, because a signal ended the work.
    """
    try:
        result = call()
    except Interrupted as interrupted:
        _print(interrupted.result, as_json, of_files, of_files)
        raise
    _print(result, as_json, of_files, False)
    return result


def _print(result: Any, as_json: bool, of_files: bool, to_stderr: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.as_json(), indent=2))
    elif not (of_files and is_quiet()):
        lines = [line for line in result.lines() if not (stop.is_stage() and line.startswith(_WHAT_NEXT))]
        if log.isEnabledFor(logging.DEBUG) and hasattr(result, "details"):
            lines += result.details()
        click.echo("\n".join(lines), err=to_stderr)


def fail_if_broken_off(archives: Sequence[tuple[str, str]]) -> None:
    """Raises TruncatedInput for the first truncated archive (name, where it ends). Call it after printing."""
    if archives:
        source, where = archives[0]
        raise TruncatedInput(f"{source}: {where}; everything before that was used")


def print_one(result: Any, as_json: bool) -> None:
    """Prints one of several results as soon as it is known: its text, or its JSON on one line."""
    click.echo(json.dumps(result.as_json()) if as_json else "\n".join(result.lines()))


# -- -q and -v --------------------------------------------------------------------------------------------------------


log = logging.getLogger("valuerepair")
_EVERYTHING = 1


class _ToStandardError(logging.Handler):
    """Writes lines to the current standard error without breaking a progress bar; remarks without a prefix."""

    remarks = True

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if record.levelno < logging.INFO:
            where = record.name.partition(".")[2] or "vr"
            line = f"[{record.relativeCreated / 1000:8.3f} s] {where}: {line}"
        elif not self.remarks:
            return
        if "tqdm" in sys.modules:
            from tqdm import tqdm

            tqdm.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr)
        sys.stderr.flush()


_handler = _ToStandardError()
_quiet = False


@contextmanager
def no_remarks() -> Iterator[None]:
    """Within the block, remarks are not written, because another handler shows them."""
    _handler.remarks = False
    try:
        yield
    finally:
        _handler.remarks = True


def is_quiet() -> bool:
    """Whether -q is in force: for `Progress`, and for descriptions of written files."""
    return _quiet


def add_options(command: click.Command) -> None:
    """Adds -q and -v to a command, as new objects, because a command owns its parameters."""
    command.params += [
        click.Option(
            ("-q", "--quiet"), is_flag=True, is_eager=True, expose_value=False, callback=_apply,
            help="Print only the result and errors.",
        ),
        click.Option(
            ("-v", "--verbose"), count=True, show_default=False, is_eager=True, expose_value=False, callback=_apply,
            help="Show what is done; -vv: also the lines to and from engines.",
        ),
    ]  # fmt: skip


def _apply(context: click.Context, parameter: click.Parameter, value: int) -> None:
    """Sets the verbosity of the process until the command ends, once both options are read."""
    global _quiet
    given = context.meta.setdefault("-q and -v", {})
    given[parameter.name] = value
    if len(given) < 2 or context.resilient_parsing:
        return
    quiet, verbose = given["quiet"], given["verbose"]
    if quiet and verbose:
        raise click.UsageError("-q and -v exclude each other", context)
    context.call_on_close(_reset)
    log.setLevel(logging.ERROR if quiet else (logging.INFO, logging.DEBUG, _EVERYTHING)[min(verbose, 2)])
    if quiet:
        _quiet = True
    else:
        log.addHandler(_handler)
    started = time.monotonic()
    log.debug(f"valuerepair {__version__}, Python {sys.version.split()[0]}: {shlex.join(['vr', *sys.argv[1:]])}")
    context.call_on_close(lambda: log.debug("%.1f s in total", time.monotonic() - started))


def _reset() -> None:
    """Ends the effect of -q and -v: the next command in the same process begins without them."""
    global _quiet
    _quiet = False
    log.removeHandler(_handler)
    log.setLevel(logging.NOTSET)
