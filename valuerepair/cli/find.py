"""Commands that find positions: `vr mine`, `confirm`, `expand`, `merge`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import ARCHIVE, DB, DEEP, FILE, JOBS, NET, SEED, device_option, question
from valuerepair.cli.printing import fail_if_broken_off, is_quiet, print_result
from valuerepair.question import DEFAULT_THRESHOLD


def _parse_margin(value: Any) -> float | None:
    """``off`` (None) or a number: a type of options. Raises BadParameter."""
    if value is None or value == "off":
        return None
    with suppress(ValueError):
        return float(value)
    raise click.BadParameter(f"{value}: give a share of the threshold, as 0.5, or off")


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
    "random_move:0.25,policy_move:0.1,search_node:0.25 (after a random legal move, after the policy's 3rd to 6th move, "
    "at a node of a short search).  [default: none]",
)
@click.option("--min-elo", type=int, help="Only games in which both players have at least this rating.  [default: any]")
@click.option("--time-control", help="Only games at these speeds (blitz,rapid) or clocks (180+2).  [default: any]")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 2, min_open=True),
    help="Smallest |net Q - deep Q| of a candidate; the store keeps it for other commands.  [default: the one in use, "
    f"at first {DEFAULT_THRESHOLD:g}]",
)
@click.option(
    "--screen",
    type=_parse_margin,
    metavar="MARGIN|off",
    default="0.5",
    help="Search a twentieth of the nodes first, and in full only where that is at least MARGIN times the threshold "
    "from the net; off: search all positions in full. Judges below 100,000 nodes and mcts are not screened.",
)
@device_option()
@click.option("--cluster", help="Run on Dask: tcp://HOST:8786, tls://..., a .json file or local:4.  [default: here]")
@SEED(help="The same seed draws the same positions.")
@JOBS(help="Searches that run at once.  [default: one engine per core; mcts: full batches]")
@DB
def mine(archives: tuple[str, ...], db: str, threshold: float | None, **options: Any) -> None:
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
    question = None if threshold is None else vr.Question(threshold=threshold)
    summary = print_result(
        lambda: vr.mine(archives, db, sample, question=question, workers=workers, quiet=is_quiet(), **options)
    )
    fail_if_broken_off(summary.report.truncated)


@click.command()
@DB
@question("Smallest |net Q - deep Q| to look at.")
@DEEP(
    help="The deep search of the second look, as in `vr mine`.  [default: the first one with ten times its nodes]",
)
@click.option("--limit", type=int, help="Look at no more than this many candidates, the largest disagreements first.")
def confirm(db: str, question: vr.Question | vr.Worst, deep: str | None, limit: int | None) -> None:
    """Look again at the candidates, and report who was right: the search, the net, or unclear.

    Each candidate in games, the largest disagreement first, is searched deeper. The search was right if the second look
    is in its third of the way from the net's Q to its own, the net if it is in the net's third (docs/methods.md). Stop
    at any time with Ctrl-C; the same command continues.

    \b
    Example:
      vr confirm
      vr confirm --threshold 0.8 --deep stockfish:nodes=20000000 --limit 100
      vr confirm --deep lc0:nodes=10000,weights=BIG.pb.gz
    """
    print_result(lambda: vr.confirm(db, question, deep=deep, limit=limit, quiet=is_quiet()))


@click.command()
@DB
@click.option("--positions", type=int, help="Stop after searching this many positions in total.  [default: no limit]")
@question("|net Q - deep Q| of the candidates to start from and to look for.")
@DEEP(help="The deep search, if the store does not say how to run it: uci:/path,nodes=N.")
def expand(db: str, question: vr.Question | vr.Worst, positions: int | None, deep: str | None) -> None:
    """Search the positions around the candidates: where a net is wrong once, it is often wrong again nearby.

    Neighbours of a candidate are the positions on the line that the judge expects, those one, two and four plies
    earlier, and those after the moves that the net prefers. The net values all of them, and the judge searches those
    where the net differs by the threshold from what the candidate's value lets expect, the nearest first. Neighbours go
    into books and training, and never into rates. Only candidates for training are started from, not those that vr
    split holds out. Stop at any time with Ctrl-C; the same command continues.

    \b
    Example:
      vr expand
      vr expand --positions 5000
    """
    print_result(lambda: vr.expand(db, question, positions=positions, deep=deep, quiet=is_quiet()))


@click.command()
@click.argument("stores", nargs=-1, type=FILE, required=True)
@click.option(
    "-o", "--output", type=FILE, default="merged.db", metavar="FILE", help="The new store, or one that is added to."
)
def merge(stores: tuple[str, ...], output: str) -> None:
    """Merge stores, for example those of several machines, into one.

    Positions, games, nets and judges are known by their content, so merging a store twice changes nothing. A value
    counts before a failed search; where two stores have different values, the first one's stay, and the number is
    printed. The stores themselves are not changed. The result appears whole or not at all.

    \b
    Example:
      vr merge shard-1.db shard-2.db shard-3.db -o all.db
      vr merge new.db -o all.db
    """
    print_result(lambda: vr.merge_stores(stores, output), of_files=True)
