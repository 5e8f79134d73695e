"""How `vr` ends: every exception becomes one line on standard error, and every ending has its exit code.

0 done; 1 something failed; 2 the command line is wrong; 130 interrupted. ``VR_DEBUG=1`` shows the traceback, too.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import traceback
from contextlib import suppress

import click

from valuerepair import stop
from valuerepair.errors import ValueRepairError, one_line


def run(group: click.Group) -> int:
    """Runs the command line of this process and returns its exit code."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller (`vr stats >&-`); a file would get its descriptor
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # it is open as long as the process is
    code: object
    try:
        code = group.main(prog_name="vr", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        code = end.exit_code
    except SystemExit as end:  # click's own, when the reader of standard output has gone: vr export | head
        code = end.code
    except BaseException as error:
        if os.environ.get("VR_DEBUG"):
            traceback.print_exc()
        line, code = _last_words(error)
        if line:
            with suppress(OSError):
                click.echo(line, err=True)
    with suppress(OSError):
        sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _last_words(error: BaseException) -> tuple[str, int]:
    """The last line, and the exit code."""
    if isinstance(error, click.ClickException):
        return _message(error), error.exit_code
    if isinstance(error, ValueRepairError):
        return f"vr: {error}", error.exit_code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "" if stop.is_stage() else "vr: interrupted", stop.EXIT_CODE
    if isinstance(error, MemoryError):
        return "vr: out of memory; try fewer at once: --jobs, or fewer cores", 1
    if isinstance(error, OSError):
        # All code that writes files names them in its errors, so a full disk without a name is that of standard output.
        return f"vr: {error.filename or 'standard output'}: {error.strerror or error}", 1
    if isinstance(error, sqlite3.Error):
        is_full = "is full" in str(error)
        advice = "once there is room, the same command resumes" if is_full else "vr doctor FILE checks it"
        return f"vr: the store: {one_line(error)}; {advice}", 1
    return f"vr: {type(error).__name__}: {one_line(error)}; this is a fault of vr, and VR_DEBUG=1 shows where", 1


def _message(error: click.ClickException) -> str:
    """Click's error as one line: the command, what is wrong, where to read more.

    For a group without a subcommand click's error is the help, which stays as it is.
    """
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return f"vr: {message}"
    within = context.command_path.partition(" ")[2]
    end = "" if message.endswith(("?", ".", ")")) else "."
    return f"vr: {within + ': ' if within else ''}{message}{end} See {context.command_path} --help"
