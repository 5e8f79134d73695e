"""Rates of candidates by threshold and by properties of positions, and the shares of their labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from valuerepair.arrays import Flags
from valuerepair.chess.positions import PHASES
from valuerepair.errors import ValueRepairError
from valuerepair.intervals import Rate, weighted
from valuerepair.question import Question, is_candidate
from valuerepair.report import style
from valuerepair.report.drawing import Scored, made_from, scale, scored
from valuerepair.store.store import Store
from valuerepair.text import quantity

if TYPE_CHECKING:
    import pandas as pd

THRESHOLDS = np.arange(1, 41) / 20
_MEN = ((2, 5), (6, 7), (8, 11), (12, 15), (16, 19), (20, 23), (24, 27), (28, 31), (32, 32))
_LINES = (
    ("all", "all candidates", style.INK, "o"),
    ("optimistic", "net too optimistic", style.VERMILLION, "^"),
    ("pessimistic", "net too pessimistic", style.BLUE, "v"),
)


def by_threshold(store: Store, question: Question, by_weight: bool) -> style.Drawing:
    """Share of the positions with ``|net Q - deep Q|`` at or above each threshold, in all and by sign.

    Bands are 95 % intervals (`intervals.weighted`); on the logarithmic scale a rate of 0 has no point. Artists have a
    gid: ``all``, ``optimistic``, ``pessimistic``, with ``-interval`` for their bands, and ``threshold``.
    """
    frame = store.frame(question, text=False)
    rows = scored(frame, by_weight=by_weight)
    disagreement = rows.disagreement
    rate_at_threshold = rows.rate(is_candidate(disagreement, question.threshold))
    with style.house_style():
        figure, axes = style.new_figure(7.2, 5.2)
        end = max(question.threshold, 0.5)  # beyond the largest disagreement the plot would be empty
        by_sign = (np.ones(len(disagreement), np.bool_), disagreement > 0, disagreement < 0)
        for (gid, label, colour, marker), members in zip(_LINES, by_sign, strict=True):
            rates = [rows.rate(is_candidate(disagreement, threshold) & members) for threshold in THRESHOLDS]
            points = [(t, rate) for t, rate in zip(THRESHOLDS.tolist(), rates, strict=True) if rate.rate > 0]
            end = max([end, *(t for t, _ in points)])
            _draw_curve(axes, points, colour, marker, gid, label)
        axes.axvline(question.threshold, color=style.GREY, lw=0.8, ls="--", gid="threshold")
        # Without a positive rate a logarithmic scale has no range.
        if rows.rate(is_candidate(disagreement, THRESHOLDS[0])).rate > 0:
            axes.set_yscale("log")
        style.in_percent(axes.yaxis)
        axes.set(
            xlim=(0, min(end + 0.1, 2)), xlabel="threshold of |net Q − deep Q|", ylabel=f"share of {_positions(rows)}"
        )
        axes.legend(loc="upper right")
        words = f"{len(disagreement):,} positions; at {question.threshold:g}: {rate_at_threshold.percent}"
        style.title(axes, "Rate of candidates by threshold", made_from(frame), words)
    return figure.described(f"{words}; {scale(frame)}")


def _draw_curve(
    axes: Axes, points: Sequence[tuple[float, Rate]], colour: str, marker: str, gid: str, label: str
) -> None:
    x, rates = [t for t, _ in points], [rate for _, rate in points]
    # A bound of 0 has no place on a logarithmic scale; the band ends at a hundredth of the rate.
    low = [max(rate.low, rate.rate / 100) for rate in rates]
    axes.fill_between(x, low, [rate.high for rate in rates], color=colour, alpha=0.15, lw=0, gid=f"{gid}-interval")
    axes.plot(x, [rate.rate for rate in rates], marker, ls="-", lw=1.2, ms=3.5, color=colour, gid=gid, label=label)


# -- bars -------------------------------------------------------------------------------------------------------------


def by_phase(store: Store, question: Question, by_weight: bool) -> style.Drawing:
    """Rate of candidates in each phase of the game; artists as in `_bars`."""
    frame = store.frame(question, text=False)
    groups = [(phase, (frame["phase"] == phase).to_numpy()) for phase in PHASES]
    return _draw_groups(frame, question, by_weight, groups, "Rate of candidates by phase")


def by_side(store: Store, question: Question, by_weight: bool) -> style.Drawing:
    """Rate of candidates by side to move; artists as in `_bars`."""
    frame = store.frame(question, text=False)
    sides = (("White to move", "w"), ("Black to move", "b"))
    groups = [(name, (frame["side"] == side).to_numpy()) for name, side in sides]
    return _draw_groups(frame, question, by_weight, groups, "Rate of candidates by side to move")


def by_men(store: Store, question: Question, by_weight: bool) -> style.Drawing:
    """Rate of candidates by the number of men on the board, including kings and pawns; artists as in `_bars`."""
    frame = store.frame(question, text=False)
    men = frame["pieces"].to_numpy()
    groups = [(f"{low} to {high}" if low < high else f"{low}", (men >= low) & (men <= high)) for low, high in _MEN]
    return _draw_groups(frame, question, by_weight, groups, "Rate of candidates by men on the board")


def by_label(store: Store, question: Question, by_weight: bool) -> style.Drawing:
    """Share of the candidates that have each label, see docs/methods/judges.md, "Labels"; artists as in `_bars`.

    The kinds of blindness are shares of the candidates with known priors. Raises ValueRepairError without candidates.
    """
    from valuerepair.report.stats import label_figures

    # Only candidates have labels, so it reads texts only for them.
    frame = store.candidates(question)
    if not len(frame):
        raise ValueRepairError(
            f"{store.path}: no candidate at {question.threshold:g}; give a lower --threshold, or mine more (vr mine)"
        )
    figures = label_figures(store, frame if by_weight else frame.drop(columns="weight"), question.threshold)
    rates = [(row["label"], Rate.of_figures(row)) for row in figures["rates"] if row["count"]]
    weighting = " by weight" if by_weight and (frame["weight"] != 1).any() else ""
    words = f"{quantity(len(frame), 'candidate')} with |net Q − deep Q| ≥ {question.threshold:g}"
    if figures["lacking_priors"]:
        words += f"; priors known of {figures['with_priors']:,} (vr stats --labels)"
    return _bars(frame, rates, "Labels of the candidates", words, f"share of the candidates{weighting}")


def _draw_groups(
    frame: pd.DataFrame, question: Question, by_weight: bool, groups: Sequence[tuple[str, Flags]], title: str
) -> style.Drawing:
    """A bar for the rate of each group that has rows, and a line for the rate of all positions."""
    rows = scored(frame, by_weight=by_weight)
    candidates = is_candidate(rows.disagreement, question.threshold)
    rates = []
    for name, members in groups:
        inside = members[rows.rows]
        if (rate := weighted(candidates[inside], rows.weight[inside], rows.game[inside])).total:
            rates.append((name, rate))
    overall = rows.rate(candidates)
    words = f"{len(candidates):,} positions; |net Q − deep Q| ≥ {question.threshold:g}: {overall.percent}, dashed"
    return _bars(frame, rates, title, words, f"candidates, share of {_positions(rows)}", overall)


def _bars(
    frame: pd.DataFrame,
    rates: Sequence[tuple[str, Rate]],
    title: str,
    words: str,
    label: str,
    overall: Rate | None = None,
) -> style.Drawing:
    """A bar for each rate with its 95 % interval, counts beside it; bars have the gid ``bar-0``, ``bar-1``, ..."""
    with style.house_style():
        figure, axes = style.new_figure(7.6, 1.7 + 0.34 * max(len(rates), 2))
        top = max((rate.high for _, rate in rates if rate.rate == rate.rate), default=1.0)
        for i, (_, rate) in enumerate(rates):
            (bar,) = axes.barh(i, rate.rate, 0.62, color=style.SKY)
            bar.set_gid(f"bar-{i}")
            axes.plot([rate.low, rate.high], [i, i], color=style.INK, lw=1.2, gid=f"interval-{i}")
            axes.annotate(f"{rate.count:,} of {rate.total:,}", (rate.high, i), xytext=(5, 0), va="center",
                          textcoords="offset points", fontsize=7.5)  # fmt: skip
        if overall is not None:
            axes.axvline(overall.rate, color=style.GREY, lw=0.9, ls="--", gid="overall")
        axes.set_yticks(range(len(rates)), [name for name, _ in rates])
        style.in_percent(axes.xaxis)
        axes.set(xlim=(0, 1.25 * top), ylim=(len(rates) - 0.4, -0.6), xlabel=f"{label}; lines: 95 % intervals")
        style.title(axes, title, made_from(frame), words)
    return figure.described(f"{words.removesuffix(', dashed')}; {scale(frame)}")


def _positions(rows: Scored) -> str:
    return "positions, by weight" if rows.weighted else "positions"
