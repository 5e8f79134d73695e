"""`vr doctor`: what is there, what is missing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from valuerepair.cli.verbosity import is_quiet


@click.command()
@click.option(
    "--db", type=click.Path(path_type=Path), default=Path("valuerepair.db"), show_default=True, help="The store."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON line a check.")
def command(db: Path, as_json: bool) -> None:
    """Say what is installed and really works, and what to do about what does not.

    Exit code 1 when something that mining needs is missing or broken.

    \b
    Example:
      vr doctor
    """
    from valuerepair.doctor import examine

    marks = {"ok": "ok", "missing": "MISSING", "broken": "BROKEN", "absent": "-"}
    bad = False
    for finding in examine(db):
        bad |= finding.state == "broken" or (finding.state == "missing" and finding.part in ("packages", "lc0"))
        if as_json:
            click.echo(json.dumps(asdict(finding)))
            continue
        if is_quiet() and finding.state in ("ok", "absent"):
            continue
        click.echo(f"{finding.part:<26} {marks[finding.state]:<8} {finding.detail}")
        if finding.advice:
            click.echo(f"{'':<26} {'':<8} -> {finding.advice}")
    if bad:
        raise SystemExit(1)
