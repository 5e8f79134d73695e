"""How much each candidate counts: soft weights by disagreement.

The weights are for training, not for estimates: rates of an archive use the inverse probabilities of `Store.frame`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuerepair.question import is_candidate

DEFAULT_SOFTNESS = 0.1


def weights_of(disagreement: ArrayLike, threshold: float, softness: float = DEFAULT_SOFTNESS) -> NDArray[np.float64]:
    """[n] weights in [0, 1] of `disagreement` [n] (net Q - deep Q, side to move): a threshold with a soft edge.

    ``w = 1 / (1 + exp(-(|disagreement| - threshold) / softness))``: a half at the threshold, near 1 where the net is
    wrong beyond doubt. `softness` is in Q; 0 gives the hard edge, 1 from the threshold on and 0 below. NaN weighs 0.
    Raises ValueError for a negative softness.
    """
    if not softness >= 0:
        raise ValueError(f"softness {softness:g}: must not be negative")
    candidate = is_candidate(np.asarray(disagreement, np.float64), threshold)
    if softness == 0:
        return candidate.astype(np.float64)
    beyond = np.abs(np.asarray(disagreement, np.float64)) - threshold
    # exp of a number that is never positive: no overflow, and both branches agree to the last bits.
    with np.errstate(over="ignore"):  # a softness near 0 divides into infinity, whose weight is right
        small = np.exp(-np.abs(beyond) / softness)
    weights = np.where(candidate, 1 / (1 + small), small / (1 + small))
    return np.where(np.isnan(beyond), 0.0, weights)


def copies_by_weight(weights: ArrayLike, per_weight: int, start: float) -> NDArray[np.int64]:
    """[n] how often to repeat each position, in proportion to the weights: ``per_weight * w``, rounded up or down.

    Systematic sampling along the cumulated weights, as particle filters resample (G. Kitagawa, J. Comput. Graph. Stat.
    5, 1996): with `start` uniform in [0, 1) each expectation is exact, and the sum is within 1 of its expectation.
    """
    ends = np.floor(np.cumsum(per_weight * np.asarray(weights, np.float64)) + start)
    return np.diff(ends, prepend=0.0).astype(np.int64)
