"""Makes docs/report-light.png of data/sample.db: ``python -m tests.report.pictures`` (with Chromium)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from PIL import Image

from tests.report.browser import Visit, browser, visit
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.store.store import Store

ROOT = Path(__file__).parents[2]

# Low enough for the sample's few hundred positions to have candidates of every kind.
THRESHOLD = 0.4


def main() -> None:
    """Writes the picture of the first screen to docs."""
    with tempfile.TemporaryDirectory() as folder:
        path, db = Path(folder) / "report.html", Path(folder) / "sample.db"
        shutil.copy(ROOT / "data" / "sample.db", db)
        with Store.open(db) as store:
            page_module.write(store, path, Question(threshold=THRESHOLD))
        with browser() as started, visit(started, path, height=900, scale=1) as page:
            shoot(page, ROOT / "docs" / "report-light.png")


def shoot(page: Visit, path: Path) -> None:
    """A picture of the window, in 256 colours, which makes the file a third as large."""
    page.page.wait_for_timeout(1500)  # until WebGL has drawn
    page.page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
