"""A headless Chromium to open pages in: Debian's, driven by playwright, which downloads nothing itself.

A `Visit` records everything that a page must not do: requests, dialogs, new windows, errors, what the policy blocked.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

# Loaded machines: a page of two megabytes of script takes seconds there.
PATIENCE_MS = 120_000
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """The browser's path; skips the test where there is none."""
    pytest.importorskip("playwright", reason="no playwright (pip install 'valuerepair[test]')")
    path = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    return path


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser for as long as the context lasts."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    # Without a sandbox it starts as root too, as tests in containers run.
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


@dataclass
class Visit:
    """An open page and what it did: `requests` (addresses), `dialogs`, `windows`, `errors` and refusals by policy."""

    page: Page
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    windows: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def dismissed(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def text(self, selector: str) -> str:
        """What an element says."""
        return self.page.inner_text(selector)

    def evaluate(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def set_filter(self, name: str, value: str) -> None:
        """As if the reader had set it."""
        script = """([name, value]) => {
            const field = document.getElementById(name);
            field.value = value;
            field.dispatchEvent(new Event("input", { bubbles: true }));
        }"""
        self.evaluate(script, [name, value])

    def wait_for_position(self, position: int) -> None:
        """Until the board of this position is shown."""
        script = "(id) => document.getElementById('position').dataset.id === id"
        self.page.wait_for_function(script, arg=str(position))

    def nothing_happened(self, path: Path) -> None:
        """No request but the file itself, no dialog, no error, and no script of an attack ran."""
        assert self.requests == [path.absolute().as_uri()]
        assert (self.dialogs, self.errors) == ([], [])
        assert self.evaluate("() => 'pwned' in window") is False
        assert len(self.windows) <= 1


@contextmanager
def visit(
    started: Browser,
    path: Path,
    *,
    width: int = 1280,
    height: int = 1000,
    scheme: Literal["light", "dark"] = "light",
    touch: bool = False,
    before: str = "",
    scale: float = 0.5,
) -> Iterator[Visit]:
    """Opens a file in a window of its own and waits until its page says that it is ready.

    `before` is a script that the browser runs before those of the page. `scale` is pixels of the screen by those of the
    page: with half of them software has a quarter of the work.
    """
    context = started.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=scale,
        color_scheme=scheme,
        has_touch=touch,
    )
    if before:
        context.add_init_script(before)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    found = Visit(page)
    context.on("request", lambda request: found.requests.append(request.url))
    context.on("page", lambda other: found.windows.append(other.url))
    page.on("dialog", found.dismissed)
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    page.on("console", lambda said: found.errors.append(said.text) if said.type == "error" else None)
    try:
        page.goto(path.absolute().as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        yield found
    finally:
        context.close()
