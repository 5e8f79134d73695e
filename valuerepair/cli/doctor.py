"""`vr doctor`: what is installed, what is missing, what does not work; and whether files are sound."""

from __future__ import annotations

import os

import click

import valuerepair as vr
from valuerepair.cli.options import FILE, JSON_LINES
from valuerepair.cli.printing import is_quiet, print_one
from valuerepair.store import DEFAULT_PATH


@click.command()
@click.argument("files", nargs=-1, type=FILE)
@JSON_LINES
def command(files: tuple[str, ...], json: bool) -> None:
    """Report what is installed and really works, and what to do about what does not; or check FILES.

    The rules of chess as compiled for this machine are compared with published counts of move sequences (perft). The
    first run compiles them. The exit code is 1 if something that mining needs is missing or broken.

    A FILE is a store, a book (.pgn or .epd) or a net (.pb.gz or .onnx). Of a store every row is checked, of a book each
    line by the rules of lc0's reader, and of a net what it takes and gives. The exit code is 1 if one is unsound.

    \b
    Example:
      vr doctor
      vr doctor valuerepair.db book/book.pgn my-net.pb.gz
    """
    bad = False
    for file in files:
        checked = vr.check_file(file, quiet=is_quiet())
        bad |= not checked.sound
        print_one(checked, json)
    for finding in () if files else vr.examine(os.environ.get("VR_DB") or DEFAULT_PATH):
        bad |= finding.stops_mining
        if json or not is_quiet() or finding.state not in ("ok", "absent"):
            print_one(finding, json)
    if bad:
        click.get_current_context().exit(1)
