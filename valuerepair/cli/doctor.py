"""`vr doctor`: what is there, what is missing, what does not work."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from valuerepair.cli.options import JSON_LINES
from valuerepair.cli.verbosity import is_quiet
from valuerepair.store import DEFAULT_PATH


@click.command()
@click.option("--thorough", is_flag=True, help="Check the rules of chess at length (some seconds).")
@JSON_LINES
def command(thorough: bool, json: bool) -> None:
    """Say what is installed and really works, and what to do about what does not.

    The rules of chess as compiled for this machine are compared with published counts of move sequences (perft) and
    with python-chess on random positions, which compiles them the first time; --thorough does more of it, after an
    update of Numba say. Exit code 1 when something that mining needs is missing or broken.

    \b
    Example:
      vr doctor
      vr doctor --thorough
    """
    from json import dumps

    from valuerepair.doctor import examine

    marks = {"ok": "ok", "missing": "MISSING", "broken": "BROKEN", "absent": "-"}
    bad = False
    for finding in examine(Path(os.environ.get("VALUEREPAIR_DB") or DEFAULT_PATH), thorough):
        bad |= finding.state == "broken" or (finding.state == "missing" and finding.part in ("packages", "lc0"))
        if json:
            click.echo(dumps(asdict(finding)))
            continue
        if is_quiet() and finding.state in ("ok", "absent"):
            continue
        click.echo(f"{finding.part:<26} {marks[finding.state]:<8} {finding.detail}")
        if finding.advice:
            click.echo(f"{'':<26} {'':<8} -> {finding.advice}")
    if bad:
        raise SystemExit(1)
