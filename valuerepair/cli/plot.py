"""`vr plot`: net Q against deep Q."""

from __future__ import annotations

import click

from valuerepair.store import DEFAULT_PATH


@click.command()
@click.option("-o", "--output", default="plot.png", show_default=True, help="The file: .png, .svg or .pdf.")
@click.option("--threshold", type=float, default=0.55, show_default=True, help="|net Q - deep Q| of a candidate.")
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--net", help="Net: its name, file or SHA-256.  [default: that of the most scored positions]")
@click.option("--oracle", "--deep", help="Deep search: its label or digest.  [default: that of the most]")
@click.option("--alpha", default="auto", show_default=True, help="Centipawns of the logistic to Q.")
@click.option("--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Deep Q's source.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def command(
    output: str,
    threshold: float,
    db: str,
    net: str | None,
    oracle: str | None,
    alpha: str,
    q_from: str,
    quiet: bool,
) -> None:
    """Plot net Q against deep Q: every scored position, the candidates in colour, and a lowess line.

    The grey band holds the positions that net and deep search agree on within the threshold. Where the line leaves the
    diagonal, the net errs in one direction.

    \b
    Example:
      vr plot
      vr plot -o candidates.svg --threshold 0.8
    """
    from valuerepair.store import Store
    from valuerepair.store.queries import alpha_option, check_threshold, q_from_option
    from valuerepair.views import scatter, style

    # What is wrong with the command line is said before a large store is read.
    style.format_of(output)
    check_threshold(threshold)
    with Store.open(db) as store:
        frame = store.frame(net, oracle, alpha_option(alpha), q_from_option(q_from), text=False)
    counts = scatter.plot(frame, threshold, output)
    if not quiet:
        chosen = frame.attrs["alpha"]
        scale = "Q from WDL" if q_from == "wdl" else f"alpha {chosen['value']:.0f} ({chosen['origin']})"
        click.echo(
            f"{output}: {counts.positions:,} positions, {counts.candidates:,} candidates at {threshold:g}; {scale}"
        )
