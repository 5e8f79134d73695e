"""The plot of results: mean results of the games played from positions against Q of the net and of the deep search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from valuerepair.arrays import Floats
from valuerepair.errors import ValueRepairError
from valuerepair.question import Question
from valuerepair.rates import wilson_bounds
from valuerepair.report import style
from valuerepair.report.drawing import made_from, names, scale
from valuerepair.store import view
from valuerepair.store.plays import outcomes
from valuerepair.store.store import Store

BINS = 10


class Bin(NamedTuple):
    """The positions with Q in one of `BINS` equal parts of [-1, 1]: their number, mean Q, mean Z and its 95 % interval.

    Q and the result Z are for the side to move.
    """

    positions: int
    q: float
    z: float
    low: float
    high: float


def bins_of(q: Floats, z: Floats) -> list[Bin]:
    """The bins with positions in them, in ascending order; `q` [n] are the positions' values, `z` [n] mean results.

    The interval is Wilson's, for the share of the points ``(z + 1) / 2`` with each position as one trial. A result in
    [0, 1] varies at most as much as a result of 0 or 1, so draws make the interval too wide, never too narrow. It also
    holds for a single position and for equal results.
    """
    edges, bins = np.linspace(-1, 1, BINS + 1), []
    bin_numbers = np.clip(np.digitize(q, edges) - 1, 0, BINS - 1)  # Q = 1 belongs to the last bin
    for number in np.unique(bin_numbers):
        in_bin = bin_numbers == number
        positions, mean_z = int(in_bin.sum()), float(z[in_bin].mean())
        low, high = wilson_bounds((mean_z + 1) / 2, positions)
        bins.append(Bin(positions, float(q[in_bin].mean()), mean_z, 2 * low - 1, 2 * high - 1))
    return bins


def drawing(store: Store, question: Question) -> style.Drawing:
    """Mean Z of the games played from positions (y) against their Q by net and search (x), side to move.

    A position counts once, with the mean of its decided games. On the diagonal Q equals Z.
    Artists have a gid: ``net``, ``deep``, each also with ``-intervals``, and ``diagonal``. Raises ValueRepairError if
    no decided game was played from a position with both values.
    """
    frame = view.frame(store, question, text=False)
    results = outcomes(store)
    usable = frame[~frame["disagreement"].isna()].set_index("position_id")
    in_frame = np.isin(results.ids, usable.index.to_numpy())
    if not in_frame.any():
        raise ValueRepairError(
            f"{store.path}: no decided games from its positions; vr selfplay BOOK --db {store.path} plays them"
        )
    rows, z, games = usable.loc[results.ids[in_frame]], results.z[in_frame], int(results.games[in_frame].sum())
    with style.house_style():
        figure, axes = style.new_figure(6.4, 6.8)
        axes.plot([-1, 1], [-1, 1], color=style.GREY, lw=0.8, ls="--", gid="diagonal")
        for gid, colour, marker, name in (
            ("deep", style.BLUE, "o", "deep Q"),
            ("net", style.VERMILLION, "^", "net Q"),
        ):
            q = rows[f"{gid}_q"].to_numpy(np.float64)
            squared_error = float(((z - q) ** 2).mean())
            _draw_bins(axes, bins_of(q, z), colour, marker, gid, f"{name}; mean (Z − Q)²: {squared_error:.3f}")
        axes.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), aspect="equal")
        axes.set(xlabel="Q of the position, mean of each bin", ylabel="Z of its games, mean of each bin")
        figure.legend(loc="outside lower center", ncols=2)  # inside, it would hide the bins at the ends
        style.title(
            axes,
            "Results of games against Q",
            made_from(frame),
            f"{games:,} decided games from {len(z):,} positions, for the side to move; numbers: positions of a bin",
        )
    net, oracle = names(frame)
    return figure.described(f"{games:,} decided games from {len(z):,} positions, {net} and {oracle}; {scale(frame)}")


def _draw_bins(axes: Axes, bins: list[Bin], colour: str, marker: str, gid: str, label: str) -> None:
    _, mean_q, mean_z, low, high = zip(*bins, strict=True)
    axes.vlines(mean_q, low, high, colour, lw=0.9, gid=f"{gid}-intervals")
    axes.plot(mean_q, mean_z, marker, color=colour, ms=6, ls="-", lw=0.8, gid=gid, label=label)
    for q_bin in bins:
        axes.annotate(f"{q_bin.positions:,}", (q_bin.q, q_bin.z), xytext=(5, 4 if gid == "net" else -10),
                      textcoords="offset points", fontsize=7, color=colour,
                      path_effects=[withStroke(linewidth=2.5, foreground="white")])  # fmt: skip
