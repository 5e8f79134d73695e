"""`vr experiment`: settings of the search measured against each other by games."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from valuerepair.cli.experiment_lab import hand_out, lab
from valuerepair.cli.experiment_options import numbers, shared_options, visits_limit

_folder = partial(click.option, "-o", "--output", "--out", "out", show_default=True, help="Folder for all that is own.")


@click.group("experiment")
def command() -> None:
    """Measure settings of the search by games: search-contempt and temperature, odds, options.

    Games are kept in a folder as they end: the same command goes on where it was stopped, and a larger --games adds to
    them. Beside them lie the table (table.csv) and the plot.

    \b
    Example:
      vr experiment contempt --nodes 100 --games 200
      vr experiment options certainty auto_extend
    """


@command.command("contempt")
@_folder(default="experiment-contempt")
@click.option("--book", metavar="FILE", help="Openings.  [default: named lines that the net calls balanced]")
@click.option("--nodes", default=200, show_default=True, help="Nodes a move, the same for all settings.")
@click.option("--n-scl", default="5,10,32,100,inf", show_default=True, help="Search-contempt settings to sweep.")
@click.option("--temperature", default="0.25,0.5,0.75,1", show_default=True, help="Temperatures to sweep.")
@click.option("--games", default=200, show_default=True, help="Games of each setting with itself.")
@click.option("--match", "matched", default="5", show_default=True, help="N_scl that plays its temperature.")
@click.option("--match-games", default=200, show_default=True, help="Games of that match; 0 for none.")
@click.option("--threshold", default=0.55, show_default=True, help="|net Q - search Q| of an interesting position.")
@shared_options
def contempt(out: str, book: str | None, nodes: int, n_scl: str, temperature: str, games: int, matched: str,
             match_games: int, threshold: float, **options: Any) -> None:  # fmt: skip
    """Sweep search-contempt and temperature in self-play, then match the two at equal (w + l) / d.

    For each setting: White's wins, draws, losses, (w + l) / d, games that repeat an earlier one of their opening, and
    positions where the net alone and the search disagree by the threshold. Intervals are at 0.95, over openings.

    \b
    Example:
      vr experiment contempt --nodes 100 --games 400 --match-games 1000
      vr experiment contempt --nodes 100 --games 400 --report --json
    """
    from valuerepair.play.experiment_contempt import ContemptPlan, run_contempt
    from valuerepair.report import sweep
    from valuerepair.report.experiment_table import contempt_lines, contempt_rows

    values = numbers(n_scl, "--n-scl", visits_limit)
    taus = numbers(temperature, "--temperature", float)
    total = games * (len(values) + len(taus)) + match_games
    with lab(out, book, total, options) as own:
        plan = ContemptPlan(own.params, nodes, values, taus, games, match_games, visits_limit(matched), own.openings)
        report = run_contempt(
            plan, out, own.conditions, own.open_player, threshold,
            **own.watching, say=own.say,
        )  # fmt: skip
    draw = partial(sweep.plot_contempt, report)
    hand_out(own, out, contempt_rows(report), contempt_lines(report), draw, options)


@command.command("odds")
@click.argument("books", nargs=-1, required=True, metavar="EPD...")
@_folder(default="experiment-odds")
@click.option("--nodes", default="10,30,100,300,1000", show_default=True, help="Nodes of the side that gives odds.")
@click.option("--n-scl", default="5,inf", show_default=True, help="Its search-contempt settings.")
@click.option("--opponent-nodes", default=1, show_default=True, help="Nodes of the other side, always the same.")
@click.option("--games", default=100, show_default=True, help="Games at each setting.")
@shared_options
def odds(books: tuple[str, ...], out: str, nodes: str, n_scl: str, opponent_nodes: int, games: int,
         **options: Any) -> None:  # fmt: skip
    """Play odds chess with and without search-contempt, as the nodes of the side with less material grow.

    Each book holds positions of one kind of odds; its name stands for them.

    \b
    Example:
      vr experiment odds queen-odds.epd knight-odds.epd --openings 100
    """
    from valuerepair.play.experiment_matches import odds_trials, run_matches
    from valuerepair.play.experiment_openings import openings_for
    from valuerepair.report import sweep
    from valuerepair.report.experiment_table import match_row, odds_lines

    counts, values = numbers(nodes, "--nodes", int), numbers(n_scl, "--n-scl", visits_limit)
    trials = []
    with lab(out, books[0], games * len(counts) * len(values) * len(books), options) as own:
        for book in books:
            lines = openings_for(book, own.net, options["most"])
            trials += odds_trials(Path(book).stem, lines, own.params, counts, values, opponent_nodes, games)
        matches = run_matches(trials, out, own.conditions, own.open_player, **own.watching)
    rows, draw = [match_row(match) for match in matches], partial(sweep.plot_odds, trials, matches)
    hand_out(own, out, rows, odds_lines(matches), draw, options)


@command.command("options")
@click.argument("names", nargs=-1, metavar="[OPTION]...")
@_folder(default="experiment-options")
@click.option("--book", metavar="FILE", help="Openings.  [default: named lines that the net calls balanced]")
@click.option("--nodes", default=100, show_default=True, help="Nodes a move of both sides.")
@click.option("--games", default=1000, show_default=True, help="Games of each match.")
@shared_options
def switches(names: tuple[str, ...], out: str, book: str | None, nodes: int, games: int,
            **options: Any) -> None:  # fmt: skip
    """Match options of the search, on against off: certainty, auto_extend (both unless named), lookahead.

    \b
    Example:
      vr experiment options certainty --games 10000 --openings 500
    """
    from valuerepair.play.experiment_matches import OPTIONS, option_trials, run_matches
    from valuerepair.report import sweep
    from valuerepair.report.experiment_table import match_lines, match_row

    chosen = names or tuple(OPTIONS)
    with lab(out, book, games * len(chosen), options) as own:
        trials = option_trials(chosen, own.openings, own.params, nodes, games)
        matches = run_matches(trials, out, own.conditions, own.open_player, **own.watching)
    lines = [line for match in matches for line in match_lines(match)]
    rows, draw = [match_row(match) for match in matches], partial(sweep.plot_matches, matches)
    hand_out(own, out, rows, lines, draw, options)
