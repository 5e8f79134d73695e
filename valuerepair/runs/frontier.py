"""The neighbours of candidates that the net has evaluated and that wait for a deep search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.positions import PositionBatch
from valuerepair.nets.net import NetValues
from valuerepair.runs.allocation import RANDOM_SHARE, choose
from valuerepair.runs.planned import PlannedSearch

# The best of this many keep the search busy for hours, so that keeping more has no benefit.
CAPACITY = 16_384


@dataclass(frozen=True)
class Waiting:
    """n neighbours as columns: their positions (`batch`), the net's `values`, its Q as the question has it (`judged`,
    float64[n], calibrated or not), their `group` (`allocation.groups_of`), whether they were `drawn` at random, and how
    they were reached (`root` to `round`, as in the store's table ``expanded``)."""

    batch: PositionBatch
    values: NetValues
    judged: NDArray[np.float64]
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
        """The search of a row, whose number in the store this is."""
        return PlannedSearch(
            position_id,
            self.batch[row],
            float(self.judged[row]),
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
    """The neighbours that wait, without those that were chosen or already have a value."""

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

    def choose(
        self, expected: NDArray[np.float64], count: int, met: set[int], affordable: Callable[[NDArray[np.int64]], int]
    ) -> Waiting | None:
        """Takes out the next neighbours to search, at most `count`, in order; those whose key is in `met` are dropped.

        `expected` are the candidates per node, by group. `affordable` takes the groups of the chosen neighbours and
        says how many of them, from the first on, may be searched. Returns None if that leaves no neighbour.
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
        chosen = chosen[: affordable(self._waiting.group[chosen])]
        if not len(chosen):
            return None
        self._is_waiting[chosen] = False
        taken = self._waiting.take(chosen)
        self.families.update(taken.root.tolist())
        return taken
