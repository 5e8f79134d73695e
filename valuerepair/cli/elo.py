"""`vr elo`: what the PGN of a match by any program shows; and, before a match, how many games it needs."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import FILE, JOBS, JSON, typed
from valuerepair.cli.printing import is_quiet, print_result
from valuerepair.errors import UsageError


@click.command()
@click.argument("files", nargs=-1, type=FILE, metavar="[FILE]...")
@click.option("--player", metavar="NAME", help="Only games of this player, seen from its side.")
@click.option("--sprt", metavar="TEST", help="Print the state of this SPRT: elo0=0,elo1=5; settings as in vr match.")
@click.option(
    "--resolve", type=float, metavar="ELO", help="Print instead how many games are needed to show this difference."
)
@click.option("--draws", type=float, metavar="SHARE", help="For a plan: share of draws, 0.6.  [default: as in FILE]")
@click.option("--game-time", type=float, metavar="SECONDS", help="For a plan: time per game.  [default: as in FILE]")
@JOBS(help="For a plan: games at once.  [default: 1]")
@JSON
def command(files: tuple[str, ...], player: str | None, sprt: str | None, json: bool, **options: Any) -> None:
    """Report what the games of a match show: Elo with its interval, the likelihood of superiority (LOS),
    colours, endings, SPRT.

    FILE is PGN of any program (cutechess, fastchess, vr match, servers), packed or not; - is standard input. Games with
    the same opening and both colours are pairs. With several players there is one line per pairing.
    With --resolve it says, before a match begins, how many games (and hours) show a difference or end an SPRT. For the
    SPRT alone, --sprt with --draws and without FILE is enough.

    \b
    Example:
      vr elo match.pgn
      vr elo gauntlet.pgn.zst --player new --sprt elo0=0,elo1=5
      vr elo --resolve 5 --draws 0.6 --game-time 40 --jobs 8 --sprt elo0=0,elo1=5
      vr elo --sprt elo0=0,elo1=5 --draws 0.6
      vr elo first-games.pgn --resolve 5
    """
    if player is not None and not files:
        raise UsageError("--player applies to the games of a PGN: give FILE, too")
    if options["resolve"] is not None or (sprt is not None and not files):
        like = vr.elo(files, player, quiet=is_quiet()) if files else None
        draws, seconds, jobs = options["draws"], options["game_time"], 1 if options["jobs"] is None else options["jobs"]
        plan = vr.plan_match(options["resolve"], draws=draws, like=like, sprt=sprt, seconds=seconds, jobs=jobs)
        print_result(lambda: plan, json)
        return
    if plan_options := typed("draws", "game_time", "jobs"):
        raise UsageError(f"{plan_options[0]} is for --resolve ELO: give that, too")
    if not files:
        raise UsageError("give the PGN of a match, or --resolve ELO --draws SHARE")
    print_result(lambda: vr.elo(files, player, sprt=sprt, quiet=is_quiet()), json)
