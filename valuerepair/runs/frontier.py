"""The neighbours that the net has evaluated and that wait for a search."""

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

# More would be remembered for nothing: of so many the best ones last for hours.
MOST = 16_384


@dataclass(frozen=True)
class Waiting:
    """n neighbours as columns: what they are, what the net says (`judged`: its Q as the question takes it), how they
    were reached, their `kind` (`allocation.kinds_of`), and whether they are `drawn`."""

    batch: PositionBatch
    values: NetValues
    judged: NDArray[np.float64]
    kind: NDArray[np.int64]
    drawn: NDArray[np.bool_]
    root: NDArray[np.int64]
    parent: NDArray[np.int64]
    step: NDArray[np.object_]
    distance: NDArray[np.int64]
    round: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: NDArray[np.int64]) -> Waiting:
        """The given rows, in the given order."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, batch=self.batch.take(rows), values=take_values(self.values, rows), **columns)

    @staticmethod
    def concat(parts: list[Waiting]) -> Waiting:
        """The rows of all parts, in order."""
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
        batch = PositionBatch.concat([part.batch for part in parts])
        return Waiting(batch, NetValues.concat([part.values for part in parts]), **columns)


_COLUMNS = [field.name for field in fields(Waiting)][2:]


def take_values(found: NetValues, rows: NDArray[np.int64]) -> NetValues:
    """The net's values of the given rows."""
    return NetValues(*(getattr(found, name)[rows] for name in NetValues.__slots__))


class Frontier:
    """The neighbours that wait; those that were chosen or have a value by now are gone."""

    def __init__(self) -> None:
        self._waiting: Waiting | None = None
        self._there = np.empty(0, np.bool_)
        self.families: Counter[int] = Counter()  # by root: searches, and candidates that needed none

    def __len__(self) -> int:
        return int(self._there.sum())

    def add(self, found: Waiting, expected: NDArray[np.float64]) -> None:
        """Adds neighbours. Where they are too many, the kinds with the least `expected` yield are left out."""
        if self._waiting is None:
            self._waiting, self._there = found, np.ones(len(found), np.bool_)
        else:
            self._waiting = Waiting.concat([self._waiting.take(np.flatnonzero(self._there)), found])
            self._there = np.ones(len(self._waiting), np.bool_)
        if len(self._waiting) > MOST:
            self._drop_least(expected)

    def _drop_least(self, expected: NDArray[np.float64]) -> None:
        assert self._waiting is not None
        drawn = np.flatnonzero(self._waiting.drawn)[: round(RANDOM_SHARE * MOST)]
        best = np.flatnonzero(~self._waiting.drawn)
        best = best[np.argsort(-expected[self._waiting.kind[best]], kind="stable")][: MOST - len(drawn)]
        self._waiting = self._waiting.take(np.sort(np.concatenate([drawn, best])))
        self._there = np.ones(len(self._waiting), np.bool_)

    def choose(
        self, expected: NDArray[np.float64], count: int, met: set[int], affordable: Callable[[NDArray[np.int64]], int]
    ) -> Waiting | None:
        """Takes the neighbours to search now, at most `count`, in the order of the searches; none whose key is `met`.

        `expected` are the candidates a node of every kind; `affordable` says how many of neighbours of these kinds may
        be searched, the first ones. None when there is none.
        """
        if self._waiting is None or count < 1:
            return None
        rows = np.flatnonzero(self._there)
        for row in rows[[key in met for key in self._waiting.batch.key[rows].tolist()]].tolist():
            self._there[row] = False
        rows = np.flatnonzero(self._there)
        if not len(rows):
            return None
        root = self._waiting.root[rows]
        family = np.array([self.families[number] for number in root.tolist()], np.int64)
        drawn = self._waiting.drawn[rows]
        chosen = rows[choose(expected[self._waiting.kind[rows]], drawn, root, family, count)]
        chosen = chosen[: affordable(self._waiting.kind[chosen])]
        if not len(chosen):
            return None
        self._there[chosen] = False
        taken = self._waiting.take(chosen)
        self.families.update(taken.root.tolist())
        return taken
