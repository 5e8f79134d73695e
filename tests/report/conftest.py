"""One browser and one open report for all tests here; they end with the last of them.

A browser's driver keeps an event loop running, which tests elsewhere could not start one of their own beside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.cli_tree import SAMPLE
from tests.report.browser import Visit, browser, visit
from tests.report.reading import Report, put_back, report_of
from valuerepair.question import Question
from valuerepair.report import page as page_module

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

NO_CHARTS = """
window.Plotly = { react: async () => {}, restyle: () => {}, relayout: async () => {}, purge: () => {} };
Element.prototype.on = () => {};
"""


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="package")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """None of the tests changes it."""
    folder: Path = tmp_path_factory.mktemp("report")
    return Report(folder)


@pytest.fixture(scope="package")
def opened(chromium: Browser, made: Report) -> Iterator[Visit]:
    with visit(chromium, made.path) as found:
        yield found


@pytest.fixture(scope="package")
def phone(chromium: Browser, made: Report) -> Iterator[Visit]:
    with visit(chromium, made.path, width=390, height=844, touch=True) as found:
        yield found


def draw_no_charts(patch: pytest.MonkeyPatch) -> None:
    """For reports of which only words and boards are looked at: to load the plotting library and to draw by it is most
    of the work of opening one."""
    patch.setattr(page_module, "plotly_script", lambda: NO_CHARTS)


@pytest.fixture
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_charts(monkeypatch)


@pytest.fixture
def page(opened: Visit) -> Iterator[Visit]:
    """One window for all tests, which put back what they change."""
    yield opened
    put_back(opened)


@pytest.fixture(scope="package")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Path]:
    """The report on the sample at a threshold, written once."""

    @cache
    def written(threshold: float) -> Path:
        return report_of(SAMPLE, tmp_path_factory.mktemp("sample"), Question(threshold=threshold))

    return written


@pytest.fixture(scope="package")
def opened_sample(chromium: Browser, reports: Callable[[float], Path]) -> Iterator[Visit]:
    with visit(chromium, reports(0.3), height=900) as found:
        yield found


@pytest.fixture
def sample_page(opened_sample: Visit) -> Iterator[Visit]:
    """The report on the sample at 0.3, in one window for all tests, which put back what they change."""
    yield opened_sample
    put_back(opened_sample)
