"""The command line `vr`: options -> one library call -> print. Commands are imported when they are used."""

from __future__ import annotations

import importlib
import os
import signal
import sys

import click

from valuerepair import __version__
from valuerepair.errors import ValueRepairError

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
    "remeasure": ("remeasure", "Compare nets on the same positions: who repaired what."),
    "similar": ("similar", "Find more positions like this one."),
    "plot": ("plot", "Plot net Q against deep Q with a lowess line."),
    "eval": ("eval", "Evaluate positions by the net alone (1 node)."),
    "search": ("search", "Search positions with a net: the built-in MCTS, move by move."),
    "uci": ("uci", "The built-in MCTS as a UCI engine."),
    "experiment": ("experiment", "Measure settings of the search by games: sweeps, odds, options."),
    "export": ("export", "Write the store's rows as Parquet, JSONL or CSV."),
    "fit": ("fit", "Fit alpha, the logistic from centipawns to Q; show the screening ladder."),
    "match": ("match", "Play a match of nets or UCI engines, with Elo, LOS and SPRT."),
    "nets": ("nets", "List, pull and describe nets."),
    "doctor": ("doctor", "Say what is installed, what is missing, and what to do."),
    "selftest": ("selftest", "Check the rules of chess as compiled for this machine."),
    "bench": ("bench", "Measure speed against the alternatives, as ratios."),
}


class LazyGroup(click.Group):
    """A group whose commands are modules of this package, each with a `command`, imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"valuerepair.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="vr")
def cli() -> None:
    """Find the positions a chess net judges badly wrong, and turn them into the games that repair it.

    \b
    Example:
      vr mine games.pgn
      vr books --threshold 0.55
    """


def main() -> None:
    """Runs `vr`; errors a user can mend become one line on standard error and their exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except ValueRepairError as error:
        click.echo(f"vr: {error}", err=True)
        code = error.exit_code
    except BrokenPipeError:
        # The reader of our output went away (`vr export | head`): nothing to say, and nothing to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (KeyboardInterrupt, click.Abort):
        click.echo("vr: interrupted", err=True)
        code = 130
    except MemoryError:
        click.echo("vr: out of memory; try a smaller --batch or fewer --workers", err=True)
        code = 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"vr: {where}{error.strerror or error}", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _terminate(signum: int, frame: object) -> None:
    raise KeyboardInterrupt
