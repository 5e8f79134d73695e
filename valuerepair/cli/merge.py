"""`vr merge`: stores into one."""

from __future__ import annotations

import click

from valuerepair.cli.verbosity import is_quiet, say


@click.command()
@click.argument("stores", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="The new store.  [default: merged.db]")
@click.option("--into", metavar="FILE", help="A store that is there, to add to in its place.")
@click.option("--strict", is_flag=True, help="Stores that contradict each other are an error, and nothing is kept.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(stores: tuple[str, ...], output: str | None, into: str | None, strict: bool, as_json: bool) -> None:
    """Merge stores, those of shards say, into one.

    Positions, runs, nets and searches are known by what they are, so merging a store twice changes nothing, and the
    order does not matter. Where stores contradict each other it is said, and a rule decides (docs/methods.md, Merging).
    The stores themselves are not written, whatever their version. The result is there whole, or not at all.

    \b
    Example:
      vr merge shard-1.db shard-2.db shard-3.db -o all.db
      vr merge new.db --into all.db
    """
    import json

    from valuerepair.chess.progress import Progress
    from valuerepair.errors import UsageError
    from valuerepair.store.merge import as_dict, lines, merge

    if output is not None and into is not None:
        raise UsageError("--output makes a new store and --into adds to one: give one of them")
    target = "merged.db" if output is None and into is None else output
    with Progress("merging", None, "rows", quiet=is_quiet()) as progress:
        merged = merge(stores, output=target, into=into, strict=strict, progress=progress, say=say)
    if as_json:
        click.echo(json.dumps(as_dict(merged), indent=2))
    elif not is_quiet():
        click.echo("\n".join(lines(merged)))
