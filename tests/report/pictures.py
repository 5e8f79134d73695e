"""Makes the pictures of docs/report.md from data/sample.db: ``python -m tests.report.pictures`` (with chromium)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.report.browser import Visit, browser, visit
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.store.store import Store

ROOT = Path(__file__).parents[2]

# Low enough for the sample's few hundred positions to have candidates of every kind.
THRESHOLD = 0.4


def main() -> None:
    """Writes docs/report-light.png (a desktop) and docs/report-dark.png (a phone)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        with Store.open(ROOT / "data" / "sample.db") as store:
            page_module.write(store, path, Question(threshold=THRESHOLD))
        with browser() as started:
            with visit(started, path, width=1180, height=1010, scale=1) as page:
                shoot(page, ".look", ROOT / "docs" / "report-light.png")
            with visit(started, path, width=390, height=844, scheme="dark", touch=True, scale=1) as page:
                shoot(page, "#detail", ROOT / "docs" / "report-dark.png")


def shoot(page: Visit, selector: str, path: Path) -> None:
    """A picture of the window with that part of the page at its top, and the worst position open."""
    page.page.click("#positions button >> nth=0")
    page.evaluate("(part) => document.querySelector(part).scrollIntoView()", selector)
    page.evaluate("() => document.activeElement.blur()")
    page.page.wait_for_timeout(1500)  # until WebGL has drawn
    page.page.screenshot(path=path)


if __name__ == "__main__":
    main()
