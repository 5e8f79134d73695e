"""The search for the nearest positions of a store, in chunks: memory does not grow with the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valuerepair.board import parse_fens
from valuerepair.candidates.likeness import Distances, Floats, Numbers, Shapes, distances, material_distances, shapes_of
from valuerepair.positions import Position
from valuerepair.store.connect import store_errors
from valuerepair.store.rows import signed

if TYPE_CHECKING:
    from valuerepair.store import Store

CHUNK_ROWS = 32_768
# Nothing is known at first of how far the nearest are: those with as many men, or one more or less, are likely.
_FIRST_REACH = 1
_MOST_MEN = 32
_COLUMNS = ("total", "pieces", "material", "pawns", "kings", "mirrored")


class Nearest:
    """Keeps the `limit` nearest of the positions that it is shown."""

    def __init__(self, query: Shapes, limit: int, mirror: bool) -> None:
        self._query, self._limit, self._mirror = query, limit, mirror
        self._ids: Numbers = np.empty(0, np.int64)
        # One row a position: `_COLUMNS`.
        self._rows: Floats = np.empty((0, len(_COLUMNS)))

    @property
    def worst(self) -> float:
        """The distance of the last one kept; infinite while there is room."""
        return float(self._rows[-1, 0]) if len(self._ids) == self._limit else float("inf")

    def add(self, ids: Numbers, fens: Sequence[str]) -> None:
        """Shows positions [n]. What material alone puts too far away is not looked at further."""
        boards = parse_fens(fens)
        near = material_distances(self._query, boards) <= self.worst
        found = distances(self._query, shapes_of(boards[near]), self._mirror)
        rows = np.stack([getattr(found, column).astype(np.float64) for column in _COLUMNS], 1)
        self._ids = np.concatenate([self._ids, ids[near]])
        self._rows = np.concatenate([self._rows, rows])
        order = np.lexsort((self._ids, self._rows[:, 1], self._rows[:, 0]))[: self._limit]
        self._ids, self._rows = self._ids[order], self._rows[order]

    def found(self) -> tuple[Numbers, Distances]:
        """The ids and distances of those kept: nearest first, then fewest other pieces elsewhere, then by id."""
        column = dict(zip(_COLUMNS, self._rows.T, strict=True))
        mirrored = column.pop("mirrored").astype(np.bool_)
        return self._ids, Distances(mirrored=mirrored, **column)


def search(
    store: Store, position: Position, among: NDArray[np.int64] | None, limit: int, mirror: bool
) -> tuple[Numbers, Distances, int]:
    """The nearest positions (position_ids and distances, see `Nearest.found`), and how many there were to choose from.

    `among` are the position_ids to choose from, None for all; the position itself is never one. Every man more or less
    is worth at least 1, so once enough are found, positions are not read whose number of men is off by more than the
    last one's distance.
    """
    nearest = Nearest(shapes_of(parse_fens([position.fen])), limit, mirror)
    where = "key <> :key" + ("" if among is None else " AND id IN (SELECT value FROM json_each(:ids))")
    asked: dict[str, int | str] = {
        "key": signed(np.array([position.key], np.uint64))[0],
        "men": sum(letter.isalpha() for letter in position.fen.split(" ", 1)[0]),
        "ids": "" if among is None else json.dumps(among.tolist()),
    }
    query = f"SELECT id, fen FROM positions WHERE abs(pieces - :men) BETWEEN :low AND :high AND {where} ORDER BY id"
    with store_errors(store.path):
        (choice,) = store.connection.execute(f"SELECT count(*) FROM positions WHERE {where}", asked).fetchone()
        low, high = 0, _FIRST_REACH
        while low <= _MOST_MEN:
            rows = store.connection.execute(query, {**asked, "low": low, "high": high})
            while chunk := rows.fetchmany(CHUNK_ROWS):
                ids, fens = zip(*chunk, strict=True)
                nearest.add(np.array(ids, np.int64), fens)
            if nearest.worst < high + 1:  # what is not read is that far at least
                break
            low, high = high + 1, int(min(nearest.worst, _MOST_MEN))
    return *nearest.found(), int(choice)
