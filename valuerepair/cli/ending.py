"""How `vr` ends: errors become one line on standard error, and every ending has its exit code (docs/conventions.md)."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
from click.core import ParameterSource

from valuerepair import signals
from valuerepair.cli.config import variable_of
from valuerepair.cli.files import misplaced
from valuerepair.errors import ValueRepairError
from valuerepair.outputs import check_name

_SET = "is a parameter of training now: --set {}=VALUE"
# By option alone, or by command and option where the advice differs.
INSTEAD = {
    "--threads": "was removed: vr works with the cores that it may use; `taskset -c 0-3 vr ...` gives it four",
    "--value-head": "was removed: give --heads q, or --heads q,soft",
    "--policy-head": "was removed: give --heads soft, or --heads q,soft",
    "--recall": "belongs to --screen now: --screen auto,recall=0.95",
    "mine --audit": "belongs to --screen now: --screen auto,audit=0.1",
    "--history-fill": "was removed: history is filled as lc0 does by default; vr selfplay has --set history_fill=no",
    "--max-bytes": "was removed: cut the archive beforehand, `zstd -dc games.pgn.zst | head -c 1G | vr mine -`",
    "--player": "was removed here: filter the archive beforehand, or in Python by SampleOptions(player=...)",
    "--result": "was removed here: filter the archive beforehand, or in Python by SampleOptions(result=...)",
    "--max-ply": "was removed: in Python it is SampleOptions(max_ply=...)",
    "--min-pieces": "was removed: in Python it is SampleOptions(min_pieces=...)",
    **{f"--{name.replace('_', '-')}": _SET.format(name) for name in (
        "batch", "warmup", "q_ratio", "policy_kl", "average", "weights", "candidates", "holdout", "every", "patience")},
    "--schedule": "was removed: the learning rate falls to 0 by a cosine",
    "--near-duplicates": "was removed: one of a game's positions with the same material and pawns is kept",
    "--search-inferred": "was removed: give --audit 1",
    "--reuse-tree": "was removed: each search begins without a tree, as in lc0's self-play",
    "--win": "was removed: --resign ends games that are won",
    "--movetime": "was removed: give it to a side, as /path/engine,movetime=100 (milliseconds); --tc is for both",
    "--margin": "was removed: a side may be 100 ms late",
    "--report": "was removed: the same command plays only what is missing, and reports",
    "--unweighted": "was removed: in Python it is vr.plot(kind, store, weighted=False)",
    "--points": "was removed: a page shows at most about 100,000 positions one by one",
    "--records": "was removed: in Python it is ChunkOptions(records=...)",
    "--test-deep": "was removed: it is test_deep of DIR/repair.toml, which vr repair --plan writes",
    "--total": "was removed: a mixture has as many games as the share allows",
    "--white": "was removed: the side to move is at the bottom",
    "books --json": "was removed: it is manifest.json in the folder",
    "chunks --json": "was removed: it is manifest.json in the folder",
    "mix --json": "was removed: it is manifest.json in the folder",
    "split --calibration": "was removed: values play no part in a split",
    "train --json": "was removed: it is the .training.json next to the net",
}  # fmt: skip


def instead_of(command: str, option: str) -> str | None:
    """The message for an option that a command (``vr mine``) no longer has; None if it never had it."""
    advice = INSTEAD.get(f"{command.partition(' ')[2]} {option}", INSTEAD.get(option))
    return None if advice is None else f"{option}: {advice}"


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
