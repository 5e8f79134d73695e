"""`vr bench`: speed as ratios."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("names", nargs=-1)
@click.option("--archive", default="data/games.pgn.zst", show_default=True, help="A .pgn.zst archive to measure on.")
@click.option("--net", default=None, help="Net to measure with.  [default: maia-1900]")
@click.option("--seconds", default=5.0, show_default=True, help="Roughly how long one measurement takes.")
@click.option("--list", "list_only", is_flag=True, help="Only name the benchmarks.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line a benchmark, with every repeat.")
def command(
    names: tuple[str, ...], archive: str, net: str | None, seconds: float, list_only: bool, as_json: bool
) -> None:
    """Measure speed against the alternatives: both sides in one run, five repeats, the median of the ratios.

    Absolute rates depend on the machine and its load; the ratios are what docs/performance.md quotes.

    \b
    Example:
      vr bench --archive otb-masters.pgn.zst
      vr bench net-lc0 --net maia-1100.pb.gz
    """
    from pathlib import Path

    from valuerepair.bench.catalogue import benches
    from valuerepair.bench.ratio import BenchData
    from valuerepair.errors import UsageError

    catalogue = benches()
    if list_only:
        click.echo("\n".join(catalogue))
        return
    if unknown := [name for name in names if name not in catalogue]:
        raise UsageError(f"no benchmark {unknown[0]!r}; there are: {', '.join(catalogue)}")
    if not Path(archive).is_file():
        raise UsageError(f"{archive}: no such archive; name one with --archive FILE.pgn.zst")
    if not as_json:
        click.echo(f"{'benchmark':<24} {'ours':>12} {'other':>12} {'ratio':>8} {'spread':>15} {'goal':>7}  against")
    for name in names or catalogue:
        result = catalogue[name](BenchData(archive, net, seconds))
        low, high = result.spread
        if as_json:
            row: dict[str, object] = {"name": name, "unit": result.unit, "against": result.against, "ours": result.ours}
            row |= {"theirs": result.theirs, "ratio": result.ratio, "goal": result.target, "met": result.met}
            row |= {"floor": result.floor} if result.floor else {}
            click.echo(json.dumps(row))
            continue
        middle = len(result.ours) // 2
        ours, theirs = sorted(result.ours)[middle], sorted(result.theirs)[middle]
        verdict = f", goal {result.floor:,.0f}" if result.floor else ""
        verdict += "" if result.met else "  MISSED"
        click.echo(
            f"{name:<24} {ours:>12,.0f} {theirs:>12,.0f} {result.ratio:>8.2f} {low:>7.2f}–{high:<7.2f} "
            f"{result.target:>7g}  {result.against} ({result.unit}/s){verdict}"
        )
