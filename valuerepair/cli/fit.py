"""`vr fit`: constants fitted to a store's scores."""

from __future__ import annotations

import click

from valuerepair.store import DEFAULT_PATH


@click.group()
def command() -> None:
    """Fit alpha, the logistic from centipawns to Q, to what a store has.

    \b
    Example:
      vr fit alpha --save
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

    from valuerepair.store import Store
    from valuerepair.store.queries import check_threshold
    from valuerepair.views.alpha_table import NORMS, alpha_table

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
