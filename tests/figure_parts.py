"""What a matplotlib figure holds, found by the gid of its artists."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from valuerepair.arrays import Floats


def artist(figure: Artist, gid: str) -> Any:
    """The one artist with that gid."""
    (matching,) = figure.findobj(lambda part: isinstance(part, Artist) and part.get_gid() == gid)
    return matching


def has(figure: Figure, gid: str) -> bool:
    return bool(figure.findobj(lambda part: isinstance(part, Artist) and part.get_gid() == gid))


def line(figure: Figure, gid: str) -> tuple[Floats, Floats]:
    """x and y of a line."""
    plotted = artist(figure, gid)
    assert isinstance(plotted, Line2D)
    return np.asarray(plotted.get_xdata(), float), np.asarray(plotted.get_ydata(), float)


def margins(figure: Figure, gid: str) -> Floats:
    """[n, 2] lower and upper ends of vertical bars."""
    return np.array([[segment[0][1], segment[-1][1]] for segment in artist(figure, gid).get_segments()])


def band(figure: Figure, gid: str) -> dict[float, tuple[float, float]]:
    """x -> lower and upper end of a `fill_between`."""
    (path,) = artist(figure, gid).get_paths()
    ends: dict[float, list[float]] = {}
    for x, y in path.vertices:
        ends.setdefault(round(float(x), 9), []).append(float(y))
    return {x: (min(ys), max(ys)) for x, ys in ends.items()}


def bars(figure: Figure, panel: str) -> dict[str, tuple[float, float, float]]:
    """Name of each horizontal bar of the axes with this label -> its length and the ends of its interval."""
    (axes,) = (axes for axes in figure.axes if axes.get_label() == panel)
    intervals = {}
    for i, name in enumerate(label.get_text() for label in axes.get_yticklabels()):
        bar, span = artist(axes, f"bar-{i}"), artist(axes, f"interval-{i}")
        assert isinstance(bar, Rectangle)
        assert isinstance(span, Line2D)
        low, high = np.asarray(span.get_xdata(), float)
        intervals[name] = (float(bar.get_width()), float(low), float(high))
    return intervals


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))
