"""Rates with intervals; see `intervals`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags, Floats
from valuerepair.intervals import Rate, weighted

__all__ = ["Rate", "rate"]


def rate(hits: Flags, weights: Floats | None = None, games: NDArray[np.int64] | Sequence[int] | None = None) -> Rate:
    """The rate of hits."""
    n = len(hits)
    ones, each = np.ones(n), np.arange(n)
    return weighted(hits, ones if weights is None else weights, each if games is None else np.asarray(games))
