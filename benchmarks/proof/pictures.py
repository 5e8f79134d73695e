"""The pictures of docs/proof, from its tables alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.proof.analysis import COLUMNS, primary
from benchmarks.proof.tables import against, original_of, point
from valuerepair.arrays import Floats
from valuerepair.report import style

if TYPE_CHECKING:
    import pandas as pd

# Test set -> how it is said, its colour and marker, and how far it lies from an arm's row; the primary one is above.
SETS = {
    "families": ("held-out families", style.BLUE, "o", 0.22),
    "games": ("held-out games", style.VERMILLION, "s", 0.0),
    "archives": ("other archives", style.GREEN, "^", -0.22),
}
_LINES = ((style.BLUE, "o"), (style.VERMILLION, "s"), (style.GREEN, "^"), (style.ORANGE, "v"), (style.SKY, "D"))
# Curve -> what its axis says.
CURVES = {"share": "candidates, % of the positions trained on", "candidates": "different candidates trained on"}
WHAT = "rate of candidates at 0.3, both recalibrated; 95 % intervals over games and seeds"


def read_differences(folder: Path) -> pd.DataFrame:
    """differences.csv of a folder, names as text."""
    import pandas as pd

    return pd.read_csv(folder / "differences.csv", dtype={"arm": str, "against": str})


def beside_control(differences: pd.DataFrame) -> pd.DataFrame:
    """The primary measure of every arm that has a control, against that, in the order of the index."""
    column = COLUMNS[primary()]
    of = (differences["measure"] == column.measure) & (differences["scale"] == column.scale)
    rows = differences[of & (differences["threshold"] == column.threshold)]
    controls = [against(arm)[0] for arm in rows["arm"]]
    at = [
        other == control != original_of(arm)
        for arm, other, control in zip(rows["arm"], rows["against"], controls, strict=True)
    ]
    beside: pd.DataFrame = rows[at]
    return beside


def arms(differences: pd.DataFrame) -> Figure:
    """Each arm's primary measure less its control's, relative, on the three test sets. Artists' gid: the test set."""
    rows = beside_control(differences)
    names = list(dict.fromkeys(rows["arm"]))
    with style.house_style():
        figure, axes = style.new_figure(7.2, 1.6 + 0.42 * len(names))
        axes.axvline(0, color=style.GREY, lw=0.8)
        for name, (words, colour, marker, off) in SETS.items():
            of = rows[rows["set"] == name]
            y = [names.index(arm) for arm in of["arm"]]
            _bars(axes, of, np.array(y) - off, colour, marker, name, words, upright=False)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlabel("less the control, % of the control's")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        style.title(axes, "Candidates on what was held out", WHAT)
    return figure


def curve_table(differences: pd.DataFrame) -> pd.DataFrame:
    """The points of the curves: a row an arm and test set, with the primary measure less the control's, relative."""
    rows = beside_control(differences)
    places = {arm: place for arm in rows["arm"] if (place := point(arm))}
    rows = rows[rows["arm"].isin(places)]
    columns = {name: [places[arm][i] for arm in rows["arm"]] for i, name in enumerate(("curve", "line", "at"))}
    shown = ["curve", "line", "at", "arm", "set", "relative", "relative_low", "relative_high", "seeds", "other_seeds"]
    table: pd.DataFrame = rows.assign(**columns)[shown]
    return table


def curve(differences: pd.DataFrame, name: str) -> Figure | None:
    """The primary measure by share or by number of candidates, a panel a test set; None where no arm is on the curve.

    Artists' gid: test set and line.
    """
    rows = curve_table(differences)
    rows = rows[rows["curve"] == name]
    if rows.empty:
        return None
    lines = list(dict.fromkeys(rows["line"]))
    with style.house_style():
        figure = Figure(figsize=(9.5, 3.6), dpi=style.DPI, layout="constrained")
        panels = figure.subplots(1, len(SETS), sharey=True)
        for axes, (test_set, (words, *_)) in zip(panels, SETS.items(), strict=True):
            axes.axhline(0, color=style.GREY, lw=0.8)
            for (colour, marker), line in zip(_LINES, lines, strict=False):
                of = rows[(rows["set"] == test_set) & (rows["line"] == line)].sort_values("at")
                # Lines that share their places stand side by side.
                x = of["at"].to_numpy(np.float64) * 1.06 ** lines.index(line)
                axes.plot(x, 100 * of["relative"], color=colour, lw=1)
                _bars(axes, of, x, colour, marker, f"{test_set}-{line}", line, upright=True)
            axes.set_xscale("log")
            ticks = sorted(set(rows["at"]))
            axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
            axes.minorticks_off()
            axes.set_title(words, fontsize=9, fontweight="normal")
        panels[0].set_ylabel("less the control,\n% of the control's")
        panels[-1].legend(loc="best")
        figure.supxlabel(CURVES[name], fontsize=9)
        figure.suptitle(WHAT[0].upper() + WHAT[1:], x=0.01, ha="left", fontsize=9)
    return figure


def _bars(
    axes: Axes, of: pd.DataFrame, at: Floats, colour: str, marker: str, gid: str, label: str, *, upright: bool
) -> None:
    """Points with their intervals, in per cent; `at` is their place on the other axis."""
    value, low, high = (100 * of[name].to_numpy(np.float64) for name in ("relative", "relative_low", "relative_high"))
    ends = np.stack([value - low, high - value])
    looks: dict[str, Any] = {
        "color": colour,
        "marker": marker,
        "ms": 4,
        "ls": "none",
        "elinewidth": 1.2,
        "gid": gid,
        "label": label,
    }
    if upright:
        axes.errorbar(at, value, yerr=ends, **looks)
    else:
        axes.errorbar(value, at, xerr=ends, **looks)


def draw_all(folder: Path) -> list[Path]:
    """Writes arms.svg, share.svg and candidates.svg from the tables of a folder, as far as they have what is drawn."""
    differences = read_differences(folder)
    figures = {"arms": arms(differences), **{name: curve(differences, name) for name in CURVES}}
    written = []
    for name, figure in figures.items():
        if figure is not None:
            written.append(folder / f"{name}.svg")
            style.save(figure, written[-1])
    return written
