"""`vr chunks`: games of archives as training chunks."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import ARCHIVE, FILE, NEW_FOLDER, SPLIT, AlphaOption, alpha_option
from valuerepair.cli.printing import fail_if_broken_off, is_quiet, print_result
from valuerepair.training.options import parse_policy


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "output net policy db split min-elo games",
        "Games": "time-control",
        "Values": "alpha",
        "Output": "form",
    },
)
@click.argument("archives", nargs=-1, type=ARCHIVE, required=True, metavar="ARCHIVE...")
@click.option("-o", "--output", type=NEW_FOLDER, required=True, metavar="DIR", help="A new or empty folder.")
@click.option(
    "--net",
    metavar="NET",
    help="The net to train: it determines the input format, and gives the priors of --policy net.  [default: none]",
)
@click.option(
    "--policy",
    default="played",
    help="Policy target: the move played, the net's priors (net), the judge's move (judge), or a blend of one of these "
    "with the move played (net:0.3).",
)
@click.option(
    "--db",
    envvar="VR_DB",
    type=FILE,
    help="A store whose judged values take precedence over all others.  [default: none]",
)
@SPLIT(help="A file of vr split: leave out the games that it holds out.")
@click.option("--min-elo", type=int, help="Only games in which both players have at least this rating.  [default: any]")
@click.option("--games", type=int, help="Write at most this many games, the first ones.  [default: all]")
@click.option("--time-control", help="Only games at these speeds (blitz,rapid) or clocks (180+2).  [default: any]")
@alpha_option(auto="170, and for the store's values as in other commands")
@click.option(
    "--form",
    type=click.Choice(["tar", "files"]),
    default="tar",
    help="Tars of 10,000 games for lczero-training's loader, or one file per game.",
)
def command(archives: tuple[str, ...], output: str, policy: str, form: Any, **options: Any) -> None:
    """Write games as lc0 training chunks: supervised data, and normal games for vr mix.

    ARCHIVE is as in vr mine. Each game with a result becomes one chunk of V6 records, in order. The value is the game's
    result, and in best_q and root_q the evaluation that the game or the store has of the position, else the result
    again. Games without a result, variants and broken games are left out and counted. Ctrl-C stops; the same command
    resumes after the last complete tar. Positions without games: vr export --format chunks.

    \b
    Example:
      vr chunks games.pgn.zst -o normal-chunks
      vr chunks lichess.pgn.zst --min-elo 2200 --time-control rapid,classical --net my-net.pb.gz -o normal-chunks
      vr chunks games.pgn.zst --db valuerepair.db --split split.json --policy judge:0.5 -o judged-chunks
    """
    policy_from, share = parse_policy(policy, "played", "net", "judge")
    scale: AlphaOption = options["alpha"]
    records: dict[str, Any] = {"policy": policy_from, "policy_share": share, "games": options["games"]}
    if scale.alpha is not None:
        records["alpha"] = scale.alpha
    summary = print_result(
        lambda: vr.write_game_chunks(
            archives,
            output,
            vr.SampleOptions(min_elo=options["min_elo"], time_control=options["time_control"]),
            vr.GameChunkOptions(**records),
            net=options["net"],
            store=options["db"],
            question=vr.Question(alpha=scale.alpha, q_from=scale.q_from),
            split=options["split"],
            form=form,
            quiet=is_quiet(),
        ),
        of_files=True,
    )
    fail_if_broken_off(summary.report.truncated)
