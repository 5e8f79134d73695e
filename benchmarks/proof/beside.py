"""Weights to draw positions by, so many of them from beside the games: `python -m benchmarks.proof.beside`.

A store of ordinary positions and one of `vr mine --aside`, merged: of what is drawn a given share is of the latter,
candidates and others as they are in each, or candidates more often.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.proof import tables
from benchmarks.proof.arms import ALPHA
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.judge.split import TRAIN, read_split
from valuerepair.question import Question
from valuerepair.store.store import Store


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--db", required=True, type=click.Path(exists=True, dir_okay=False), help="Both stores, merged.")
@click.option("--games", required=True, type=click.Path(exists=True, dir_okay=False), help="That of the games.")
@click.option("--split", required=True, type=click.Path(exists=True, dir_okay=False), help="What vr split wrote.")
@click.option("--net", default="maia-1900", show_default=True, help="The net to repair.")
@click.option("--share", default=0.5, show_default=True, help="Of what lies beside the games.")
@click.option("--candidates", default=1.0, show_default=True, help="So many times as often as others.")
@click.option("--threshold", default=0.55, show_default=True, help="Of these, beyond calibration.")
@click.option("--alpha", default=ALPHA, show_default=True, help="The same.")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="A .parquet.")
def command(db: str, games: str, split: str, share: float, candidates: float, output: Path, **asked: Any) -> None:
    """Write weights for vr train --draw: this share of what is drawn lies beside the games; of this share more, where
    candidates, of which there are more beside them, come more often."""
    import pandas as pd

    question = Question(**asked, calibration="fitted", expanded="searched")
    with Store.open(games) as store:
        played = store.frame(question, text=False, only=("key",))["key"]
    with Store.open(db) as store:
        frame = store.frame(question, text=False, only=("position_id", "key", "disagreement"))
        frame = frame[frame["disagreement"].notna()]
        frame = frame[read_split(split).parts(store, frame["position_id"].to_numpy(np.int64)) == TRAIN]
    beside = ~frame["key"].isin(played)
    if beside.all() or not beside.any():
        raise ValueRepairError(f"{db}: has positions of one kind alone, beside the games or of {games}")
    weight = np.where(beside, share / beside.sum(), (1 - share) / (~beside).sum())
    weight *= np.where(frame["disagreement"].abs() >= question.threshold, candidates, 1.0)
    with written_whole(output, None) as partial:
        pd.DataFrame({"position_id": frame["position_id"], "weight": weight}).to_parquet(partial, index=False)
    click.echo(f"{output}: {(~beside).sum():,} positions of games, {beside.sum():,} beside them")


if __name__ == "__main__":
    tables.run(command, "beside")
