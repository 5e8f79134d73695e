"""Net Q against deep Q: a point for each position with a lowess line, as density, and the residuals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.ticker import FuncFormatter

from valuerepair.arrays import Flags, Floats
from valuerepair.question import DEFAULT_THRESHOLD, Question, check_threshold, is_candidate
from valuerepair.report import style
from valuerepair.report.drawing import Scored, counted, lowess_line, made_from, names, scale, scored
from valuerepair.store.store import Store
from valuerepair.text import quantity

if TYPE_CHECKING:
    import pandas as pd


class ScatterCounts(NamedTuple):
    """The numbers of positions and candidates in a scatter plot."""

    positions: int
    candidates: int


def draw(
    frame: pd.DataFrame, threshold: float = DEFAULT_THRESHOLD, *, weighted: bool = True
) -> tuple[style.Drawing, ScatterCounts]:
    """Net Q (y) against deep Q (x) of a store's `frame`, both from the side to move.

    Shows the diagonal, the band within which ``|net Q - deep Q| < threshold``, the candidates outside in colour by
    sign, and the lowess line of net Q over deep Q. Uses only the columns net_q, deep_q and weight, and the frame's
    attrs for the subtitle. The line and the rate of candidates are weighted; if not `weighted`, or without the column,
    each row counts as one.

    Raises UsageError for a threshold outside (0, 2], ValueRepairError if no row has a score.

    Artists have a gid: ``positions``, ``optimistic``, ``pessimistic``, ``lowess``, ``diagonal``, ``band``.
    """
    check_threshold(threshold)
    rows = scored(frame, by_weight=weighted)
    wrong = is_candidate(rows.disagreement, threshold)
    counts = ScatterCounts(len(rows.net), int(wrong.sum()))
    with style.house_style():
        figure, axes = style.new_figure(6.4, 7.25)
        _draw_ground(axes, threshold)
        draw_points(axes, rows, rows.net, wrong)
        draw_line(axes, rows, rows.net, "lowess of net Q")
        # Below the axes: inside, it would hide the worst candidates, which lie in the corners.
        figure.legend(loc="outside lower center", ncols=4, handletextpad=0.4, columnspacing=1.2)
        label_axes(axes, frame)
        style.title(axes, "Net Q against deep Q", made_from(frame), counted(rows, threshold))
    return figure, counts


def drawing(store: Store, question: Question, by_weight: bool) -> style.Drawing:
    """`draw` for a store."""
    frame = store.frame(question, text=False)
    figure, counts = draw(frame, question.threshold, weighted=by_weight)
    return figure.described(summary(frame, counts.positions, counts.candidates, question.threshold))


def summary(frame: pd.DataFrame, positions: int, candidates: int, threshold: float) -> str:
    """The line that describes a plot of all positions."""
    return f"{quantity(positions, 'position')}, {quantity(candidates, 'candidate')} at {threshold:g}; {scale(frame)}"


def draw_line(axes: Axes, rows: Scored, y: Floats, label: str, colour: str = style.INK) -> None:
    """Draws the lowess line of `y` [n] over deep Q, if there are enough positions."""
    line = lowess_line(rows.deep, y, rows.weight)
    if line is not None:
        words = label + (", weighted" if rows.weighted else "")
        axes.plot(*line, color=colour, lw=1.8, gid="lowess", label=words)


def label_axes(axes: Axes, frame: pd.DataFrame) -> None:
    """Labels axes of net Q over deep Q: limits, ticks, names."""
    net, oracle = names(frame)
    axes.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), aspect="equal")
    axes.set_xticks(np.linspace(-1, 1, 5))
    axes.set_yticks(np.linspace(-1, 1, 5))
    axes.set_xlabel(f"deep Q, side to move ({oracle})")
    axes.set_ylabel(f"net Q at one node, side to move ({net})")


def point_of(positions: int) -> tuple[float, float]:
    """Marker size in points and opacity: smaller and paler for more positions."""
    crowd = np.log10(max(positions, 100)) - 2  # 0 for a hundred, 4 for a million
    return float(max(4.0 - 0.7 * crowd, 1.2)), float(np.clip(0.7 - 0.15 * crowd, 0.08, 0.7))


def draw_points(axes: Axes, rows: Scored, y: Floats, wrong: Flags) -> None:
    """Draws all positions in grey, and over them the candidates, `wrong`, by the sign of the disagreement."""
    size, opacity = point_of(len(y))
    # Rasterised: no viewer opens a file of a million points as vectors.
    shape: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0, "rasterized": True}
    axes.plot(rows.deep[~wrong], y[~wrong], "o", color=style.GREY, ms=size, alpha=opacity, gid="positions", **shape)
    for gid, sign, marker, colour, words in (
        ("optimistic", 1, "^", style.VERMILLION, "net too optimistic"),
        ("pessimistic", -1, "v", style.BLUE, "net too pessimistic"),
    ):
        group = wrong & (np.sign(rows.disagreement) == sign)
        label = f"{words}: {int(group.sum()):,}"
        axes.plot(rows.deep[group], y[group], marker, color=colour, ms=size + 1.5, gid=gid, label=label, **shape)


def _draw_ground(axes: Axes, threshold: float) -> None:
    """Draws the ground below the points: the band of agreement and the diagonal."""
    ends = np.array([-1.0, 1.0])
    shape: dict[str, Any] = {"color": style.PALE, "lw": 0, "gid": "band", "label": f"within ±{threshold:g}"}
    axes.fill_between(ends, ends - threshold, ends + threshold, **shape)
    axes.plot(ends, ends, color=style.GREY, lw=0.8, ls="--", gid="diagonal")


_CELLS = 44  # hexagons across


def hexbin(store: Store, question: Question, by_weight: bool) -> style.Drawing:
    """Positions that each hexagon represents, by weight, on a logarithmic scale of colour; lowess line as in `scatter`.

    Dashed: the diagonal; dotted: ``net Q = deep Q ± threshold``. Artists have a gid: ``density``, ``lowess``,
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
        # A hexagon of rows with weight 0 is empty.
        cells.set_array(np.ma.masked_less_equal(np.asarray(cells.get_array(), np.float64), 0))
        cells.set_norm(LogNorm())
        axes.plot(ends, ends, color=style.GREY, lw=0.9, ls="--", gid="diagonal")
        for gid, shift in (("above", question.threshold), ("below", -question.threshold)):
            axes.plot(ends - shift, ends, color=style.GREY, lw=0.9, ls=":", gid=gid)
        draw_line(axes, rows, rows.net, "lowess of net Q", style.VERMILLION)
        label_axes(axes, frame)
        bar = figure.colorbar(cells, ax=axes, shrink=0.8, format=FuncFormatter(lambda count, _: f"{count:,g}"))
        bar.set_label("positions, by weight" if rows.weighted else "positions")
        lines = [line for line in axes.lines if line.get_gid() == "lowess"]
        if lines:
            axes.legend(handles=lines, loc="upper left")
        style.title(axes, "Net Q against deep Q: density", made_from(frame), counted(rows, question.threshold))
    candidates = int(is_candidate(rows.disagreement, question.threshold).sum())
    return figure.described(summary(frame, len(rows.net), candidates, question.threshold))


def residuals(store: Store, question: Question, by_weight: bool) -> style.Drawing:
    """Net Q - deep Q (y) against deep Q (x), side to move, with the lowess line: the net's bias at each deep Q.

    The line is that of `scatter` minus the diagonal. Artists have a gid: ``positions``, ``optimistic``,
    ``pessimistic``, ``lowess``, ``zero``, ``band``.
    """
    frame = store.frame(question, text=False)
    rows = scored(frame, by_weight=by_weight)
    threshold = question.threshold
    wrong = is_candidate(rows.disagreement, threshold)
    net, oracle = names(frame)
    with style.house_style():
        figure, axes = style.new_figure(7.2, 5.4)
        axes.axhspan(-threshold, threshold, color=style.PALE, lw=0, gid="band", label=f"within ±{threshold:g}")
        axes.axhline(0, color=style.GREY, lw=0.8, ls="--", gid="zero")
        draw_points(axes, rows, rows.disagreement, wrong)
        draw_line(axes, rows, rows.disagreement, "lowess")
        axes.set(xlim=(-1.04, 1.04), xlabel=f"deep Q, side to move ({oracle})", ylabel=f"net Q − deep Q ({net})")
        axes.margins(y=0.05)
        figure.legend(loc="outside lower center", ncols=4, handletextpad=0.4, columnspacing=1.2)
        style.title(axes, "Disagreement against deep Q", made_from(frame), counted(rows, threshold))
    return figure.described(summary(frame, len(rows.net), int(wrong.sum()), threshold))
