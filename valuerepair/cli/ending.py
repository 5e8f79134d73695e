"""How `vr` ends: errors become one line on standard error, and every ending has its exit code (docs/conventions.md)."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from valuerepair import signals
from valuerepair.cli.files import misplaced
from valuerepair.cli.removed import instead_of
from valuerepair.errors import ValueRepairError

_EXTRA = re.compile(r"unexpected extra argument \((\S+)\)|No such command '(\S+)'")


@contextmanager
def reader_may_go() -> Iterator[None]:
    """Within, an output that nobody reads any more (`vr export | head`) is a ValueRepairError.

    Of an OSError click would make exit code 1 and say nothing.
    """
    try:
        yield
    except BrokenPipeError as error:
        raise ValueRepairError(f"{error.filename or 'standard output'}: nobody reads it any more") from error


def run(group: click.Group) -> int:
    """Runs the command line of this process; its exit code."""
    _open_closed_streams()
    code: object
    try:
        code = group.main(prog_name="vr", standalone_mode=False)
        with reader_may_go():
            sys.stdout.flush()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        code = _end(_complaint(error), error.exit_code)
    except ValueRepairError as error:
        code = _end(f"vr: {error}", error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        code = _end("vr: interrupted", signals.EXIT_CODE)
    except MemoryError:
        code = _end("vr: out of memory; try fewer at once: --jobs, or fewer cores", 1)
    except OSError as error:
        code = _end(f"vr: {_where(error)}{error.strerror or error}", 1)
    with suppress(OSError):
        sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _where(error: OSError) -> str:
    """What an error is about. Whoever writes a file names it: a full disk without a name is standard output's."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EAGAIN)
    name = error.filename or ("standard output" if full else None)
    return f"{name}: " if name else ""


def _open_closed_streams() -> None:
    """Streams that the caller closed (`vr stats >&-`) lead nowhere; else the next file would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # it is open as long as the process is


def _end(line: str, code: int) -> int:
    """Says the last line, if anybody can read it; the exit code is the same without."""
    with suppress(OSError):
        click.echo(line, err=True)
    return code


def _complaint(error: click.ClickException) -> str:
    """Click's complaint as one line: the command it is about, what is wrong, where to read on.

    A group without a command says its help instead, which is click's complaint too.
    """
    if not error.format_message().strip() or type(error).__name__ == "NoArgsIsHelpError":
        return error.format_message()
    message = error.message
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        advice = instead_of(error.ctx.command_path, error.option_name)
        if advice is not None:
            return f"vr: {advice}"
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        message = f"{message.rstrip('.')}. Did you mean {error.possibilities[0]}?"
    elif not isinstance(error, click.NoSuchOption):
        message = error.format_message()
    message = " ".join(message.split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    if (extra := _EXTRA.search(message)) and (said := misplaced(context, extra[1] or extra[2])):
        return f"vr: {said}"
    if context is None:
        return f"vr: {message}"
    command = context.command_path
    within = command.partition(" ")[2]
    end = "" if message.endswith(("?", ".")) else "."
    return f"vr: {within + ': ' if within else ''}{message}{end} See {command} --help"
