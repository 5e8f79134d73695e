"""`vr stats`: what is in a store."""

from __future__ import annotations

import click

from valuerepair.store import DEFAULT_PATH


@click.command()
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--net", help="Net: its name, file or SHA-256.  [default: that of the most scored positions]")
@click.option("--oracle", "--deep", help="Deep search: its label or digest.  [default: that of the most]")
@click.option("--alpha", default="auto", show_default=True, help="Centipawns of the logistic to Q.")
@click.option("--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Deep Q's source.")
@click.option("--threshold", type=float, default=0.55, show_default=True, help="For the rates by phase, side, sign.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    db: str, net: str | None, oracle: str | None, alpha: str, q_from: str, threshold: float, as_json: bool
) -> None:
    """Say what is in the store: positions, nets, oracles, candidate rates with 95 % intervals, and what it cost.

    Of the candidates at the threshold also: which labels they have (vr label), how often the second look says that the
    search was right (vr confirm), how diverse they are, and whose values the games played from them (vr selfplay) agree
    with.

    \b
    Example:
      vr stats
      vr stats --threshold 0.8 --json
    """
    import json

    from valuerepair.report import stats
    from valuerepair.report.stats import stats_lines, store_figures
    from valuerepair.store.queries import alpha_option, q_from_option
    from valuerepair.store.store import Store

    number, source, known = alpha_option(alpha), q_from_option(q_from), {}
    with Store.open(db) as store:
        figures = store_figures(store, net, oracle, number, source, threshold)
        if figures["scored"] is not None:
            known = stats.sections(store, store.candidates(threshold, net, oracle, number, source), threshold)
    if as_json:
        click.echo(json.dumps({**figures, **known}, indent=2))
    else:
        click.echo("\n".join([*stats_lines(figures), *(stats.section_lines(known) if known else [])]))
