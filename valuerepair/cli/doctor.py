"""`vr doctor`: what is installed, what is missing, what does not work."""

from __future__ import annotations

import os

import click

import valuerepair as vr
from valuerepair.cli.options import JSON_LINES
from valuerepair.cli.printing import is_quiet, print_one
from valuerepair.store import DEFAULT_PATH


@click.command()
@JSON_LINES
def command(json: bool) -> None:
    """Report what is installed and really works, and what to do about what does not.

    The rules of chess as compiled for this machine are compared with published counts of move sequences (perft) and
    with python-chess on random positions. The first run compiles them. The exit code is 1 if something that mining
    needs is missing or broken.

    \b
    Example:
      vr doctor
      vr doctor -q
      vr doctor --json
    """
    bad = False
    for finding in vr.examine(os.environ.get("VALUEREPAIR_DB") or DEFAULT_PATH):
        bad |= finding.stops_mining
        if json or not is_quiet() or finding.state not in ("ok", "absent"):
            print_one(finding, json)
    if bad:
        raise SystemExit(1)
