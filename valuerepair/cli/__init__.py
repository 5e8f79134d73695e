"""The command line `vr`: options -> one library call -> print. Commands are imported when they are used."""

from __future__ import annotations

import sys
from typing import Any

import click

from valuerepair import __version__
from valuerepair.cli.beginning import begin
from valuerepair.cli.ending import run
from valuerepair.cli.group import LazyGroup

# Name -> (module below valuerepair.cli, one-line help). The help stands here so that `vr --help` imports no command.
COMMANDS: dict[str, tuple[str, str]] = {
    "mine": ("mine", "Find the positions a net misjudges in game archives."),
    "confirm": ("confirm", "Look again at the candidates, deeper: was the search right, or the net?"),
    "label": ("label", "Label the candidates: what kind of position, which way the net errs."),
    "books": ("books", "Write opening books from the candidates, or check a book."),
    "mix": ("mix", "Mix repair games with normal ones: training data in a given share."),
    "weights": ("weights", "Weigh training positions by what the search changed; draw by weight."),
    "selfplay": ("selfplay", "Play games from the lines of a book: PGN, results in the store, training records."),
    "stats": ("stats", "Say what is in the store: counts, candidate rates, costs."),
    "merge": ("merge", "Merge stores, those of shards say, into one."),
    "verify-store": ("verify_store", "Check a store: the file, every row, a sample of values computed again."),
    "remeasure": ("remeasure", "Compare nets on the same positions: who repaired what."),
    "show": ("show", "Show one position: board, values, labels, where it came from."),
    "similar": ("similar", "Find more positions like this one."),
    "plot": ("plot", "Draw it: scatter, rates, calibration, recall, Elo and more."),
    "report": ("report", "Write a report: one HTML file to look at, filter and walk the positions."),
    "eval": ("eval", "Evaluate positions by the net alone (1 node)."),
    "search": ("search", "Search positions with a net: the built-in MCTS, move by move."),
    "uci": ("uci", "The built-in MCTS as a UCI engine."),
    "experiment": ("experiment", "Measure settings of the search by games: sweeps, odds, options."),
    "export": ("export", "Write the store's rows as Parquet, JSONL or CSV."),
    "fit": ("fit", "Fit alpha, the logistic from centipawns to Q; show the screening ladder."),
    "match": ("match", "Play a match of nets or UCI engines, with Elo, LOS and SPRT."),
    "nets": ("nets", "List, pull and describe nets."),
    "config": ("config", "Say which values of options are in force, and where each comes from."),
    "completion": ("completion", "Teach bash, zsh or fish to complete vr."),
    "doctor": ("doctor", "Say what is installed, what is missing, and what to do."),
    "selftest": ("selftest", "Check the rules of chess as compiled for this machine."),
}
CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(cls=LazyGroup, modules=COMMANDS, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="vr")
@click.option(
    "--config", metavar="FILE", envvar="VALUEREPAIR_CONFIG", help="Defaults of options.  [default: ./valuerepair.toml]"
)
@click.pass_context
def cli(context: click.Context, config: str | None) -> None:
    """Find the positions a chess net judges badly wrong, and turn them into the games that repair it.

    \b
    Example:
      vr mine games.pgn
      vr books --threshold 0.55
    """
    begin(context, config)


def main() -> None:
    """Runs `vr`; errors a user can mend become one line on standard error and their exit code."""
    sys.exit(run(cli))
