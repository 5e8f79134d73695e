"""How `vr` ends: errors become one line on standard error, and every ending has its exit code.

0 done; 1 something failed; 2 the command line is wrong; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from valuerepair import signals
from valuerepair.errors import ValueRepairError


def run(group: click.Group) -> int:
    """Runs the command line of this process and returns its exit code."""
    _open_closed_streams()
    code: object
    try:
        code = group.main(prog_name="vr", standalone_mode=False)
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
    except SystemExit as stop:  # click's own, when the reader of standard output has gone: vr export | head
        code = stop.code
    except OSError as error:
        # All code that writes files names them in its errors, so a full disk without a name is that of standard output.
        code = _end(f"vr: {error.filename or 'standard output'}: {error.strerror or error}", 1)
    with suppress(OSError):
        sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _open_closed_streams() -> None:
    """Opens /dev/null for streams that the caller closed (`vr stats >&-`), or files would get their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # it is open as long as the process is


def _end(line: str, code: int) -> int:
    """Prints the last line to standard error, if it is open, and returns the exit code."""
    with suppress(OSError):
        click.echo(line, err=True)
    return code


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
