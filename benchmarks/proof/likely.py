"""Weights to draw positions by, from what a net can see of them: `python -m benchmarks.proof.likely`.

Candidates are chosen by what the judge said. More of them than there are shift what a net expects of positions that
look alike. Here a position is weighed by the chance that one like it is a candidate: hard kinds of positions come more
often, and among them candidates and others as they are in the archive (covariate shift alone: H. Shimodaira, Journal of
Statistical Planning and Inference 90, 227, 2000).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.proof import tables
from benchmarks.proof.analysis import PRIMARY_THRESHOLD
from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.files import written_whole
from valuerepair.judge.split import TRAIN, keys_of_games, read_split
from valuerepair.question import Question
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

# No position counts more than so many times the mean.
MOST = 4.0
_PIECES = {"q": 9, "r": 5, "b": 3, "n": 3, "p": 1}
# Splines of what the net says and of the material, and where they go together.
_FORMULA = (
    "bs(net_q, df=8) + bs(net_d, df=6) + bs(net_entropy, df=6) + bs(ply, df=5) + bs(p, df=4) + bs(balance, df=6)"
    " + C(q) + r + minor + balance:net_q + even:net_entropy + even:C(q) + net_d:net_entropy"
)
_FOLDS = 2


def seen(frame: pd.DataFrame) -> pd.DataFrame:
    """What a net can see of the positions of a store's frame: its own values, the ply, pieces of a kind, and the
    material from the side to move, in pawns."""
    placed = frame["fen"].str.split(" ").str[0]
    counts = {piece: placed.str.count(f"[{piece}{piece.upper()}]") for piece in _PIECES}
    white = sum(worth * (placed.str.count(k.upper()) - placed.str.count(k)) for k, worth in _PIECES.items())
    mine = white * np.where(frame["fen"].str.contains(" w "), 1, -1)
    shown: pd.DataFrame = frame[["net_q", "net_d", "net_entropy"]].assign(
        ply=frame["ply"].clip(upper=120),
        q=counts["q"].clip(upper=3),
        r=counts["r"],
        minor=counts["b"] + counts["n"],
        p=counts["p"],
        balance=mine.clip(-9, 9),
        even=frame["net_q"].abs(),
    )
    return shown


def chances(shown: pd.DataFrame, candidate: Flags, game: Ids) -> Floats:
    """[n] the chance of each position to be a candidate, by a logistic regression on the other half of the games."""
    from patsy import dmatrix

    x = np.asarray(dmatrix(_FORMULA, shown))
    fold = game % _FOLDS
    found = np.empty(len(x))
    for k in range(_FOLDS):
        weights = _logistic(x[fold != k], candidate[fold != k].astype(np.float64))
        found[fold == k] = 1 / (1 + np.exp(-x[fold == k] @ weights))
    return found


def ranked(chance: Floats, candidate: Flags) -> float:
    """Of pairs of a candidate and another position, the share in which the candidate's chance is the higher one."""
    from scipy.stats import rankdata

    many = int(candidate.sum())
    above = rankdata(chance)[candidate].sum() - many * (many + 1) / 2
    return float(above / (many * (len(chance) - many)))


def _logistic(x: NDArray[Any], y: Floats, ridge: float = 1e-3) -> Floats:
    """Coefficients, by Newton's method."""
    found = np.zeros(x.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-x @ found))
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + ridge * np.eye(len(found)), x.T @ (y - p))
        found = found + step
        if np.abs(step).max() < 1e-6:
            break
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--db", required=True, type=click.Path(exists=True, dir_okay=False), help="The store.")
@click.option("--split", required=True, type=click.Path(exists=True, dir_okay=False), help="What vr split wrote.")
@click.option("--net", default="maia-1900", show_default=True, help="The net to repair.")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="A .parquet.")
def command(db: str, split: str, net: str, output: Path) -> None:
    """Write weights for vr train --draw: positions that look like candidates come up to four times as often."""
    import pandas as pd

    question = Question(net=net, threshold=PRIMARY_THRESHOLD, calibration="fitted")
    wanted = ("position_id", "game_id", "fen", "ply", "net_q", "net_d", "net_entropy", "disagreement", "weight")
    with Store.open(db) as store:
        frame = store.frame(question, only=wanted)
        frame = frame[frame["disagreement"].notna() & (frame["weight"] > 0)]
        frame = frame[read_split(split).parts(store, frame["position_id"].to_numpy(np.int64)) == TRAIN]
        game = keys_of_games(store, frame["game_id"].to_numpy(np.int64)).view(np.int64)
    candidate = (frame["disagreement"].abs() >= PRIMARY_THRESHOLD).to_numpy()
    chance = chances(seen(frame), candidate, game)
    weight = np.minimum(chance / chance.mean(), MOST)
    with written_whole(output, None) as partial:
        pd.DataFrame({"position_id": frame["position_id"], "weight": weight}).to_parquet(partial, index=False)
    share, better = np.average(candidate, weights=weight), ranked(chance, candidate)
    click.echo(
        f"{output}: {len(frame):,} positions; {100 * candidate.mean():.2f} % are candidates, {100 * share:.2f} % of "
        f"what is drawn; a candidate's chance is the higher one in {100 * better:.1f} % of pairs"
    )


if __name__ == "__main__":
    tables.run(command, "likely")
