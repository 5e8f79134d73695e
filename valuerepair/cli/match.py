"""`vr match`: two sides play each other, and what the result shows."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.completion import words
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import FILE, GAMES_FILE, JOBS, JSON, SEED, device_option, rules_of, rules_options
from valuerepair.cli.printing import is_quiet, print_result

SIDES = words("net=", "stockfish:", "lc0:")
ORDER = click.Choice(["sequential", "shuffled"])


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "games nodes tc openings sprt jobs output",
        "Openings": "order seed",
        "How games end": "max-plies draw resign syzygy",
        "Machine": "device",
    },
)
@click.argument("side_a", metavar="A", shell_complete=SIDES)
@click.argument("side_b", metavar="B", shell_complete=SIDES)
@click.option(
    "--games",
    type=int,
    help="Number of games, even; vr elo --resolve says how many are needed.  [default: two per opening]",
)
@click.option(
    "--openings",
    type=FILE,
    metavar="BOOK",
    help="PGN, EPD or FEN file.  [default: a built-in list of 251 lines]",
)
@click.option("--order", type=ORDER, default="sequential", help="Order of the openings.")
@click.option("--nodes", metavar="N", help="Nodes per move, for sides without a limit of their own.")
@click.option("--tc", metavar="CLOCK", help="Clock of each side, with increment: 10+0.1 (seconds), 1:30+1.")
@JOBS(help="Games at once.  [default: one per core; with two nets, full batches]")
@click.option("--sprt", metavar="TEST", help="Stop when decided: elo0=0,elo1=5,alpha=0.05,beta=0.05,model=normalized.")
@click.option(
    "-o",
    "--output",
    type=GAMES_FILE,
    default="match.pgn",
    help="PGN of the games; continues an earlier run.",
)
@SEED(help="Seed for the order, and for the built-in search's random choices.")
@rules_options(max_plies=0)
@device_option()
@JSON
def command(side_a: str, side_b: str, output: str, json: bool, **options: Any) -> None:
    """Play a match: nets with their search, or UCI engines, and report what the result shows.

    A side is a search of this project, net=NET,nodes=N with any of its parameters (contempt=N is n_scl=N), or an
    engine: stockfish, lc0:weights=NET, /path/engine or ssh:HOST,engine=/path/engine, each with nodes=, depth=,
    movetime=, option.NAME=, arg=, name=. Each opening is played with both colours. An engine that crashes, is out of
    time or moves illegally loses that game. The result has the effective root moves of both sides' searches; if one
    net's Q is steeper, it names the q_scale= at which both searches are equally broad. A match can be stopped at any
    time (Ctrl-C), and the same command resumes it; with more --games it continues further.

    \b
    Example:
      vr match net=maia-1900,nodes=100,certainty=1 net=maia-1900,nodes=100 --games 200
      vr match net=new.pb.gz,nodes=100,q_scale=0.74 net=old.pb.gz,nodes=100 -o equal.pgn
      vr match net=maia-1900,nodes=400,contempt=5 stockfish:nodes=2000 --openings book.pgn -o contempt.pgn
      vr match ./new ./old --tc 10+0.1 --jobs 2 --sprt elo0=0,elo1=5 -v
    """
    names = ("games", "openings", "order", "nodes", "tc", "sprt", "jobs", "seed", "device")
    match_options = vr.MatchOptions(**{name: options[name] for name in names}, rules=rules_of(options))
    print_result(lambda: vr.match(side_a, side_b, output, match_options, quiet=is_quiet()), json)
