"""The plot of a training: its curve, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from valuerepair.report import style
from valuerepair.text import printable
from valuerepair.training.train import Training, read_curve

Rows = Sequence[Mapping[str, Any]]


def drawing(path: str) -> style.Drawing:
    """Three panels over the steps: losses; candidates; the change of the policy and the error of the value.

    `path` is that of the new net, or of the curve's file beside it. A vertical line marks the step that was written.
    Artists have a gid: ``loss``, ``train_loss``, ``rate``, ``mean_dq``, ``policy_kl``, ``written``. Raises
    ValueRepairError for another file.
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
            _draw_lines(panels[1], rows, {"rate": "candidates"}, "% of the positions held out", 100)
            _draw_lines(
                panels[2], rows, {"policy_kl": "KL to the old policy (nats)", "mean_dq": "mean |net Q − deep Q|"}, ""
            )
        for panel in panels:
            panel.set_xlabel("step")
            if about.get("written") is not None:
                panel.axvline(about["written"]["step"], color=style.GREY, lw=0.9, ls="--", gid="written")
        style.title(panels[0], "Training", f"{style.for_figure(net)} to {style.for_figure(output)}", summary)
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
