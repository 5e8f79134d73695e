"""`vr completion`, and the values that a shell completes: nets, oracles, words.

Names are read from the store by plain SQL: importing numpy and pandas takes too long for a key press.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_MOST_STEPS = 1_000_000  # of SQLite's machine: a damaged store may have an endless view in place of a table


def words(*choices: str) -> Completer:
    """A completer for a fixed list of words."""
    return lambda context, parameter, begun: [CompletionItem(word) for word in choices if word.startswith(begun)]


def engines(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The beginning of an engine's text, for each kind of engine."""
    from valuerepair.engines.kinds import KINDS

    return words(*(kind.completion for kind in KINDS.values()))(context, parameter, begun)


def nets(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Nets of the registry, nets of the store, and files."""
    from valuerepair.nets.registry import KNOWN_NETS

    descriptions = {net.name: net.description for net in KNOWN_NETS.values()}
    for name, digest in _rows(context, "SELECT name, sha256 FROM nets ORDER BY id"):
        descriptions.setdefault(name, f"in the store, {digest[:12]}")
    named = [CompletionItem(name, help=text) for name, text in descriptions.items() if name.startswith(begun)]
    # Files first: click's script for bash drops the items before them, and completes files if no name fits.
    return [CompletionItem(begun, type="file"), *named]


def known_nets(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Nets that `vr nets pull` can download."""
    from valuerepair.nets.registry import KNOWN_NETS

    return [CompletionItem(net.name, help=net.description) for net in KNOWN_NETS.values() if net.name.startswith(begun)]


def oracles(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Deep searches of the store by digest, because labels contain blanks; the label is shown as help."""
    rows = _rows(context, "SELECT label, digest FROM oracles ORDER BY id")
    return [CompletionItem(digest[:12], help=label) for label, digest in rows if digest.startswith(begun)]


def _rows(context: click.Context, query: str) -> Iterator[tuple[str, str]]:
    """The rows of a query to the command's store, two texts each; no rows if the store cannot be read.

    Raises nothing, because a key press must not print an error.
    """
    import sqlite3
    from contextlib import closing, suppress
    from pathlib import Path

    path = Path(context.params.get("db") or context.lookup_default("db") or "valuerepair.db")
    with suppress(sqlite3.Error, OSError):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=0.1)) as connection:
            connection.set_progress_handler(lambda: True, _MOST_STEPS)
            for row in connection.execute(query).fetchall():
                if all(isinstance(cell, str) for cell in row):
                    yield row


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script by which a shell completes the commands, options and values of vr.

    The values are nets by name, nets and deep searches of the store, and files. For bash (4.4 or later), put the first
    line of the example into ~/.bashrc; for zsh, the second into ~/.zshrc after compinit; for fish, run the third once.

    \b
    Example:
      eval "$(vr completion bash)"
      eval "$(vr completion zsh)"
      vr completion fish > ~/.config/fish/completions/vr.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # Not source(), which checks the bash of this machine: the script may be for another machine.
    completion = kind(context.find_root().command, {}, "vr", "_VR_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())
