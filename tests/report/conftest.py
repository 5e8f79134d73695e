"""One browser, and one open report for all tests here; they end with the last of them.

A browser's driver keeps an event loop running, which tests elsewhere could not start one of their own beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.report.attacking import Report
from tests.report.browser import Visit, browser, visit

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


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


@pytest.fixture
def page(opened: Visit) -> Iterator[Visit]:
    """One window for all tests, whose filters are put back."""
    yield opened
    opened.evaluate("() => document.querySelector('#filters form').reset()")
    opened.page.wait_for_function("() => document.getElementById('title').textContent.startsWith('The worst')")
