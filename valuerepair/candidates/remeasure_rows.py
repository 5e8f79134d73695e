"""The positions of a comparison that any net is wrong on, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from valuerepair.candidates.asked_nets import AskedNet, AskedOracle, words_for
from valuerepair.candidates.remeasure import CATEGORIES, Remeasured

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store

_COLUMNS = ("position_id", "fen", "side", "phase", "source", "game", "ply", "deep_q", "deep_best", "pv")


def wrong_positions(store: Store, nets: Sequence[AskedNet], oracle: AskedOracle, found: Remeasured) -> pd.DataFrame:
    """One row for each position that any net is wrong on, by id; values from the side to move.

    Beside what the store says of the position: ``weight``, and for each net, numbered as asked from 1, ``net_N`` (its
    name) and ``disagreement_N``; from the second on ``category_N``, against the first.
    """
    import pandas as pd

    frames = [
        store.candidates(found.threshold, words_for(store, net, oracle), oracle.digest, found.alpha.value, _q(found))
        for net in nets
    ]
    known = pd.concat([frame[list(_COLUMNS)] for frame in frames])
    known = known.drop_duplicates("position_id").set_index("position_id")
    scores = found.scores
    wrong = np.abs(scores.disagreement) >= found.threshold
    rows = np.flatnonzero(wrong.any(0))
    table = known.loc[scores.position_id[rows]].reset_index().assign(weight=scores.weight[rows])
    names = np.array(CATEGORIES, object)
    for i, net in enumerate(found.nets):
        table[f"net_{i + 1}"] = net.name
        table[f"disagreement_{i + 1}"] = scores.disagreement[i, rows]
        if i:
            table[f"category_{i + 1}"] = names[2 * wrong[0, rows] + wrong[i, rows]]
    result: pd.DataFrame = table
    return result


def _q(found: Remeasured) -> Literal["cp", "wdl"]:
    return "wdl" if found.q_from == "wdl" else "cp"
