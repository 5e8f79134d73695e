"""The scatter as matplotlib holds it: which points, which line; the line against statsmodels and a brute-force fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.nonparametric.smoothers_lowess import lowess

from tests.figure_parts import has, line, words
from valuerepair.arrays import Floats
from valuerepair.chess.values import cp_to_q
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.report import style
from valuerepair.report.lowess import FRACTION, MIN_POSITIONS, copied, lowess_line
from valuerepair.report.plots import scatter_of

MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}


def scored(n: int, seed: int = 0, slope: float = 1.0) -> pd.DataFrame:
    """What a plot looks at of `Store.frame`: net Q is `slope` times deep Q, with noise and blunders."""
    rng = np.random.default_rng(seed)
    deep = cp_to_q(np.round(rng.laplace(0, 300, n)), 350)
    deep[rng.random(n) < 0.05] = 1.0
    net = slope * deep + rng.normal(0, 0.1, n)
    blunders = rng.random(n) < 0.03
    net[blunders] = rng.uniform(-1, 1, blunders.sum())
    frame: pd.DataFrame = pd.DataFrame({"net_q": np.clip(net, -1, 1), "deep_q": deep})
    frame.attrs.update(
        net={"name": "maia-1900"},
        oracle={"label": "stockfish 15.1 nodes=20000"},
        alpha={"value": 353.6, "origin": "fitted on 1,107 positions (slope)"},
        q_from="cp",
    )
    return frame


@pytest.mark.parametrize("threshold", [0.2, 0.55, 1.3])
def test_every_position_is_drawn_once_and_candidates_by_sign(threshold: float) -> None:
    frame = scored(3000)
    figure = scatter_of(frame, threshold)
    difference = (frame.net_q - frame.deep_q).to_numpy()
    for gid, rows in (
        ("optimistic", difference >= threshold),
        ("pessimistic", difference <= -threshold),
        ("positions", np.abs(difference) < threshold),
    ):
        x, y = line(figure, gid)
        np.testing.assert_array_equal(x, frame.deep_q[rows])
        np.testing.assert_array_equal(y, frame.net_q[rows])
    candidates = (np.abs(difference) >= threshold).sum()
    assert figure.description.startswith(f"3,000 positions, {candidates:,} candidates at {threshold:g}")


def test_a_disagreement_of_exactly_the_threshold_is_a_candidate() -> None:
    frame = pd.DataFrame({"net_q": [0.5, -0.5, 0.25], "deep_q": [0.0, 0.0, 0.0]})
    figure = scatter_of(frame, 0.5)
    assert [len(line(figure, gid)[0]) for gid in ("optimistic", "pessimistic")] == [1, 1]


def test_rows_without_a_deep_q_are_left_out_and_counted() -> None:
    frame = scored(100)
    frame.loc[:9, "deep_q"] = np.nan
    assert "10 without a deep score" in words(scatter_of(frame))
    frame["deep_q"] = np.nan
    with pytest.raises(ValueRepairError, match="100 positions"):
        scatter_of(frame)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "PNG"])
@pytest.mark.slow
def test_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"plot.{ending}"
    style.save(scatter_of(scored(50)), path)  # an older plot, which is replaced
    style.save(scatter_of(scored(500)), path)
    content = path.read_bytes()
    assert content.startswith(MAGIC[ending.lower()])
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    if ending == "svg":
        assert {"lowess", "diagonal", "band"} <= {
            element.get("id") for element in ElementTree.fromstring(content).iter()
        }
    style.save(scatter_of(scored(500)), path)
    assert path.read_bytes() == content


def test_points_are_pixels_in_vector_files(tmp_path: Path) -> None:
    style.save(scatter_of(scored(40_000)), tmp_path / "plot.svg")
    content = (tmp_path / "plot.svg").read_bytes()
    assert b"data:image/png;base64" in content
    assert len(content) < 2_000_000


@pytest.mark.parametrize("name", ["plot.jpg", "plot", "plot.png.gz"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=name):
        style.save(scatter_of(scored(10)), tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("threshold", [0, -1, 2.1, float("nan")])
def test_threshold_out_of_range(threshold: float) -> None:
    with pytest.raises(UsageError, match="threshold"):
        scatter_of(scored(10), threshold)


def test_a_users_settings_are_neither_used_nor_changed(tmp_path: Path) -> None:
    style.save(scatter_of(scored(200)), tmp_path / "a.png")
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30}):
        before = dict(mpl.rcParams)
        style.save(scatter_of(scored(200)), tmp_path / "b.png")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_it_needs_no_display_and_no_pyplot(tmp_path: Path) -> None:
    program = (
        "import sys, numpy, pandas\nfrom valuerepair.report import plots, style\n"
        "q = numpy.linspace(-1, 1, 50)\nframe = pandas.DataFrame({'net_q': q, 'deep_q': q})\n"
        "style.save(plots.scatter_of(frame, 0.55), sys.argv[1])\nassert 'matplotlib.pyplot' not in sys.modules\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")}
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a.png")], check=True, env=environment)
    assert (tmp_path / "a.png").read_bytes().startswith(MAGIC["png"])


# -- the line ---------------------------------------------------------------------------------------------------------


def test_the_line_is_statsmodels_lowess() -> None:
    """With delta 0 every point has its own local fit: the slow, exact answer is the judge of the quick one."""
    frame = scored(1500, slope=0.6)
    x, y = line(scatter_of(frame), "lowess")
    exact = lowess(frame.net_q, frame.deep_q, FRACTION, it=3, delta=0.0)
    assert (x[0], x[-1]) == (frame.deep_q.min(), frame.deep_q.max())
    places, first = np.unique(exact[:, 0], return_index=True)
    np.testing.assert_allclose(y, np.interp(x, places, exact[first, 1]), atol=0.01)


@pytest.mark.parametrize("frame", [scored(MIN_POSITIONS - 1), scored(50).assign(deep_q=1.0)])
def test_too_little_for_a_line_gives_none(frame: pd.DataFrame) -> None:
    assert not has(scatter_of(frame), "lowess")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("alike", [0.2, 0.3, 0.9])
def test_where_many_scores_are_alike_the_line_goes_through_their_middle(alike: float) -> None:
    frame = scored(1000)
    rng = np.random.default_rng(1)
    drawn = rng.random(1000) < alike
    frame.loc[drawn, "deep_q"] = 0.0
    frame.loc[drawn, "net_q"] = rng.normal(0, 0.1, drawn.sum())
    x, y = line(scatter_of(frame), "lowess")
    assert np.isfinite(y).all()
    assert y[np.abs(x) < 0.02] == pytest.approx(0, abs=0.04)


@pytest.mark.filterwarnings("error")
def test_a_net_that_is_the_deep_search_gives_the_diagonal() -> None:
    frame = scored(300)
    frame["net_q"] = frame["deep_q"]
    x, y = line(scatter_of(frame), "lowess")
    np.testing.assert_allclose(y, x, atol=1e-6)


def curve(n: int, seed: int = 0) -> tuple[Floats, Floats]:
    """x in [-1, 1] and a bent y with noise and outliers."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    y = np.tanh(2 * x) - 0.3 * x**2 + rng.normal(0, 0.1, n)
    y[rng.random(n) < 0.05] += 1.0
    return x, y


def at(fitted: tuple[Floats, Floats] | None, places: Floats) -> Floats:
    assert fitted is not None
    return np.asarray(np.interp(places, *fitted))


def test_whole_weights_are_rows_repeated() -> None:
    x, y = curve(400)
    weights = np.random.default_rng(1).integers(1, 9, 400).astype(float)
    rows = np.repeat(np.arange(400), weights.astype(int))
    exact = lowess(y[rows], x[rows], FRACTION, it=3, delta=0.0)
    places, first = np.unique(exact[:, 0], return_index=True)
    grid = np.linspace(-0.95, 0.95, 80)
    wanted = np.interp(grid, places, exact[first, 1])
    np.testing.assert_allclose(at(lowess_line(x, y, weights), grid), wanted, atol=0.01)


def brute_force(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Cleveland's algorithm with case weights, one WLS of statsmodels a place: fitted values at x [n]."""
    robust, fitted = np.ones_like(x), np.zeros_like(x)
    for _ in range(4):
        for i, place in enumerate(x):
            far = np.abs(x - place)
            order = np.argsort(far)
            inside = np.searchsorted(np.cumsum(weights[order]), FRACTION * weights.sum())
            kernel = np.clip(1 - (far / far[order][inside]) ** 3, 0, None) ** 3
            design = sm.add_constant(x - place, has_constant="add")
            fitted[i] = sm.WLS(y, design, weights=kernel * robust * weights).fit().params[0]
        off = np.abs(y - fitted)
        order = np.argsort(off)
        median = off[order][np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)]
        robust = np.clip(1 - (off / (6 * median)) ** 2, 0, None) ** 2
    return fitted


def test_weights_that_are_not_whole_are_weights_of_a_local_fit() -> None:
    x, y = curve(160, 3)
    weights = np.where(np.random.default_rng(2).random(160) < 0.3, 17.37, 1.0)
    fitted = brute_force(x, y, weights)
    inner = np.abs(x) < 0.9
    np.testing.assert_allclose(at(lowess_line(x, y, weights), x[inner]), fitted[inner], atol=0.012)
    plain = at(lowess_line(x, y, np.ones(len(x))), x[inner])
    assert np.abs(plain - fitted[inner]).max() > 0.04  # the check can fail


@given(st.lists(st.floats(0.01, 60), min_size=1, max_size=300))
def test_every_range_of_rows_has_its_weight_to_within_a_copy(given_weights: list[float]) -> None:
    weights = np.array([*given_weights, 1.0])
    copies = copied(weights)
    scale = copies.sum() / weights.sum()
    assert np.abs(np.cumsum(copies) - np.cumsum(weights) * scale).max() <= 1 + 1e-9 * scale
    assert copies.sum() <= 1_000_000
