"""What is done before any command of `vr`: defaults from a file, colours, and the first lines of -v."""

from __future__ import annotations

import os
import shlex
import sys
import time

import click

from valuerepair import __version__
from valuerepair.cli import verbosity
from valuerepair.cli.config_file import find
from valuerepair.cli.group import LazyGroup


def begin(context: click.Context, config_file: str | None) -> None:
    """Sets the context of all commands up. Raises UsageError for what is wrong in the configuration."""
    group, name, started = context.command, context.invoked_subcommand, time.monotonic()
    assert isinstance(group, LazyGroup)
    context.color = wants_colour()
    python = ".".join(map(str, sys.version_info[:3]))
    verbosity.announce(context, f"valuerepair {__version__}, Python {python}: {shlex.join(['vr', *sys.argv[1:]])}")
    config = context.obj = find(config_file, group.modules)
    if config is not None and name is not None:
        command = group.get_command(context, name)
        verbosity.announce(context, f"defaults from {config.path}; vr config shows them")
        if command is not None:
            names = [name, *group.modules]
            config.check_defaults(each for n in names if (each := group.get_command(context, n)) is not None)
            context.default_map = {name: config.of(command, name)}
    context.call_on_close(lambda: verbosity.log.info("%.1f s in all", time.monotonic() - started))


def wants_colour() -> bool | None:
    """True or False as the environment says, None for as the terminal is.

    NO_COLOR (https://no-color.org), FORCE_COLOR, CLICOLOR_FORCE and CLICOLOR (https://bixense.com/clicolors), TERM.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return False if os.environ.get("CLICOLOR") == "0" or os.environ.get("TERM") == "dumb" else None
