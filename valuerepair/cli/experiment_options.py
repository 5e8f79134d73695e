"""The options that the commands of `vr experiment` have in common, and their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from valuerepair.cli.options import device_option

Command = TypeVar("Command", bound=Callable[..., Any])

_SHARED = (
    click.option("--net", "net_spec", metavar="NET", help="Net by name or file.  [default: maia-1900]"),
    click.option("--openings", "most", default=50, show_default=True, help="So many openings, evenly from all."),
    click.option("--jobs", default=64, show_default=True, help="Games at once."),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A search parameter of all sides."),
    click.option("--max-plies", default=450, show_default=True, help="Moves after which a game stays undecided."),
    click.option("--seed", default=0, show_default=True, help="Of the whole experiment."),
    device_option(),
    click.option("--threads", type=int, help="Cores to use.  [default: all]"),
    click.option("--plot", default="plot.png", show_default=True, help="The plot's file in the folder."),
    click.option("--report", is_flag=True, help="Play nothing: say what the games there show."),
    click.option("--json", "as_json", is_flag=True, help="Print the table as one JSON array."),
)


def shared_options(command: Command) -> Command:
    """Adds the options that all experiments have."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


def numbers(text: str, option: str, kind: Callable[[str], Any]) -> tuple[Any, ...]:
    """``5,10,inf`` as numbers, each once. Raises UsageError."""
    from valuerepair.errors import UsageError

    try:
        return tuple(dict.fromkeys(kind(part.strip()) for part in text.split(",") if part.strip()))
    except ValueError:
        raise UsageError(f"{option} {text}: must be numbers, separated by commas") from None


def visits_limit(text: str) -> int:
    """An N_scl: ``inf`` is 0. Raises UsageError for what is none."""
    from valuerepair.mcts.params import SearchParams

    return SearchParams().with_settings({"n_scl": text}, "--n-scl: ").n_scl
