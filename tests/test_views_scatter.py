"""The scatter as matplotlib holds it: which points, which line, which words; and the files it makes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.lines import Line2D

from valuerepair.arrays import Floats
from valuerepair.chess.values import cp_to_q
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.report import scatter, style
from valuerepair.report.drawing import LOWESS_FRACTION, LOWESS_MIN_POSITIONS

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


def points(figure: Figure, gid: str) -> tuple[Floats, Floats]:
    """x and y of the one line artist with that gid."""
    (artist,) = figure.findobj(lambda a: isinstance(a, Line2D) and a.get_gid() == gid)
    assert isinstance(artist, Line2D)
    return np.asarray(artist.get_xdata(), float), np.asarray(artist.get_ydata(), float)


def words(figure: Figure) -> str:
    from matplotlib.text import Text

    return "\n".join(a.get_text() for a in figure.findobj(Text) if isinstance(a, Text))


def plot(frame: pd.DataFrame, threshold: float, path: Path) -> scatter.ScatterCounts:
    figure, counts = scatter.draw(frame, threshold)
    style.save(figure, path)
    return counts


@pytest.mark.parametrize("threshold", [0.2, 0.55, 1.3])
def test_every_position_is_drawn_once_and_candidates_by_sign(threshold: float) -> None:
    frame = scored(3000)
    figure, counts = scatter.draw(frame, threshold)
    difference = (frame.net_q - frame.deep_q).to_numpy()
    for gid, rows in (
        ("optimistic", difference >= threshold),
        ("pessimistic", difference <= -threshold),
        ("positions", np.abs(difference) < threshold),
    ):
        x, y = points(figure, gid)
        np.testing.assert_array_equal(x, frame.deep_q[rows])
        np.testing.assert_array_equal(y, frame.net_q[rows])
    assert counts.candidates == (np.abs(difference) >= threshold).sum() > 0
    assert counts.positions == 3000


def test_a_disagreement_of_exactly_the_threshold_is_a_candidate() -> None:
    frame = pd.DataFrame({"net_q": [0.5, -0.5, 0.25], "deep_q": [0.0, 0.0, 0.0]})
    figure, counts = scatter.draw(frame, 0.5)
    assert [len(points(figure, gid)[0]) for gid in ("optimistic", "pessimistic")] == [1, 1]
    assert counts.candidates == 2


def test_the_line_is_statsmodels_lowess() -> None:
    """With delta 0 every point has its own local fit: the slow, exact answer is the oracle of the quick one."""
    from statsmodels.nonparametric.smoothers_lowess import lowess

    frame = scored(1500, slope=0.6)
    figure, _ = scatter.draw(frame)
    x, y = points(figure, "lowess")
    exact = lowess(frame.net_q, frame.deep_q, LOWESS_FRACTION, it=3, delta=0.0)
    assert (x[0], x[-1]) == (frame.deep_q.min(), frame.deep_q.max())
    assert np.all(np.diff(x) > 0)
    places, first = np.unique(exact[:, 0], return_index=True)
    np.testing.assert_allclose(y, np.interp(x, places, exact[first, 1]), atol=0.01)
    middle = np.abs(x) < 0.8
    np.testing.assert_allclose(y[middle], 0.6 * x[middle], atol=0.05)


@pytest.mark.parametrize("frame", [scored(LOWESS_MIN_POSITIONS - 1), scored(50).assign(deep_q=1.0)])
def test_too_little_for_a_line_gives_none(frame: pd.DataFrame) -> None:
    figure, counts = scatter.draw(frame)
    assert counts.positions == len(frame)
    assert "lowess" not in words(figure)
    assert not figure.findobj(lambda a: a.get_gid() == "lowess")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("alike", [0.2, 0.29, 0.3, 0.5, 0.9, 0.98])
def test_where_many_scores_are_alike_the_line_goes_through_their_middle(alike: float) -> None:
    frame = scored(1000)
    rng = np.random.default_rng(1)
    drawn = rng.random(1000) < alike
    frame.loc[drawn, "deep_q"] = 0.0
    frame.loc[drawn, "net_q"] = rng.normal(0, 0.1, drawn.sum())
    x, y = points(scatter.draw(frame)[0], "lowess")
    assert np.isfinite(y).all()
    assert (x[0], x[-1]) == (frame.deep_q.min(), frame.deep_q.max())
    assert y[np.abs(x) < 0.02] == pytest.approx(0, abs=0.04)


@pytest.mark.filterwarnings("error")
def test_a_net_that_is_the_deep_search_gives_the_diagonal() -> None:
    frame = scored(300)
    frame["net_q"] = frame["deep_q"]
    x, y = points(scatter.draw(frame)[0], "lowess")
    np.testing.assert_allclose(y, x, atol=1e-6)


def test_rows_without_a_deep_q_are_left_out_and_counted() -> None:
    frame = scored(100)
    frame.loc[:9, "deep_q"] = np.nan
    figure, counts = scatter.draw(frame)
    assert counts.positions == 90
    assert "10 without a deep score left out" in words(figure)
    frame["deep_q"] = np.nan
    with pytest.raises(ValueRepairError, match="none of the 100 positions has a deep score from cp; try --alpha wdl"):
        scatter.draw(frame)


def test_the_words_say_where_it_comes_from() -> None:
    frame = scored(2000)
    figure, counts = scatter.draw(frame, 0.55)
    text = words(figure)
    assert "maia-1900 · stockfish 15.1 nodes=20000 · alpha 354 (fitted on 1,107 positions (slope))" in text
    assert f"2,000 positions, {counts.candidates:,} candidates ({counts.candidates / 20:.2f} %)" in text
    assert "|net Q − deep Q| ≥ 0.55" in text
    assert f"net too optimistic: {len(points(figure, 'optimistic')[0])}" in text
    frame.attrs["q_from"] = "wdl"
    assert "alpha" not in words(scatter.draw(frame)[0])


@pytest.mark.parametrize("ending", ["png", "svg", pytest.param("pdf", marks=pytest.mark.slow), "PNG"])
def test_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"plot.{ending}"
    plot(scored(50), 0.55, path)  # an older plot, which is replaced
    counts = plot(scored(500), 0.55, path)
    content = path.read_bytes()
    assert content.startswith(MAGIC[ending.lower()])
    assert counts.positions == 500
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    if ending == "png":
        pixels = imread(path)
        assert pixels.shape[0] > pixels.shape[1] > 800
    elif ending == "svg":
        root = ElementTree.fromstring(content)
        ids = {element.get("id") for element in root.iter()}
        assert {"lowess", "diagonal", "band"} <= ids
        assert b"fitted on 1,107 positions" in content
    elif ending == "pdf":
        assert content.rstrip().endswith(b"%%EOF")
    plot(scored(500), 0.55, path)
    assert path.read_bytes() == content


def test_points_are_pixels_in_vector_files(tmp_path: Path) -> None:
    sizes = []
    for n in (2_000, 40_000):
        plot(scored(n), 0.55, tmp_path / "plot.svg")
        content = (tmp_path / "plot.svg").read_bytes()
        assert b"data:image/png;base64" in content
        sizes.append(len(content))
    assert sizes[1] < 4 * sizes[0] < 2_000_000


@pytest.mark.parametrize("name", ["plot.jpg", "plot", "plot.png.gz"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"ends in \.png, \.svg or \.pdf"):
        plot(scored(10), 0.55, tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("threshold", [0, -1, 2.1, float("nan")])
def test_threshold_out_of_range(tmp_path: Path, threshold: float) -> None:
    with pytest.raises(UsageError, match="threshold"):
        plot(scored(10), threshold, tmp_path / "plot.png")


def test_a_failure_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plot.png"
    old = b"\x89PNG\r\n\x1a\n" + b"Software\0Matplotlib"
    path.write_bytes(old)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(OSError, match="No space left"):
        plot(scored(50), 0.55, path)
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["plot.png"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{tmp_path}/no/plot.png: there is no folder {tmp_path}/no; make it"):
        plot(scored(50), 0.55, tmp_path / "no" / "plot.png")


def test_a_users_settings_are_neither_used_nor_changed(tmp_path: Path) -> None:
    plot(scored(200), 0.55, tmp_path / "a.png")
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30}):
        before = dict(mpl.rcParams)
        plot(scored(200), 0.55, tmp_path / "b.png")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_it_needs_no_display_and_no_pyplot(tmp_path: Path) -> None:
    program = (
        "import sys, numpy, pandas\nfrom valuerepair.report import scatter, style\n"
        "q = numpy.linspace(-1, 1, 50)\nframe = pandas.DataFrame({'net_q': q, 'deep_q': q})\n"
        "style.save(scatter.draw(frame, 0.55)[0], sys.argv[1])\nassert 'matplotlib.pyplot' not in sys.modules\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")}
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a.png")], check=True, env=environment)
    assert (tmp_path / "a.png").read_bytes().startswith(MAGIC["png"])


@pytest.mark.slow
def test_a_million_points_take_under_a_minute(tmp_path: Path) -> None:
    frame = scored(1_000_000)
    started = time.perf_counter()
    plot(frame, 0.55, tmp_path / "plot.png")
    assert time.perf_counter() - started < 60
