"""`vr mine`: archives in, a store of scored positions out."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from valuerepair.archives.options import SampleOptions
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
    QuestionOptions,
    Worst,
    device_option,
    threshold_option,
)
from valuerepair.cli.verbosity import is_quiet
from valuerepair.errors import TruncatedInput, UsageError, ValueRepairError
from valuerepair.question import DEFAULT_THRESHOLD, Question

if TYPE_CHECKING:
    from valuerepair.nets.heads import Heads
    from valuerepair.runs.evaluators import Opened, OpenedImport


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
def command(archives: tuple[str, ...], db: str, net: str | None, deep: str | None, **given: Any) -> None:
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
    from valuerepair.archives.open import total_bytes
    from valuerepair.chess.progress import Progress
    from valuerepair.runs.evaluators import open_run
    from valuerepair.runs.options import MineOptions
    from valuerepair.screening.model import parse_screen
    from valuerepair.store.store import Store

    scale, threshold = given["alpha"], given["threshold"]
    options = MineOptions(
        sample=_sample_options(given),
        command=shlex.join(["vr", *sys.argv[1:]]),
        question=Question(
            alpha=scale.alpha,
            q_from=scale.q_from,
            calibration=given["calibration"],
            threshold=DEFAULT_THRESHOLD if isinstance(threshold, Worst) else threshold,
        ),
        screen=parse_screen(given["screen"]),
        **{name: given[name] for name in ("limit", "retry_failed")},
    )
    opening = partial(open_run, archives) if given["cluster"] is None else _on_cluster(given["cluster"])
    total_bytes(archives)  # Raises for a missing file, before anything is made or loaded.
    heads: Heads = given["heads"]
    net_options = {"device": given["device"], "value_head": heads.value, "policy_head": heads.policy}
    with (
        Store.open(db, create=True) as store,
        Progress("mining", unit="positions", quiet=is_quiet(), own_eta=True) as progress,
    ):
        progress.stage("opening the net and the deep search")
        with opening(deep, net, given["jobs"], **net_options) as found:
            options = found.fitting(options)
            if isinstance(threshold, Worst):
                asked = QuestionOptions(
                    *found.names, scale.alpha, scale.q_from, threshold, calibration=given["calibration"]
                )
                try:
                    options = replace(options, question=asked.resolved(store))
                except ValueRepairError as error:
                    raise UsageError(f"--threshold {threshold}: goes by what is in the store: {error}") from None
            summary = found.run(archives, options, store, progress)
    click.echo("\n".join(summary.lines()))
    if summary.state == "interrupted":
        raise KeyboardInterrupt
    if summary.report.truncated:
        source, how = summary.report.truncated[0]
        raise TruncatedInput(f"{source}: {how}; everything before that was used")


def _on_cluster(cluster: str) -> Callable[..., AbstractContextManager[Opened | OpenedImport]]:
    from valuerepair.cluster.connection import parse_cluster
    from valuerepair.cluster.evaluators import open_on_cluster

    return partial(open_on_cluster, parse_cluster(cluster))


def _sample_options(given: dict[str, Any]) -> SampleOptions:
    names = "positions game_share aside min_ply min_elo time_control no_check max_pieces seed"
    chosen = {name: given[name] for name in names.split()} | {"quiet": given["quiet_positions"]}
    # A number of positions in all is drawn from all plies, unless a number a game is asked for too.
    usual = 1 if given["positions"] is None else None
    chosen["per_game"] = usual if given["per_game"] is None else given["per_game"]
    return SampleOptions(**chosen)
