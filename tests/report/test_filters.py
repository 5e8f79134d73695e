"""Filters of the report act on all charts, and its figures are those of vr stats."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from statsmodels.nonparametric.smoothers_lowess import lowess

from tests.cli_tree import SAMPLE
from tests.report.browser import Visit, visit
from tests.report.reading import THRESHOLD, Report, drawn_counts, set_filter, table
from valuerepair.intervals import weighted
from valuerepair.judge.labelled import labels_of
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.report.drawing import lowess_line
from valuerepair.report.stats import stats_lines
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# -- filters


def expect(page: Visit, rows: pd.DataFrame, threshold: float = THRESHOLD) -> None:
    off = int((rows["disagreement"].abs() >= threshold).sum())
    assert len(rows) > 0
    wanted: dict[str, float] = dict.fromkeys(("positions", "scatter", "phases", "sides"), len(rows))
    wanted |= dict.fromkeys(("candidates", "scatterOff", "phasesOff", "sidesOff", "listed"), off)
    weight = rows["weight"]
    wanted |= {"histogram": weight.sum(), "histogramOff": weight[rows["disagreement"].abs() >= threshold].sum()}
    assert drawn_counts(page) == pytest.approx(wanted)


@pytest.mark.parametrize("phase", ["opening", "middlegame", "endgame"])
def test_phases(page: Visit, made: Report, phase: str) -> None:
    rows = made.frame[made.frame["phase"] == phase]
    if rows.empty:
        assert page.page.locator(f"#phase option[value={phase}]").count() == 1
        return
    set_filter(page, "phase", phase)
    expect(page, rows)


def test_each_other_filter_and_all_together(page: Visit, made: Report) -> None:
    frame = made.frame
    expect(page, frame)
    family = frame["opening_family"].value_counts().index[0]
    material = frame["material_family"].value_counts().index[0]
    chosen = {
        "side": ("b", frame["side"] == "b"),
        "sign": ("pessimistic", frame["disagreement"] < 0),
        "label": ("missed-mate", pd.Series(["missed-mate" in labels for labels in frame["labels"]], frame.index)),
        "family": (family, frame["opening_family"] == family),
        "material": (material, frame["material_family"] == material),
        "verdict": ("unresolved", frame["verdict"] == "unresolved"),
    }
    before = None
    for name, (value, mask) in chosen.items():
        set_filter(page, name, value, instead_of=before)
        expect(page, frame[mask])
        before = name
    set_filter(page, "threshold", "1.2", instead_of=before)
    expect(page, frame, 1.2)
    set_filter(page, "side", "b")
    set_filter(page, "sign", "optimistic")
    set_filter(page, "text", "WINDOW.PWNED=3")
    with Store.open(made.db) as store:
        headers = {
            number: json.loads(text) for number, text in store.connection.execute("SELECT id, headers FROM games")
        }
    searched = ("White", "Black", "WhiteElo", "BlackElo", "Event", "Site", "Date", "Round")
    inside = pd.Series(
        [any("window.pwned=3" in headers[number].get(name, "") for name in searched) for number in frame["game_id"]],
        frame.index,
    )
    expect(page, frame[(frame["side"] == "b") & (frame["disagreement"] > 0) & inside], 1.2)


def line(page: Visit) -> tuple[list[float], list[float]]:
    """The line of the plot, once it is drawn for the filters that are set."""
    page.page.wait_for_function("() => document.getElementById('scatter').data[3].x.length > 0")
    x, y = page.evaluate("() => { const line = document.getElementById('scatter').data[3]; return [line.x, line.y]; }")
    return x, y


def test_the_line_of_filtered_positions_is_lowess(page: Visit, made: Report) -> None:
    set_filter(page, "text", "/")  # in every FEN
    expect(page, made.frame)
    x, y = line(page)
    wanted = lowess_line(*(made.frame[name].to_numpy(np.float64) for name in ("deep_q", "net_q", "weight")))
    assert wanted is not None
    assert np.interp(wanted[0], x, y) == pytest.approx(wanted[1], abs=0.01)


def test_the_line_of_a_screened_store_is_lowess_of_rows_repeated_by_weight(sample_page: Visit) -> None:
    with Store.open(SAMPLE) as store:
        frame = store.frame()
        frame["family"] = labels_of(store, frame)["opening_family"]
    assert frame["weight"].max() > 2
    filters = (("phase", "phase", "endgame"), ("side", "side", "b"), ("family", "family", "French Defense"))
    before = None
    for name, column, value in filters:
        set_filter(sample_page, name, value, instead_of=before)
        x, y = line(sample_page)
        before = name
        rows = frame[frame[column] == value]
        rows = rows.loc[rows.index.repeat((100 * rows["weight"]).round().astype(int))]
        exact = lowess(rows["net_q"].to_numpy(), rows["deep_q"].to_numpy(), 0.3, it=3, delta=0.0)
        places, first = np.unique(exact[:, 0], return_index=True)
        assert np.interp(places, x, y) == pytest.approx(exact[first, 1], abs=0.01), value


# -- figures


def test_figures_are_those_of_vr_stats(page: Visit, made: Report) -> None:
    shown = page.evaluate("() => document.getElementById('stats').textContent")
    wanted = stats_lines({**made.stats, "store": made.db.name})
    assert shown.splitlines()[: len(wanted)] == wanted
    for name, key in (("phase", "by_phase"), ("side", "by_side")):
        cells = table(page, name)
        rates = [row for row in made.stats["scored"][key] if row["scored"]]
        assert [row[1:] for row in cells] == [
            [
                f"{rate['candidates']:,}",
                f"{rate['scored']:,}",
                f"{100 * rate['rate']:.2f} % (95 %: {100 * rate['low']:.2f} to {100 * rate['high']:.2f})",
            ]
            for rate in rates
        ]


@pytest.mark.usefixtures("without_charts")
def test_rates_of_a_sample_have_the_intervals_of_weighted_rows(
    chromium: Browser, made: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(made.db) as store:
        every = store.frame()
        every = every[every["disagreement"].notna()]
        shown = page_module.choose(every, 1.5, 60)
        monkeypatch.setattr(page_module, "choose", partial(page_module.choose, limit=60))
        written = page_module.write(store, tmp_path / "r.html", Question(threshold=1.5))
    assert (written.positions, written.shown) == (len(every), len(shown.rows))
    assert len(shown.rows) < len(every)
    rows = every.iloc[shown.rows]
    weights = rows["weight"].to_numpy() * np.array(shown.factors)[shown.stratum]
    games = rows["game_id"].to_numpy()
    with visit(chromium, tmp_path / "r.html") as page:
        assert f"{shown.shown[2]:,} of {shown.stored[2]:,} (rest)" in page.text("#sampled")
        cells = [row[-1] for row in table(page, "side")]
    wanted = []
    for side in "wb":
        of_side = (rows["side"] == side).to_numpy()
        rate = weighted((rows["disagreement"].abs() >= 1.5).to_numpy()[of_side], weights[of_side], games[of_side])
        wanted.append(f"{100 * rate.rate:.2f} % (95 %: {100 * rate.low:.2f} to {100 * rate.high:.2f})")
    assert cells == wanted
