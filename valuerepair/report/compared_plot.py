"""Two nets on the same positions: the disagreement of one against the other's, and the changes by label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from valuerepair.chess import values
from valuerepair.measure.compare import CATEGORIES, Compared, Comparison, categories
from valuerepair.measure.labels import shown_labels
from valuerepair.report import style
from valuerepair.report.plots import point_of

if TYPE_CHECKING:
    from valuerepair.rates import Interval

# Category -> colour, marker; in the order of drawing.
_LOOKS = {
    "right both": (style.GREY, "o"),
    "still wrong": (style.BLUE, "s"),
    "repaired": (style.GREEN, "v"),
    "newly wrong": (style.VERMILLION, "^"),
}
_ROW_HEIGHT = 5.6
_WIDTH = 11.5


def draw(compared: Compared) -> Figure:
    """A row for each comparison: left every position, right the differences of candidate shares by label.

    Left: the second net's disagreement (y) against the first's (x), both net Q - deep Q from the side to move;
    positions on the diagonal did not change. Artists have a gid: ``right-both``, ``still-wrong``, ``repaired``,
    ``newly-wrong``, numbered from the second row on. Right: second minus first in percentage points of all positions,
    with the paired 95 % intervals, in the order of the table; left of 0 is a repair.
    """
    rows = len(compared.comparisons)
    with style.house_style():
        figure = style.Drawing(_WIDTH, _ROW_HEIGHT * rows)
        axes = figure.subplots(rows, 2, squeeze=False, width_ratios=[1, 1.05])
        for i, comparison in enumerate(compared.comparisons):
            suffix = f"-{i + 1}" if i else ""
            _draw_positions(axes[i, 0], compared, comparison, i + 1, suffix)
            _draw_changes(axes[i, 1], comparison, suffix)
    return figure


def _draw_positions(axes: Axes, compared: Compared, pair: Comparison, second: int, suffix: str) -> None:
    scores, threshold = compared.scores, compared.threshold
    x, y = scores.disagreement[0], scores.disagreement[second]
    limit = max(1.05, threshold * 1.2, 1.05 * float(np.abs(scores.disagreement[[0, second]]).max()))
    axes.fill_between([-threshold, threshold], -threshold, threshold, color=style.PALE, lw=0, gid=f"band{suffix}")
    for place in (-threshold, threshold):
        axes.axvline(place, color=style.GREY, lw=0.5)
        axes.axhline(place, color=style.GREY, lw=0.5)
    axes.plot([-limit, limit], [-limit, limit], color=style.GREY, lw=0.8, ls="--", gid=f"diagonal{suffix}")
    size, opacity = point_of(len(x))
    # Rasterised: a million points as vectors would make a file that no viewer opens.
    shape: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0, "rasterized": True}
    codes = categories(scores, threshold, second)
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
            label=f"{category}: {pair.counts[category]:,}",
            **shape,
        )
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    axes.set_xlabel(f"net Q − deep Q, {pair.first}")
    axes.set_ylabel(f"net Q − deep Q, {pair.second}")
    axes.legend(loc="upper left", handletextpad=0.3)
    style.title(axes, f"{pair.second} against {pair.first}", *_words(compared))


def _words(result: Compared) -> list[str]:
    by_alpha = result.q_from == "cp" and result.alpha.origin != values.OWN_Q
    scale = f"alpha {result.alpha.value:.0f} for all nets" if by_alpha else result.alpha.source(result.q_from)
    screened = ", weighted" if result.scores.weighted else ""
    part = "" if result.part is None else f" held out ({result.part})"
    return [
        f"{result.oracle} · {scale}",
        f"{result.positions:,} positions{part}{screened}; candidates: |net Q − deep Q| ≥ {result.threshold:g}",
    ]


def _draw_changes(axes: Axes, pair: Comparison, suffix: str) -> None:
    rows: list[tuple[str, Interval]] = [("all candidates", pair.share_by_games)]
    rows += [(label.label, label.change) for label in shown_labels(pair.labels)]
    axes.axvline(0, color=style.GREY, lw=0.8)
    for i, (_, interval) in enumerate(rows):
        colour, marker = _verdict(interval)
        low, middle, high = (100 * share for share in (interval.low, interval.difference, interval.high))
        axes.plot([low, high], [i, i], color=colour, lw=1.4, solid_capstyle="butt")
        axes.plot(middle, i, marker, color=colour, ms=6, markeredgewidth=0, gid=f"change-{i}{suffix}")
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.tick_params(axis="y", length=0, labelsize=8 if len(rows) <= 24 else 6)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("difference in percentage points of all positions (left: repaired)")
    style.title(axes, "Candidates by label", "second net minus first, 95 % intervals by games")


def _verdict(interval: Interval) -> tuple[str, str]:
    """Colour and marker: certainly fewer, certainly more, or neither."""
    if not interval.clear:
        return style.INK, "o"
    return (style.GREEN, "v") if interval.high < 0 else (style.VERMILLION, "^")
