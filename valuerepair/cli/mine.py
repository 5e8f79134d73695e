"""`vr mine`: archives in, a store of scored positions out."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.completion import words
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import (
    ALPHA,
    ARCHIVE,
    CALIBRATION,
    DB,
    DEEP,
    HEADS,
    JOBS,
    NET,
    SEED,
    asked_of,
    device_option,
    threshold_option,
)
from valuerepair.cli.printing import print_result
from valuerepair.cli.verbosity import is_quiet
from valuerepair.errors import TruncatedInput


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "positions deep net threshold min-elo jobs seed db",
        "Sampling": "per-game game-share aside min-ply max-pieces time-control no-check quiet-positions",
        "Machine": "device cluster limit retry-failed",
        "Values": "screen alpha calibration heads",
    },
)
@click.argument("archives", nargs=-1, type=ARCHIVE, required=True, metavar="ARCHIVE...")
@click.option("--positions", type=int, help="Draw this many positions in total.  [default: one per game]")
@DEEP(
    help="The deep search: stockfish:nodes=1000000, mcts:nodes=1000, lc0:nodes=1000, uci:/path,nodes=N or "
    "ssh:HOST,nodes=N; recorded takes the values that the archives hold.  "
    "[default: stockfish, or mcts if Stockfish is not installed]"
)
@NET
@threshold_option("|net Q - deep Q| from which a position counts as a candidate; can be changed later.")
@click.option("--min-elo", type=int, help="Only games of two players with at least this rating.  [default: any]")
@JOBS(help="Searches at once.  [default: one engine per core; mcts: full batches]")
@SEED(help="The same seed draws the same positions.")
@DB
@click.option("--per-game", type=int, help="Draw this many positions per game.  [default: 1; with --positions any]")
@click.option("--game-share", default=1.0, help="Use this share of the games; the others are not parsed.")
@click.option(
    "--aside",
    metavar="SHARE",
    help="Draw this share of the positions beside the games, as searches meet them: 0.5, or the share of each kind: "
    "aside:0.25,policy:0.1,search:0.25 (after a random legal move, after the policy's 3rd to 6th move, a node of a "
    "short search).  [default: none]",
)
@click.option("--min-ply", type=int, default=8, help="Leave out positions before this half-move.")
@click.option("--time-control", help="Only games at these speeds (blitz,rapid) or clocks (180+2).  [default: any]")
@click.option("--no-check", is_flag=True, help="Leave out positions in check.")
@click.option(
    "--quiet-positions",
    is_flag=True,
    help="Leave out positions in check, and where a capture or promotion was played.",
)
@click.option("--max-pieces", type=int, help="Most men on the board.  [default: 32]")
@click.option(
    "--screen",
    default="auto",
    shell_complete=words("auto", "off"),
    help="Search in full only what short searches show as possible candidates; off: everything; or the nodes of the "
    "short searches: 5000,50000. With recall=0.98 (share of the candidates to keep) and audit=0.02 (share of what is "
    "cut that is searched anyway, to measure recall): auto,recall=0.99.",
)
@HEADS
@device_option()
@click.option("--cluster", help="Run on Dask: tcp://HOST:8786, tls://..., a .json file or local:4.  [default: here]")
@click.option("--limit", type=int, help="Stop after this many searches; the same command continues.  [default: none]")
@click.option("--retry-failed", is_flag=True, help="Search positions again on which the engine failed before.")
@ALPHA
@CALIBRATION
def command(archives: tuple[str, ...], db: str, **given: Any) -> None:
    """Find the positions a net misjudges.

    ARCHIVE is a PGN, EPD or FEN file (plain, .gz, .bz2, .xz or .zst), lichess's evaluation dump (.jsonl), lc0 training
    chunks or a .tar of them, a folder, or - for standard input. Each sampled position gets the net's value at one node
    and the value of a deep search, and both go into the store. A run can be stopped at any time (Ctrl-C) and the same
    command goes on; another command on the same store adds to it. --net uci:ENGINE,nodes=1 takes an engine's own
    evaluation in place of a net.

    \b
    Example:
      vr mine games.pgn.zst
      vr mine lichess.pgn.zst --positions 1000 --min-elo 2000 --deep stockfish:nodes=200000
      vr mine training-run.tar --deep recorded
      vr mine games.pgn --net uci:stockfish,nodes=1 --deep stockfish:nodes=100000
      vr mine games.pgn.zst --cluster tcp://scheduler:8786
    """
    scale = given["alpha"]
    question = vr.Question(alpha=scale.alpha, q_from=scale.q_from, calibration=given["calibration"])
    same_names = ("net", "deep", "screen", "heads", "device", "cluster", "limit", "retry_failed")
    summary = print_result(
        lambda: vr.mine(
            archives,
            db,
            _sample_options(given),
            question=asked_of(given["threshold"], question),
            workers=given["jobs"],
            quiet=is_quiet(),
            **{name: given[name] for name in same_names},
        )
    )
    if summary.report.truncated:
        source, how = summary.report.truncated[0]
        raise TruncatedInput(f"{source}: {how}; everything before that was used")


def _sample_options(given: dict[str, Any]) -> vr.SampleOptions:
    names = "positions game_share aside min_ply min_elo time_control no_check max_pieces seed"
    chosen = {name: given[name] for name in names.split()} | {"quiet": given["quiet_positions"]}
    # A number of positions in all is drawn from all plies, unless a number a game is asked for too.
    usual = 1 if given["positions"] is None else None
    chosen["per_game"] = usual if given["per_game"] is None else given["per_game"]
    return vr.SampleOptions(**chosen)
