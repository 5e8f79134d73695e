"""The options of `vr selfplay`, and what they mean together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from valuerepair.cli.device import device_option
from valuerepair.store import DEFAULT_PATH

if TYPE_CHECKING:
    from valuerepair.mcts.params import SearchParams
    from valuerepair.play.referee import Rules

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("-o", "--output", default="games.pgn", show_default=True, help="The games; an earlier run goes on."),
    click.option("--engine", type=click.Choice(["mcts", "lc0"]), default="mcts", show_default=True, help="Who plays."),
    click.option("--net", "net_spec", metavar="NET", help="Net by name or file.  [default: maia-1900]"),
    click.option("--net2", metavar="NET", help="A second net: the two play each other, colours in turn."),
    click.option(
        "--nodes", "--visits", type=int, default=800, show_default=True, help="Visits of the root for a move."
    ),
    click.option("--repeat", type=int, default=1, show_default=True, help="Games from each line of the book."),
    click.option("--certainty", is_flag=True, help="Proven wins, draws and losses spread up the tree and end visits."),
    click.option("--lookahead", is_flag=True, help="Moves that end the game are seen one ply earlier."),
    click.option("--auto-extend", is_flag=True, help="A chain of single legal moves is valued by its end."),
    click.option("--n-scl", metavar="N", help="Search-contempt: visits after which an opponent's node is frozen."),
    click.option("--temperature", metavar="T", help="Moves are drawn by visits^(1/T).  [default: 0, the best move]"),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any other search parameter."),
    click.option("--reuse-tree", is_flag=True, help="Keep a game's tree from move to move; its visits count."),
    click.option(
        "--history-fill", default="fen_only", show_default=True, metavar="no|fen_only|always", help="As in lc0."
    ),
    click.option("--syzygy", metavar="PATH", help="Folders of tables, for the search and to end games."),
    click.option(
        "--resign", type=float, default=0.0, show_default=True, help="Per cent of winning chance to resign at."
    ),
    click.option("--no-resign-share", type=float, default=0.0, show_default=True, help="Games in which nobody may."),
    click.option("--draw", metavar="MOVE,PLIES,Q", help="Draw from that move on after so many plies with |Q| <= Q."),
    click.option("--win", metavar="PLIES,Q", help="Win after so many plies in a row, of both sides, with |Q| >= Q."),
    click.option("--max-plies", type=int, default=450, show_default=True, help="Longer games are undecided; 0: none."),
    click.option("--parallel", type=int, help="Games at once.  [default: as many as fill the net's batches]"),
    click.option("--training", metavar="DIR", help="Write lc0 training records, a chunk a game, to this folder."),
    click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store; made if it is not there."),
    click.option("--no-db", is_flag=True, help="Keep nothing in a store."),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of temperature and noise."),
    device_option(),
    click.option("--threads", type=int, help="Cores to use.  [default: all]"),
    click.option("--winograd", is_flag=True, help="Convolve by Winograd's algorithm: faster on a CPU."),
    click.option("--json", "as_json", is_flag=True, help="The report as one JSON object."),
)


def selfplay_options(command: F) -> F:
    """All options, in this order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def params_of(given: dict[str, Any]) -> SearchParams:
    """The search; the plain options are short forms of --set. Raises UsageError."""
    from valuerepair.errors import UsageError
    from valuerepair.mcts.params import SearchParams

    texts = {"history_fill": given["history_fill"]}
    texts |= {name: "1" for name in ("certainty", "lookahead", "auto_extend") if given[name]}
    texts |= {name: given[name] for name in ("n_scl", "temperature", "syzygy") if given[name] is not None}
    for setting in given["settings"]:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {setting}: must be NAME=VALUE; `vr search --list-settings` names them all")
        texts[name] = value
    return SearchParams().with_settings(texts)


def rules_of(given: dict[str, Any]) -> Rules:
    """The rules. Raises UsageError."""
    from valuerepair.play.referee import DrawRule, Rules, WinRule

    draw, win = _numbers("--draw", given["draw"], 3), _numbers("--win", given["win"], 2)
    return Rules(
        given["max_plies"],
        DrawRule(int(draw[0]), int(draw[1]), draw[2]) if draw else None,
        WinRule(int(win[0]), win[1]) if win else None,
        given["syzygy"] or "",
        given["resign"],
        given["no_resign_share"],
    )


def _numbers(option: str, text: str | None, count: int) -> list[float]:
    from valuerepair.errors import UsageError

    if text is None:
        return []
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    whole = [number for number in numbers[:-1] if number >= 0 and number == int(number)]
    if len(numbers) != count or len(whole) != count - 1:
        form = "MOVE,PLIES,Q" if count == 3 else "PLIES,Q"
        raise UsageError(f"{option} {text}: must be {form}, as {'40,10,0.02' if count == 3 else '6,0.98'}")
    return numbers
