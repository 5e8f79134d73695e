"""`vr report`: one HTML file to look at a store with."""

from __future__ import annotations

import click

from valuerepair.cli.verbosity import is_quiet
from valuerepair.store import DEFAULT_PATH


@click.command()
@click.option("-o", "--output", default="report.html", show_default=True, help="The file.")
@click.option("--threshold", type=float, default=0.55, show_default=True, help="|net Q - deep Q| of a candidate.")
@click.option("--points", default=100_000, show_default=True, help="At most about so many positions one by one.")
@click.option("--seed", default=0, show_default=True, help="Of the sample, where there are more positions.")
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--net", help="Net: its name, file or SHA-256.  [default: that of the most scored positions]")
@click.option("--oracle", "--deep", help="Deep search: its label or digest.  [default: that of the most]")
@click.option("--alpha", default="auto", show_default=True, help="Centipawns of the logistic to Q.")
@click.option("--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Deep Q's source.")
def command(
    output: str,
    threshold: float,
    points: int,
    seed: int,
    db: str,
    net: str | None,
    oracle: str | None,
    alpha: str,
    q_from: str,
) -> None:
    """Write a report on a store: one HTML file that needs no network, for a browser.

    Charts, filters, and every point's board with the moves and values of net and search; what is selected downloads as
    a book. Of a store with more positions than --points it shows all candidates and a sample of the rest one by one,
    and says so.

    \b
    Example:
      vr report
      vr report -o maia.html --net maia-1900 --threshold 0.8
    """
    from valuerepair.chess.progress import Progress
    from valuerepair.report import page
    from valuerepair.store.queries import alpha_option, q_from_option
    from valuerepair.store.store import Store

    with Store.open(db) as store, Progress("Report", 100, "%", quiet=is_quiet()) as progress:

        def show(step: str, done: float) -> None:
            progress.note(step)
            progress.advance(round(100 * done) - progress.done)

        written = page.write(
            store,
            output,
            net=net,
            oracle=oracle,
            alpha=alpha_option(alpha),
            q_from=q_from_option(q_from),
            threshold=threshold,
            points=points,
            seed=seed,
            on_step=show,
        )
        progress.advance(100 - progress.done)
    if not is_quiet():
        click.echo(
            f"{output}: {written.positions:,} positions, {written.shown:,} of them one by one, "
            f"{written.candidates:,} candidates at {threshold:g}; {written.size / 1e6:.1f} MB"
        )
