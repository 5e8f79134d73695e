"""Where to search next: what searches of each group of neighbours have found so far, and which ones to make now.

Neighbours of one group share five properties: the expected disagreement (how far the net's Q, which is known before any
search, is from the source's deep Q), the step, the distance, the sign of the net's error, and the phase. The rate of
candidates of a group has a Beta posterior; its prior is the posterior of the larger group that ignores the last
property, and so on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from valuerepair.runs.neighbourhood import CHILD, GAME, LINE, PARENT

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

# This share of the searches is drawn by the position's key alone, to estimate rates of all neighbours without bias.
RANDOM_SHARE = 0.1
# Borders of the expected disagreement, in thresholds.
_BORDERS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
# The prior rates of candidates, by expected disagreement: measured on 3,230 neighbours of 232 candidates of master
# games (maia-1900, Stockfish at 20,000 nodes, alpha 170), all searched in full.
_PRIOR_RATES = (0.04, 0.05, 0.07, 0.1, 0.3, 0.35, 0.4)
# The weight of a prior in searches: of the first prior, and of each level for the next.
_PRIOR_WEIGHT, _LEVEL_WEIGHT = 4.0, 8.0
# The expected gain of a position counts half if the family of its root has this size. As measured, this finds as many
# candidates per node as a size of ten does, from a tenth more effective roots.
_LARGE_FAMILY = 2.0
_STEP_CODES = {PARENT: 0, CHILD: 1, GAME: 2, LINE: 3}
_DISTANCE_BANDS = 4
# The number of values of each property of a group: expected disagreement, step, distance, sign of the error, phase.
_WIDTHS = (len(_BORDERS) + 1, len(_STEP_CODES), _DISTANCE_BANDS, 2, 3)
GROUPS = int(np.prod(_WIDTHS))


def groups_of(
    steps: Sequence[str],
    distance: Ids,
    later: NDArray[np.bool_],
    expected: Floats,
    phase: Ids,
    threshold: float,
) -> Ids:
    """[n] the groups of neighbours; `expected` is the net's Q minus the deep Q that the source leads to expect."""
    step = np.array([_STEP_CODES[step] for step in steps], np.int64)
    distance_band = np.minimum(distance, 3)
    distance_band = np.where(step == _STEP_CODES[GAME], np.searchsorted((5, 8), distance, side="left"), distance_band)
    distance_band = np.where(step == _STEP_CODES[PARENT], np.searchsorted((1, 2, 4), distance), distance_band)
    distance_band = np.where(later, _DISTANCE_BANDS - 1, distance_band)
    error_band = np.searchsorted(_BORDERS, np.abs(expected) / threshold, side="right")
    properties = (error_band, step, distance_band, (expected > 0).astype(np.int64), phase)
    return np.asarray(np.ravel_multi_index(properties, _WIDTHS), np.int64)


class Yields:
    """Results of searches by group, float64[GROUPS]: the searches `tried`, the candidates `found`, the `nodes` spent.

    `whole` is the number of nodes of a full search.
    """

    def __init__(self, whole: float) -> None:
        self.tried, self.found, self.nodes = np.zeros((3, GROUPS))
        self._whole = whole

    def add(self, group: int, *, found: bool, nodes: int) -> None:
        """Counts a search."""
        self.tried[group] += 1
        self.found[group] += found
        self.nodes[group] += nodes

    def rates(self) -> Floats:
        """[GROUPS] expected candidates of one search."""
        return self._posterior_means(self.found, np.array(_PRIOR_RATES))

    def costs(self) -> Floats:
        """[GROUPS] expected nodes of one search."""
        return self._posterior_means(self.nodes, self._whole * (0.1 + 0.9 * np.array(_PRIOR_RATES)))

    def expected(self) -> Floats:
        """[GROUPS] expected candidates per node."""
        return self.rates() / self.costs()

    def _posterior_means(self, sums: Floats, prior: Floats) -> Floats:
        """Posterior means, property by property; a group without data has the mean of the larger group around it."""
        weight, mean = _PRIOR_WEIGHT, prior
        for level in range(1, len(_WIDTHS) + 1):
            count = int(np.prod(_WIDTHS[:level]))
            total, tried = (column.reshape(count, -1).sum(1) for column in (sums, self.tried))
            mean = (total + weight * np.repeat(mean, count // len(mean))) / (tried + weight)
            weight = _LEVEL_WEIGHT
        return mean


def is_drawn(key: int) -> bool:
    """Whether a position is in the share that is searched at random, whatever its expected yield."""
    return uniform(key, "drawn") < RANDOM_SHARE


def uniform(key: int, purpose: str) -> float:
    """A number in [0, 1) that depends on the position alone."""
    digest = hashlib.blake2b(f"expand {purpose} {key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def choose(gain: Floats, drawn: NDArray[np.bool_], root: Ids, family: Ids, count: int) -> Ids:
    """The rows to search now, at most `count`, in the order of the searches; the n rows are in the order of arrival.

    A fixed share are `drawn` rows, in that order. The others are those with the greatest `gain`, in candidates per
    node, which counts less the larger the `family` [n] of their `root` already is. When one kind is used up, the other
    takes its place.
    """
    import pandas as pd

    random, best = np.flatnonzero(drawn), np.flatnonzero(~drawn)
    by_gain = best[np.argsort(-gain[best], kind="stable")]
    # The second row of a root has a family that is larger by one than the first's.
    size = family[by_gain] + pd.Series(root[by_gain]).groupby(root[by_gain]).cumcount().to_numpy()
    ranked = by_gain[np.argsort(-gain[by_gain] / (1 + size / _LARGE_FAMILY), kind="stable")]
    share = max(round(RANDOM_SHARE * count), count - len(ranked))
    chosen = random[: min(share, count)]
    return np.concatenate([chosen, ranked[: count - len(chosen)]])
