"""`vr mine`: archives in, a store of scored positions out."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import ARCHIVE, DB, DEEP, HEADS, JOBS, NET, SEED, device_option, question
from valuerepair.cli.printing import fail_if_broken_off, is_quiet, print_result


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "positions deep net threshold min-elo jobs seed db",
        "Sampling": "per-game game-share aside min-ply max-pieces time-control no-check quiet-positions",
        "Machine": "device cluster limit retry-failed",
        "Values": "screen alpha heads",
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
@question("Smallest |net Q - deep Q| of a candidate; can be changed later.", net=None, oracle=False, expanded=None)
@click.option("--min-elo", type=int, help="Only games in which both players have at least this rating.  [default: any]")
@JOBS(help="Searches that run at once.  [default: one engine per core; mcts: full batches]")
@SEED(help="The same seed draws the same positions.")
@DB
@click.option("--per-game", type=int, help="Draw this many positions per game.  [default: 1; with --positions: all]")
@click.option("--game-share", default=1.0, help="Use this share of the games; the others are not parsed.")
@click.option(
    "--aside",
    metavar="SHARE",
    help="Draw this share of the positions from beside the games, as a search reaches them: 0.5, or a share per kind: "
    "aside:0.25,policy:0.1,search:0.25 (after a random legal move, after the policy's 3rd to 6th move, at a node of a "
    "short search).  [default: none]",
)
@click.option("--min-ply", type=int, default=8, help="Leave out positions before this half-move.")
@click.option("--time-control", help="Only games at these speeds (blitz,rapid) or clocks (180+2).  [default: any]")
@click.option("--no-check", is_flag=True, help="Leave out positions in check.")
@click.option(
    "--quiet-positions",
    is_flag=True,
    help="Leave out positions in check, and those in which a capture or promotion was played.",
)
@click.option("--max-pieces", type=int, help="Leave out positions with more pieces and pawns.  [default: 32]")
@click.option(
    "--screen",
    default="auto",
    help="Search in full only positions that short searches leave as possible candidates; off: search all positions in "
    "full; 5000,50000: the nodes of the short searches. More settings: recall=0.98 (share of the candidates to keep), "
    "audit=0.02 (share of the others to search in full too, which measures recall), as in auto,recall=0.99.",
)
@HEADS
@device_option()
@click.option("--cluster", help="Run on Dask: tcp://HOST:8786, tls://..., a .json file or local:4.  [default: here]")
@click.option("--limit", type=int, help="Stop after this many searches; the same command continues.  [default: none]")
@click.option("--retry-failed", is_flag=True, help="Search again the positions on which the engine failed.")
def command(archives: tuple[str, ...], db: str, question: vr.Question | vr.Worst, **options: Any) -> None:
    """Find the positions a net misjudges.

    ARCHIVE is a PGN, EPD or FEN file (plain, .gz, .bz2, .xz or .zst), lichess's evaluation dump (.jsonl), lc0 training
    chunks or a .tar of them, a folder, or - for standard input. Each sampled position gets the net's value at one node
    and the value of a deep search, and both go into the store. Stop at any time with Ctrl-C; the same command
    continues, and another command adds to the store.

    \b
    Example:
      vr mine games.pgn.zst
      vr mine lichess.pgn.zst --positions 1000 --min-elo 2000 --deep stockfish:nodes=200000
      vr mine training-run.tar --deep recorded
      vr mine games.pgn.zst --cluster tcp://scheduler:8786
      vr mine games.pgn.zst --net big.pb.gz --device cuda
      vr mine games.pgn.zst --retry-failed
    """
    same_names = ("net", "deep", "screen", "heads", "device", "cluster", "limit", "retry_failed")
    summary = print_result(
        lambda: vr.mine(
            archives,
            db,
            _sample_options(options),
            question=question,
            workers=options["jobs"],
            quiet=is_quiet(),
            **{name: options[name] for name in same_names},
        )
    )
    fail_if_broken_off(summary.report.truncated)


def _sample_options(options: dict[str, Any]) -> vr.SampleOptions:
    names = "positions game_share aside min_ply min_elo time_control no_check max_pieces seed"
    chosen = {name: options[name] for name in names.split()} | {"quiet": options["quiet_positions"]}
    # --positions alone draws from all plies of each game.
    per_game = 1 if options["positions"] is None else None
    chosen["per_game"] = per_game if options["per_game"] is None else options["per_game"]
    return vr.SampleOptions(**chosen)
