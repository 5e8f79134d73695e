"""The screening ladder as plots and as a table: recall against cost, and the positions left at each rung."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.errors import ValueRepairError
from valuerepair.intervals import Rate, weighted, wilson_bounds
from valuerepair.question import Question, is_candidate
from valuerepair.report import style
from valuerepair.report.drawing import made_from, names, scored
from valuerepair.screening.fit import CurvePoint, curve, enough, fit_screen, joined, package_rows
from valuerepair.screening.ladder import read_ladder_rows
from valuerepair.screening.model import Screen, is_calibrated
from valuerepair.screening.recall import figures
from valuerepair.store import screening
from valuerepair.store.columns import stored_rungs
from valuerepair.store.screening import screens
from valuerepair.store.store import Store
from valuerepair.text import json_fields, table_lines


def recall(store: Store, question: Question, by_weight: bool) -> style.Drawing:
    """Recall of candidates (y) against nodes, as a share of the nodes of full searches of all positions (x).

    The curve is cross-validated on positions that were searched at all rungs and in full (`screening.fit.curve`), for
    several target recalls; its intervals are Wilson's, by the number of candidates. The diamond shows the store's own
    runs, with their recall from audited cuts. Artists have a gid: ``curve``, ``curve-intervals``, ``runs``,
    ``runs-interval``, ``brute-force``. Raises ValueRepairError if no or too few positions were screened.
    """
    table = screen_table(store, question)
    frame = store.frame(question, text=False)
    net_id, oracle_id = store.pick(frame.attrs["net"]["sha256"], frame.attrs["oracle"]["digest"])
    runs = figures(store, net_id, oracle_id, frame, question.threshold)
    points = table.points
    with style.house_style():
        figure, axes = style.new_figure(7.0, 5.2)
        _draw_curve(axes, points)
        axes.plot(1, 1, "s", color=style.GREY, ms=6, gid="brute-force", label="all in full", clip_on=False)
        runs_text = ""
        if runs is not None and runs["saving"] and runs["recall"] is not None:
            x, y = 1 / runs["saving"], runs["recall"]
            axes.vlines(x, runs["recall_low"], runs["recall_high"], style.VERMILLION, lw=0.9, gid="runs-interval")
            axes.plot(x, y, "D", color=style.VERMILLION, ms=6, gid="runs", label="the store's runs, by audits")
            runs_text = f"; runs: 1/{runs['saving']:.1f} of the nodes, {runs['recall_said']}"
        axes.set_xscale("log")
        least = 0.8 * min(point.share for point in points)
        ticks = [share for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1) if share >= least]
        axes.set_xticks(ticks, [f"1/{1 / share:g}" if share < 1 else "1" for share in ticks])
        axes.minorticks_off()
        style.in_percent(axes.yaxis)
        axes.set(xlabel="nodes, as a share of searching all in full", ylabel="recall of candidates")
        figure.legend(loc="outside lower center", ncols=3)  # intervals may be anywhere in the axes
        screen = table.screen
        at_threshold = f"candidates at {question.threshold:g}"
        words = f"{screen.positions:,} positions searched in full, {screen.positives:,} {at_threshold}"
        style.title(axes, "Recall against cost", made_from(frame), f"{words}; numbers: recall wanted")
    return figure.described(f"{words}{runs_text}")


def _draw_curve(axes: Axes, points: Sequence[CurvePoint]) -> None:
    points = [point for point in points if not math.isnan(point.recall) and point.positives]
    x, y = [point.share for point in points], [point.recall for point in points]
    bounds = [wilson_bounds(point.recall, point.positives) for point in points]
    axes.vlines(x, [low for low, _ in bounds], [high for _, high in bounds], style.SKY, lw=0.9, gid="curve-intervals")
    axes.plot(x, y, "o", ls="-", lw=1.2, ms=5, color=style.BLUE, gid="curve", label="ladder, cross-validated")
    height = max((1 - low for low, _ in bounds), default=1.0)
    for words, point in _point_labels(points, height):
        axes.annotate(words, (point.share, point.recall), xytext=(4, -9), textcoords="offset points", fontsize=7)


def _point_labels(points: Sequence[CurvePoint], height: float) -> list[tuple[str, CurvePoint]]:
    """The labels of points: their target recalls; points whose labels would overlap share a label with a range.

    `height` is the span of the vertical axis; the horizontal one is logarithmic and ends at 1.
    """
    labels: list[tuple[str, CurvePoint]] = []
    waiting = sorted(points, key=lambda point: point.share)
    span = -math.log(waiting[0].share) if waiting else 1.0
    while waiting:
        first = last = waiting.pop(0)
        label_width = 0.05  # share of the axis that one number takes; a range takes more
        while waiting and math.log(waiting[0].share / first.share) < label_width * span:
            if abs(waiting[0].recall - first.recall) > 0.04 * height:
                break
            last, label_width = waiting.pop(0), 0.12
        label = f"{first.wanted:g}" if last is first else f"{first.wanted:g} to {last.wanted:g}"
        labels.append((label, first))
    return labels


# -- survival ---------------------------------------------------------------------------------------------------------


def survival(store: Store, question: Question, by_weight: bool) -> style.Drawing:
    """Share of the positions still on the ladder after the cut at each rung: candidates and other positions.

    Only positions with a known disagreement count, by weight (`intervals.audit_weights`); those searched before the
    first ladder are left out. Bars are 95 % intervals. Artists have a gid: ``candidates``, ``others``, and
    ``candidates-intervals``. Raises ValueRepairError if no ladder was in use.
    """
    frame = store.frame(question, text=False)
    net_id, oracle_id = store.pick(frame.attrs["net"]["sha256"], frame.attrs["oracle"]["digest"])
    cuts = {p.position_id: p.cut_at for p in screening.passages(store, net_id, oracle_id) if p.screen_id is not None}
    rows = scored(frame, by_weight=by_weight)
    ids = frame["position_id"].to_numpy()[rows.rows]
    on_ladder = np.isin(ids, list(cuts))
    if not on_ladder.any():
        raise ValueRepairError(
            f"{store.path}: no ladder was in use with {names(frame)[1]}; vr mine --screen auto learns one and uses it"
        )
    cut_at = np.array([math.inf if (rung := cuts[i]) is None else rung for i in ids[on_ladder].tolist()])
    candidates = is_candidate(rows.disagreement[on_ladder], question.threshold)
    weight, game = rows.weight[on_ladder], rows.game[on_ladder]
    # Rungs that cut no position count as well; stores of earlier versions have cuts at 0 nodes.
    rungs = sorted({*stored_rungs(store.connection, oracle_id), *(int(rung) for rung in cut_at if rung < math.inf)})
    with style.house_style():
        figure, axes = style.new_figure(7.2, 4.9)
        for gid, members, colour, marker in (
            ("candidates", candidates, style.VERMILLION, "^"),
            ("others", ~candidates, style.BLUE, "o"),
        ):
            if members.any():
                label = f"{gid}: {int(members.sum()):,} known"
                _draw_survival(
                    axes, survivors(cut_at[members], weight[members], game[members], rungs), colour, marker, gid, label
                )
        labels = ["all", *("before\nany search" if rung == 0 else f"{rung:,}" for rung in rungs)]
        axes.set_xticks(range(len(labels)), labels)
        style.in_percent(axes.yaxis)
        weighting = ", by weight" if rows.weighted else ""
        axes.set(ylim=(0, 1.05), xlabel="after the cut at this many nodes", ylabel=f"still on the ladder{weighting}")
        axes.legend(loc="lower left")
        at_threshold = f"candidates at {question.threshold:g}"
        words = f"{len(candidates):,} positions of known outcome, {int(candidates.sum()):,} {at_threshold}"
        style.title(axes, "Survival on the screening ladder", made_from(frame), f"{words}; lines: 95 % intervals")
    return figure.described(words)


def survivors(cut_at: Floats, weight: Floats, game: Ids, rungs: Sequence[int]) -> list[Rate]:
    """The share of positions on the ladder before the first and after each of the `rungs`, by weight.

    `cut_at` [n] are the nodes of the rung that cut, or would have cut, each position; infinity without a cut.
    """
    stays: list[Flags] = [np.ones(len(cut_at), np.bool_), *(cut_at > rung for rung in rungs)]
    return [weighted(on_ladder, weight, game) for on_ladder in stays]


def _draw_survival(axes: Axes, rates: Sequence[Rate], colour: str, marker: str, gid: str, label: str) -> None:
    x, y = range(len(rates)), [rate.rate for rate in rates]
    offset = 0.04 if gid == "others" else -0.04  # so that neither interval covers the other
    # The first share, all positions, has no interval.
    low, high = [rate.low for rate in rates[1:]], [rate.high for rate in rates[1:]]
    axes.vlines([place + offset for place in x[1:]], low, high, colour, lw=0.9, gid=f"{gid}-intervals")
    axes.plot(x, y, marker, ls="-", lw=1.2, ms=5, color=colour, gid=gid, label=label)


_RECALL = 0.98  # of the cuts that the table shows
RECALLS = (0.8, 0.85, 0.9, 0.93, 0.95, 0.96, 0.97, _RECALL, 0.99)


@dataclass(frozen=True)
class ScreenTable:
    """A ladder fitted to the present store, and its cross-validated curve.

    `stored` is the time at which the ladder in the store was fitted, None without one.
    """

    screen: Screen
    stored: str | None
    points: list[CurvePoint]

    def as_json(self) -> dict[str, Any]:
        """The table, JSON-able."""
        screen = self.screen
        return {
            "threshold": screen.threshold,
            "alpha": screen.alpha,
            "calibration": "none" if screen.calibration is None else "fitted",
            "recall": screen.recall,
            "positions": screen.positions,
            "candidates": screen.positives,
            "stored": self.stored,
            "cuts": [{"nodes": rung.nodes, "chance": rung.cut} for rung in screen.rungs],
            "curve": json_fields(self.points),
        }

    def lines(self) -> list[str]:
        """The table for a terminal."""
        screen = self.screen
        beyond = "" if screen.calibration is None else " beyond scale"
        settings = f"threshold {screen.threshold:g}{beyond}, alpha {screen.alpha:.0f}"
        text_lines = [
            f"screening at {settings}: {screen.positions:,} positions searched in full, "
            f"{screen.positives:,} of them candidates",
            f"in use: fitted {self.stored}"
            if self.stored
            else f"in use: none fitted at {screen.threshold:g}{beyond}; vr mine does it",
            "",
            f"cuts for a recall of {screen.recall:g}: a position leaves below this chance of a candidate",
        ]
        text_lines += [f"  {f'{rung.nodes:,} nodes':<20}{rung.cut:>9.4f}" for rung in screen.rungs]
        points = ((p.wanted, f"1/{1 / p.share:.1f}", p.recall, f"{p.found:,} of {p.positives:,}") for p in self.points)
        curve = table_lines("wanted:>6g | nodes:<7 | recall:>6.3f | candidates:<", points, "  ")
        return [*text_lines, "", "nodes against recall, cross-validated", *curve]


def screen_table(store: Store, question: Question) -> ScreenTable:
    """Fits the ladder to the searches of the store and of the package, as `vr mine` does, and measures it on the store.

    Raises ValueRepairError if too few positions were searched at all rungs and in full.
    """
    net_id, oracle_id = store.pick(question.net, question.oracle)
    rungs = stored_rungs(store.connection, oracle_id)
    facts = next(row for row in store.oracles().to_dict("records") if row["id"] == oracle_id)
    if not rungs or "nodes" not in facts["limits"]:
        raise ValueRepairError(
            f"{store.path}: nothing was screened with {facts['label']}; vr mine --screen auto does it"
        )
    question = replace(question, alpha=store.alpha(net_id, oracle_id, question.alpha).value)
    threshold = question.threshold
    nodes = int(facts["limits"]["nodes"])
    data = read_ladder_rows(store, net_id, oracle_id, rungs, nodes, question)
    package = package_rows(facts["kind"], nodes, rungs, question)
    with_package = data if package is None else joined(data, package)
    if not (enough(data, threshold) and enough(with_package, threshold)):
        raise ValueRepairError(
            f"{store.path}: {len(data):,} positions were searched in full by way of all rungs, too few near the "
            f"threshold {threshold:g} to fit a ladder; mine more, or give another --threshold"
        )
    calibrated = question.calibration == "fitted"
    same_threshold = (s for s in screens(store, net_id, oracle_id) if s.threshold == threshold)
    stored = next((s.fitted for s in same_threshold if is_calibrated(s.model) == calibrated), None)
    fitted = fit_screen(with_package, question, _RECALL)
    screen = replace(fitted, positions=len(data), positives=int(is_candidate(data.disagreement, threshold).sum()))
    return ScreenTable(screen, stored, curve(data, package, threshold, RECALLS))
