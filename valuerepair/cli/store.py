"""`vr store`: checks a store, or merges several into one."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import DB, FILE, JSON, JSON_LINES
from valuerepair.cli.printing import is_quiet, print_one, print_result
from valuerepair.errors import ValueRepairError


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
    rows. The exit code is 1 if anything is wrong.

    \b
    Example:
      vr store check
      vr store check --db all.db --json
    """
    done = wrong = 0
    for check in vr.check_store(db, quiet=is_quiet()):
        done, wrong = done + 1, wrong + bool(check.wrong)
        if json or check.wrong or not is_quiet():
            print_one(check, json)
    if wrong:
        raise ValueRepairError(f"{db}: {wrong} of {done} checks found something wrong; repair it, or mine again")


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
    print_result(
        lambda: vr.merge_stores(stores, output, into=into, strict=strict, quiet=is_quiet()), json, of_files=True
    )
