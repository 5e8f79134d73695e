"""The rows that plots draw, their lowess line, and the words below their titles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.chess.values import Alpha
from valuerepair.errors import ValueRepairError
from valuerepair.measure.weights import copies_by_weight
from valuerepair.question import is_candidate, no_deep_score
from valuerepair.rates import Rate, weighted
from valuerepair.text import printable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Scored:
    """The rows of a frame that have both values: `net`, `deep` (Q, side to move) and `weight` are [n].

    `rows` [m] marks the frame's rows with both values. `weight` is 1 without weights; `game` [n] numbers the games.
    """

    net: Floats
    deep: Floats
    weight: Floats
    game: Ids
    rows: Flags
    weighted: bool

    @property
    def disagreement(self) -> Floats:
        """[n] net Q - deep Q."""
        return self.net - self.deep

    @property
    def left_out(self) -> int:
        """Rows without a deep Q."""
        return int((~self.rows).sum())

    def rate(self, hits: Flags) -> Rate:
        """The share of `hits` [n], by weight; the interval by games."""
        return weighted(hits, self.weight, self.game)


def scored(frame: pd.DataFrame) -> Scored:
    """The rows of `frame` with both values; without a column `game_id` each row counts as its own game.

    Raises ValueRepairError if no row has both values.
    """
    deep = frame["deep_q"].to_numpy(np.float64)
    net = frame["net_q"].to_numpy(np.float64)
    usable = ~(np.isnan(deep) | np.isnan(net))
    if not usable.any():
        raise ValueRepairError(f"nothing to plot: {no_deep_score(len(frame), frame.attrs.get('q_from', 'cp'))}")
    weight = np.ones(len(frame))
    if "weight" in frame:
        weight = frame["weight"].to_numpy(np.float64)
    game = frame["game_id"].to_numpy(np.int64) if "game_id" in frame else np.arange(len(frame))
    net, deep, weight, game = net[usable], deep[usable], weight[usable], game[usable]
    return Scored(net, deep, weight, game, usable, bool((weight != 1).any()))


def names(frame: pd.DataFrame) -> tuple[str, str]:
    """The names of a frame's net and oracle, safe in a figure."""
    attrs = frame.attrs
    net, oracle = attrs.get("net", {}).get("name", "net"), attrs.get("oracle", {}).get("label", "deep search")
    return for_figure(net), for_figure(oracle)


def scale(frame: pd.DataFrame) -> str:
    """The source of deep Q."""
    if "alpha" not in frame.attrs:
        return "alpha unknown"
    return Alpha(**frame.attrs["alpha"]).source(frame.attrs.get("q_from", "cp"))


def made_from(frame: pd.DataFrame) -> str:
    """Net, oracle and alpha, for the line below a title."""
    return " · ".join((*names(frame), scale(frame)))


def counted(rows: Scored, threshold: float) -> str:
    """The numbers of positions and candidates, their share by weight, and the positions left out."""
    wrong = is_candidate(rows.disagreement, threshold)
    weighting = " by weight" if rows.weighted else ""
    left_out = f"; {rows.left_out:,} without a deep score left out" if rows.left_out else ""
    return (
        f"{len(wrong):,} positions, {int(wrong.sum()):,} candidates ({100 * rows.rate(wrong).rate:.2f} %{weighting}) "
        f"with |net Q − deep Q| ≥ {threshold:g}{left_out}"
    )


def for_figure(text: str) -> str:
    """`printable`, with escaped ``$``: matplotlib would parse the text between two ``$`` as mathematics."""
    return printable(text, 80).replace("$", r"\$")


LOWESS_FRACTION = 0.3
LOWESS_MIN_POSITIONS = 20
# The distance between local fits in deep Q (whose range is 2); straight lines connect them.
LOWESS_STEP = 0.005
LOWESS_PLACES = 401  # points of the line that is drawn
# Rows of a weighted fit: copies make weights finer, up to the largest number of whole weights.
_COPIES, _MOST_COPIES = 200_000, 1_000_000


def lowess_line(x: Floats, y: Floats, weights: Floats) -> tuple[Floats, Floats] | None:
    """The robust local linear fit of y over x (W. S. Cleveland, JASA 74, 1979) on `LOWESS_PLACES` places of x's range.

    `weights` [n] are the numbers of rows that each row represents: the fit is that of repeated rows (`copied`), so that
    a neighbourhood holds a share of the weight and not of the rows. Local fits are `LOWESS_STEP` apart (statsmodels'
    `delta`), so that a million points take seconds. None with fewer than `LOWESS_MIN_POSITIONS` rows of positive
    weight, or if x hardly varies.
    """
    x, y, weights = x[weights > 0], y[weights > 0], weights[weights > 0]
    if len(x) < LOWESS_MIN_POSITIONS or np.ptp(x) < LOWESS_STEP:
        return None
    order = np.argsort(x, kind="stable")
    grid = np.linspace(x.min(), x.max(), LOWESS_PLACES)
    x, y = x[order], y[order]
    if not (weights == weights[0]).all():
        rows = np.repeat(np.arange(len(x)), copied(weights[order]))
        x, y = x[rows], y[rows]
    places, first, alike = np.unique(x, return_index=True, return_counts=True)
    # One value may be a large share of all (0 in dead draws). A neighbourhood of this value alone has no width, and
    # with few other rows these decide the slope; so a neighbourhood holds at least twice as many rows.
    fraction = float(np.clip(2 * alike.max() / len(x), LOWESS_FRACTION, 1.0))
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
            fitted: Floats = lowess(
                y, x, fraction, it=iterations, delta=LOWESS_STEP, is_sorted=True, return_sorted=False
            )
        if np.isfinite(fitted).all():
            return fitted
    return None
