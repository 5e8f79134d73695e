"""The first look at a store: net Q against deep Q, one point a position, with a lowess line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.store.queries import check_threshold
from valuerepair.store.rates import wilson
from valuerepair.views import style

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

DEFAULT_THRESHOLD = 0.55
LOWESS_FRACTION = 0.3
LOWESS_MIN_POSITIONS = 20
# Local fits this far apart in deep Q (whose range is 2), with straight lines between them.
LOWESS_STEP = 0.005
LOWESS_PLACES = 401  # of the line that is drawn


@dataclass(frozen=True, slots=True)
class Counts:
    """What a scatter shows: positions, the candidates among them by sign, and rows left out for want of a deep Q."""

    positions: int
    optimistic: int
    pessimistic: int
    without_score: int

    @property
    def candidates(self) -> int:
        return self.optimistic + self.pessimistic


def plot(frame: pd.DataFrame, threshold: float, path: str | os.PathLike[str]) -> Counts:
    """Draws `draw`'s figure into a .png, .svg or .pdf file, which appears whole or not at all.

    Raises UsageError for another ending or a threshold outside (0, 2], ValueRepairError when no row has a score.
    """
    style.format_of(path)
    figure, counts = draw(frame, threshold)
    style.save(figure, path)
    return counts


def draw(frame: pd.DataFrame, threshold: float = DEFAULT_THRESHOLD) -> tuple[Figure, Counts]:
    """Net Q (y) against deep Q (x) of a store's `frame`, both from the side to move.

    Shows the diagonal, the band within which ``|net Q - deep Q| < threshold``, the candidates outside in colour by
    sign, and the lowess line of net Q over deep Q. Only the columns net_q and deep_q are used, and the frame's attrs
    for the subtitle. Artists carry a gid: ``positions``, ``optimistic``, ``pessimistic``, ``lowess``, ``diagonal``.
    """
    check_threshold(threshold)
    deep, net, without = _scores(frame)
    difference = net - deep
    above, below = difference >= threshold, difference <= -threshold
    counts = Counts(len(net), int(above.sum()), int(below.sum()), without)
    with style.house_style():
        figure, axes = style.new_figure(6.4, 7.1)
        _draw_ground(axes, threshold)
        _draw_points(axes, deep, net, above, below)
        line = lowess_line(deep, net)
        if line is not None:
            axes.plot(*line, color=style.INK, lw=1.8, gid="lowess", label="lowess of net Q")
        # Below the axes: inside, it would hide the worst candidates, which lie in the corners.
        figure.legend(loc="outside lower center", ncols=4, handletextpad=0.4, columnspacing=1.2)
        _write_words(axes, frame, threshold, counts)
    return figure, counts


def lowess_line(x: Floats, y: Floats) -> tuple[Floats, Floats] | None:
    """The robust local linear fit of y over x (W. S. Cleveland, JASA 74, 1979) on `LOWESS_PLACES` places of x's range.

    Local fits are made every `LOWESS_STEP` only (statsmodels' `delta`), which is what makes a million points a matter
    of seconds. None with fewer than `LOWESS_MIN_POSITIONS` points, or when x hardly varies.
    """
    if len(x) < LOWESS_MIN_POSITIONS or np.ptp(x) < LOWESS_STEP:
        return None
    from statsmodels.nonparametric.smoothers_lowess import lowess

    order = np.argsort(x, kind="stable")
    places, first, alike = np.unique(x[order], return_index=True, return_counts=True)
    # One value may be a large share of all (0 in dead draws). A neighbourhood that it fills has no width, and in one
    # that it nearly fills a few others decide the slope; so a neighbourhood holds at least twice as many.
    fraction = float(np.clip(2 * alike.max() / len(x), LOWESS_FRACTION, 1.0))
    for iterations in (3, 0):
        # Where all residuals are 0 the robust weights are 0 / 0; the plain fit has an answer there.
        with np.errstate(divide="ignore", invalid="ignore"):
            fitted = lowess(
                y[order],
                x[order],
                fraction,
                it=iterations,
                delta=LOWESS_STEP,
                is_sorted=True,
                return_sorted=False,
            )
        if np.isfinite(fitted).all():
            grid = np.linspace(x.min(), x.max(), LOWESS_PLACES)
            return grid, np.interp(grid, places, fitted[first])
    return None


def _scores(frame: pd.DataFrame) -> tuple[Floats, Floats, int]:
    """deep Q, net Q of the rows that have both, and the number of the others."""
    deep = frame["deep_q"].to_numpy(np.float64)
    net = frame["net_q"].to_numpy(np.float64)
    usable = ~(np.isnan(deep) | np.isnan(net))
    if not usable.any():
        kind = frame.attrs.get("q_from", "cp")
        raise ValueRepairError(
            f"nothing to plot: none of the {len(frame):,} positions has a deep score from {kind}; "
            f"try --q-from {'wdl' if kind == 'cp' else 'cp'}"
        )
    return deep[usable], net[usable], int((~usable).sum())


def _point(positions: int) -> tuple[float, float]:
    """Marker size in points and opacity: smaller and paler the more there are."""
    crowd = np.log10(max(positions, 100)) - 2  # 0 for a hundred, 4 for a million
    return float(max(4.0 - 0.7 * crowd, 1.2)), float(np.clip(0.7 - 0.15 * crowd, 0.08, 0.7))


def _draw_points(axes: Axes, deep: Floats, net: Floats, above: NDArray[np.bool_], below: NDArray[np.bool_]) -> None:
    """All positions in grey, and over them the candidates, `above` and `below` the band."""
    size, opacity = _point(len(net))
    # Rasterised: a million points as vectors would make a file that no viewer opens.
    shape: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0, "rasterized": True}
    inside = ~(above | below)
    axes.plot(deep[inside], net[inside], "o", color=style.GREY, ms=size, alpha=opacity, gid="positions", **shape)
    for gid, rows, marker, colour, words in (
        ("optimistic", above, "^", style.VERMILLION, "net too optimistic"),
        ("pessimistic", below, "v", style.BLUE, "net too pessimistic"),
    ):
        label = f"{words}: {int(rows.sum()):,}"
        axes.plot(deep[rows], net[rows], marker, color=colour, ms=size + 1.5, gid=gid, label=label, **shape)


def _draw_ground(axes: Axes, threshold: float) -> None:
    """What lies below the points: the band of agreement, the diagonal, the axes' own look."""
    ends = np.array([-1.0, 1.0])
    axes.fill_between(
        ends, ends - threshold, ends + threshold, color=style.PALE, lw=0, gid="band", label=f"within ±{threshold:g}"
    )
    axes.plot(ends, ends, color=style.GREY, lw=0.8, ls="--", gid="diagonal")
    axes.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), aspect="equal")
    axes.set_xticks(np.linspace(-1, 1, 5))
    axes.set_yticks(np.linspace(-1, 1, 5))


def _write_words(axes: Axes, frame: pd.DataFrame, threshold: float, counts: Counts) -> None:
    attrs = frame.attrs
    net, oracle = attrs.get("net", {}).get("name", "net"), attrs.get("oracle", {}).get("label", "deep search")
    axes.set_xlabel(f"deep Q, side to move ({oracle})")
    axes.set_ylabel(f"net Q at one node, side to move ({net})")
    if attrs.get("q_from") == "wdl":
        scale = "deep Q from the engine's WDL"
    elif "alpha" in attrs:
        scale = f"alpha {attrs['alpha']['value']:.0f}, {attrs['alpha']['origin']}"
    else:
        scale = "alpha unknown"
    rate = wilson(counts.candidates, counts.positions)
    left_out = f"; {counts.without_score:,} without a deep score left out" if counts.without_score else ""
    style.title(
        axes,
        "Net Q against deep Q",
        f"{net} · {oracle} · {scale}",
        f"{counts.positions:,} positions, {counts.candidates:,} candidates ({100 * rate.rate:.2f} %) "
        f"with |net Q − deep Q| ≥ {threshold:g}{left_out}",
    )
