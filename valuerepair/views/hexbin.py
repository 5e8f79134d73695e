"""Net Q against deep Q as density: what a scatter of many points hides, how many lie on one another."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.ticker import FuncFormatter

from valuerepair.store import Store
from valuerepair.views import style
from valuerepair.views.drawing import Asked, Drawing, counted, made_from, scored
from valuerepair.views.scatter import draw_line, label_axes, said

_CELLS = 44  # hexagons across


def drawing(store: Store, asked: Asked) -> Drawing:
    """Positions that each hexagon stands for, by weight, on a logarithmic scale of colour; lowess line as in `scatter`.

    Dashed: the diagonal; dotted: ``net Q = deep Q ± threshold``. Artists carry a gid: ``density``, ``lowess``,
    ``diagonal``, ``above``, ``below``.
    """
    frame = asked.frame(store)
    rows = scored(frame, by_weight=asked.weighted)
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
        for gid, shift in (("above", asked.threshold), ("below", -asked.threshold)):
            axes.plot(ends, ends + shift, color=style.GREY, lw=0.9, ls=":", gid=gid)
        draw_line(axes, rows, rows.net, "lowess of net Q", style.VERMILLION)
        label_axes(axes, frame)
        bar = figure.colorbar(cells, ax=axes, shrink=0.8, format=FuncFormatter(lambda count, _: f"{count:,g}"))
        bar.set_label("positions, by weight" if rows.weighted else "positions")
        lines = [line for line in axes.lines if line.get_gid() == "lowess"]
        if lines:
            axes.legend(handles=lines, loc="upper left")
        style.title(axes, "Net Q against deep Q: density", made_from(frame), counted(rows, asked.threshold))
    candidates = int((np.abs(rows.disagreement) >= asked.threshold).sum())
    return Drawing(figure, said(frame, len(rows.net), candidates, asked.threshold))
