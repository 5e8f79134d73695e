"""A hundred thousand points in a browser: how long a change of the threshold, and a move of the plot, take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import browser, visit
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.archives import SampleOptions
from valuerepair.mining import MineOptions
from valuerepair.store import Store
from valuerepair.views import report

# A machine without a GPU and with other work beside draws WebGL in software; readers' machines are far faster.
LATENCY_MS = 3_000


@pytest.mark.slow
def test_a_hundred_thousand_points_stay_fluid(tmp_path: Path) -> None:
    options = MineOptions(sample=SampleOptions(per_game=48))
    mine_by_key(random_games(tmp_path / "games.pgn", 2_600, plies=70), tmp_path / "store.db", options=options)
    with Store.open(tmp_path / "store.db") as store:
        written = report.write(store, tmp_path / "r.html", threshold=1.2)
    assert written.shown > 90_000
    assert written.size < 30_000_000
    with browser() as started, visit(started, tmp_path / "r.html") as page:
        times = page.evaluate(
            """async () => {
                const slider = document.getElementById("threshold");
                const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
                const [latencies, pans] = [[], []];
                for (let i = 0; i < 11; i++) {
                    slider.value = String(1.0 + 0.05 * i);
                    const begun = performance.now();
                    slider.dispatchEvent(new Event("input", { bubbles: true }));
                    await frame();
                    await frame();
                    latencies.push(performance.now() - begun);
                }
                const chart = document.getElementById("scatter");
                for (let i = 0; i < 11; i++) {
                    const begun = performance.now();
                    await Plotly.relayout(chart, { "xaxis.range": [-1 + 0.01 * i, 1 + 0.01 * i] });
                    await frame();
                    pans.push(performance.now() - begun);
                }
                const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
                return [median(latencies), median(pans)];
            }"""
        )
        print(
            f"{written.shown:,} points, {written.size / 1e6:.1f} MB: filter {times[0]:.0f} ms, move {times[1]:.0f} ms"
        )
        assert times[0] < LATENCY_MS
        assert times[1] < LATENCY_MS
        assert page.errors == []
