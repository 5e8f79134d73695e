"""Rates of candidates as one figure: by threshold, phase, side to move and men on the board; shares of their labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from valuerepair.arrays import Flags
from valuerepair.chess.positions import PHASES
from valuerepair.question import Question, is_candidate
from valuerepair.rates import Rate, weighted
from valuerepair.report import style
from valuerepair.report.drawing import Scored, made_from, scale, scored
from valuerepair.store import view
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

THRESHOLDS = np.arange(1, 41) / 20
_MEN = ((2, 5), (6, 7), (8, 11), (12, 15), (16, 19), (20, 23), (24, 27), (28, 31), (32, 32))
_LINES = (
    ("all", "all candidates", style.INK, "o"),
    ("optimistic", "net too optimistic", style.VERMILLION, "^"),
    ("pessimistic", "net too pessimistic", style.BLUE, "v"),
)


def drawing(store: Store, question: Question) -> style.Drawing:
    """The rates of the positions with ``|net Q - deep Q|`` at or above a threshold, with 95 % intervals.

    Axes have the labels ``threshold`` (a curve for all and for each sign), ``phase``, ``side``, ``men`` (kings and
    pawns included) and ``label`` (shares of the candidates, those of blindness of the candidates with a known policy:
    docs/methods.md). Curves have the gid ``all``, ``optimistic`` and ``pessimistic``, their bands the same with
    ``-interval``; bars have ``bar-0``, ``bar-1``, ... and ``interval-0``, ...; the rate of all positions is
    ``overall``. On the logarithmic scale a rate of 0 has no point.
    """
    frame = view.frame(store, question, text=False)
    rows = scored(frame)
    wrong = is_candidate(rows.disagreement, question.threshold)
    overall = rows.rate(wrong)
    with style.house_style():
        figure = style.Drawing(11.0, 9.5)
        by_letter = figure.subplot_mosaic("tl;ml;ps", height_ratios=(4, 3.4, 1.4))
        panels = {name: by_letter[name[0]] for name in ("threshold", "phase", "side", "men", "label")}
        for name, axes in panels.items():
            axes.set_label(name)
        _draw_thresholds(panels["threshold"], rows, question.threshold)
        for name, title, groups in _groups(frame):
            rates = [(word, _rate(rows, wrong, members)) for word, members in groups]
            _draw_bars(panels[name], title, [(word, rate) for word, rate in rates if rate.total], overall)
        _draw_bars(panels["label"], "Labels of the candidates", _labels(store, question))
        words = f"{len(wrong):,} positions; |net Q − deep Q| ≥ {question.threshold:g}: {overall.percent}"
        by_weight = "; by weight" if rows.weighted else ""
        title = f"Rates of candidates\n{made_from(frame)}\n{words}, dashed{by_weight}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=9.5)
    return figure.described(f"{words}; {scale(frame)}")


def _groups(frame: pd.DataFrame) -> Iterable[tuple[str, str, Sequence[tuple[str, Flags]]]]:
    """The panels of bars: name, title, and the rows of the frame in each group."""
    men = frame["pieces"].to_numpy()
    yield "phase", "Phase", [(phase, (frame["phase"] == phase).to_numpy()) for phase in PHASES]
    sides = (("White", "w"), ("Black", "b"))
    yield "side", "Side to move", [(name, (frame["side"] == side).to_numpy()) for name, side in sides]
    yield (
        "men",
        "Men on the board",
        [(f"{low} to {high}" if low < high else f"{low}", (men >= low) & (men <= high)) for low, high in _MEN],
    )


def _rate(rows: Scored, wrong: Flags, members: Flags) -> Rate:
    """The rate of candidates among these rows of the frame."""
    inside = members[rows.rows]
    return weighted(wrong[inside], rows.weight[inside], rows.game[inside])


def _labels(store: Store, question: Question) -> list[tuple[str, Rate]]:
    """The share of the candidates that have each label; only candidates have any, so texts are read for them alone."""
    from valuerepair.measure.labels import labels_of
    from valuerepair.report.stats import label_shares

    candidates = view.candidates(store, question)
    if not len(candidates):
        return []
    shares = label_shares(candidates, question.threshold, labels_of(store, candidates))
    return [(name, rate) for name, rate in shares["label"].items() if rate.count]


def _draw_thresholds(axes: Axes, rows: Scored, threshold: float) -> None:
    disagreement = rows.disagreement
    end = max(threshold, 0.5)  # beyond the largest disagreement the plot would be empty
    by_sign = (np.ones(len(disagreement), np.bool_), disagreement > 0, disagreement < 0)
    for (gid, label, colour, marker), members in zip(_LINES, by_sign, strict=True):
        rates = [rows.rate(is_candidate(disagreement, t) & members) for t in THRESHOLDS]
        points = [(t, rate) for t, rate in zip(THRESHOLDS.tolist(), rates, strict=True) if rate.rate > 0]
        end = max([end, *(t for t, _ in points)])
        x, shares = [t for t, _ in points], [rate.rate for _, rate in points]
        # A bound of 0 has no place on a logarithmic scale; the band ends at a hundredth of the rate.
        low, high = [max(rate.low, rate.rate / 100) for _, rate in points], [rate.high for _, rate in points]
        axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0, gid=f"{gid}-interval")
        axes.plot(x, shares, marker, ls="-", lw=1.2, ms=3.5, color=colour, gid=gid, label=label)
    axes.axvline(threshold, color=style.GREY, lw=0.8, ls="--", gid="threshold")
    # Without a positive rate a logarithmic scale has no range.
    if rows.rate(is_candidate(disagreement, THRESHOLDS[0])).rate > 0:
        axes.set_yscale("log")
    style.in_percent(axes.yaxis)
    axes.set(xlim=(0, min(end + 0.1, 2)), xlabel="threshold of |net Q − deep Q|", title="Threshold")
    axes.legend(loc="upper right")


def _draw_bars(axes: Axes, title: str, rates: Sequence[tuple[str, Rate]], overall: Rate | None = None) -> None:
    """A bar for each rate with its interval, and the counts beside it."""
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
    nothing = "" if rates else ": no candidate has any"
    axes.set(xlim=(0, 1.3 * top), ylim=(max(len(rates), 1) - 0.4, -0.6), title=f"{title}{nothing}")
