"""`vr fit`: constants fitted to a store's scores."""

from __future__ import annotations

import click

from valuerepair.store import DEFAULT_PATH


@click.group()
def command() -> None:
    """Fit constants to what a store has: alpha, the logistic from centipawns to Q; the cuts of the screening ladder.

    \b
    Example:
      vr fit alpha --save
      vr fit screen
    """


@command.command()
@click.option("--norm", type=click.Choice(["l1", "l2"]), default="l1", show_default=True, help="The fit to save.")
@click.option("--save", "--store", is_flag=True, help="Keep it: later commands use it for this net and oracle.")
@click.option("--threshold", type=float, default=0.55, show_default=True, help="For the candidate rates.")
@click.option("--bootstrap", type=click.IntRange(0), default=200, show_default=True, help="Resamples; 0 for none.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the resamples.")
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--net", help="Net: its name, file or SHA-256.  [default: that of the most scored positions]")
@click.option("--oracle", "--deep", help="Deep search: its label or digest.  [default: that of the most]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def alpha(
    norm: str,
    save: bool,
    threshold: float,
    bootstrap: int,
    seed: int,
    db: str,
    net: str | None,
    oracle: str | None,
    as_json: bool,
) -> None:
    """Fit alpha so that Q = 2 / (1 + exp(-cp / alpha)) - 1 of the deep scores is nearest to the net's Q.

    Shows the fit in both norms (l1: mean distance, robust to misjudged positions; l2: root mean square) with 95 %
    bootstrap intervals, and how many positions are candidates at each, beside the default of 170.

    \b
    Example:
      vr fit alpha
      vr fit alpha --norm l2 --save
    """
    import json

    from valuerepair.report.alpha_table import NORMS, alpha_table
    from valuerepair.store.queries import check_threshold
    from valuerepair.store.store import Store

    check_threshold(threshold)
    with Store.open(db, write=save) as store:
        table = alpha_table(store, net, oracle, threshold, bootstrap, seed)
        chosen = NORMS[0] if norm == NORMS[0] else NORMS[1]
        fit = table.fits[chosen]
        if save:
            store.set_alpha(*store.pick(net, oracle), table.saveable(chosen))
    if as_json:
        click.echo(json.dumps({**table.as_dict(), "saved": norm if save else None}, indent=2))
        return
    click.echo("\n".join(table.lines()))
    if save:
        click.echo(f"saved: alpha {fit.alpha:.0f} ({norm}) for this net and oracle")
    else:
        click.echo("not saved; vr fit alpha --save keeps it for this net and oracle")


@command.command()
@click.option("--threshold", type=float, default=0.55, show_default=True, help="Of a candidate.")
@click.option("--recall", type=float, default=0.98, show_default=True, help="Share of candidates to keep.")
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--net", help="Net: its name, file or SHA-256.  [default: that of the most scored positions]")
@click.option("--oracle", "--deep", help="Deep search: its label or digest.  [default: that of the most]")
@click.option("--alpha", "centipawns", default="auto", show_default=True, help="Centipawns of the logistic to Q.")
@click.option("--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Deep Q's source.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def screen(
    threshold: float,
    recall: float,
    db: str,
    net: str | None,
    oracle: str | None,
    centipawns: str,
    q_from: str,
    as_json: bool,
) -> None:
    """Show the screening ladder: its cuts, and nodes against recall, cross-validated on what was searched in full.

    vr mine fits the ladder by itself, and again as positions come; this shows what it has learned.

    \b
    Example:
      vr fit screen
      vr fit screen --threshold 0.4 --recall 0.95
    """
    import json

    from valuerepair.report.ladder import screen_table
    from valuerepair.screening.model import ScreenOptions
    from valuerepair.store.queries import alpha_option, check_threshold, q_from_option
    from valuerepair.store.store import Store

    check_threshold(threshold)
    ScreenOptions(recall)
    chosen = alpha_option(centipawns), q_from_option(q_from)
    with Store.open(db) as store:
        table = screen_table(store, net, oracle, *chosen, threshold, recall)
    click.echo(json.dumps(table.as_dict(), indent=2) if as_json else "\n".join(table.lines()))
