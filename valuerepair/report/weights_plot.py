"""The plot of training weights: their distribution, and which disagreements and phases they favour."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from valuerepair.chess.positions import PHASES
from valuerepair.report import style
from valuerepair.text import positions_of_games
from valuerepair.training.weights import GAP_BINS, WeightTally

_BINS_IN_ONE = 4  # bins of the tally that make one bin of the plot


def draw(tally: WeightTally, formula: str) -> Figure:
    """Three panels: shares of positions and of weight by |net Q - deep Q|, positions by weight, both shares by phase.

    The first panel leaves out positions without a known disagreement. `formula` is the line below the title.
    Artists have a gid: ``positions``, ``weight``, ``weights``, ``phase-positions``, ``phase-weight``.
    """
    with style.house_style():
        figure = Figure(figsize=(13.0, 4.6), dpi=style.DPI, layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=[1.15, 1.15, 0.8])
        _draw_disagreement(left, tally)
        _draw_weights(middle, tally)
        _draw_phases(right, tally)
        figures = tally.figures()
        style.title(
            left,
            "Weights of training positions",
            formula,
            f"{positions_of_games(tally.positions, tally.games)} count for "
            f"{figures['effective_positions']:,.0f} positions, {figures['effective_games']:,.0f} games",
        )
    return figure


def _draw_disagreement(axes: Axes, tally: WeightTally) -> None:
    edges = np.linspace(0, 2, GAP_BINS // _BINS_IN_ONE + 1)
    for values, total, colour, gid, label in (
        (tally.gap_counts, tally.positions, style.GREY, "positions", "of positions"),
        (tally.gap_sums, tally.sum, style.VERMILLION, "weight", "of weight"),
    ):
        share = values[:GAP_BINS].reshape(-1, _BINS_IN_ONE).sum(1) / (total or 1)
        axes.stairs(np.where(share > 0, share, np.nan), edges, color=colour, lw=1.6, gid=gid, label=label)
    axes.set(xlim=(0, 2), xlabel="|net Q − deep Q|, side to move", ylabel="share")
    if tally.gap_counts[:GAP_BINS].any():
        axes.set_yscale("log")
        axes.legend()
    else:  # a logarithmic axis needs a positive value
        axes.text(0.5, 0.5, "no record has the net's own Q", transform=axes.transAxes, ha="center", color=style.GREY)


def _draw_weights(axes: Axes, tally: WeightTally) -> None:
    edges, counts, zeros = tally.histogram()
    axes.stairs(counts / tally.positions, edges, color=style.BLUE, fill=True, alpha=0.8, gid="weights")
    axes.axvline(tally.mean or edges[0], color=style.INK, lw=1.0, ls="--")
    filled = np.flatnonzero(counts)
    axes.set_xscale("log")
    if len(filled):
        axes.set_xlim(edges[max(filled[0] - 1, 0)], edges[-1] * 1.1)
    axes.set(xlabel="weight", ylabel="share of positions")
    note = f"; {100 * zeros / tally.positions:.1f} % have weight 0" if zeros else ""
    style.title(axes, "", f"mean {tally.mean:.4f} (dashed){note}")


def _draw_phases(axes: Axes, tally: WeightTally) -> None:
    places = np.arange(len(PHASES))
    for offset, values, total, colour, name in (
        (-0.2, tally.phase_counts, tally.positions, style.GREY, "positions"),
        (0.2, tally.phase_sums, tally.sum, style.VERMILLION, "weight"),
    ):
        bars = axes.bar(places + offset, values / (total or 1), 0.38, color=colour, label=f"of {name}")
        for bar in bars:
            bar.set_gid(f"phase-{name}")
    axes.set_xticks(places, PHASES)
    axes.set(ylabel="share")
    axes.legend()
