"""`vr stats`: what is in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from valuerepair.cli.options import DB, JSON, QuestionOptions, question
from valuerepair.cli.verbosity import is_quiet, say_more

if TYPE_CHECKING:
    from valuerepair.chess.values import FitTo


@click.command()
@DB
@question("|net Q - deep Q| of a candidate, for the rates by phase, side and sign, and for labels.")
@click.option("--worst", type=click.IntRange(0), default=0, help="List this many candidates with labels, worst first.")
@click.option("--labels", is_flag=True, help="Ask the net for the policy that labels need, and store it.")
@click.option("--fit-alpha", is_flag=True, help="Fit alpha, and show what the fit would change.")
@click.option(
    "--save-alpha",
    type=click.Choice(["slope", "l1", "l2", "results"]),
    help="Store this fit; later commands use it, vr train only slope and results.",
)
@click.option("--save-calibration", is_flag=True, help="Store a fitted calibration curve; later commands use it.")
@click.option("--ladder", is_flag=True, help="Show the screening ladder: its cuts, and nodes against recall.")
@JSON
def command(db: str, question: QuestionOptions, labels: bool, **given: Any) -> None:
    """Say what is in the store: positions, nets, oracles, candidate rates with 95 % intervals, and what it cost.

    It begins with the rate of candidates at the threshold. Of these candidates it also says which labels they have
    (docs/methods/judges.md: what these mean and what they do not prove), how often a second look found the search right
    (vr confirm), whose values the games played from them (vr selfplay) agree with, and, with -v, how diverse they are.

    Alpha is fitted so that Q = 2 / (1 + exp(-cp / alpha)) - 1 of the deep scores is nearest to the net's Q, in both
    norms (l1: mean distance, robust to misjudged positions; l2: root mean square); so that the deep Q to be expected
    given the net's Q is as steep as that (slope), which is one scale to find by and to train by; and to the results of
    the games that positions stood in (results). With 95 % intervals. docs/methods/scale.md says which for what.

    A candidate beyond scale is one by calibrated Q too: the deep Q to be expected given the net's, by a curve fitted to
    other games. --calibration fitted counts by that, here and in the other commands, and shows the curve.

    \b
    Example:
      vr stats
      vr stats --threshold 0.8 --json
      vr stats --labels --worst 20
      vr stats --save-alpha slope
      vr stats --calibration fitted
    """
    from json import dumps

    from valuerepair.errors import ValueRepairError
    from valuerepair.judge.labelled import complete
    from valuerepair.report.alpha_table import alpha_table
    from valuerepair.report.stats import (
        diversity_lines,
        label_rows,
        label_table,
        section_lines,
        sections,
        stats_lines,
        store_figures,
    )
    from valuerepair.store.store import Store

    saved: FitTo | None = given["save_alpha"]
    with Store.open(db, write=labels or saved is not None or given["save_calibration"]) as store, store.snapshot():
        asked = question.resolved(store)
        threshold = asked.threshold
        fit = alpha_table(store, asked) if given["fit_alpha"] or saved else None
        if fit is not None and saved is not None:
            store.set_alpha(*store.pick(asked.net, asked.oracle), fit.saveable(saved))
        if given["save_calibration"]:
            store.save_calibration(asked)
        figures: dict[str, Any] = store_figures(store, asked)
        shown = stats_lines(figures)
        if figures["scored"] is not None:
            frame = store.candidates(asked)
            if labels:
                if not len(frame):
                    raise ValueRepairError(
                        f"{db}: no candidates at {threshold:g} to label; mine more, or lower --threshold"
                    )
                figures["asked_of_the_net"] = complete(store, frame, asked.net, quiet=is_quiet())
            known = sections(store, frame, threshold)
            figures |= known
            shown += section_lines(known)
            say_more(diversity_lines(figures))
            if given["worst"]:
                figures["worst"] = label_rows(store, frame.head(given["worst"]))
                shown += ["", *label_table(figures["worst"])]
        if fit is not None:
            figures["alpha_fit"] = {**fit.as_dict(), "saved": saved}
            shown += ["", *fit.lines()]
            keeps = "not saved; vr stats --save-alpha slope (or another of these) keeps it for this net and oracle"
            shown += fit.change(saved) if saved else [keeps]
        if asked.calibration == "fitted" or given["save_calibration"]:
            used = store.calibration(asked)
            shown += ["", f"calibration {used.origin}", *used.calibration.lines()]
        if given["ladder"]:
            from valuerepair.report.ladder import screen_table

            ladder = screen_table(store, asked)
            figures["ladder"] = ladder.as_dict()
            shown += ["", *ladder.lines()]
    click.echo(dumps(figures, indent=2) if given["json"] else "\n".join(shown))
