"""The benchmarks by name, and the program that runs them: `python -m benchmarks [NAMES]...`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import click

from benchmarks import archives, board, nets, recorded, search, selfplay, stockfish, training
from benchmarks.comparison import BenchData, Comparison
from valuerepair.errors import ValueRepairError

# In the order of the pipeline.
BENCHES: dict[str, Callable[[BenchData], Comparison]] = {
    "archive-sample": archives.games_against_python_chess,
    "legal-moves": board.legal_moves,
    "net-session": nets.bench_session,
    "net-lc0": nets.bench_lc0,
    "search-session": search.bench_session,
    "search-lc0": search.bench_lc0,
    "search-trees": search.bench_trees,
    "engines": stockfish.judge_alone,
    "whole-run": stockfish.whole_run,
    "cluster": stockfish.two_workers,
    "recorded-chunks": recorded.chunks,
    "recorded-rows": recorded.rows,
    "recorded-dump": recorded.dump,
    "selfplay": selfplay.bench_selfplay,
    "training-steps": training.steps,
}


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("names", nargs=-1, metavar="[NAMES]...", type=click.Choice(list(BENCHES)))
@click.option(
    "--archive",
    type=click.Path(exists=True, dir_okay=False),
    default="data/games.pgn.zst",
    show_default=True,
    help="A .pgn.zst archive to measure on.",
)
@click.option("--net", default=None, help="Net to measure with.  [default: maia-1900]")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="Roughly how long one measurement takes.",
)
@click.option("--list", "list_only", is_flag=True, help="Only name the benchmarks.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line a benchmark, with every repeat.")
def command(
    names: tuple[str, ...], archive: str, net: str | None, seconds: float, list_only: bool, as_json: bool
) -> None:
    """Measure speed against the alternatives: both sides in one run, five repeats, the median of the ratios.

    Absolute rates depend on the machine and its load; the ratios are what docs/performance.md quotes.

    \b
    Example:
      python -m benchmarks --archive otb-masters.pgn.zst
      python -m benchmarks net-lc0 --net maia-1100.pb.gz
    """
    if list_only:
        click.echo("\n".join(BENCHES))
        return
    if not as_json:
        click.echo(f"{'benchmark':<24} {'ours':>12} {'other':>12} {'ratio':>8} {'spread':>15} {'goal':>7}  against")
    for name in names or BENCHES:
        try:
            result = BENCHES[name](BenchData(archive, net, seconds))
        except (ValueRepairError, OSError) as error:
            click.echo(f"{name}: {error}", err=True)
            sys.exit(getattr(error, "exit_code", 1))
        click.echo(_as_json(name, result) if as_json else _as_text(name, result))


def _as_json(name: str, result: Comparison) -> str:
    row: dict[str, object] = {"name": name, "unit": result.unit, "against": result.against, "ours": result.ours}
    row |= {"theirs": result.theirs, "ratio": result.ratio, "goal": result.target, "met": result.met}
    return json.dumps(row | ({"floor": result.floor} if result.floor else {}))


def _as_text(name: str, result: Comparison) -> str:
    middle = len(result.ours) // 2
    ours, theirs = sorted(result.ours)[middle], sorted(result.theirs)[middle]
    low, high = result.spread
    verdict = f", goal {result.floor:,.0f}" if result.floor else ""
    verdict += "" if result.met else "  MISSED"
    return (
        f"{name:<24} {ours:>12,.0f} {theirs:>12,.0f} {result.ratio:>8.2f} {low:>7.2f}–{high:<7.2f} "
        f"{result.target:>7g}  {result.against} ({result.unit}/s){verdict}"
    )


if __name__ == "__main__":
    command(prog_name="python -m benchmarks")
