"""`vr uci`: the built-in MCTS as a UCI engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from valuerepair.cli import printing
from valuerepair.cli.options import NET


@click.command()
@NET
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="A UCI option's default; may be repeated.")
def command(net: str | None, set: tuple[str, ...]) -> None:
    """Search as a UCI engine, for match runners, python-chess and GUIs.

    Options have lc0's names where lc0 has them; send `uci` to see all. `go nodes`, `go movetime` (in milliseconds) and
    `go infinite` search so far; any other `go`, such as one with clocks, searches 800 nodes. Each search begins anew.
    With MinibatchSize 1 and by nodes it is the sequential search of `vr eval`; the default evaluates several leaves of
    the tree at once, which is faster.

    \b
    Example:
      vr uci --net maia-1900 --set Certainty=true
      printf 'position startpos\\ngo nodes 800\\nisready\\n' | vr uci
    """
    from valuerepair.errors import pairs_of
    from valuerepair.mcts.uci import EngineSettings, UciServer

    engine_settings = EngineSettings(weights=net or "")
    for name, value in pairs_of(set, "--set ", "`uci` lists the options"):
        engine_settings = engine_settings.with_option(name, value)
    with printing.no_remarks():  # the server writes them as ``info string``
        UciServer(_write, engine_settings).run(_lines())


def _lines() -> Iterator[str]:
    """The lines of standard input; bytes that are not UTF-8 are replaced."""
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", "replace")


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
