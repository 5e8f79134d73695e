"""A hundred thousand points in a browser: how long a change of the threshold, and a move of the plot, take."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

from tests.mining_doubles import mine_by_key, random_games
from tests.report.browser import Visit, visit
from tests.report.crowd import crowded_report
from valuerepair.archives.options import SampleOptions
from valuerepair.runs.options import MineOptions

if TYPE_CHECKING:
    from playwright.sync_api import Browser

THRESHOLD = 1.2
POINTS = 100_000
TIMES = 5
# Of processor time, which other work on the machine does not lengthen. Readers' machines draw WebGL by their GPU.
MOST_MS = 3_000
FRAME = "const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));"
FILTER = (
    FRAME
    + """
    const slider = document.getElementById("threshold");
    slider.value = String(1.0 + 0.05 * i);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await frame();
    await frame();
"""
)
MOVE = (
    FRAME
    + """
    await Plotly.relayout(document.getElementById("scatter"), { "xaxis.range": [-1 + 0.01 * i, 1 + 0.01 * i] });
    await frame();
"""
)


def processor_ms(chromium: Browser) -> float:
    """Of the browser with all its processes, so far."""
    session = chromium.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return 1000 * sum(float(process["cpuTime"]) for process in processes)


def measured(chromium: Browser, page: Visit, script: str) -> tuple[float, float]:
    """The median of the milliseconds that doing something takes, and the mean of processor time."""
    timed = f"async (i) => {{ const begun = performance.now(); {script} return performance.now() - begun; }}"
    begun = processor_ms(chromium)
    lasted = [float(page.evaluate(timed, i)) for i in range(TIMES)]
    return median(lasted), (processor_ms(chromium) - begun) / TIMES


@pytest.mark.slow
def test_a_hundred_thousand_points_stay_fluid(chromium: Browser, tmp_path: Path) -> None:
    path, options = tmp_path / "r.html", MineOptions(sample=SampleOptions(per_game=48))
    mine_by_key(random_games(tmp_path / "games.pgn", 30, plies=70), tmp_path / "store.db", options=options)
    points = crowded_report(tmp_path / "store.db", path, POINTS, THRESHOLD)
    size = path.stat().st_size
    assert size < 30_000_000
    with visit(chromium, path) as page:
        assert page.evaluate("() => Number(document.getElementById('counts').dataset.positions)") == points >= POINTS
        filtering, filter_cpu = measured(chromium, page, FILTER)
        moving, move_cpu = measured(chromium, page, MOVE)
        print(
            f"{points:,} points, {size / 1e6:.1f} MB: filter {filtering:.0f} ms (processor {filter_cpu:.0f} ms), "
            f"move {moving:.0f} ms (processor {move_cpu:.0f} ms)"
        )
        assert max(filter_cpu, move_cpu) < MOST_MS
        assert page.errors == []
