"""Who repaired what: the candidates of two nets, label by label.

The event of a label is: the net is wrong here, and its error has this label. It is counted under both nets over all
positions, so nothing is chosen by either net, and the same holds for labels of the position (its phase) and of the
error (its sign).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from valuerepair.candidates.labelled import NAMES
from valuerepair.candidates.paired import Interval, Table, mcnemar, newcombe

if TYPE_CHECKING:
    import pandas as pd

Labels = Mapping[int, frozenset[str]]
# Labels that need a net's policy.
OF_POLICY = frozenset({"value-blind", "partly-blind", "policy-blind"})


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A label under two nets.

    `label` is one of `labelled.NAMES` or of `labelled.KINDS` (``family:French Defense``). `first` and `second` count
    the candidates of each net with it, `both` those of both, `repaired` those of the first alone, `newly` those of the
    second alone. `change` is the paired difference of the shares of all positions (Newcombe), `p` McNemar's, None
    where rows have unequal weights.
    """

    label: str
    first: int
    second: int
    both: int
    repaired: int
    newly: int
    change: Interval
    p: float | None


def label_changes(first: Labels, second: Labels, weights: pd.Series[float]) -> list[LabelChange]:
    """The changes of every label: those of `labelled.NAMES` in their order, then the others, the most frequent first.

    `first` and `second` have the labels of each net's candidates by position_id, `weights` the weight of every position
    compared.
    """
    counts = Counter(name for side in (first, second) for labels in side.values() for name in labels)
    rank = {name: i for i, name in enumerate(NAMES)}
    names = sorted(counts, key=lambda name: (rank.get(name, len(rank)), -counts[name], name))
    ids = [_ids_of(side) for side in (first, second)]
    mass = weights.to_numpy(np.float64)
    total, equal = float(mass.sum()), bool(np.ptp(mass) == 0)
    scale = total / float((mass**2).sum())  # to the effective number of rows, see `paired.cross`
    changes = []
    for name in names:
        one, other = (side.get(name, set()) for side in ids)
        parts = one & other, one - other, other - one
        cells = [float(weights.loc[list(part)].sum()) for part in parts]
        table = Table(*(cell * scale for cell in (*cells, max(total - sum(cells), 0.0))))
        both, repaired, newly = (len(part) for part in parts)
        p = mcnemar(repaired, newly) if equal else None
        changes.append(LabelChange(name, len(one), len(other), both, repaired, newly, newcombe(table), p))
    return changes


def _ids_of(side: Labels) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for number, labels in side.items():
        for name in labels:
            found.setdefault(name, set()).add(number)
    return found
