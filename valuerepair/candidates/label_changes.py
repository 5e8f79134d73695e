"""Who repaired what: the candidates of two nets, label by label.

The event of a label is: the net is wrong here, and its error has this label. It is counted under both nets over all
positions, so nothing is chosen by either net, and the same holds for labels of the position (its phase) and of the
error (its sign).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from valuerepair.candidates.paired import Floats, Interval, Table, mcnemar, newcombe

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A label under two nets.

    `label` is the column, `value` its value, empty for a label that is there or not. `first` and `second` count the
    candidates of each net with it, `both` those of both, `repaired` those of the first alone, `newly` those of the
    second alone. `change` is the paired difference of the shares of all positions (Newcombe), `p` McNemar's, None
    where rows have unequal weights.
    """

    label: str
    value: str
    first: int
    second: int
    both: int
    repaired: int
    newly: int
    change: Interval
    p: float | None

    @property
    def name(self) -> str:
        return f"{self.label} {self.value}".strip()


def label_changes(first: pd.DataFrame, second: pd.DataFrame, weights: pd.Series[float]) -> list[LabelChange]:
    """The changes of every label, by column in order and by how many candidates have the value.

    `first` and `second` have the labels of each net's candidates, `weights` the weight of every position compared; all
    three are indexed by position_id. Columns of numbers are measures, not labels, and are passed over; so is what is
    missing.
    """
    changes = []
    mass = weights.to_numpy(np.float64)
    for column in first.columns:
        if not is_label(first[column]) and not is_label(second[column]):
            continue
        values = [value for side in (first, second) for value in side[column].dropna() if not _absent(value)]
        names = sorted(set(values), key=lambda value: (-values.count(value), str(value)))
        for value in names:
            ids = [set(side.index[(side[column] == value).to_numpy(bool)]) for side in (first, second)]
            changes.append(_change(str(column), value, ids[0], ids[1], weights, mass))
    return changes


def is_label(column: pd.Series[str]) -> bool:
    """Whether a column holds labels: words, or there or not."""
    kinds = {type(value) for value in column.dropna()}
    return bool(kinds) and all(issubclass(kind, str | bool | np.bool_) for kind in kinds)


def _absent(value: object) -> bool:
    return isinstance(value, bool | np.bool_) and not value


def _change(
    label: str, value: object, first: set[int], second: set[int], weights: pd.Series[float], mass: Floats
) -> LabelChange:
    both, repaired, newly = first & second, first - second, second - first
    cells = [float(weights.loc[list(ids)].sum()) for ids in (both, repaired, newly)]
    scale = float(mass.sum() / (mass**2).sum())
    table = Table(*(cell * scale for cell in (*cells, max(float(mass.sum()) - sum(cells), 0.0))))
    p = mcnemar(len(repaired), len(newly)) if np.ptp(mass) == 0 else None
    text = "" if isinstance(value, bool | np.bool_) else str(value)
    return LabelChange(label, text, len(first), len(second), len(both), len(repaired), len(newly), newcombe(table), p)
