"""Running counts of a run: scored, failed, candidates so far."""

from __future__ import annotations

from array import array
from typing import Literal, TypeAlias

import numpy as np

from valuerepair import values
from valuerepair.store.rates import Rate, wilson
from valuerepair.store.rows import DeepScore

_NOTHING = float("nan")
_COLUMNS = 7  # net_q, cp, mate, w, d, l, q

Deep: TypeAlias = tuple[float | None, ...]  # cp, mate, win, draw, loss, own Q


def numbers(score: DeepScore) -> Deep:
    """What of a deep search decides its Q."""
    return (score.cp, score.mate, *(score.wdl or (None, None, None)), score.q)


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

    def add(self, net_q: float, deep: Deep) -> None:
        """Adds one scored position."""
        self._rows.append(net_q)
        self._rows.extend(_NOTHING if value is None else value for value in deep)

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


class Pairs:
    """Brings the two values of a position together, whichever comes first, and hands both to the tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._net: dict[int, float] = {}
        self._deep: dict[int, Deep] = {}

    @property
    def open(self) -> int:
        """Positions with a deep value that wait for the net's."""
        return len(self._deep)

    def add_net(self, position_id: int, net_q: float) -> None:
        """Adds the net's value of a position."""
        deep = self._deep.pop(position_id, None)
        if deep is None:
            self._net[position_id] = net_q
        else:
            self._tally.add(net_q, deep)

    def add_deep(self, position_id: int, deep: Deep) -> None:
        """Adds the deep value of a position."""
        net_q = self._net.pop(position_id, None)
        if net_q is None:
            self._deep[position_id] = deep
        else:
            self._tally.add(net_q, deep)

    def drop(self, position_id: int) -> None:
        """Forgets a position that gets no deep value."""
        self._net.pop(position_id, None)
