"""`vr expand`: searches around the candidates."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import DB, DEEP, SPLIT, question
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@DB
@click.option("--positions", type=int, help="Stop after searching this many positions in total.  [default: no limit]")
@question("|net Q - deep Q| of the candidates to start from and to look for.", expanded=None)
@SPLIT(help="A file of vr split: start only from candidates of its part train.")
@DEEP(help="The deep search, if the store does not say how to run it: uci:/path,nodes=N.")
def command(
    db: str, question: vr.Question | vr.Worst, positions: int | None, split: str | None, deep: str | None
) -> None:
    """Search the positions around the candidates: where a net is wrong once, it is often wrong again nearby.

    From each candidate four kinds of steps lead to neighbours. Line: the positions that the deep search expects, whose
    value it gives at no cost. Parents: one, two and four plies earlier in the game. Children: after the moves that the
    net prefers. Game: the other plies of the game. Neighbours are searched by the same deep search and stored as
    neighbours, which rates of the archive leave out. The next searches go where they have found most candidates so far,
    and the run ends when they find fewer than in the archive. It can be stopped at any time (Ctrl-C) and the same
    command continues; with more --positions it continues further.

    \b
    Example:
      vr expand
      vr expand --positions 5000
    """
    print_result(
        lambda: vr.expand(db, question, positions=positions, deep=deep, split=split, quiet=is_quiet()),
    )
