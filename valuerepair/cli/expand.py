"""`vr expand`: searches around the candidates."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import DB, DEEP, JOBS, JSON, SEED, SPLIT, question
from valuerepair.cli.printing import is_quiet, print_result


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "split by nodes positions jobs db",
        "Search": "rounds audit deep seed",
        "Values": "threshold net oracle alpha calibration",
    },
)
@DB
@click.option("--by", default="line,parents,children,game", help="Kinds of steps to take, separated by commas.")
@click.option("--rounds", type=int, default=2, help="How many steps away from a candidate of the archive to go.")
@click.option("--nodes", type=int, help="Stop after this many engine nodes in total.  [default: no limit]")
@click.option("--positions", type=int, help="Stop after searching this many positions in total.  [default: no limit]")
@click.option("--audit", default=0.05, help="Share of the inferred candidates to search; 1: all.")
@question("|net Q - deep Q| of the candidates to start from and to look for.", expanded=None)
@SPLIT(help="A file of vr split: start only from candidates of its part train.")
@DEEP(help="The deep search, if the store does not say how to run it: uci:/path,nodes=N.")
@JOBS(help="Searches at once.  [default: one engine per core; mcts: full batches]")
@SEED(help="Seed for the order of the candidates.")
@JSON
def command(db: str, question: vr.Question | vr.Worst, jobs: int | None, json: bool, **options: Any) -> None:
    """Search the positions around the candidates: where a net is wrong once, it is often wrong again nearby.

    From each candidate four kinds of steps lead to neighbours. line: the positions that the deep search expects, whose
    value it gives at no cost. parents: one, two and four plies earlier in the game. children: after the moves that the
    net prefers. game: the other plies of the game. Neighbours are searched by the same deep search and stored as
    neighbours, which rates of the archive leave out. The next nodes go where nodes have found most candidates so far,
    and the run ends when they find fewer than in the archive. It can be stopped at any time (Ctrl-C) and the same
    command continues; with more --nodes or --positions it continues further.

    If the candidates' values were recorded in games (vr mine --deep recorded), those of their neighbours were, too: the
    games are read again, and no engine runs.

    \b
    Example:
      vr expand
      vr expand --by line --audit 0.1
      vr expand --nodes 1000000000 --rounds 3
    """
    print_result(lambda: vr.expand(db, question, workers=jobs, quiet=is_quiet(), **options), json)
