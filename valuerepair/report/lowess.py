"""The lowess line of plots and of the page."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats
from valuerepair.measure.weights import copies_by_weight

FRACTION = 0.3
MIN_POSITIONS = 20
# The distance between local fits in deep Q (whose range is 2); straight lines connect them.
STEP = 0.005
_PLACES = 401  # points of the line that is drawn
# Rows of a weighted fit: copies make weights finer, up to the largest number of whole weights.
_COPIES, _MOST_COPIES = 200_000, 1_000_000


def lowess_line(x: Floats, y: Floats, weights: Floats) -> tuple[Floats, Floats] | None:
    """The robust local linear fit of y over x (W. S. Cleveland, JASA 74, 1979) on `_PLACES` places of x's range.

    `weights` [n] are the numbers of rows that each row represents: the fit is that of repeated rows (`copied`), so that
    a neighbourhood holds a share of the weight and not of the rows. Local fits are `STEP` apart (statsmodels'
    `delta`), so that a million points take seconds. None with fewer than `MIN_POSITIONS` rows of positive
    weight, or if x hardly varies.
    """
    x, y, weights = x[weights > 0], y[weights > 0], weights[weights > 0]
    if len(x) < MIN_POSITIONS or np.ptp(x) < STEP:
        return None
    order = np.argsort(x, kind="stable")
    grid = np.linspace(x.min(), x.max(), _PLACES)
    x, y = x[order], y[order]
    if not (weights == weights[0]).all():
        rows = np.repeat(np.arange(len(x)), copied(weights[order]))
        x, y = x[rows], y[rows]
    places, first, alike = np.unique(x, return_index=True, return_counts=True)
    # One value may be a large share of all (0 in dead draws). A neighbourhood of this value alone has no width, and
    # with few other rows these decide the slope; so a neighbourhood holds at least twice as many rows.
    fraction = float(np.clip(2 * alike.max() / len(x), FRACTION, 1.0))
    fitted = _fit(x, y, fraction)
    return None if fitted is None else (grid, np.interp(grid, places, fitted[first]))


def copied(weights: Floats) -> NDArray[np.int64]:
    """[n] the number of copies of each row, for rows in the order of x.

    Whole weights (up to a million in all) are used unchanged. Others are multiplied first, and rounded along the
    cumulative sum (`measure.weights.copies_by_weight`), so that any range of x has its weight to within one copy.
    """
    total = float(weights.sum())
    if total > _MOST_COPIES:
        return copies_by_weight(weights * (_MOST_COPIES / total), 1, 0.5)
    if (weights == np.round(weights)).all():
        return weights.astype(np.int64)
    return copies_by_weight(weights, max(1, int(_COPIES / total)), 0.5)


def _fit(x: Floats, y: Floats, fraction: float) -> Floats | None:
    """statsmodels' lowess of y at ascending x; None if it is not finite."""
    from statsmodels.nonparametric.smoothers_lowess import lowess

    for iterations in (3, 0):
        # If all residuals are 0 the robust weights are 0 / 0, but the plain fit is finite.
        with np.errstate(divide="ignore", invalid="ignore"):
            fitted: Floats = lowess(y, x, fraction, it=iterations, delta=STEP, is_sorted=True, return_sorted=False)
        if np.isfinite(fitted).all():
            return fitted
    return None
