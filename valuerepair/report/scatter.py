"""Net Q against deep Q: a point for each position, with a lowess line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from valuerepair.arrays import Flags
from valuerepair.question import DEFAULT_THRESHOLD, Question, check_threshold, is_candidate
from valuerepair.report import style
from valuerepair.report.drawing import Scored, counted, lowess_line, made_from, names, scale, scored
from valuerepair.store import view
from valuerepair.store.store import Store
from valuerepair.text import quantity

if TYPE_CHECKING:
    import pandas as pd


def drawing(store: Store, question: Question) -> style.Drawing:
    """`draw` for a store."""
    return draw(view.frame(store, question, text=False), question.threshold)


def draw(frame: pd.DataFrame, threshold: float = DEFAULT_THRESHOLD) -> style.Drawing:
    """Net Q (y) against deep Q (x) of a store's `frame`, both from the side to move.

    Shows the diagonal, the band within which ``|net Q - deep Q| < threshold``, the candidates outside in colour by
    sign, and the lowess line of net Q over deep Q. Uses only the columns net_q, deep_q and weight, and the frame's
    attrs for the subtitle. The line and the rate of candidates are weighted; without the column each row counts as one.

    Raises UsageError for a threshold outside (0, 2], ValueRepairError if no row has a score.

    Artists have a gid: ``positions``, ``optimistic``, ``pessimistic``, ``lowess``, ``diagonal``, ``band``.
    """
    check_threshold(threshold)
    rows = scored(frame)
    wrong = is_candidate(rows.disagreement, threshold)
    with style.house_style():
        figure, axes = style.new_figure(6.4, 7.25)
        _draw_ground(axes, threshold)
        _draw_points(axes, rows, wrong)
        _draw_line(axes, rows)
        # Below the axes: inside, it would hide the worst candidates, which lie in the corners.
        figure.legend(loc="outside lower center", ncols=4, handletextpad=0.4, columnspacing=1.2)
        _label_axes(axes, frame)
        style.title(axes, "Net Q against deep Q", made_from(frame), counted(rows, threshold))
    candidates = quantity(int(wrong.sum()), "candidate")
    return figure.described(f"{quantity(len(wrong), 'position')}, {candidates} at {threshold:g}; {scale(frame)}")


def _draw_line(axes: Axes, rows: Scored) -> None:
    """Draws the lowess line, if there are enough positions."""
    line = lowess_line(rows.deep, rows.net, rows.weight)
    if line is not None:
        words = "lowess of net Q" + (", weighted" if rows.weighted else "")
        axes.plot(*line, color=style.INK, lw=1.8, gid="lowess", label=words)


def _label_axes(axes: Axes, frame: pd.DataFrame) -> None:
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


def _draw_points(axes: Axes, rows: Scored, wrong: Flags) -> None:
    """Draws all positions in grey, and over them the candidates, `wrong`, by the sign of the disagreement."""
    size, opacity = point_of(len(wrong))
    # Rasterised: no viewer opens a file of a million points as vectors.
    shape: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0, "rasterized": True}
    x, y = rows.deep, rows.net
    axes.plot(x[~wrong], y[~wrong], "o", color=style.GREY, ms=size, alpha=opacity, gid="positions", **shape)
    for gid, sign, marker, colour, words in (
        ("optimistic", 1, "^", style.VERMILLION, "net too optimistic"),
        ("pessimistic", -1, "v", style.BLUE, "net too pessimistic"),
    ):
        group = wrong & (np.sign(rows.disagreement) == sign)
        label = f"{words}: {int(group.sum()):,}"
        axes.plot(x[group], y[group], marker, color=colour, ms=size + 1.5, gid=gid, label=label, **shape)


def _draw_ground(axes: Axes, threshold: float) -> None:
    """Draws the ground below the points: the band of agreement and the diagonal."""
    ends = np.array([-1.0, 1.0])
    shape: dict[str, Any] = {"color": style.PALE, "lw": 0, "gid": "band", "label": f"within ±{threshold:g}"}
    axes.fill_between(ends, ends - threshold, ends + threshold, **shape)
    axes.plot(ends, ends, color=style.GREY, lw=0.8, ls="--", gid="diagonal")
