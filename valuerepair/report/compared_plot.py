"""Two nets on the same positions: the disagreement of one against the other's, by origin of the positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from valuerepair.measure.compare import CATEGORIES, WORDS, Compared, Comparison, OriginRow, categories
from valuerepair.measure.compared_nets import ComparedPositions
from valuerepair.report import style
from valuerepair.report.plots import point_of
from valuerepair.text import positions_of_games

# Category -> colour, marker; in the order of drawing.
_LOOKS = {
    "right both": (style.GREY, "o"),
    "still wrong": (style.BLUE, "s"),
    "repaired": (style.GREEN, "v"),
    "newly wrong": (style.VERMILLION, "^"),
}
_SIZE = 5.6  # inches of a panel


def draw(compared: Compared) -> Figure:
    """A row for each comparison, and in it a panel for each origin: candidates at the question's threshold.

    A point is the second net's disagreement (y) against the first's (x), both net Q - deep Q from the side to move;
    positions on the diagonal did not change. Artists have a gid: ``right-both``, ``still-wrong``, ``repaired``,
    ``newly-wrong``, numbered from the second panel on.
    """
    rows, origins = len(compared.comparisons), len(compared.comparisons[0].by_origin)
    with style.house_style():
        figure = style.Drawing(_SIZE * origins, _SIZE * rows)
        axes = figure.subplots(rows, origins, squeeze=False)
        for i, pair in enumerate(compared.comparisons):
            for j, row in enumerate(pair.by_origin):
                number = i * origins + j
                _draw_panel(axes[i, j], compared, pair, row, i + 1, f"-{number + 1}" if number else "")
    return figure


def _draw_panel(axes: Axes, compared: Compared, pair: Comparison, row: OriginRow, second: int, suffix: str) -> None:
    threshold = compared.threshold
    positions = compared.positions.of(row.origin)
    _draw_ground(axes, threshold, positions, second, suffix)
    size, opacity = point_of(row.positions)
    x, y = positions.disagreement[0], positions.disagreement[second]
    # Rasterised: a million points as vectors would make a file that no viewer opens.
    shape: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0, "rasterized": True}
    codes = categories(positions, threshold, second)
    for category, (colour, marker) in _LOOKS.items():
        members = codes == CATEGORIES.index(category)
        large = category != "right both"
        axes.plot(
            x[members],
            y[members],
            marker,
            color=colour,
            ms=size + 2 * large,
            alpha=0.85 if large else opacity,
            gid=category.replace(" ", "-") + suffix,
            label=f"{category}: {members.sum():,}",
            **shape,
        )
    axes.set_xlabel(f"net Q − deep Q, {pair.first}")
    axes.set_ylabel(f"net Q − deep Q, {pair.second}")
    axes.legend(loc="upper left", handletextpad=0.3)
    count = f"{WORDS[row.origin]}: {positions_of_games(row.positions, row.games)}{compared.which}"
    scale = compared.alpha.source(compared.q_from)
    rule = f"candidates: |net Q − deep Q| ≥ {threshold:g}"
    style.title(axes, f"{pair.second} against {pair.first}", f"{compared.judge} · {scale}", count, rule)


def _draw_ground(axes: Axes, threshold: float, positions: ComparedPositions, second: int, suffix: str) -> None:
    """The band of what is no candidate, and the diagonal."""
    limit = max(1.05, threshold * 1.2, 1.05 * float(np.abs(positions.disagreement[[0, second]]).max()))
    axes.fill_between([-threshold, threshold], -threshold, threshold, color=style.PALE, lw=0, gid=f"band{suffix}")
    for place in (-threshold, threshold):
        axes.axvline(place, color=style.GREY, lw=0.5)
        axes.axhline(place, color=style.GREY, lw=0.5)
    axes.plot([-limit, limit], [-limit, limit], color=style.GREY, lw=0.8, ls="--", gid=f"diagonal{suffix}")
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
