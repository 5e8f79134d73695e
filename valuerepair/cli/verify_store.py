"""`vr verify-store`: is what a store says true."""

from __future__ import annotations

import click

from valuerepair.cli.verbosity import is_quiet, say
from valuerepair.store import DEFAULT_PATH


@click.command()
@click.option("--db", default=DEFAULT_PATH, show_default=True, help="The store.")
@click.option("--sample", type=click.IntRange(0), default=20, show_default=True, help="Values a net and an oracle.")
@click.option("--seed", default=0, show_default=True, help="Another seed draws another sample.")
@click.option("--net", "nets", multiple=True, help="File of a net that is not known by name; may be repeated.")
@click.option("--deep", multiple=True, help="Engine as for vr mine, where it is not found by itself; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a check and line.")
def command(db: str, sample: int, seed: int, nets: tuple[str, ...], deep: tuple[str, ...], as_json: bool) -> None:
    """Check a store: the file, every row, and a sample of values computed again.

    Says name, rows checked, rows wrong, and an example. Keys, histories and moves are replayed for all rows. Of values
    a sample is computed again, by the nets and engines that are the same to the byte; what cannot be had is counted as
    not checked, with the reason. Exit code 1 when anything is wrong.

    \b
    Example:
      vr verify-store
      vr verify-store --db all.db --sample 200 --net my-net.pb.gz
    """
    import json

    from valuerepair.chess.progress import Progress
    from valuerepair.errors import ValueRepairError
    from valuerepair.runs.check_store import as_dict, line, verify
    from valuerepair.store.store import Store

    wrong = done = 0
    with Store.open(db) as store, Progress("verifying", None, "rows", quiet=is_quiet()) as progress:
        for check in verify(store, sample=sample, seed=seed, nets=nets, deep=deep, progress=progress, say=say):
            done, wrong = done + 1, wrong + bool(check.wrong)
            if as_json:
                click.echo(json.dumps(as_dict(check)))
            elif check.wrong or not is_quiet():
                click.echo(line(check))
    if wrong:
        raise ValueRepairError(f"{db}: {wrong} of {done} checks found something wrong; mend it, or mine again")
