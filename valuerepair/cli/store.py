"""`vr store`: is what a store says true, and several stores made into one."""

from __future__ import annotations

import click

from valuerepair.cli.options import DB, FILE, JSON, JSON_LINES
from valuerepair.cli.verbosity import is_quiet


@click.group()
def command() -> None:
    """Check a store, or merge several into one.

    \b
    Example:
      vr store check
      vr store merge shard-1.db shard-2.db -o all.db
    """


@command.command()
@DB
@JSON_LINES
def check(db: str, json: bool) -> None:
    """Check a store: the file and every row.

    Prints each check's name, rows checked, rows wrong, and an example. Keys, histories and moves are replayed for all
    rows. Exit code 1 when anything is wrong.

    \b
    Example:
      vr store check
      vr store check --db all.db --json
    """
    from dataclasses import asdict
    from json import dumps

    from valuerepair.chess.progress import Progress
    from valuerepair.errors import ValueRepairError
    from valuerepair.store.check import check_store, line
    from valuerepair.store.store import Store

    wrong = done = 0
    with Store.open(db, is_raw=True) as store, Progress("checking", None, "rows", quiet=is_quiet()) as progress:
        for found in check_store(store, progress):
            done, wrong = done + 1, wrong + bool(found.wrong)
            if json:
                click.echo(dumps(asdict(found)))
            elif found.wrong or not is_quiet():
                click.echo(line(found))
    if wrong:
        raise ValueRepairError(f"{db}: {wrong} of {done} checks found something wrong; mend it, or mine again")


@command.command()
@click.argument("stores", nargs=-1, type=FILE, required=True)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="The new store.  [default: merged.db]")
@click.option("--into", type=FILE, metavar="FILE", help="An existing store to add to instead.")
@click.option("--strict", is_flag=True, help="Fail, and write nothing, if stores contradict each other.")
@JSON
def merge(stores: tuple[str, ...], output: str | None, into: str | None, strict: bool, json: bool) -> None:
    """Merge stores, for example those of shards, into one.

    Positions, runs, nets and searches are identified by their content, so merging a store twice changes nothing, and
    the order does not matter. Contradictions between stores are reported, and a rule decides (docs/methods/plots.md,
    Merging). The stores themselves are not changed. The result appears whole or not at all.

    \b
    Example:
      vr store merge shard-1.db shard-2.db shard-3.db -o all.db
      vr store merge new.db --into all.db
    """
    from dataclasses import asdict
    from json import dumps

    from valuerepair.chess.progress import Progress
    from valuerepair.errors import UsageError
    from valuerepair.store.merge import lines
    from valuerepair.store.merge import merge as merge_stores

    if output is not None and into is not None:
        raise UsageError("--output makes a new store and --into adds to one: give one of them")
    target = "merged.db" if output is None and into is None else output
    with Progress("merging", None, "rows", quiet=is_quiet()) as progress:
        merged = merge_stores(stores, output=target, into=into, strict=strict, progress=progress)
    if json:
        click.echo(dumps(asdict(merged), indent=2))
    elif not is_quiet():
        click.echo("\n".join(lines(merged)))
