"""The report of a question with calibration, in a real browser: its candidates, its books, what it says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli_tree import SAMPLE
from tests.report.browser import Visit, visit
from tests.report.reading import pixel
from tests.report.test_books import checked, downloaded
from valuerepair.books.options import BookOptions
from valuerepair.books.write import write_books
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.report.stats import store_figures
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

ASKED = Question(alpha=170.0, threshold=0.4, calibration="fitted")


@pytest.fixture(scope="module")
def opened(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    path = tmp_path_factory.mktemp("calibrated") / "report.html"
    with Store.open(SAMPLE) as store:
        page_module.write(store, path, ASKED)
    with visit(chromium, path) as found:
        yield found
        assert not found.errors


def test_the_candidates_are_those_of_calibrated_q(opened: Visit, tmp_path: Path) -> None:
    with Store.open(SAMPLE) as store:
        write_books(store, tmp_path / "books", ASKED, BookOptions(near_duplicates="keep"))
    for kind, separator in (("epd", "\n"), ("pgn", "*\n\n")):
        path = downloaded(opened, kind, tmp_path)
        ours, theirs = path.read_text("utf-8"), (tmp_path / "books" / f"book.{kind}").read_text("utf-8")
        assert sorted(ours.split(separator)) == sorted(theirs.split(separator))
        assert ("calibrated_q" if kind == "epd" else "CalibratedQ") in ours
        checked(path)


def test_the_page_says_what_is_left(opened: Visit) -> None:
    with Store.open(SAMPLE) as store:
        beyond = store_figures(store, ASKED)["scored"]["beyond_scale"]
    cards = opened.text("#cards")
    assert f"{beyond['left']['count']} of {beyond['left']['total']} candidates" in cards
    assert beyond["words"] in cards
    assert beyond["origin"] in cards
    text = opened.evaluate("() => document.getElementById('stats').textContent")
    assert f"beyond scale: {beyond['left']['count']} of {beyond['left']['total']}" in text


def test_a_position_has_both_q(opened: Visit) -> None:
    with Store.open(SAMPLE) as store:
        worst = store.candidates(ASKED).iloc[0]
    opened.page.click(f"#positions [data-position='{worst['position_id']}']")
    told = opened.text("#detail")
    for name in ("net_q", "calibrated_q", "deep_q", "disagreement"):
        assert f"{worst[name]:+.3f}".replace("-", "−") in told.replace("-", "−"), name


def test_beside_a_difference_are_the_values_that_differ(opened: Visit) -> None:
    """In the list, on the worst boards, for readers of a screen, and under the mouse."""
    with Store.open(SAMPLE) as store:
        worst = store.candidates(ASKED).iloc[0]
    net, calibrated, deep, off = (
        f"{worst[name]:+.3f}".replace("-", "−") for name in ("net_q", "calibrated_q", "deep_q", "disagreement")
    )
    both = f"{net} (calibrated {calibrated})"
    assert net != calibrated
    for part in ("#positions", "#worst"):
        told = " ".join(opened.text(f"{part} [data-position='{worst['position_id']}']").split())
        assert both in told
        assert told.index(off) < told.index(both) < told.index(deep)
    opened.page.click(f"#positions [data-position='{worst['position_id']}']")
    opened.page.focus("#scatter")
    opened.page.keyboard.press("Home")
    label = opened.page.get_attribute("#scatter", "aria-label") or ""
    assert label.startswith("Calibrated net Q against deep Q; at net ")
    assert f"{both}, deep" in label
    x, y = pixel(opened, worst.rename({"net_q": "own", "calibrated_q": "net_q"}))
    opened.page.mouse.move(x - 4, y)
    opened.page.mouse.move(x, y)
    opened.page.wait_for_selector("#tip:visible")
    assert " (calibrated " in opened.text("#tip")


def test_an_area_is_one_of_calibrated_q(opened: Visit) -> None:
    labels = opened.evaluate("() => Array.from(document.querySelectorAll('#region label'), (each) => each.textContent)")
    assert [label.strip() for label in labels] == ["deep Q", "to", "calibrated net Q", "to"]
