"""`vr mine`: archives in, a store of scored positions out."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from typing import Any

import click

from valuerepair.archives.options import RESULTS, SampleOptions
from valuerepair.cli.device import device_option
from valuerepair.cli.verbosity import is_quiet
from valuerepair.errors import TruncatedInput
from valuerepair.store import DEFAULT_PATH

FILLS = click.Choice(["fen_only", "always", "no"])


@click.command()
@click.argument("archives", nargs=-1, required=True, metavar="ARCHIVE...")
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store; made if it is not there.")
@click.option("--net", help="Net: a name of `vr nets list` or a .pb.gz, .pb or .onnx file.  [default: maia-1900]")
@click.option(
    "--deep",
    help="Deep search, as stockfish:nodes=1000000, mcts:nodes=1000, lc0:nodes=1000 or uci:/path,nodes=N; "
    "recorded takes the values that the archives hold.  [default: stockfish; mcts where there is none]",
)
@click.option("--per-game", type=int, help="Positions of each game.  [default: 1; with --positions any number]")
@click.option("--positions", type=int, help="So many positions in all, uniform over the eligible ones.")
@click.option("--game-share", default=1.0, show_default=True, help="Share of games to look at; the rest is not parsed.")
@click.option("--min-ply", type=int, default=8, show_default=True, help="Half-moves from the start, at least.")
@click.option("--max-ply", type=int, help="Half-moves from the start, at most.")
@click.option("--min-elo", type=int, help="Both players have at least this rating.")
@click.option("--result", type=click.Choice(RESULTS), help="Games with this result.")
@click.option("--time-control", help="Games at these speeds (blitz,rapid) or clocks (180+2).")
@click.option("--player", help="Games with this in either player's name.")
@click.option("--no-check", is_flag=True, help="Side to move is not in check.")
@click.option("--quiet-positions", "--quiet", "quiet", is_flag=True, help="Nor is a capture or promotion played.")
@click.option("--min-pieces", type=int, help="At least so many men on the board.")
@click.option("--max-pieces", type=int, help="At most so many men on the board.")
@click.option("--max-bytes", type=int, help="Of each archive, at most so many bytes, unpacked.  [default: no limit]")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same positions.")
@click.option("--alpha", default="auto", show_default=True, help="Centipawns of the logistic to Q.")
@click.option("--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Deep Q's source.")
@click.option("--threshold", type=float, default=0.55, show_default=True, help="For counting candidates; not stored.")
@click.option("--workers", type=int, help="Searches at once.  [default: an engine a core; mcts: full batches]")
@click.option("--threads", type=int, help="Threads of reading and of the net.  [default: 2, all cores]")
@device_option()
@click.option("--history-fill", type=FILLS, default="fen_only", show_default=True, help="As in lc0.")
@click.option("--winograd", is_flag=True, help="Convolve as Winograd does: faster on a CPU; Q moves by some 1e-5.")
@click.option("--limit", type=int, help="Stop after so many deep searches; the same command goes on.")
@click.option("--screen", default="auto", show_default=True, help="auto, off, or the nodes of the rungs: 5000,50000.")
@click.option("--recall", type=float, default=0.98, show_default=True, help="Share of candidates to keep in screening.")
@click.option("--audit", type=float, default=0.02, show_default=True, help="Share of the cut searched all the same.")
@click.option("--cluster", help="Run net and searches on Dask: tcp://HOST:8786, tls://..., a .json file or local:4.")
@click.option("--retry-failed", is_flag=True, help="Search again what the engine failed on before.")
def command(archives: tuple[str, ...], db: str, net: str | None, deep: str | None, **given: Any) -> None:
    """Find the positions a net misjudges.

    ARCHIVE is a PGN, EPD or FEN file (plain, .gz, .bz2, .xz or .zst), lichess's evaluation dump (.jsonl), lc0 training
    chunks or a .tar of them, a folder, or - for standard input. Each sampled position gets the net's value at one node
    and the value of a deep search, and both go into the store. A run can be stopped at any time (Ctrl-C) and the same
    command goes on; another command on the same store adds to it.

    \b
    Example:
      vr mine games.pgn.zst
      vr mine lichess.pgn.zst --positions 1000 --min-elo 2000 --deep stockfish:nodes=200000
      vr mine training-run.tar --deep recorded
      vr mine games.pgn.zst --cluster tcp://scheduler:8786
    """
    from valuerepair.archives.open import total_bytes
    from valuerepair.chess.progress import Progress
    from valuerepair.cluster.opening import evaluators
    from valuerepair.runs.evaluators import fitting_screen
    from valuerepair.runs.mine import mine
    from valuerepair.runs.options import MineOptions
    from valuerepair.screening.model import parse_screen
    from valuerepair.store.queries import alpha_option
    from valuerepair.store.store import Store

    options = MineOptions(
        sample=_sample_options(given),
        command=shlex.join(["vr", *sys.argv[1:]]),
        alpha=alpha_option(given["alpha"]),
        screen=parse_screen(*(given[name] for name in ("screen", "recall", "audit"))),
        **{name: given[name] for name in ("threshold", "q_from", "limit", "retry_failed")},
    )
    opening = evaluators(given["cluster"])
    total_bytes(archives)  # Raises for a missing file, before anything is made or loaded.
    net_options = {name: given[name] for name in ("device", "threads", "history_fill", "winograd")}
    with (
        Store.open(db, create=True) as store,
        Progress("mining", unit="positions", quiet=is_quiet(), own_eta=True) as progress,
    ):
        progress.stage("opening the net and the deep search")
        with opening(archives, options.sample, deep, net, given["workers"], progress.say, **net_options) as found:
            options = replace(options, sample=found.sample, screen=fitting_screen(found, options.screen, progress.say))
            summary = mine(archives, options, store, found.net, found.oracle, progress=progress, say=progress.say)
    click.echo("\n".join(summary.lines()))
    if summary.state == "interrupted":
        if "-" in archives:
            _leave_blocked_reader()
        raise KeyboardInterrupt
    if summary.report.truncated:
        source, how = summary.report.truncated[0]
        raise TruncatedInput(f"{source}: {how}; everything before that was used")


def _leave_blocked_reader() -> None:
    """Ends the process as an interrupt does, but at once: all is stored and closed by now.

    The thread that waits for standard input cannot be woken, and Python aborts at exit while it holds the stream.
    """
    click.echo("vr: interrupted", err=True)
    sys.stdout.flush()
    os._exit(130)


def _sample_options(given: dict[str, Any]) -> SampleOptions:
    names = (
        "positions game_share min_ply max_ply min_elo result time_control player no_check quiet "
        "min_pieces max_pieces max_bytes seed"
    )
    chosen = {name: given[name] for name in names.split()}
    # A number of positions in all is drawn from all plies, unless a number a game is asked for too.
    chosen["per_game"] = given["per_game"] or (1 if given["positions"] is None else None)
    if given["threads"] is not None:
        chosen["threads"] = given["threads"]
    return SampleOptions(**chosen)
