"""Plots of a training: its curve, step by step, and the weights of its positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from valuerepair.chess.positions import PHASES
from valuerepair.report import style
from valuerepair.report.drawing import for_figure
from valuerepair.text import positions_of_games, printable
from valuerepair.training.train import Training, read_curve
from valuerepair.training.weights import GAP_BINS, WeightTally

Rows = Sequence[Mapping[str, Any]]


def drawing(path: str) -> style.Drawing:
    """Three panels over the steps: losses; candidates, also newly wrong; the change of the policy.

    `path` is that of the new net, or of the curve's file beside it. A vertical line marks the step that was written.
    Artists have a gid: ``loss``, ``train_loss``, ``rate``, ``newly_wrong``, ``mean_dq``,
    ``policy_kl``, ``written``. Raises ValueRepairError for another file.
    """
    training = read_curve(path)
    about, rows = training.about, training.rows
    net, output, steps = about["net"]["name"], about["output"], about["options"]["steps"]
    summary = f"{rows[-1]['step']:,} of {steps:,} steps, {_summary(training)}"
    judged = "loss" in rows[0]
    with style.house_style():
        figure = style.Drawing(12.5 if judged else 5.5, 4.4)
        panels = figure.subplots(1, 3 if judged else 1, squeeze=False)[0]
        _draw_lines(panels[0], rows, {"train_loss": "of training", "loss": "of games held out"}, "loss")
        if judged:
            names = {"rate": "candidates", "newly_wrong": "newly wrong"}
            _draw_lines(panels[1], rows, names, "% of the positions held out", 100)
            _draw_lines(
                panels[2], rows, {"policy_kl": "KL to the old policy (nats)", "mean_dq": "mean |net Q − deep Q|"}, ""
            )
        for panel in panels:
            panel.set_xlabel("step")
            if about.get("written") is not None:
                panel.axvline(about["written"]["step"], color=style.GREY, lw=0.9, ls="--", gid="written")
        style.title(panels[0], "Training", f"{for_figure(net)} to {for_figure(output)}", summary)
    return figure.described(f"{printable(net)} to {printable(output)}: {printable(summary)}")


def _summary(training: Training) -> str:
    first, last = training.rows[0], training.rows[-1]
    if last["step"] == 0:
        return "no step yet"
    if "loss" not in first:
        return f"loss {last['train_loss']:.4f}"
    best = min(training.rows, key=lambda row: row["loss"])
    if amplitude := training.about.get("amplitude"):  # the net that was written
        measures = amplitude.get("measures") or {}
        best = {**best, **{name: value for name, value in measures.items() if value is not None}}
    words = f"loss of held-out games {first['loss']:.4f} to {best['loss']:.4f}"
    if first["mean_dq"] is not None:
        words += f", mean |net Q − deep Q| {first['mean_dq']:.4f} to {best['mean_dq']:.4f}"
    return words


def _draw_lines(axes: Axes, rows: Rows, names: Mapping[str, str], label: str, factor: float = 1) -> None:
    for (name, words), marker in zip(names.items(), "osv", strict=False):
        points = [(row["step"], factor * row[name]) for row in rows if row.get(name) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), marker=marker, ms=3, lw=1.4, label=words, gid=name)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0 if factor != 1 or not label else None)
    if axes.lines:
        axes.legend()


_BINS_IN_ONE = 4  # bins of the tally that make one bin of the plot


def draw_weights(tally: WeightTally, formula: str) -> Figure:
    """Three panels: shares of positions and of weight by |net Q - deep Q|, positions by weight, both shares by phase.

    The first panel leaves out positions without a known disagreement. `formula` is the line below the title.
    Artists have a gid: ``positions``, ``weight``, ``weights``, ``phase-positions``, ``phase-weight``.
    """
    with style.house_style():
        figure = style.Drawing(13.0, 4.6)
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
