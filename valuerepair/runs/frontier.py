"""The remaining work of an expansion, and which of it comes next.

Neighbours of candidates wait for a search. Those of one group share five properties: the expected disagreement (how far
the net's Q, which is known before any search, is from the source's deep Q), the step, the distance, the sign of the
net's error, and the phase. The rate of candidates of a group has a Beta posterior; its prior is the posterior of the
larger group that ignores the last property, and so on.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats, Ids
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.nets.net import NetValues
from valuerepair.store.reached import NeighbourOutcome
from valuerepair.store.rows import CHILD, GAME, LINE, PARENT

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

    `full_nodes` is the number of nodes of a full search.
    """

    def __init__(self, full_nodes: float) -> None:
        self.tried, self.found, self.nodes = np.zeros((3, GROUPS))
        self._full_nodes = full_nodes

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
        return self._posterior_means(self.nodes, self._full_nodes * (0.1 + 0.9 * np.array(_PRIOR_RATES)))

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

    A fixed share are `drawn` rows, in the order of arrival. The others are those with the greatest `gain`, in
    candidates per node, which counts less the larger the `family` [n] of their `root` already is. When one kind is used
    up, the other fills its share.
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


# To search the best of this number of neighbours takes hours, so keeping more has no benefit.
CAPACITY = 16_384
# The sources whose neighbours are evaluated together: few at first, so that the engines start at once.
_FIRST_WINDOW, _WINDOW = 32, 256
# A family gets no more sources once it is `_LARGEST` times the mean family, whose size is taken as at least `_SMALL`.
_LARGEST, _SMALL = 2.0, 4.0


@dataclass(eq=False)
class PlannedSearch:
    """A position that is searched, or has been searched.

    `net_q` is the net's Q and `net_best` its best move. `group` is that of `groups_of`, None for an audit of an
    inferred value. `root` is the sampled candidate that the position was reached from, in round `round`; `outcome` is
    None until it is searched.
    """

    position_id: int
    position: Position
    net_q: float
    net_best: int
    group: int | None
    root: int
    round: int
    outcome: NeighbourOutcome | None = None


@dataclass(frozen=True)
class Waiting:
    """n neighbours as columns: their positions (`batch`), the net's `values`, their `group` (`groups_of`), whether they
    were `drawn` at random, and how they were reached (`root` to `round`, as in the store's table ``expanded``)."""

    batch: PositionBatch
    values: NetValues
    group: NDArray[np.int64]
    drawn: NDArray[np.bool_]
    root: NDArray[np.int64]
    parent: NDArray[np.int64]
    step: NDArray[np.object_]
    distance: NDArray[np.int64]
    round: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.group)

    def take(self, rows: NDArray[np.int64]) -> Waiting:
        """The given rows, in the given order."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        values = NetValues(*(getattr(self.values, name)[rows] for name in NetValues.__slots__))
        return replace(self, batch=self.batch.take(rows), values=values, **columns)

    def search(self, row: int, position_id: int, *, is_audit: bool = False) -> PlannedSearch:
        """The search of a row; `position_id` is its position's number in the store."""
        return PlannedSearch(
            position_id,
            self.batch[row],
            float(self.values.q[row]),
            int(self.values.best_move[row]),
            None if is_audit else int(self.group[row]),
            int(self.root[row]),
            int(self.round[row]),
        )

    @staticmethod
    def concat(parts: list[Waiting]) -> Waiting:
        """The rows of all parts, in order."""
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
        batch = PositionBatch.concat([part.batch for part in parts])
        return Waiting(batch, NetValues.concat([part.values for part in parts]), **columns)


_COLUMNS = [field.name for field in fields(Waiting)][2:]


class Frontier:
    """The neighbours that wait for a search."""

    def __init__(self) -> None:
        self._waiting: Waiting | None = None
        self._is_waiting = np.empty(0, np.bool_)
        self.families: Counter[int] = Counter()  # by root: searches, and candidates found without one

    def __len__(self) -> int:
        return int(self._is_waiting.sum())

    def add(self, neighbours: Waiting, expected: NDArray[np.float64]) -> None:
        """Adds neighbours. Beyond `CAPACITY`, drops those of the groups with the least `expected` yield."""
        if self._waiting is None:
            self._waiting, self._is_waiting = neighbours, np.ones(len(neighbours), np.bool_)
        else:
            still_waiting = self._waiting.take(np.flatnonzero(self._is_waiting))
            self._waiting = Waiting.concat([still_waiting, neighbours])
            self._is_waiting = np.ones(len(self._waiting), np.bool_)
        if len(self._waiting) > CAPACITY:
            self._drop_least(expected)

    def _drop_least(self, expected: NDArray[np.float64]) -> None:
        assert self._waiting is not None
        drawn = np.flatnonzero(self._waiting.drawn)[: round(RANDOM_SHARE * CAPACITY)]
        best = np.flatnonzero(~self._waiting.drawn)
        best = best[np.argsort(-expected[self._waiting.group[best]], kind="stable")][: CAPACITY - len(drawn)]
        self._waiting = self._waiting.take(np.sort(np.concatenate([drawn, best])))
        self._is_waiting = np.ones(len(self._waiting), np.bool_)

    def choose(self, expected: NDArray[np.float64], count: int, met: set[int], most: int) -> Waiting | None:
        """Takes out the next neighbours to search, in order; drops those whose key is in `met`.

        `expected` are the candidates per node, by group. Of `count` chosen neighbours the first `most` are taken.
        Returns None if that leaves no neighbour.
        """
        if self._waiting is None or count < 1:
            return None
        rows = np.flatnonzero(self._is_waiting)
        is_met = np.array([key in met for key in self._waiting.batch.key[rows].tolist()], np.bool_)
        self._is_waiting[rows[is_met]] = False
        rows = rows[~is_met]
        if not len(rows):
            return None
        root = self._waiting.root[rows]
        family = np.array([self.families[number] for number in root.tolist()], np.int64)
        drawn = self._waiting.drawn[rows]
        chosen = rows[choose(expected[self._waiting.group[rows]], drawn, root, family, count)]
        chosen = chosen[:most]
        if not len(chosen):
            return None
        self._is_waiting[chosen] = False
        neighbours = self._waiting.take(chosen)
        self.families.update(neighbours.root.tolist())
        return neighbours


class PlannedSearches:
    """The planned searches whose results an expansion has not used yet, batch by batch.

    `audits` are not in a batch yet; `waiting` are in one and have not begun. The plan of a batch depends on the results
    of all batches except the one before it, so two batches may be open while the next one is planned.
    """

    def __init__(self) -> None:
        self.audits: deque[PlannedSearch] = deque()
        self.waiting: deque[PlannedSearch] = deque()
        self._batches: deque[list[PlannedSearch]] = deque()

    def __iter__(self) -> Iterator[PlannedSearch]:
        for batch in self._batches:
            yield from batch

    @property
    def is_over(self) -> bool:
        """Whether no search is planned."""
        return not any(self._batches)

    @property
    def may_plan(self) -> bool:
        """Whether the results are known on which the plan of the next batch depends."""
        return len(self._batches) < 2 or all(search.outcome for search in self._batches[0])

    def add(self, batch: list[PlannedSearch]) -> None:
        """Adds a batch, whose searches without an outcome are to be made."""
        self._batches.append(batch)
        self.waiting.extend(search for search in batch if search.outcome is None)

    def take_oldest(self) -> list[PlannedSearch]:
        """Takes out the oldest batch, whose results can be used; empty while fewer than two batches are open."""
        return self._batches.popleft() if len(self._batches) > 1 else []


class SourceQueue:
    """The candidates whose neighbours are examined next, each with its root and round. `rounds` is the last round."""

    def __init__(self, roots: Sequence[int], rounds: int) -> None:
        self._rounds = rounds
        self._waiting = deque((number, number, 1) for number in roots)
        self._window_size = _FIRST_WINDOW
        self._families: Counter[int] = Counter()  # candidates found, by root

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def round(self) -> int:
        """The round of the next candidate."""
        return self._waiting[0][2]

    def take_window(self) -> list[tuple[int, int, int]]:
        """Takes out the next candidates (position, root, round), whose neighbours are evaluated together."""
        window = [self._waiting.popleft() for _ in range(min(self._window_size, len(self._waiting)))]
        self._window_size = min(2 * self._window_size, _WINDOW)
        return window

    def add(self, position_id: int, root: int, round_: int) -> None:
        """Adds a candidate found in a round, unless that was the last round or its family is far larger than others."""
        self._families[root] += 1
        mean = self._families.total() / len(self._families)
        if round_ < self._rounds and self._families[root] <= _LARGEST * max(mean, _SMALL):
            self._waiting.append((position_id, root, round_ + 1))
