"""The plot where a browser has no WebGL: fewer points, each an element, and all else as ever."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.report.browser import visit
from tests.report.crowd import crowded_report
from tests.report.reading import Report, drawn_counts, nothing_happened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

THRESHOLD, POINTS, MOST = 1.2, 6_000, 5_000
NO_WEBGL = """
const original = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
    return kind.includes("webgl") ? null : original.call(this, kind, ...rest);
};
"""
# The place of a trace's first point.
FIRST = "(n) => { const { x, y } = document.getElementById('scatter').data[n]; return [x[0], y[0]]; }"


@pytest.mark.slow
def test_a_part_of_the_points_is_drawn(chromium: Browser, made: Report, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    points = crowded_report(made.db, path, POINTS, THRESHOLD)
    with visit(chromium, path, before=NO_WEBGL) as page:
        assert page.evaluate("() => document.createElement('canvas').getContext('webgl')") is None
        kinds = page.evaluate("() => document.getElementById('scatter').data.map((trace) => trace.type)")
        assert set(kinds) == {"scatter"}
        counts = drawn_counts(page)
        marks = page.page.locator("#scatter .scatterlayer .trace .points path")
        opened = page.evaluate("() => document.getElementById('scatter').data[4].x.length")
        assert opened in (0, 1)  # the ring around the position on the board
        assert marks.count() == counts["scatter"] + opened
        # A third at most of each trace's kind; as many as fit if every n-th is left.
        assert MOST / 3 < counts["scatter"] <= MOST < points
        assert 0 < counts["scatterOff"] <= counts["candidates"]
        # All else is of all positions.
        assert counts["positions"] == counts["phases"] == counts["sides"] == points
        assert counts["candidates"] == counts["listed"] == counts["phasesOff"]
        wanted = page.evaluate(FIRST, 1)
        page.page.locator("#scatter").scroll_into_view_if_needed()
        box = page.page.locator("#scatter .scatterlayer .trace:nth-of-type(2) .points path").first.bounding_box()
        assert box is not None
        page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.page.wait_for_selector("#board svg:visible")
        opened = page.evaluate(FIRST, 4)
        # Points lie close together: the one opened is that one or covers it.
        assert opened == pytest.approx(wanted, abs=0.02)
        nothing_happened(page, path)
