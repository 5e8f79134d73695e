"""The style of all plots: the palette, titles, and the writing of a plot to a file.

The colours are those of Okabe and Ito, which people with any common kind of colour blindness can distinguish (M. Okabe,
K. Ito, "Color Universal Design", 2008); important marks also differ in shape. Figures are made without pyplot, which
would need a display and keep every figure in memory.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import Any

from cycler import cycler
from matplotlib import rc_context, rcdefaults, rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from valuerepair.errors import UsageError
from valuerepair.files import PLOTS, written_whole
from valuerepair.text import printable

ORANGE, SKY, GREEN, BLUE, VERMILLION = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"
INK, GREY, PALE = "#222222", "#8A8A8A", "#EDEDED"
# Rasterised points: a million of them as vectors would make a file that no viewer opens.
POINTS: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0, "rasterized": True}

DPI = 150
_SMALL = 7.5  # font size (points) of the lines below a title
_LETTERS_AN_INCH = 16  # of this size, with what is to the left of the axes
RC: dict[Any, Any] = {
    "axes.prop_cycle": cycler(color=[BLUE, VERMILLION, GREEN, ORANGE, SKY]),
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.08,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    # Keep text searchable, and write the same bytes for the same figure.
    "svg.fonttype": "none",
    "svg.hashsalt": "valuerepair",
    "pdf.fonttype": 42,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draws everything within it in the style of this project; restores the settings afterwards."""
    with rc_context():
        rcdefaults()  # a user's matplotlibrc must not change the project's plots
        rcParams.update(RC)
        yield


class Drawing(Figure):
    """A figure of a size in inches, with a line that describes it. Make it, and draw, within `house_style`."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), dpi=DPI, layout="constrained")
        self.description = ""


def for_figure(text: str) -> str:
    """`printable`, with escaped ``$``: matplotlib would parse the text between two ``$`` as mathematics."""
    return printable(text, 80).replace("$", r"\$")


def in_percent(axis: Axis) -> None:
    """Labels the ticks of an axis in per cent; its values are shares."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def title(axes: Axes, text: str, *lines: str) -> None:
    """Sets the title at the left and, below it, smaller lines about the plot's data.

    Wraps lines that are wider than the figure, which would be cut off and make the plot narrower.
    """
    room = round(_LETTERS_AN_INCH * axes.figure.bbox.width / axes.figure.dpi)
    wrapped = [part for line in lines for part in wrap(line, room, break_long_words=False)]
    axes.set_title(text, pad=8 + 11 * len(wrapped))
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": _SMALL}
    for i, line in enumerate(reversed(wrapped)):
        annotation = axes.annotate(line, (0, 1), xytext=(0, 5 + 11 * i), **place)
        annotation.set_in_layout(False)  # the title's pad makes room for it; the text's length must not change the plot


def format_of(path: str | os.PathLike[str]) -> str:
    """``png``, ``svg`` or ``pdf`` by the file's ending. Raises UsageError for another ending."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in PLOTS:
        raise UsageError(f"{os.fspath(path)}: a plot's name ends in .png, .svg or .pdf")
    return ending


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes the figure in the format of the file's ending; the file appears whole or not at all.

    Raises UsageError for another ending, OSError when the folder cannot be written.
    """
    with written_whole(path) as partial:
        partial.write_bytes(content_of(figure, format_of(path)))


def content_of(figure: Figure, kind: str) -> bytes:
    """The figure as a file of this kind, with the same bytes each time: without a time stamp."""
    metadata = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    content = io.BytesIO()  # on a full disk matplotlib itself would raise an AttributeError
    with house_style():
        # Axes of equal aspect get their place only in the second pass; in the first pass a title may be cut.
        figure.draw_without_rendering()
        figure.savefig(content, format=kind, dpi=DPI, metadata=metadata)
    return content.getvalue()
