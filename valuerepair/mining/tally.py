"""Running counts of a run: scored, failed, candidates so far."""

from __future__ import annotations

from array import array
from typing import Literal

import numpy as np

from valuerepair import values
from valuerepair.store.rates import Rate, wilson
from valuerepair.store.rows import DeepScore

_NOTHING = float("nan")
_COLUMNS = 7  # net_q, cp, mate, w, d, l, q


class Tally:
    """The raw scores of a run's positions, so that candidates can be counted again when alpha changes.

    56 bytes a position.
    """

    def __init__(self, threshold: float, q_from: Literal["cp", "wdl"]) -> None:
        self._threshold, self._q_from = threshold, q_from
        self._rows = array("d")
        self._counted, self._candidates, self._usable = 0, 0, 0
        self._alpha: float | None = None

    def __len__(self) -> int:
        return len(self._rows) // _COLUMNS

    def add(self, net_q: float, deep: tuple[float | None, ...]) -> None:
        """Adds one scored position: `deep` is cp, mate, win, draw, loss, own Q."""
        self._rows.append(net_q)
        self._rows.extend(_NOTHING if value is None else value for value in deep)

    def add_score(self, net_q: float, score: DeepScore) -> None:
        """Adds one scored position."""
        self.add(net_q, (score.cp, score.mate, *(score.wdl or (None, None, None)), score.q))

    def candidates(self, alpha: float) -> Rate:
        """Candidates among the positions that have a Q, at this alpha."""
        if alpha != self._alpha:
            self._counted, self._candidates, self._usable, self._alpha = 0, 0, 0, alpha
        # The copy is of new rows only: an array that numpy looks into could not grow.
        fresh = np.array(self._rows[self._counted * _COLUMNS :], np.float64).reshape(-1, _COLUMNS)
        net_q, cp, mate, own = fresh[:, 0], fresh[:, 1], fresh[:, 2], fresh[:, 6]
        off = np.abs(net_q - values.deep_q(cp, mate, fresh[:, 3:6], own, alpha, self._q_from))
        self._counted += len(fresh)
        self._usable += int((~np.isnan(off)).sum())
        self._candidates += int((off >= self._threshold).sum())
        return wilson(self._candidates, self._usable)
