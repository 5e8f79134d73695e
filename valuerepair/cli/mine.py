"""`vr mine`: archives in, a store of scored positions out."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import ARCHIVE, DB, DEEP, JOBS, NET, SEED, device_option, question
from valuerepair.cli.printing import fail_if_broken_off, is_quiet, print_result


@click.command()
@click.argument("archives", nargs=-1, type=ARCHIVE, required=True, metavar="ARCHIVE...")
@NET
@DEEP(
    help="The deep search: stockfish:nodes=1000000, mcts:nodes=1000, lc0:nodes=1000 or uci:/path,nodes=N; recorded "
    "takes the values that the archives hold.  [default: stockfish, or mcts if Stockfish is not installed]"
)
@click.option("--positions", type=int, help="Draw this many positions in total.  [default: one per game]")
@click.option("--game-share", default=1.0, help="Use this share of the games; the others are not parsed.")
@click.option(
    "--off-game",
    metavar="SHARE",
    help="Draw this share of the positions from beside the games, as a search reaches them: 0.5, or a share per kind: "
    "aside:0.25,policy:0.1,search:0.25 (after a random legal move, after the policy's 3rd to 6th move, at a node of a "
    "short search).  [default: none]",
)
@click.option("--min-elo", type=int, help="Only games in which both players have at least this rating.  [default: any]")
@click.option("--time-control", help="Only games at these speeds (blitz,rapid) or clocks (180+2).  [default: any]")
@question("Smallest |net Q - deep Q| of a candidate; can be changed later.", net=None, oracle=False, expanded=None)
@click.option(
    "--screen",
    default="auto",
    help="Search in full only positions that short searches leave as possible candidates; off: search all positions in "
    "full; 5000,50000: the nodes of the short searches. More settings: recall=0.98 (share of the candidates to keep), "
    "audit=0.02 (share of the others to search in full too, which measures recall), as in auto,recall=0.99.",
)
@device_option()
@click.option("--cluster", help="Run on Dask: tcp://HOST:8786, tls://..., a .json file or local:4.  [default: here]")
@SEED(help="The same seed draws the same positions.")
@JOBS(help="Searches that run at once.  [default: one engine per core; mcts: full batches]")
@DB
def command(archives: tuple[str, ...], db: str, question: vr.Question | vr.Worst, **options: Any) -> None:
    """Find the positions a net misjudges.

    ARCHIVE is a PGN, EPD or FEN file (plain, .gz, .bz2, .xz or .zst), lichess's evaluation dump (.jsonl), lc0 training
    chunks or a .tar of them, a folder, or - for standard input. Each sampled position gets the net's value at one node
    and the value of a deep search, and both go into the store. Stop at any time with Ctrl-C; the same command
    continues, and tries again what failed. Another command adds to the store.

    \b
    Example:
      vr mine games.pgn.zst
      vr mine lichess.pgn.zst --positions 1000 --min-elo 2000 --deep stockfish:nodes=200000
      vr mine games.pgn.zst --deep stockfish:nodes=20000 --off-game 0.5 --screen off    # to train on
      vr mine training-run.tar --deep recorded
      vr mine games.pgn.zst --net big.pb.gz --device cuda --cluster tcp://scheduler:8786
    """
    sampled = {name: options.pop(name) for name in ("positions", "game_share", "off_game", "min_elo", "time_control")}
    # --positions alone draws from all plies of each game.
    sample = vr.SampleOptions(per_game=1 if sampled["positions"] is None else None, seed=options.pop("seed"), **sampled)
    workers = options.pop("jobs")
    summary = print_result(
        lambda: vr.mine(archives, db, sample, question=question, workers=workers, quiet=is_quiet(), **options)
    )
    fail_if_broken_off(summary.report.truncated)
