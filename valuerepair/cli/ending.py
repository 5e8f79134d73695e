"""How `vr` ends: errors become one line on standard error, and every ending has its exit code (docs/conventions.md)."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click
from click.core import ParameterSource

from valuerepair import signals
from valuerepair.cli.config import variable_of
from valuerepair.cli.files import misplaced
from valuerepair.cli.removed import instead_of
from valuerepair.errors import ValueRepairError
from valuerepair.outputs import check_name

_EXTRA = re.compile(r"unexpected extra argument \((\S+)\)|No such command '(\S+)'")


@contextmanager
def explained_broken_pipe() -> Iterator[None]:
    """Turns the error of an output whose reader has closed it (`vr export | head`) into a ValueRepairError.

    On the BrokenPipeError itself, click would exit with 1 and print nothing.
    """
    try:
        yield
    except BrokenPipeError as error:
        raise ValueRepairError(f"{error.filename or 'standard output'}: the reader has closed it") from error


def run(group: click.Group) -> int:
    """Runs the command line of this process and returns its exit code."""
    _open_closed_streams()
    _drop_unwritable_lines()
    code: object
    try:
        _check_names()
        code = group.main(prog_name="vr", standalone_mode=False)
        with explained_broken_pipe():
            sys.stdout.flush()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        code = _end(_message(error), error.exit_code)
    except ValueRepairError as error:
        code = _end(f"vr: {error}", error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        code = signals.EXIT_CODE if signals.is_stage() else _end("vr: interrupted", signals.EXIT_CODE)
    except MemoryError:
        code = _end("vr: out of memory; try fewer at once: --jobs, or fewer cores", 1)
    except OSError as error:
        code = _end(f"vr: {_where(error)}{error.strerror or error}", 1)
    with suppress(OSError):
        sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _check_names() -> None:
    """Raises UsageError for an argument, a variable of ours or a current folder that is not UTF-8."""
    names = [*sys.argv[1:], *(value for name, value in os.environ.items() if name.startswith("VALUEREPAIR_"))]
    with suppress(FileNotFoundError):  # a folder that was removed
        names.append(os.getcwd())
    for name in names:
        check_name(name)


def _where(error: OSError) -> str:
    """The file that an error is about, as a prefix. All code that writes files names them in its errors, so a full disk
    without a name is that of standard output."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EAGAIN)
    name = error.filename or ("standard output" if full else None)
    return f"{name}: " if name else ""


def _open_closed_streams() -> None:
    """Opens /dev/null for streams that the caller closed (`vr stats >&-`), or files would get their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # it is open as long as the process is


class _Dropping(io.FileIO):
    """A stream that drops what it cannot write, because the disk is full or nobody reads any more."""

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            if (written := super().write(data)) is not None:
                return written
        return memoryview(data).nbytes


def _drop_unwritable_lines() -> None:
    """No command ends because its progress or remarks cannot be written; results are never on standard error alone."""
    stream = sys.stderr
    buffer = stream.buffer if type(stream) is io.TextIOWrapper else None  # Python's own stream, not a replacement
    if isinstance(getattr(buffer, "raw", buffer), io.FileIO):
        raw = _Dropping(stream.fileno(), "wb", closefd=False)
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(raw), stream.encoding, stream.errors, newline="", line_buffering=True
        )


def _end(line: str, code: int) -> int:
    """Prints the last line to standard error, if it is open, and returns the exit code."""
    with suppress(OSError):
        click.echo(line, err=True)
    return code


def _variable(error: click.ClickException) -> str | None:
    """The environment variable that set the option that the error is about."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return None
    source = error.ctx.get_parameter_source(error.param.name or "")
    return variable_of(error.ctx, error.param) if source == ParameterSource.ENVIRONMENT else None


def _message(error: click.ClickException) -> str:
    """Click's error as one line: the command, what is wrong, where to read more.

    For a group without a subcommand click's error is the help, which stays as it is.
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
    elif variable := _variable(error):
        message = f"{variable}: {error.message}"
    elif not isinstance(error, click.NoSuchOption):
        message = error.format_message()
    message = " ".join(message.split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    if (extra := _EXTRA.search(message)) and (advice := misplaced(context, extra[1] or extra[2])):
        return f"vr: {advice}"
    if context is None:
        return f"vr: {message}"
    command = context.command_path
    subcommand = command.partition(" ")[2]
    end = "" if message.endswith(("?", ".")) else "."
    return f"vr: {subcommand + ': ' if subcommand else ''}{message}{end} See {command} --help"
