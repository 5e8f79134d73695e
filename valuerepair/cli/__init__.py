"""The command line `vr`: options -> one library call -> print. Commands are imported when they are used."""

from __future__ import annotations

import os
import shlex
import sys
import time
from typing import Any

import click

from valuerepair.cli import printing
from valuerepair.cli.config import load
from valuerepair.cli.group import LazyGroup
from valuerepair.command import typed
from valuerepair.version import __version__

# The help is here so that `vr --help` imports no command. A command is in the module of its name.
COMMANDS: dict[str, dict[str, str]] = {
    "Repair": {"repair": "From games and a net to a repaired net, with a match and a report."},
    "Mine": {
        "mine": "Find the positions a net misjudges in game archives.",
        "confirm": "Look again at the candidates, deeper: was the search right, or the net?",
        "expand": "Look around the candidates, where there are more.",
    },
    "Use": {
        "split": "Choose what training never sees, to judge by.",
        "books": "Write opening books from the candidates, or check a book.",
        "selfplay": "Play games from the lines of a book: PGN, results in the store, training records.",
        "chunks": "Write games of archives as training chunks.",
        "mix": "Mix repair games with normal ones: training data in a given share.",
        "rescore": "Put the judge's values into existing training chunks.",
        "weights": "Weigh training positions by what the search changed; draw by weight.",
        "train": "Train a net on chunks or on mined positions: a .pb.gz that lc0 plays.",
    },
    "Look": {
        "stats": "Show what is in the store: counts, candidate rates, labels, costs; fit alpha.",
        "show": "Show one position: board, values, labels, where it came from.",
        "plot": "Draw plots: scatter, rates, results, recall, Elo and more.",
        "report": "Write a report: one HTML file to look at, filter and walk the positions.",
        "export": "Write the store's rows as Parquet, JSONL or CSV, or for NNUE trainers.",
    },
    "Compare": {
        "remeasure": "Compare nets on the same positions: who repaired what.",
        "match": "Play a match of nets or UCI engines, with Elo, LOS and SPRT.",
        "experiment": "Measure settings of the search by games: sweeps, odds, options.",
    },
    "Store": {"store": "Check a store, or merge several into one."},
    "Net": {
        "eval": "Evaluate positions by the net alone (1 node).",
        "search": "Search positions with a net: the built-in MCTS, move by move.",
        "uci": "The built-in MCTS as a UCI engine.",
        "nets": "List, pull and describe nets.",
    },
    "Setup": {
        "doctor": "Report what is installed, what is missing, and what to do; check the rules of chess.",
        "config": "Show which values of options are in force, and where each comes from.",
        "completion": "Teach bash, zsh or fish to complete vr.",
    },
}
CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 110,
    "auto_envvar_prefix": "VALUEREPAIR",
    "show_default": True,
}


@click.group(cls=LazyGroup, sections=COMMANDS, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="vr", allow_from_autoenv=False)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(readable=False),
    callback=load,
    is_eager=True,
    expose_value=False,
    help="Defaults of options.  [default: ./valuerepair.toml]",
)
@click.pass_context
def cli(context: click.Context) -> None:
    """Find the positions that a chess net badly misjudges, and turn them into games and training data that are
    meant to repair it.

    \b
    Example:
      vr mine games.pgn
      vr books --threshold 0.55
      vr --version
    """
    started = time.monotonic()
    context.color = wants_colour()
    line = shlex.join(["vr", *sys.argv[1:]])
    context.with_resource(typed(line))
    python = ".".join(map(str, sys.version_info[:3]))
    printing.announce(context, f"valuerepair {__version__}, Python {python}: {line}")
    if context.obj is not None:
        printing.announce(context, f"defaults from {context.obj.path}; vr config shows them")
    context.call_on_close(lambda: printing.log.debug("%.1f s in total", time.monotonic() - started))


def wants_colour() -> bool | None:
    """True or False if the environment says so; None leaves it to the terminal.

    NO_COLOR (https://no-color.org), FORCE_COLOR, CLICOLOR_FORCE and CLICOLOR (https://bixense.com/clicolors), TERM.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return False if os.environ.get("CLICOLOR") == "0" or os.environ.get("TERM") == "dumb" else None
