"""Makes the pictures of docs/look.md from data/sample.db: ``python -m tests.report.pictures`` (with chromium)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import Image

from tests.report.browser import Visit, browser, visit
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.store.store import Store

ROOT = Path(__file__).parents[2]

# Low enough for the sample's few hundred positions to have candidates of every kind.
THRESHOLD = 0.4


class Picture(NamedTuple):
    """A picture of the first screen: the name of its file, the window, its colours."""

    name: str
    width: int
    height: int
    scheme: Literal["light", "dark"]
    touch: bool = False


PICTURES = (
    Picture("report-light.png", 1280, 900, "light"),
    Picture("report-dark.png", 1280, 900, "dark"),
    Picture("report-phone.png", 390, 844, "light", touch=True),
)


def main() -> None:
    """Writes the pictures to docs."""
    with tempfile.TemporaryDirectory() as folder:
        path, db = Path(folder) / "report.html", Path(folder) / "sample.db"
        shutil.copy(ROOT / "data" / "sample.db", db)
        with Store.open(db) as store:
            page_module.write(store, path, Question(threshold=THRESHOLD))
        with browser() as started:
            for name, width, height, scheme, touch in PICTURES:
                with visit(started, path, width=width, height=height, scheme=scheme, touch=touch, scale=1) as page:
                    shoot(page, ROOT / "docs" / name)


def shoot(page: Visit, path: Path) -> None:
    """A picture of the window, in 256 colours, which makes the file a third as large."""
    page.page.wait_for_timeout(1500)  # until WebGL has drawn
    page.page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
