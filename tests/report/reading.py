"""The report on `attacking`, what pandas says of the same rows, and what the tests ask of the open page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.report.attacking import attacking_store
from tests.report.browser import Visit
from valuerepair.judge.labelled import labels_of, names, with_labels
from valuerepair.judge.verdict import evidence
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.report.stats import store_figures
from valuerepair.store.store import Store

THRESHOLD = 0.55
# Where an element is on the screen.
BOX = "(part) => document.querySelector(part).getBoundingClientRect().toJSON()"


class Report:
    """A store, its report, and its rows with labels and verdicts."""

    def __init__(self, folder: Path) -> None:
        self.db, self.path = attacking_store(folder), folder / "report.html"
        with Store.open(self.db) as store:
            page_module.write(store, self.path, Question(threshold=THRESHOLD))
            frame = store.frame()
            self.frame = with_labels(store, frame[frame["disagreement"].notna()])
            self.frame["labels"] = pd.Series(names(labels_of(store, self.frame)), self.frame.index, object)
            self.frame["verdict"] = evidence(store, self.frame)["verdict"]
            self.stats = store_figures(store, Question(threshold=THRESHOLD))


def report_of(db: Path | str, folder: Path, question: Question) -> Path:
    path = folder / "report.html"
    with Store.open(db) as store:
        page_module.write(store, path, question)
    return path


def change(page: Visit, script: str, argument: Any = None) -> None:
    """Does something that makes the page draw again, and waits until it has."""
    before = page.evaluate("() => document.getElementById('counts').dataset.draws")
    page.evaluate(script, argument)
    page.page.wait_for_function("(n) => document.getElementById('counts').dataset.draws !== n", arg=before)


def set_filter(page: Visit, name: str, value: str, instead_of: str | None = None) -> None:
    """As if the reader had set it, and put back another one."""
    change(
        page,
        """([name, value, other]) => {
            const field = document.getElementById(name);
            if (other) document.getElementById(other).value = "";
            field.value = value;
            field.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        [name, value, instead_of],
    )


def put_back(page: Visit) -> None:
    """Undoes filters, selection and what dragging does."""
    if page.evaluate("() => document.getElementById('filters-set').textContent"):
        change(page, "() => document.getElementById('filters').reset()")
    if page.page.is_visible("#unselect"):
        page.page.click("#unselect")
    page.page.click("[data-drag=zoom]")


def show_in_list(page: Visit, position: int) -> None:
    """Opens a position's board from the list."""
    button = f"#positions [data-position='{position}']"
    while not page.page.is_visible(button):
        page.page.click("#more")
    page.page.click(button)


def pixel(page: Visit, row: pd.Series[Any]) -> tuple[float, float]:
    """Where the point of a row with deep_q and net_q is on the screen."""
    page.page.locator("#scatter").scroll_into_view_if_needed()
    x, y = page.evaluate(
        """([deep, net]) => {
            const chart = document.getElementById("scatter");
            const { xaxis, yaxis } = chart._fullLayout;
            const box = chart.getBoundingClientRect();
            return [box.x + xaxis._offset + xaxis.l2p(deep), box.y + yaxis._offset + yaxis.l2p(net)];
        }""",
        [row["deep_q"], row["net_q"]],
    )
    return float(x), float(y)


def loneliest(frame: pd.DataFrame) -> pd.Series[Any]:
    """The candidate that is farthest from all other points."""
    places = frame[["deep_q", "net_q"]].to_numpy()
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + 9 * np.eye(len(places))
    nearest = pd.Series(apart.min(1), frame.index)
    found: pd.Series[Any] = frame.loc[nearest[frame["disagreement"].abs() >= THRESHOLD].idxmax()]
    return found


def table(page: Visit, name: str) -> list[list[str]]:
    """The cells of a chart's table, row by row."""
    cells: list[list[str]] = page.evaluate(
        """(name) => Array.from(document.querySelectorAll(`#table-${name} tbody tr`),
            (row) => Array.from(row.cells, (cell) => cell.textContent))""",
        name,
    )
    return cells


def drawn_counts(page: Visit) -> dict[str, float]:
    """How many positions each chart, table and list shows, all and candidates (``Off``)."""
    counts: dict[str, float] = page.evaluate(
        """() => {
            const sum = (values) => Array.from(values).reduce((total, value) => total + value, 0);
            const number = (text) => Number(text.replaceAll(",", ""));
            const points = document.getElementById("scatter").data.slice(0, 3).map((trace) => trace.x.length);
            const bars = document.getElementById("histogram").data.map((trace) => sum(trace.y));
            const column = (name, at) => sum(Array.from(
                document.querySelectorAll(`#table-${name} td:nth-of-type(${at})`), (cell) => number(cell.textContent)));
            const { positions, candidates } = document.getElementById("counts").dataset;
            return {
                positions: Number(positions), candidates: Number(candidates),
                scatter: sum(points), scatterOff: points[1] + points[2],
                histogram: bars[0] + bars[1], histogramOff: bars[1],
                phases: column("phase", 2), phasesOff: column("phase", 1),
                sides: column("side", 2), sidesOff: column("side", 1),
                listed: number(document.getElementById("list-what").textContent.split(" ")[0]),
            };
        }"""
    )
    return counts


def nothing_happened(page: Visit, path: Path) -> None:
    """No request but the file itself, no dialog, no error, and nothing of the attacks ran."""
    assert page.requests == [path.absolute().as_uri()]
    assert (page.dialogs, page.errors) == ([], [])
    assert page.evaluate("() => 'pwned' in window") is False
    assert len(page.windows) <= 1
