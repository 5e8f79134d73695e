"""What the values of last rungs are worth to training: their error, and nets that learned with and without them.

    vr mine GAMES --positions 5000 --deep stockfish:nodes=100000 --screen off --db full.db
    vr mine GAMES --positions 5000 --deep stockfish:nodes=100000 --db screened.db
    python -m benchmarks.last_rungs full.db screened.db FOLDER --only value

Both stores have the same positions. A third of the games is held out, and every net is judged by their full searches.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import valuerepair as vr
from valuerepair.intervals import bootstrap
from valuerepair.judge.compare import Remeasured
from valuerepair.judge.split import Split, choose_split
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training.drawing import StoreDraw
from valuerepair.training.options import TrainOptions

QUESTION = Question(net="maia-1900", alpha=170.0)
SEEDS = (0, 1, 2)


@click.command()
@click.argument("full", type=click.Path(exists=True, path_type=Path))
@click.argument("screened", type=click.Path(exists=True, path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--only", default="value", help="As in vr train.")
@click.option("--steps", type=int, multiple=True, help="Numbers of steps to try beside the default.")
def main(full: Path, screened: Path, folder: Path, only: str, steps: tuple[int, ...]) -> None:
    """Prints the errors by rung, then for each number of steps how far the nets are from full searches."""
    folder.mkdir(parents=True, exist_ok=True)
    click.echo(errors_by_rung(full, screened).to_string(float_format="%.4f"))
    with Store.open(full) as store:
        split = choose_split(store, games=1 / 3, families=0)
    stores = {"with rungs": screened, "without": without_rungs(screened, folder), "full": full}
    for path in stores.values():
        with Store.open(path) as store:
            draw = StoreDraw(store, QUESTION, holdout=0.1, split=split)
        click.echo(
            f"{path.name}: {len(draw.rows()):,} positions to train on, {len(draw.held_out):,} to choose the step by"
        )
    for count in (None, *steps):
        nets = [
            trained(path, folder / f"{path.stem}-{only}-{count}-{seed}.pb.gz", split, only=only, steps=count, seed=seed)
            for path in stores.values()
            for seed in SEEDS
        ]
        remeasured = vr.remeasure(full, ["maia-1900", *map(str, nets)], QUESTION, split=split)
        click.echo(f"--only {only}, steps {count or 'by default'}; {remeasured.positions:,} positions held out")
        for line in lines(remeasured, list(stores)):
            click.echo(line)


def errors_by_rung(full: Path, screened: Path) -> pd.DataFrame:
    """Of the positions that each rung cut, and of those searched in full by way of all rungs: mean |Q - Q of the full
    search|, its square, Q's excess away from 0 (negative: the rung's Q is nearer to 0), and mean |net Q - full Q|."""
    with Store.open(full) as one, Store.open(screened) as other:
        truth = one.frame(QUESTION, text=False, only=("key", "deep_q")).set_index("key")["deep_q"]
        rows = other.frame(QUESTION, text=False, only=("key", "net_q", "deep_q", "rung"), cut=True)
    rows = rows.assign(full_q=rows["key"].map(truth)).dropna(subset=["deep_q", "full_q"])
    off = rows["deep_q"] - rows["full_q"]
    rows = rows.assign(
        error=off.abs(),
        squared=off**2,
        excess=off * np.sign(rows["full_q"]),
        net=(rows["net_q"] - rows["full_q"]).abs(),
    )
    rung = rows["rung"].fillna(np.inf)
    table = pd.concat([rows.assign(by=rung), rows[rows["rung"].notna()].assign(by=np.nan)])
    groups = table.groupby("by", dropna=False)
    means: pd.DataFrame = groups[["error", "squared", "excess", "net"]].mean().assign(positions=groups.size())
    return means


def without_rungs(screened: Path, folder: Path) -> Path:
    """The store as a training sees it that knows only what was searched in full."""
    copy = Path(shutil.copy(screened, folder / "without-rungs.db"))
    with sqlite3.connect(copy) as sql:
        sql.execute("DELETE FROM deep_values WHERE stage GLOB '[0-9]*'")
    return copy


def trained(store: Path, output: Path, split: Split, **options: Any) -> Path:
    """The net that learned from a store what the split leaves to train on."""
    if not output.exists():
        vr.train("maia-1900", output, store=store, question=QUESTION, options=TrainOptions(**options), split=split)
    return output


def lines(remeasured: Remeasured, names: list[str]) -> list[str]:
    """The nets of each store together, and their squared error less that of the first store's, over resampled games."""
    scores = remeasured.scores
    squared = scores.disagreement**2
    by_store = squared[1:].reshape(len(names), len(SEEDS), -1).mean(1)
    moved = bootstrap((by_store - by_store[0]).T, scores.weight, scores.game_id)
    texts = [
        f"  {'as it is':12} mean |dQ| {np.abs(scores.disagreement[0]).mean():.4f}, squared {squared[0].mean():.5f}"
    ]
    for i, (name, change) in enumerate(zip(names, moved, strict=True)):
        mine = np.abs(scores.disagreement[1 + i * len(SEEDS) : 1 + (i + 1) * len(SEEDS)])
        texts.append(
            f"  {name:12} mean |dQ| {mine.mean():.4f}, squared {by_store[i].mean():.5f}: "
            f"{change.difference:+.5f} ({change.low:+.5f} to {change.high:+.5f})"
        )
    return texts


if __name__ == "__main__":
    main()
