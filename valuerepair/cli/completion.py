"""`vr completion`, and what the shell completes for values: nets, oracles, words.

The names come from the store by plain SQL: numpy and pandas are too slow for a key press.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


_STEPS = 1_000_000  # of SQLite's machine: what stands in the place of a table may have no end


def words(*known: str) -> Completer:
    """Completes to one of these words."""
    return lambda context, parameter, begun: [CompletionItem(word) for word in known if word.startswith(begun)]


def engines(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Completes to how the text of each kind of engine begins."""
    from valuerepair.engines.kinds import KINDS

    return words(*(kind.begin for kind in KINDS.values()))(context, parameter, begun)


def nets(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Nets known by name, those of the store, and files."""
    from valuerepair.nets.registry import KNOWN_NETS

    known = {net.name: net.description for net in KNOWN_NETS.values()}
    for name, digest in _rows(context, "SELECT name, sha256 FROM nets ORDER BY id"):
        known.setdefault(name, f"in the store, {digest[:12]}")
    named = [CompletionItem(name, help=text) for name, text in known.items() if name.startswith(begun)]
    # Files first: click's script for bash forgets what came before them, and takes them if no name fits.
    return [CompletionItem(begun, type="file"), *named]


def known_nets(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Nets that can be pulled."""
    from valuerepair.nets.registry import KNOWN_NETS

    return [CompletionItem(n.name, help=n.description) for n in KNOWN_NETS.values() if n.name.startswith(begun)]


def oracles(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Deep searches of the store by digest, for a label has blanks; the label is the help."""
    rows = _rows(context, "SELECT label, digest FROM oracles ORDER BY id")
    return [CompletionItem(digest[:12], help=label) for label, digest in rows if digest.startswith(begun)]


def _rows(context: click.Context, query: str) -> Iterator[tuple[str, str]]:
    """Rows of the command's store. One that cannot be read has none: a key press makes no errors."""
    import sqlite3
    from contextlib import closing, suppress
    from pathlib import Path

    path = Path(context.params.get("db") or context.lookup_default("db") or "valuerepair.db")
    with suppress(sqlite3.Error, OSError):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=0.1)) as connection:
            connection.set_progress_handler(lambda: True, _STEPS)
            for row in connection.execute(query).fetchall():
                if all(isinstance(cell, str) for cell in row):
                    yield row


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and values of vr in a shell.

    Values too: nets by name, nets and deep searches of the store, files. For bash (4.4 or later) put the first line of
    the example into ~/.bashrc, for zsh the second into ~/.zshrc behind compinit, for fish run the third once.

    \b
    Example:
      eval "$(vr completion bash)"
      eval "$(vr completion zsh)"
      vr completion fish > ~/.config/fish/completions/vr.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # Not source(): that looks for a bash on this machine first, and the script may be for another.
    completion = kind(context.find_root().command, {}, "vr", "_VR_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())
