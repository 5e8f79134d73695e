"""`vr merge`: several stores into one."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import FILE
from valuerepair.cli.printing import is_quiet, print_result


@click.command()
@click.argument("stores", nargs=-1, type=FILE, required=True)
@click.option(
    "-o", "--output", type=FILE, default="merged.db", metavar="FILE", help="The new store, or one that is added to."
)
def command(stores: tuple[str, ...], output: str) -> None:
    """Merge stores, for example those of several machines, into one.

    Positions, runs, nets and searches are identified by their content, so merging a store twice changes nothing, and
    the order does not matter. Contradictions between stores are counted, and a rule decides (docs/methods.md,
    Merging). The stores themselves are not changed. The result appears whole or not at all.

    \b
    Example:
      vr merge shard-1.db shard-2.db shard-3.db -o all.db
      vr merge new.db -o all.db
    """
    print_result(lambda: vr.merge_stores(stores, output, quiet=is_quiet()), of_files=True)
