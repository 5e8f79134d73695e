"""`vr match`: two sides play each other, and what the result shows."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import FILE, GAMES_FILE, JOBS, JSON, RESIGN, SEED, device_option
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@click.argument("side_a", metavar="A")
@click.argument("side_b", metavar="B")
@click.option("--games", type=int, help="Number of games, even.  [default: two per opening]")
@click.option("--nodes", metavar="N", help="Nodes per move, for sides without a limit of their own.")
@click.option(
    "--openings",
    type=FILE,
    metavar="BOOK",
    help="PGN, EPD or FEN file.  [default: a built-in list of 251 lines]",
)
@click.option("--sprt", metavar="TEST", help="Stop when decided: elo0=0,elo1=5,alpha=0.05,beta=0.05,model=normalized.")
@click.option("--draw", metavar="MOVE,PLIES,Q", help="Draw after PLIES in a row with |Q| at most Q, from MOVE on.")
@RESIGN
@click.option(
    "-o",
    "--output",
    type=GAMES_FILE,
    default="match.pgn",
    help="PGN of the games; continues an earlier run.",
)
@SEED(help="Shuffles the openings, and seeds the built-in search's random choices; 0: the book's order.")
@JOBS(help="Games at once.  [default: one per core; with two nets, full batches]")
@device_option()
@JSON
def command(side_a: str, side_b: str, draw: str | None, resign: float, output: str, json: bool, **options: Any) -> None:
    """Play a match: nets with their search, or UCI engines, and report what the result shows.

    A side is a search of this project, net=NET,nodes=N with any of its parameters (contempt=N is n_scl=N), or an
    engine: stockfish, lc0:weights=NET or /path/engine, each with nodes=, depth=, movetime=, option.NAME=, arg=, name=.
    syzygy=FOLDERS and max_plies=N, written in either side, decide or end the games of both. Each opening is played with
    both colours. An engine that crashes, is out of time or moves illegally loses that game. The result has the
    effective root moves of both sides' searches; if one net's Q is steeper, it names the q_scale= at which both
    searches are equally broad. A match can be stopped at any time (Ctrl-C), and the same command resumes it; with more
    --games it continues further.

    \b
    Example:
      vr match net=maia-1900,nodes=100,certainty=1 net=maia-1900,nodes=100 --games 200
      vr match net=new.pb.gz,nodes=100,q_scale=0.74 net=old.pb.gz,nodes=100 -o equal.pgn
      vr match net=maia-1900,nodes=400,contempt=5 stockfish:nodes=2000 --openings book.pgn -o contempt.pgn
      vr match ./new,movetime=100ms ./old,movetime=100ms --jobs 2 --sprt elo0=0,elo1=5 -v
    """
    from valuerepair.play.referee import parse_draw_rule

    rules = vr.Rules(draw=None if draw is None else parse_draw_rule(draw), resign=resign)
    match_options = vr.MatchOptions(**options, rules=rules)
    print_result(lambda: vr.match(side_a, side_b, output, match_options, quiet=is_quiet()), json)
