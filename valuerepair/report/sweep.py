"""Plots of experiments: W/D/L and (w + l) / d by N_scl and by temperature, repeated games, Elo of matches."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from valuerepair.intervals import wilson_bounds
from valuerepair.play.elo import elo_interval, share_interval
from valuerepair.play.experiment import Trial
from valuerepair.play.experiment_contempt import ContemptReport
from valuerepair.play.experiment_measures import WHOLE, Match, Sweep
from valuerepair.report import style
from valuerepair.report.drawing import Drawing
from valuerepair.report.experiment_table import best_of
from valuerepair.report.sweep_table import read_sweeps

_LOOKS = (("White wins", style.ORANGE, "o"), ("draws", style.GREY, "s"), ("Black wins", style.BLUE, "^"))
Points = Sequence[tuple[float, Sweep]]


def plot_contempt(report: ContemptReport, path: str | os.PathLike[str]) -> None:
    """Draws `draw_contempt`'s figure into a .png, .svg or .pdf file. Raises UsageError for another ending."""
    style.format_of(path)
    style.save(draw_contempt(report), path)


def draw_contempt(report: ContemptReport) -> Figure:
    """Four plots: W/D/L against N_scl (infinity at the right), against temperature, repeated games, the match.

    Bars are intervals at 0.95 of shares of games.
    """
    with style.house_style():
        figure = Figure(figsize=(11.5, 8.6), dpi=style.DPI, layout="constrained")
        by_scl, by_tau, repeats, match = figure.subplots(2, 2).ravel()
        _draw_scl(by_scl, report)
        _draw_results(by_tau, _with_zero(report), "temperature", report.nodes)
        _draw_repeats(repeats, [*report.scl, *report.temperatures])
        _draw_matches(match, [report.match] if report.match is not None else [])
    return figure


def drawing(path: str) -> Drawing:
    """W/D/L against N_scl and against temperature, from the table that `vr experiment contempt` left in its folder.

    Artists carry the gid of their line: ``White wins``, ``draws``, ``Black wins``. Raises ValueRepairError for a folder
    or a table.csv that is none of such an experiment.
    """
    report = read_sweeps(path)
    with style.house_style():
        figure = Figure(figsize=(11.5, 4.5), dpi=style.DPI, layout="constrained")
        by_scl, by_tau = figure.subplots(1, 2)
        _draw_scl(by_scl, report)
        _draw_results(by_tau, _with_zero(report), "temperature", report.nodes)
    games = sum(sweep.games for _, sweep in [*report.scl, *report.temperatures])
    return Drawing(
        figure, f"{games:,} games at {len(report.scl)} settings of N_scl and {len(report.temperatures)} temperatures"
    )


def plot_matches(matches: Sequence[Match], path: str | os.PathLike[str]) -> None:
    """Elo of each match with its intervals, into a .png, .svg or .pdf file. Raises UsageError for another ending."""
    style.format_of(path)
    with style.house_style():
        figure, axes = style.new_figure(8.5, 1.8 + 0.5 * max(len(matches), 1))
        _draw_matches(axes, matches)
    style.save(figure, path)


def plot_odds(trials: Sequence[Trial], matches: Sequence[Match], path: str | os.PathLike[str]) -> None:
    """Points of the side that gives odds against its nodes, a plot for each kind of odds, a line for each N_scl.

    `matches` are those of `trials`; bars are intervals at 0.95. Raises UsageError for another ending of the file.
    """
    style.format_of(path)
    kinds = list(dict.fromkeys(_odds_of(trial) for trial in trials))
    with style.house_style():
        figure = Figure(figsize=(5.6 * len(kinds), 4.4), dpi=style.DPI, layout="constrained")
        for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
            of_kind = [(t, m) for t, m in zip(trials, matches, strict=True) if _odds_of(t) == kind and m.score.games]
            _draw_odds(axes, kind, of_kind)
    style.save(figure, path)


def _odds_of(trial: Trial) -> str:
    return trial.name.removesuffix(trial.sides[0].name).strip()


def _draw_odds(axes: Axes, kind: str, played: Sequence[tuple[Trial, Match]]) -> None:
    looks = ((style.GREY, "s"), (style.ORANGE, "o"), (style.BLUE, "^"), (style.GREEN, "v"), (style.VERMILLION, "D"))
    for i, n_scl in enumerate(sorted({trial.sides[0].params.n_scl for trial, _ in played})):
        line = [(t.sides[0].nodes, share_interval(m.score)) for t, m in played if t.sides[0].params.n_scl == n_scl]
        nodes, points = [n for n, _ in line], [p.value for _, p in line]
        bars = [[p.value - p.low for _, p in line], [p.high - p.value for _, p in line]]
        label, (colour, marker) = f"N_scl = {n_scl or '∞'}", looks[i % len(looks)]
        axes.errorbar(nodes, points, bars, color=colour, marker=marker, ms=5, lw=1.2, elinewidth=0.8, label=label)
    axes.set_xscale("log")
    axes.set(ylim=(0, 1), xlabel="nodes of the side that gives odds", ylabel="its share of the points")
    if played:
        axes.legend(loc="upper left")
    second = played[0][1].second if played else "not played yet"
    games = sum(match.score.games for _, match in played)
    style.title(axes, kind, f"against {second}" if played else second, f"{games:,} games; intervals at 0.95")


def _draw_scl(axes: Axes, report: ContemptReport) -> None:
    """Results against N_scl, infinity at the right."""
    finite = [n for n, _ in report.scl if not math.isinf(n)]
    end = 4 * max(finite, default=1)  # where infinity stands
    placed = [(end if math.isinf(n) else n, sweep) for n, sweep in report.scl]
    _draw_results(axes, placed, "N_scl", report.nodes)
    axes.set_xscale("log")
    axes.set_xticks([x for x, _ in placed], [f"{n:g}" if not math.isinf(n) else "∞" for n, _ in report.scl])
    axes.minorticks_off()


def _with_zero(report: ContemptReport) -> list[tuple[float, Sweep]]:
    """The temperatures, with 0 where it was measured: that is N_scl = infinity."""
    return [(0.0, sweep) for n, sweep in report.scl if math.isinf(n)] + report.temperatures


def _draw_results(axes: Axes, points: Points, name: str, nodes: int) -> None:
    """Shares of White's wins, draws and losses against the setting, and (w + l) / d above each."""
    for which, (label, colour, marker) in enumerate(_LOOKS):
        drawn = [(x, sweep.shares[which], _margin(sweep, which)) for x, sweep in points if sweep.score.games]
        if not drawn:
            continue
        xs, shares, margins = (list(column) for column in zip(*drawn, strict=True))
        line = axes.errorbar(
            xs,
            shares,
            np.transpose(margins),
            color=colour,
            marker=marker,
            ms=5,
            lw=1.2,
            elinewidth=0.8,
            label=label,
            gid=label,
        )
        # Beside each other: results of equal share would hide one another.
        aside = ScaledTranslation((which - 1) * 5 / 72, 0, axes.figure.dpi_scale_trans)
        for artist in line.get_children():
            artist.set_transform(artist.get_transform() + aside)
    for x, sweep in points:
        if sweep.score.games:
            axes.annotate(f"{sweep.ratio.value:.2f}", (x, 1.0), ha="center", va="bottom", fontsize=7.5)
    axes.set(ylim=(0, 1.2), yticks=[0, 0.2, 0.4, 0.6, 0.8, 1], xlabel=name, ylabel="share of games")
    if any(sweep.score.games for _, sweep in points):
        axes.legend(loc="upper center", ncols=3)
    games = sum(sweep.games for _, sweep in points)
    searched = f" {nodes} nodes," if nodes else ""
    style.title(
        axes,
        f"Results against {name}",
        f"self-play,{searched} {games:,} games; numbers: (w + l) / d, decided games to draws",
    )


def _margin(sweep: Sweep, which: int) -> tuple[float, float]:
    """How far Wilson's interval reaches below and above the share."""
    share = sweep.shares[which]
    low, high = wilson_bounds(share, sweep.score.games)
    return share - low, high - share


def _draw_repeats(axes: Axes, points: Points) -> None:
    """Shares of repeated games, to 20 plies after the book and as a whole, one row a setting."""
    rows = [(sweep.name, sweep.repeats) for _, sweep in points]
    for offset, (key, colour, label) in enumerate((("20", style.SKY, "to 20 plies"), (WHOLE, style.BLUE, "whole"))):
        widths = [0.0 if math.isnan(repeats[key]) else repeats[key] for _, repeats in rows]
        places = [i + 0.38 * offset - 0.19 for i in range(len(rows))]
        axes.barh(places, widths, 0.36, color=colour, label=label, gid=f"repeats-{key}")
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set(xlim=(0, 1), ylim=(len(rows) - 0.4, -0.6), xlabel="share of games with an earlier one of their opening")
    axes.legend(loc="lower right")
    style.title(axes, "Repeated games", "identical to an earlier game from the same opening")


def _draw_matches(axes: Axes, matches: Sequence[Match]) -> None:
    """Elo of the first side with intervals: thick at 0.90, thin at 0.99. An all-won match has no point."""
    axes.axvline(0, color=style.GREY, lw=0.8)
    shown = [match for match in matches if match.score.games]
    for i, match in enumerate(shown):
        for level, width in ((0.99, 1.0), (0.90, 3.0)):
            _, low, high = elo_interval(best_of(match), level)
            axes.plot([max(low, -1200), min(high, 1200)], [i, i], color=style.GREEN, lw=width, solid_capstyle="butt")
        value = elo_interval(best_of(match)).value
        if math.isfinite(value):
            axes.plot(max(min(value, 1200), -1200), i, "o", color=style.INK, ms=5, gid=f"match-{i}")
        points = share_interval(best_of(match)).value
        axes.annotate(f"{match.score}, {100 * points:.1f} %", (0.99, i), xycoords=("axes fraction", "data"),
                      xytext=(0, 6), textcoords="offset points", fontsize=7, ha="right")  # fmt: skip
    axes.set_yticks(range(len(shown)), ["" if len(shown) == 1 else match.first for match in shown])
    axes.set(ylim=(len(shown) - 0.4, -0.6), xlabel="Elo of the first side")
    which = f"{shown[0].first} against {shown[0].second}" if len(shown) == 1 else "each against the second side"
    words = which if shown else "not played yet"
    style.title(axes, "Match" if len(shown) < 2 else "Matches", words, "thick: interval at 0.90, thin: at 0.99")
