"""Engine and machine: `vr eval`, `uci`, `doctor`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import click

import valuerepair as vr
from valuerepair.cli import printing
from valuerepair.cli.options import FILE, JSON_LINES, NET, SET, device_option, settings_of
from valuerepair.cli.printing import is_quiet, print_one
from valuerepair.errors import UsageError
from valuerepair.store import DEFAULT_PATH


@click.command("eval")
@click.argument("position", nargs=-1, metavar="[POSITIONS]")
@NET
@click.option("--nodes", type=int, default=1, help="Visits of the root, its own evaluation included; 1: the net alone.")
@SET
@device_option()
@JSON_LINES
def eval_(position: tuple[str, ...], net: str | None, nodes: int, device: str, json: bool, **options: Any) -> None:
    """Evaluate positions by a net alone, or with --nodes by the built-in search, which works as lc0's classic one does.

    POSITIONS is a FEN (quoted or not) or `startpos`, perhaps with `moves e2e4 c5`; or a file or - (standard input) with
    one FEN, EPD or UCI `position ...` line each; without it, the initial position. All values are from the side to
    move. Of a search each move has its visits N, the net's prior P, Q, win, draw and loss, whether these are proven,
    and the expected line. The position's Q is then that of the best move, or 1 or -1 if it is proven to win or lose.

    POSITIONS can also be games, in files .pgn, packed or not. Each move is a line: Q of the position before it, the
    best move with its prior if another one was played, and Q by the judge of the store (VR_DB, or valuerepair.db in the
    working folder) where it has one.

    \b
    Example:
      vr eval "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"
      vr eval startpos moves e2e4 c7c5 g1f3 --nodes 800
      vr eval positions.epd --json > values.jsonl
      vr eval game.pgn
      vr eval startpos --nodes 5000 --set certainty=1 --set cpuct=2.5
    """
    from valuerepair.api.plies import evaluate_games
    from valuerepair.archives.open import bare_name

    settings = settings_of(options)
    if settings and nodes == 1:
        raise UsageError(f"--set {next(iter(settings))}: is of the search; give --nodes above 1")
    params = vr.SearchParams().with_settings(settings)
    if position and all(bare_name(name).endswith(".pgn") for name in position):
        for ply in evaluate_games(
            position, net, nodes, params, db=os.environ.get("VR_DB") or DEFAULT_PATH, device=device
        ):
            print_one(ply, json)
        return
    for evaluated in vr.evaluate_each(vr.read_positions(" ".join(position)), net, nodes, params, device=device):
        print_one(evaluated, json)


@click.command()
@NET
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="A UCI option's default; may be repeated.")
def uci(net: str | None, set: tuple[str, ...]) -> None:
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


@click.command()
@click.argument("files", nargs=-1, type=FILE)
@JSON_LINES
def doctor(files: tuple[str, ...], json: bool) -> None:
    """Report what is installed and really works, and what to do about what does not; or check FILES.

    The rules of chess as compiled for this machine are compared with published counts of move sequences (perft). The
    first run compiles them. The exit code is 1 if something that mining needs is missing or broken.

    A FILE is a store, a book (.pgn or .epd) or a net (.pb.gz or .onnx). Of a store the file and the moves to each
    position are checked, of a book each line by the rules of lc0's reader, and of a net what it takes and gives. The
    exit code is 1 if one is unsound.

    \b
    Example:
      vr doctor
      vr doctor valuerepair.db book/book.pgn my-net.pb.gz
    """
    bad = False
    for file in files:
        checked = vr.check_file(file)
        bad |= not checked.sound
        print_one(checked, json)
    for finding in () if files else vr.examine(os.environ.get("VR_DB") or DEFAULT_PATH):
        bad |= finding.stops_mining
        if json or not is_quiet() or finding.state not in ("ok", "absent"):
            print_one(finding, json)
    if bad:
        click.get_current_context().exit(1)
