"""Deep values that positions bring along: nothing is searched, so a chunk's are taken at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from valuerepair.deep.oracle import DeepFailure
from valuerepair.deep.recorded import NONE_THERE, RecordedOracle
from valuerepair.mining.tally import Pairs
from valuerepair.positions import PositionBatch
from valuerepair.store import Store
from valuerepair.store.rows import Run


class Recordings:
    """Takes the recorded evaluations of an oracle into the store and to the net's values."""

    def __init__(
        self,
        store: Store,
        oracle: RecordedOracle,
        oracle_id: int,
        run: Run,
        pairs: Pairs,
        fail: Callable[[int, DeepFailure], None],
    ) -> None:
        self._store, self._oracle, self._oracle_id, self._run = store, oracle, oracle_id, run
        self._pairs, self._fail = pairs, fail

    def take(self, ids: NDArray[np.int64], batch: PositionBatch) -> None:
        """Takes those of the positions `ids`; one that has none is told to `fail`."""
        rows, found = self._oracle.outcomes(batch)
        numbers = ids[rows]
        self._store.add_deep_columns(numbers, self._oracle_id, found, self._run)
        deciding = (found.cp, found.mate, found.win, found.draw, found.loss, found.q)
        self._pairs.add_deep_all(numbers.tolist(), zip(*deciding, strict=True))
        for position_id in np.delete(ids, rows).tolist():
            self._fail(position_id, NONE_THERE)
