"""Commands that judge a net: `vr compare`, `match`, `experiment`."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.options import (
    DB,
    DEEP,
    FILE,
    GAMES_FILE,
    JOBS,
    JSON,
    NET,
    NEW_FOLDER,
    OUTPUT,
    RESIGN,
    SEED,
    device_option,
    part_option,
    question,
    several,
)
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@click.argument("nets", nargs=-1, required=True, metavar="OLD NEW...")
@DB
@question("|net Q - deep Q| of a candidate; a share is of the old net's positions.", net=None)
@part_option("all", help="Compare on one part", default="held-out, or all if nothing is held out")
@DEEP(
    help="Also compare by a deeper judge on a random sample of 2,000 of the positions, as in `vr mine`: "
    "stockfish:nodes=1000000."
)
@click.option("--sample", type=int, default=2000, hidden=True, help="Of so many: for the stages of vr repair.")
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    metavar="FILE",
    help="Write the positions that any net is wrong on: .parquet, .jsonl or .csv.",
)
@click.option("--plot", type=OUTPUT, metavar="FILE", help="Also draw it, as .png, .svg or .pdf.")
@device_option(reference=True)
@JSON
def compare(nets: tuple[str, ...], db: str, question: vr.Question | vr.Worst, json: bool, **options: Any) -> None:
    """Compare nets on the positions of a store: which is the better judge, and what was repaired.

    Each NEW net is compared with the OLD one; a net is a file, a name or a SHA-256. Values that the store lacks are
    computed from the net's file and stored; stop with Ctrl-C, and the same command continues. There are rows for each
    origin of positions, in games and beside them: the squared error of both nets, and the candidates that the new net
    repaired and those that are new. A better judge errs less on the positions of every origin.

    \b
    Example:
      vr compare old.pb.gz new.pb.gz
      vr compare old.pb.gz new.pb.gz --deep stockfish:nodes=1000000
      vr compare old.pb.gz control.pb.gz new.pb.gz --part families
      vr compare maia-1900 new.pb.gz --threshold 0.4 --plot repaired.svg -o wrong.csv
    """
    print_result(lambda: vr.compare(db, nets, question, quiet=is_quiet(), **options), json)


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
def match(side_a: str, side_b: str, draw: str | None, resign: float, output: str, json: bool, **options: Any) -> None:
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


SHARED = several(
    click.option("-o", "--output", type=NEW_FOLDER, default="experiment", help="Folder of games and table."),
    click.option("--openings", type=FILE, metavar="BOOK", help="PGN, EPD or FEN file.  [default: a built-in list]"),
    click.option("--lines", default=50, help="How many of its lines, evenly spread."),
    NET,
    click.option("--nodes", default=200, help="Nodes per move of settings that do not name their own."),
    click.option("--games", default=200, help="Games per setting."),
)


@click.group("experiment")
def experiment() -> None:
    """Measure settings of the search by games: a list of self-play runs or of matches, and a table.

    The games of every setting are a PGN file in the folder: the same command resumes a stopped run, and a larger
    --games adds to them. The table (table.csv) and the plot are in the same folder, with the settings of earlier
    commands; self-play and matches need one folder each.

    \b
    Example:
      vr experiment selfplay n_scl=5 n_scl=inf temperature=1 --nodes 100
      vr experiment match certainty=1 auto_extend=1 --nodes 100 --lines 251 --games 502 -o options
    """


@experiment.command("selfplay")
@click.argument("settings", nargs=-1, metavar="[SETTING]...")
@click.option("--match", metavar="SETTING", help="Then match this against the temperature with the same (w + l) / d.")
@click.option("--match-games", default=200, help="Games of that match.")
@SHARED
def _selfplay(settings: tuple[str, ...], match: str | None, match_games: int, output: str, **options: Any) -> None:
    """Sweep settings of the search in self-play.

    A SETTING is a side of `vr match`: parameters of the search as NAME=VALUE,... (default: some values of n_scl and of
    temperature). For each: White's wins, draws, losses, (w + l) / d, games that repeat an earlier one of their opening,
    and positions where the net alone and the search disagree by 0.55. Intervals are at 0.95, over openings.

    \b
    Example:
      vr experiment selfplay --nodes 100 --games 400 --match n_scl=5
      vr experiment selfplay cpuct=1 cpuct=2 cpuct=4 --openings book.pgn
    """
    experiment_options = vr.ExperimentOptions(**options)
    print_result(
        lambda: vr.experiment_selfplay(
            settings, output, experiment_options, match=match, match_games=match_games, quiet=is_quiet()
        )
    )


@experiment.command("match")
@click.argument("sides", nargs=-1, required=True, metavar="SIDE...")
@click.option("--against", default="name=plain", metavar="SIDE", help="The side that they play.")
@click.option("--odds", is_flag=True, help="Play each opening once, SIDE with less material.")
@SHARED
def _match(sides: tuple[str, ...], against: str, odds: bool, output: str, **options: Any) -> None:
    """Match each SIDE with the same other one: options on against off, odds as nodes grow.

    Sides are those of `vr match`. With --odds the openings must give odds, and SIDE plays the weaker colour.

    \b
    Example:
      vr experiment match certainty=1 auto_extend=1 --nodes 100 --lines 251 --games 502 -o options
      vr experiment match nodes=10 nodes=100 --against nodes=1 --odds --openings queen-odds.epd -o odds
    """
    experiment_options = vr.ExperimentOptions(**options)
    print_result(
        lambda: vr.experiment_match(sides, output, experiment_options, against=against, odds=odds, quiet=is_quiet())
    )
