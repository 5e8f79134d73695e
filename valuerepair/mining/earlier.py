"""What the store has of a run's positions from earlier runs: taken over, and not asked for again."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from valuerepair.mining.failures import Failures, NetFailures
from valuerepair.mining.tally import Pairs
from valuerepair.store import Store
from valuerepair.store.rows import Known


class Earlier:
    """`scored` positions of the run had a deep value before it, `cut` had left the ladder."""

    def __init__(
        self,
        store: Store,
        pair: tuple[int, int],
        pairs: Pairs,
        failures: tuple[Failures, NetFailures],
        *,
        retry_failed: bool,
        screening: bool,
    ) -> None:
        self._store, self._pair, self._pairs = store, pair, pairs
        self._failures, self._net_failures = failures
        self._retry_failed, self._screening = retry_failed, screening
        self.scored = self.cut = 0

    def take(
        self, ids: NDArray[np.int64], new: NDArray[np.bool_], cut: AbstractSet[int]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Takes over what there is of the positions `ids` [n] that are not `new` to the store; `cut` left the ladder.

        Returns bool[n] twice: which are to be given to the net, and which are to get a deep value. What has failed
        before is only counted. With a ladder all that are to be searched go to the net first.
        """
        fresh, wanted = np.ones((2, len(ids)), np.bool_)
        lost = {} if self._retry_failed else self._net_failures.earlier(ids)
        old = np.flatnonzero(~new)
        for i, known in zip(old.tolist(), self._store.known(ids[old], *self._pair), strict=True):
            fresh[i], wanted[i] = self._take(int(ids[i]), known, cut, lost)
        return fresh, wanted

    def _take(
        self, position_id: int, known: Known, cut: AbstractSet[int], lost: Mapping[int, str]
    ) -> tuple[bool, bool]:
        if known.net_q is None and position_id in lost:
            self._net_failures.skip()
            return False, False
        wanted = self._is_wanted(position_id, known, cut)
        if known.deep is not None:
            self._pairs.add_deep(position_id, known.deep, known.weight)
        if known.net_q is not None and (known.deep is not None or wanted):
            self._pairs.add_net(position_id, known.net_q)
        return known.net_q is None or (wanted and self._screening), wanted

    def _is_wanted(self, position_id: int, known: Known, cut: AbstractSet[int]) -> bool:
        """Whether a position is to get a deep value; counts what was done before."""
        if known.deep is not None:
            self.scored += 1
        elif known.failure is not None and not self._retry_failed:
            self._failures.add_earlier(known.failure)
        elif position_id in cut:
            self.cut += 1
        else:
            return True
        return False
