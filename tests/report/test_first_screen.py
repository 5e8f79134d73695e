"""What a reader sees first, and what stays on the page when filters change: headline, plot, board, worst positions."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from PIL import Image

from tests.cli_tree import SAMPLE
from tests.report.browser import Visit, visit
from tests.report.reading import BOX, THRESHOLD, Report, loneliest, pixel, set_filter, show_in_list
from valuerepair.question import Question
from valuerepair.report.stats import headline, store_figures
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser

DESKTOP, PHONE = (1280, 900), (390, 844)
PLOT = """() => {
    const { xaxis, yaxis } = document.getElementById("scatter")._fullLayout;
    const box = document.getElementById("scatter").getBoundingClientRect();
    return {top: box.top + yaxis._offset, bottom: box.top + yaxis._offset + yaxis._length, width: xaxis._length};
}"""


def said(page: Visit) -> str:
    return " ".join(page.text("#headline").split())


def board(page: Visit) -> str:
    return page.text("#detail-title")


# -- the first screen -------------------------------------------------------------------------------------------------


def test_the_headline_and_the_whole_plot_are_on_the_first_screen_of_a_desktop(sample_page: Visit) -> None:
    sample_page.evaluate("() => scrollTo(0, 0)")
    begins_with_headline_and_plot(sample_page, DESKTOP, 0.3)


@pytest.mark.parametrize(
    ("window", "scheme", "threshold"),
    [
        pytest.param(DESKTOP, "light", 0.9, marks=pytest.mark.slow),
        pytest.param(PHONE, "dark", 0.4, marks=pytest.mark.slow),
        (PHONE, "dark", 0.9),
    ],
)
def test_the_headline_and_the_whole_plot_are_on_the_first_screen(
    chromium: Browser,
    reports: Callable[[float], Path],
    window: tuple[int, int],
    scheme: Literal["light", "dark"],
    threshold: float,
) -> None:
    width, height = window
    with visit(chromium, reports(threshold), width=width, height=height, scheme=scheme, touch=window == PHONE) as page:
        assert page.evaluate("() => scrollY") == 0
        begins_with_headline_and_plot(page, window, threshold)


def begins_with_headline_and_plot(page: Visit, window: tuple[int, int], threshold: float) -> None:
    """The report on the sample, in a window of this width and height."""
    width, height = window
    with Store.open(SAMPLE) as store:
        sentence = headline(store_figures(store, Question(threshold=threshold)))
    assert said(page) == sentence
    figure = page.text("#headline b")
    assert sentence.startswith(figure)
    sizes = [
        float(page.evaluate("(part) => parseFloat(getComputedStyle(document.querySelector(part)).fontSize)", part))
        for part in ("#headline b", "#headline span", "h1")
    ]
    assert sizes[0] > 2 * max(sizes[1:]) - 1
    top, plot = page.evaluate(BOX, "#headline"), page.evaluate(PLOT)
    assert 0 <= top["top"] < top["bottom"] <= plot["top"] < plot["bottom"] <= height
    assert plot["width"] > 0.35 * width
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.errors == []


def test_on_a_phone_a_tap_on_a_point_goes_to_its_board(phone: Visit, made: Report) -> None:
    row = loneliest(made.frame)
    phone.page.touchscreen.tap(*pixel(phone, row))
    phone.page.wait_for_function(
        "(id) => document.getElementById('detail-title').textContent.endsWith(` ${id}`)", arg=str(row.position_id)
    )
    card, drawn = phone.evaluate(BOX, "#detail"), phone.evaluate(BOX, "#board svg")
    assert 0 <= card["top"] < drawn["top"] < drawn["bottom"] < PHONE[1]


def test_on_a_phone_what_is_tapped_is_large_enough(phone: Visit) -> None:
    closed = phone.page.locator("details:not([open]) > summary")
    for _ in range(closed.count()):
        closed.first.tap()
    small = phone.evaluate(
        """() => Array.from(document.querySelectorAll("button, select, input, summary"))
            .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 39)
            .map((each) => each.outerHTML)"""
    )
    assert small == []
    assert phone.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]


def test_on_a_phone_the_ring_around_a_point_at_the_edge_is_whole_and_stays_in_the_plot(
    chromium: Browser, reports: Callable[[float], Path]
) -> None:
    asked = Question(threshold=0.3)
    with Store.open(SAMPLE) as store:
        worst = store.candidates(asked)
    won = worst[worst["deep_q"] == 1].iloc[0]
    with visit(chromium, reports(0.3), width=PHONE[0], height=PHONE[1], touch=True, scale=1) as page:
        show_in_list(page, won["position_id"])
        x, y = pixel(page, won)
        right = {"x": x + 7, "y": y - 3, "width": 4, "height": 6}  # of the plot, and of the ring
        assert darkest(page, right) < 80
        page.evaluate("() => Plotly.relayout('scatter', {'xaxis.range': [-1.05, 0.9]})")
        assert page.page.locator("#scatter .scatterlayer .point").count() == 1
        assert not page.page.locator("#scatter .scatterlayer .point").is_visible()


def darkest(page: Visit, clip: dict[str, float]) -> int:
    """The darkest grey in a part of the screen: 0 is black."""
    with Image.open(BytesIO(page.page.screenshot(clip=clip))) as picture:  # type: ignore[arg-type]  # a dict will do
        return int(np.asarray(picture.convert("L")).min())


# -- filters ----------------------------------------------------------------------------------------------------------


def test_filters_that_leave_nothing_clear_the_board(page: Visit, made: Report) -> None:
    worst = board(page)
    set_filter(page, "text", "nobody plays in such a game")
    assert page.text("#counts") == "0 positions shown, 0 candidates"
    assert board(page) == "Board"
    assert "No position fits these filters." in page.text("#detail")
    assert page.page.locator("#board svg").count() == 0
    assert page.evaluate("() => document.getElementById('scatter').data[4].x.length") == 0  # the ring
    assert page.page.locator("#worst li, #positions li").count() == 0
    for chart in ("scatter", "histogram", "rates-phase", "rates-label"):
        noted = page.evaluate(
            "(id) => document.getElementById(id)._fullLayout.annotations.map((each) => each.text)", chart
        )
        assert noted == ["No position fits these filters."]
    assert page.page.is_disabled("#download-pgn")
    assert page.page.is_disabled("#download-epd")
    page.page.focus("#scatter")
    for key in ("ArrowRight", "Enter", "Home"):
        page.page.keyboard.press(key)
    assert page.errors == []
    set_filter(page, "text", "")
    size = made.frame["disagreement"].abs()
    assert size[made.frame["position_id"] == int(board(page).split()[1])].iloc[0] == size.max()
    assert board(page).startswith("Position ")
    assert worst.startswith("Position ")
    assert page.evaluate("() => document.getElementById('scatter').data[4].x.length") == 1
    assert page.page.is_enabled("#download-pgn")


def test_the_board_stays_while_its_position_fits(page: Visit, made: Report) -> None:
    frame = made.frame[made.frame["disagreement"].abs() >= THRESHOLD]
    third = frame.loc[frame["disagreement"].abs().sort_values(ascending=False).index].iloc[2]
    show_in_list(page, third["position_id"])
    set_filter(page, "phase", third["phase"])
    assert board(page) == f"Position {third['position_id']}"
    other = "b" if third["side"] == "w" else "w"
    set_filter(page, "side", other)
    fitting = made.frame[(made.frame["phase"] == third["phase"]) & (made.frame["side"] == other)]
    assert board(page) == f"Position {fitting.loc[fitting['disagreement'].abs().idxmax(), 'position_id']}"


def test_the_fold_says_how_many_filters_are_set(page: Visit) -> None:
    def told() -> str:
        return str(page.evaluate("() => document.getElementById('filters-set').textContent"))

    assert told() == ""
    set_filter(page, "side", "w")
    set_filter(page, "threshold", "1")
    assert told() == " (2 set)"


# -- the worst positions ----------------------------------------------------------------------------------------------


def test_the_worst_positions_are_of_different_games(sample_page: Visit) -> None:
    asked = Question(threshold=0.3)
    with Store.open(SAMPLE) as store:
        order = store.candidates(asked)
    assert order["game_id"].head(8).duplicated().any()  # else the test could not fail
    shown = sample_page.evaluate(
        "() => Array.from(document.querySelectorAll('#worst button'), (each) => Number(each.dataset.position))"
    )
    assert shown == order.drop_duplicates("game_id")["position_id"].head(8).tolist()
