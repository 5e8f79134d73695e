"""What the shell completes for the values of options and arguments: nets, oracles, engines, devices, files.

The names come from the command's own words where there are any, and from the store by plain SQL: numpy and pandas are
too slow for a key press.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from valuerepair.store import DEFAULT_PATH

Completer = Callable[[click.Context, str], Iterator[CompletionItem]]


class Completed(click.types.StringParamType):
    """Text with completion."""

    def __init__(self, completer: Completer) -> None:
        self.completer = completer

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """What begins with the word so far. A store that cannot be read gives nothing: a key press makes no errors."""
        with suppress(sqlite3.Error, OSError):
            return list(self.completer(ctx, incomplete))
        return []


def of_words(*words: str) -> Completer:
    """Some of these."""

    def complete(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
        return (CompletionItem(word) for word in words if word.startswith(incomplete))

    return complete


def files(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    """The shell knows its files best."""
    yield CompletionItem(incomplete, type="file")


def folders(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    """Folders only."""
    yield CompletionItem(incomplete, type="dir")


def nets(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    """Nets known by name, those of the store, and files."""
    from valuerepair.nets.registry import KNOWN_NETS

    known = {net.name: net.description for net in KNOWN_NETS.values()}
    for name, digest in _rows(context, "SELECT name, sha256 FROM nets ORDER BY id"):
        known.setdefault(name, f"in the store, {digest[:12]}")
    # Files first: click's script for bash forgets what came before them, and takes them if no name fits.
    yield from files(context, incomplete)
    yield from (CompletionItem(name, help=text) for name, text in known.items() if name.startswith(incomplete))


def oracles(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    """Deep searches of the store by digest, for a label has blanks; the label is the help."""
    for label, digest in _rows(context, "SELECT label, digest FROM oracles ORDER BY id"):
        if digest.startswith(incomplete):
            yield CompletionItem(digest[:12], help=label)


def known_nets(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    """Nets that can be pulled."""
    from valuerepair.nets.registry import KNOWN_NETS

    return (CompletionItem(n.name, help=n.description) for n in KNOWN_NETS.values() if n.name.startswith(incomplete))


def _rows(context: click.Context, query: str) -> list[tuple[str, str]]:
    given = context.get_parameter_source("db") in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    path = str((context.params.get("db") if given else _configured()) or DEFAULT_PATH)
    if not os.path.isfile(path):
        return []
    with closing(sqlite3.connect(f"file:{os.path.abspath(path)}?mode=ro", uri=True, timeout=0.1)) as connection:
        return connection.execute(query).fetchall()


def _configured() -> Any:
    """The store that ./valuerepair.toml or $VALUEREPAIR_CONFIG names for all commands."""
    from valuerepair.cli.config_file import DEFAULTS, find
    from valuerepair.errors import UsageError

    with suppress(UsageError):
        config = find(os.environ.get("VALUEREPAIR_CONFIG"), None)
        return config.tables.get(DEFAULTS, {}).get("db") if config else None
    return None


# By the name that an option or argument has in its command; what is not here is completed by its own type, or not.
BY_NAME: Mapping[str, Completer] = {
    "--net": nets,
    "--net2": nets,
    "--oracle": oracles,
    "--deep": of_words("stockfish:nodes=", "lc0:nodes=", "mcts:nodes=", "uci:", "recorded"),
    "--history-fill": of_words("fen_only", "always", "no"),
    "--order": of_words("sequential", "shuffled"),
    "--format": of_words("parquet", "jsonl", "csv"),
    "--screen": of_words("auto", "off"),
    "--alpha": of_words("auto"),
    **dict.fromkeys(("--repair", "--normal", "--training", "--sampled", "--syzygy"), folders),
    **dict.fromkeys(("--db", "--output", "--plot", "--side", "--book", "--openings", "--config", "--into"), files),
    **dict.fromkeys(("archives", "chunks", "book", "books", "file", "position", "stores"), files),
    "net": nets,
    "name": known_nets,
    **dict.fromkeys(("side_a", "side_b"), of_words("net=", "stockfish:", "lc0:")),
}


def add_completion(command: click.Command) -> None:
    """Gives the parameters of a command that are plain text the completion that goes with their names."""
    for parameter in command.params:
        names = parameter.opts if isinstance(parameter, click.Option) else [parameter.name or ""]
        completer = next((BY_NAME[name] for name in names if name in BY_NAME), None)
        if completer is not None and type(parameter.type) is type(click.STRING):
            parameter.type = Completed(completer)
