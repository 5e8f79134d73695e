"""The disagreement against deep Q: in which kind of position, by what the search says of it, the net errs which way."""

from __future__ import annotations

from valuerepair.store import Store
from valuerepair.views import style
from valuerepair.views.drawing import Asked, Drawing, counted, made_from, names, scored
from valuerepair.views.scatter import draw_line, draw_points, said


def drawing(store: Store, asked: Asked) -> Drawing:
    """Net Q - deep Q (y) against deep Q (x), side to move, with the lowess line: the net's bias at each deep Q.

    The line is that of `scatter` less the diagonal. Artists carry a gid: ``positions``, ``optimistic``,
    ``pessimistic``, ``lowess``, ``zero``, ``band``.
    """
    frame = asked.frame(store)
    rows = scored(frame, by_weight=asked.weighted)
    off, threshold = rows.disagreement, asked.threshold
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
