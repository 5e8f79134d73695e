"""The command line `vr`: options -> one library call -> print. Commands are imported when they are used."""

from __future__ import annotations

from typing import Any

import click

from valuerepair.cli.group import Commands
from valuerepair.version import __version__

# The help is here so that `vr --help` imports no command. Commands of a section are in one module.
COMMANDS: dict[str, dict[str, str]] = {
    "Repair a net in one command": {"repair": "From games and a net to a repaired net, with a match and a report."},
    "Find positions": {
        "mine": "Find the positions a net misjudges in game archives.",
        "confirm": "Look again at the candidates, deeper: was the search right, or the net?",
        "expand": "Look around the candidates, where there are more.",
        "merge": "Merge stores, for example those of several machines.",
    },
    "Look": {
        "stats": "Show how often the net is wrong, where and how: rates, labels, costs, alpha.",
        "show": "Show one position: board, values, labels, where it came from.",
        "plot": "Draw scatter, rates or results of the store; a training, a match, a sweep.",
        "report": "Write a page: one HTML file to look at, filter and walk the positions.",
        "export": "Write the positions as a table (Parquet, JSONL, CSV) or as an EPD suite.",
    },
    "Make training data, train": {
        "split": "Choose what training never sees, to judge by.",
        "books": "Write opening books of the candidates: book.pgn for lc0, book.epd for others.",
        "selfplay": "Play games from the lines of a book: PGN, results in the store, training records.",
        "chunks": "Write training chunks of games, of chunks that exist, or of the store.",
        "mix": "Mix repair games with normal ones: training data in a given share.",
        "train": "Train a net on chunks or on mined positions: a .pb.gz that lc0 plays.",
    },
    "Judge the result": {
        "compare": "Compare nets on the same positions: who repaired what.",
        "match": "Play a match of nets or UCI engines, with Elo, LOS and SPRT.",
        "experiment": "Measure settings of the search by games: sweeps, odds, options.",
    },
    "Engine and machine": {
        "eval": "Evaluate positions by a net alone, or by the built-in search, move by move.",
        "uci": "Serve the built-in search as a UCI engine.",
        "doctor": "Report what is installed and works; with FILES: check stores, books and nets.",
    },
}
MODULES = dict(zip(COMMANDS, ("repair", "find", "look", "train", "measure", "machine"), strict=True))
CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 110,
    "auto_envvar_prefix": "VR",
    "show_default": True,
}


@click.group(cls=Commands, sections=COMMANDS, modules=MODULES, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="vr", allow_from_autoenv=False)
def cli() -> None:
    """Find the positions that a chess net badly misjudges, and turn them into games and training data that are
    meant to repair it.

    ./valuerepair.toml sets defaults of options, as in a table [mine] with deep = "stockfish:nodes=200000"; so do
    variables like VR_MINE_DEEP, VR_DB (for all commands) and VR_DEVICE.

    \b
    Example:
      vr mine games.pgn
      vr books --threshold 0.55
      vr --version
    """
