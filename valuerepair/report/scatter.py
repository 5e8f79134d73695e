"""Net Q against deep Q, one point a position, with a lowess line; as density; and what remains of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from valuerepair.question import Question, check_threshold
from valuerepair.report import style
from valuerepair.report.drawing import (
    DEFAULT_THRESHOLD,
    Drawing,
    Flags,
    Floats,
    Scored,
    counted,
    made_from,
    names,
    scale,
    scored,
)
from valuerepair.report.lowess import lowess_line
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store


@dataclass(frozen=True, slots=True)
class ScatterCounts:
    """What a scatter shows: positions, the candidates among them by sign, and rows left out for want of a deep Q."""

    positions: int
    optimistic: int
    pessimistic: int
    without_score: int

    @property
    def candidates(self) -> int:
        return self.optimistic + self.pessimistic


def plot(
    frame: pd.DataFrame, threshold: float, path: str | os.PathLike[str], *, weighted: bool = True
) -> ScatterCounts:
    """Draws `draw`'s figure into a .png, .svg or .pdf file, which appears whole or not at all.

    Raises UsageError for another ending or a threshold outside (0, 2], ValueRepairError when no row has a score.
    """
    style.format_of(path)
    figure, counts = draw(frame, threshold, weighted=weighted)
    style.save(figure, path)
    return counts


def draw(
    frame: pd.DataFrame, threshold: float = DEFAULT_THRESHOLD, *, weighted: bool = True
) -> tuple[Figure, ScatterCounts]:
    """Net Q (y) against deep Q (x) of a store's `frame`, both from the side to move.

    Shows the diagonal, the band within which ``|net Q - deep Q| < threshold``, the candidates outside in colour by
    sign, and the lowess line of net Q over deep Q. Only the columns net_q, deep_q and weight are used, and the frame's
    attrs for the subtitle. The line and the rate of candidates are those of all positions that the rows stand for; not
    `weighted`, or without the column, of the rows themselves. Artists carry a gid: ``positions``, ``optimistic``,
    ``pessimistic``, ``lowess``, ``diagonal``, ``band``.
    """
    check_threshold(threshold)
    rows = scored(frame, by_weight=weighted)
    above, below = rows.disagreement >= threshold, rows.disagreement <= -threshold
    counts = ScatterCounts(len(rows.net), int(above.sum()), int(below.sum()), rows.left_out)
    with style.house_style():
        figure, axes = style.new_figure(6.4, 7.25)
        _draw_ground(axes, threshold)
        draw_points(axes, rows.deep, rows.net, above, below)
        draw_line(axes, rows, rows.net, "lowess of net Q")
        # Below the axes: inside, it would hide the worst candidates, which lie in the corners.
        figure.legend(loc="outside lower center", ncols=4, handletextpad=0.4, columnspacing=1.2)
        label_axes(axes, frame)
        style.title(axes, "Net Q against deep Q", made_from(frame), counted(rows, threshold))
    return figure, counts


def drawing(store: Store, question: Question, by_weight: bool = True) -> Drawing:
    """`draw` of a store."""
    frame = store.frame(question, text=False)
    figure, counts = draw(frame, question.threshold, weighted=by_weight)
    return Drawing(figure, said(frame, counts.positions, counts.candidates, question.threshold))


def said(frame: pd.DataFrame, positions: int, candidates: int, threshold: float) -> str:
    """What a plot of all positions shows, in one line."""
    return f"{positions:,} positions, {candidates:,} candidates at {threshold:g}; {scale(frame)}"


def draw_line(axes: Axes, rows: Scored, y: Floats, label: str, colour: str = style.INK) -> None:
    """The lowess line of `y` [n] over deep Q, where there are positions enough."""
    line = lowess_line(rows.deep, y, rows.weight)
    if line is not None:
        words = label + (", weighted" if rows.weighted else "")
        axes.plot(*line, color=colour, lw=1.8, gid="lowess", label=words)


def label_axes(axes: Axes, frame: pd.DataFrame) -> None:
    """Net Q over deep Q: limits, ticks, whose values."""
    net, oracle = names(frame)
    axes.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), aspect="equal")
    axes.set_xticks(np.linspace(-1, 1, 5))
    axes.set_yticks(np.linspace(-1, 1, 5))
    axes.set_xlabel(f"deep Q, side to move ({oracle})")
    calibrated = "calibrated " if frame.attrs.get("calibration") else ""
    axes.set_ylabel(f"{calibrated}net Q at one node, side to move ({net})")


def point_of(positions: int) -> tuple[float, float]:
    """Marker size in points and opacity: smaller and paler the more there are."""
    crowd = np.log10(max(positions, 100)) - 2  # 0 for a hundred, 4 for a million
    return float(max(4.0 - 0.7 * crowd, 1.2)), float(np.clip(0.7 - 0.15 * crowd, 0.08, 0.7))


def draw_points(axes: Axes, x: Floats, y: Floats, above: Flags, below: Flags) -> None:
    """All positions in grey, and over them the candidates, `above` and `below` the band."""
    size, opacity = point_of(len(y))
    # Rasterised: a million points as vectors would make a file that no viewer opens.
    shape: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0, "rasterized": True}
    inside = ~(above | below)
    axes.plot(x[inside], y[inside], "o", color=style.GREY, ms=size, alpha=opacity, gid="positions", **shape)
    for gid, rows, marker, colour, words in (
        ("optimistic", above, "^", style.VERMILLION, "net too optimistic"),
        ("pessimistic", below, "v", style.BLUE, "net too pessimistic"),
    ):
        label = f"{words}: {int(rows.sum()):,}"
        axes.plot(x[rows], y[rows], marker, color=colour, ms=size + 1.5, gid=gid, label=label, **shape)


def _draw_ground(axes: Axes, threshold: float) -> None:
    """What lies below the points: the band of agreement and the diagonal."""
    ends = np.array([-1.0, 1.0])
    axes.fill_between(
        ends, ends - threshold, ends + threshold, color=style.PALE, lw=0, gid="band", label=f"within ±{threshold:g}"
    )
    axes.plot(ends, ends, color=style.GREY, lw=0.8, ls="--", gid="diagonal")


_CELLS = 44  # hexagons across


def hexbin(store: Store, question: Question, by_weight: bool = True) -> Drawing:
    """Positions that each hexagon stands for, by weight, on a logarithmic scale of colour; lowess line as in `scatter`.

    Dashed: the diagonal; dotted: ``net Q = deep Q ± threshold``. Artists carry a gid: ``density``, ``lowess``,
    ``diagonal``, ``above``, ``below``.
    """
    frame = store.frame(question, text=False)
    rows = scored(frame, by_weight=by_weight)
    ends = np.array([-1.0, 1.0])
    with style.house_style():
        figure, axes = style.new_figure(7.4, 6.9)
        cells = axes.hexbin(
            rows.deep, rows.net, C=rows.weight, reduce_C_function=np.sum, gridsize=_CELLS, extent=(-1, 1, -1, 1),
            cmap="cividis", linewidths=0.2, gid="density",
        )  # fmt: skip
        # A hexagon of rows that stand for nothing (weight 0) is empty.
        cells.set_array(np.ma.masked_less_equal(np.asarray(cells.get_array(), np.float64), 0))
        cells.set_norm(LogNorm())
        axes.plot(ends, ends, color=style.GREY, lw=0.9, ls="--", gid="diagonal")
        for gid, shift in (("above", question.threshold), ("below", -question.threshold)):
            axes.plot(ends, ends + shift, color=style.GREY, lw=0.9, ls=":", gid=gid)
        draw_line(axes, rows, rows.net, "lowess of net Q", style.VERMILLION)
        label_axes(axes, frame)
        bar = figure.colorbar(cells, ax=axes, shrink=0.8, format=FuncFormatter(lambda count, _: f"{count:,g}"))
        bar.set_label("positions, by weight" if rows.weighted else "positions")
        lines = [line for line in axes.lines if line.get_gid() == "lowess"]
        if lines:
            axes.legend(handles=lines, loc="upper left")
        style.title(axes, "Net Q against deep Q: density", made_from(frame), counted(rows, question.threshold))
    candidates = int((np.abs(rows.disagreement) >= question.threshold).sum())
    return Drawing(figure, said(frame, len(rows.net), candidates, question.threshold))


def residuals(store: Store, question: Question, by_weight: bool = True) -> Drawing:
    """Net Q - deep Q (y) against deep Q (x), side to move, with the lowess line: the net's bias at each deep Q.

    The line is that of `scatter` less the diagonal. Artists carry a gid: ``positions``, ``optimistic``,
    ``pessimistic``, ``lowess``, ``zero``, ``band``.
    """
    frame = store.frame(question, text=False)
    rows = scored(frame, by_weight=by_weight)
    off, threshold = rows.disagreement, question.threshold
    above, below = off >= threshold, off <= -threshold
    net, oracle = names(frame)
    with style.house_style():
        figure, axes = style.new_figure(7.2, 5.4)
        axes.axhspan(-threshold, threshold, color=style.PALE, lw=0, gid="band", label=f"within ±{threshold:g}")
        axes.axhline(0, color=style.GREY, lw=0.8, ls="--", gid="zero")
        draw_points(axes, rows.deep, off, above, below)
        draw_line(axes, rows, off, "lowess")
        axes.set(xlim=(-1.04, 1.04), xlabel=f"deep Q, side to move ({oracle})", ylabel=f"net Q − deep Q ({net})")
        axes.margins(y=0.05)
        figure.legend(loc="outside lower center", ncols=4, handletextpad=0.4, columnspacing=1.2)
        style.title(axes, "Disagreement against deep Q", made_from(frame), counted(rows, threshold))
    return Drawing(figure, said(frame, len(off), int(above.sum() + below.sum()), threshold))
