"""Plots of a store: what their artists hold against pandas and statsmodels; the files; what is refused."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from click.testing import CliRunner
from matplotlib.figure import Figure
from statsmodels.nonparametric.smoothers_lowess import lowess

import valuerepair as vr
from tests.figure_parts import band, bars, has, line, margins, words
from tests.mining_doubles import mine_by_key, random_games
from tests.plotted_store import QUESTION, THRESHOLD, frame_of, hajek
from valuerepair.arrays import Floats
from valuerepair.chess.values import cp_to_q
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.measure.labels import NAMES, labels_of, masks
from valuerepair.rates import weighted
from valuerepair.report import OF_STORE, style
from valuerepair.report.lowess import FRACTION, MIN_POSITIONS, lowess_line
from valuerepair.report.plots import BINS, scatter_of
from valuerepair.store import view
from valuerepair.store.store import Store

MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}


@cache  # what is drawn once is only looked at here
def draw(kind: str, db: Path) -> Figure:
    return vr.plot(kind, db, question=QUESTION)


@pytest.fixture(scope="module")
def db(plotted_db: Path) -> Path:
    return plotted_db


@pytest.fixture(scope="module")
def frame(db: Path) -> pd.DataFrame:
    return frame_of(db)


def scored(n: int, seed: int = 0, slope: float = 1.0) -> pd.DataFrame:
    """What a scatter looks at of a frame: net Q is `slope` times deep Q, with noise and blunders."""
    rng = np.random.default_rng(seed)
    deep = cp_to_q(np.round(rng.laplace(0, 300, n)), 350)
    deep[rng.random(n) < 0.05] = 1.0
    net = slope * deep + rng.normal(0, 0.1, n)
    blunders = rng.random(n) < 0.03
    net[blunders] = rng.uniform(-1, 1, blunders.sum())
    frame: pd.DataFrame = pd.DataFrame({"net_q": np.clip(net, -1, 1), "deep_q": deep})
    return frame


# -- net Q against deep Q ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.2, 0.55, 1.3])
def test_every_position_is_drawn_once_and_candidates_by_sign(threshold: float) -> None:
    frame = scored(3000)
    frame.loc[:9, "deep_q"] = np.nan
    figure = scatter_of(frame, threshold)
    frame = frame[10:]
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
    assert figure.description.startswith(f"2,990 positions, {candidates:,} candidates at {threshold:g}")
    assert "10 without a deep score" in words(figure)


def test_a_disagreement_of_exactly_the_threshold_is_a_candidate() -> None:
    frame = pd.DataFrame({"net_q": [0.5, -0.5, 0.25], "deep_q": [0.0, 0.0, 0.0]})
    figure = scatter_of(frame, 0.5)
    assert [len(line(figure, gid)[0]) for gid in ("optimistic", "pessimistic")] == [1, 1]


def test_what_no_scatter_can_be_drawn_of() -> None:
    with pytest.raises(ValueRepairError, match="100 positions"):
        scatter_of(scored(100).assign(deep_q=np.nan))
    for threshold in (0, 2.1, float("nan")):
        with pytest.raises(UsageError, match="threshold"):
            scatter_of(scored(10), threshold)


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
@pytest.mark.parametrize("alike", [0.0, 0.2, 0.9])
def test_where_scores_are_alike_the_line_goes_through_their_middle(alike: float) -> None:
    """Many deep scores of 0; with none of them, a net that is the deep search."""
    frame = scored(1000)
    frame["net_q"] = frame["deep_q"]
    rng = np.random.default_rng(1)
    drawn = rng.random(1000) < alike
    frame.loc[drawn, "deep_q"] = 0.0
    frame.loc[drawn, "net_q"] = rng.normal(0, 0.1, drawn.sum())
    x, y = line(scatter_of(frame), "lowess")
    if alike:
        assert y[np.abs(x) < 0.02] == pytest.approx(0, abs=0.04)
    else:
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
    np.testing.assert_allclose(
        at(lowess_line(x, y, weights), grid), np.interp(grid, places, exact[first, 1]), atol=0.01
    )


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


# -- rates ------------------------------------------------------------------------------------------------------------


def test_rates_by_threshold(db: Path, frame: pd.DataFrame) -> None:
    off = frame["disagreement"]
    figure = draw("rates", db)
    for gid, size in (("all", off.abs()), ("optimistic", off), ("pessimistic", -off)):
        x, y = line(figure, gid)
        expected = {t / 20: hajek(size >= t / 20, frame["weight"]) for t in range(1, 41)}
        np.testing.assert_allclose(y, [expected[round(t, 9)] for t in x])
        assert len(x) == sum(rate > 0 for rate in expected.values()) > 5
        assert band(figure, f"{gid}-interval").keys() == {round(t, 9) for t in x}
    assert f"{100 * hajek(off.abs() >= THRESHOLD, frame['weight']):.2f} %" in words(figure)


def test_rates_by_group(db: Path, frame: pd.DataFrame) -> None:
    frame = frame.assign(hit=frame["disagreement"].abs() >= THRESHOLD)
    men = ((2, 5), (6, 7), (8, 11), (12, 15), (16, 19), (20, 23), (24, 27), (28, 31), (32, 32))
    for panel, groups in {
        "phase": {phase: frame["phase"] == phase for phase in ("opening", "middlegame", "endgame")},
        "side": {"White": frame["side"] == "w", "Black": frame["side"] == "b"},
        "men": {f"{a} to {b}" if a < b else f"{a}": frame["pieces"].between(a, b) for a, b in men},
    }.items():
        shown = bars(draw("rates", db), panel)
        assert list(shown) == [name for name, members in groups.items() if members.any()]
        for name, bar in shown.items():
            of = frame[groups[name]]
            rate = weighted(*(of[column].to_numpy() for column in ("hit", "weight", "game_id")))
            assert bar == pytest.approx((hajek(of["hit"], of["weight"]), rate.low, rate.high))


def test_shares_of_labels(db: Path, frame: pd.DataFrame) -> None:
    rows = frame[frame["disagreement"].abs() >= THRESHOLD]
    with Store.open(db) as store:
        has = {name: pd.Series(mask, rows.index) for name, mask in masks(labels_of(store, rows)).items()}
    drawn = bars(draw("rates", db), "label")
    assert list(drawn) == [name for name in NAMES if has[name].any()]
    for name in ("optimistic", "middlegame", "tactical", "in-check"):
        assert drawn[name][0] == pytest.approx(hajek(has[name], rows["weight"]))


def test_a_net_that_is_nowhere_wrong_has_a_rate_of_0(tmp_path: Path) -> None:
    mine_by_key(random_games(tmp_path / "games.pgn", 6), tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "a.db")) as sql, sql:
        sql.execute("UPDATE net_values SET q = 0.01, w = NULL, d = NULL, l = NULL")
        sql.execute("UPDATE deep_values SET cp = 0, mate = NULL")
    figure = vr.plot("rates", tmp_path / "a.db")
    assert "0.00 %" in words(figure)
    style.save(figure, tmp_path / "a.svg")


# -- games ------------------------------------------------------------------------------------------------------------


def test_results_of_games(db: Path, frame: pd.DataFrame) -> None:
    with closing(sqlite3.connect(db)) as connection:
        plays = pd.read_sql_query("SELECT key, z FROM plays WHERE z IS NOT NULL", connection)
    z = plays.groupby("key")["z"].mean()
    played = frame.assign(z=frame["key"].astype(np.int64).map(z)).dropna(subset="z")
    assert len(played) == len(z) > 20
    figure = draw("results", db)
    for gid in ("net", "deep"):
        q = played[f"{gid}_q"]
        part = pd.cut(q, [*np.linspace(-1, 1, BINS + 1)[:-1], 1 + 1e-9], right=False)  # 1 is in the last bin
        groups = played.groupby(part, observed=True)
        x, y = line(figure, gid)
        np.testing.assert_allclose(x, groups[f"{gid}_q"].mean())
        np.testing.assert_allclose(y, groups["z"].mean(), atol=1e-12)
        assert f"{((played['z'] - q) ** 2).mean():.3f}" in words(figure)
        intervals = margins(figure, f"{gid}-intervals")
        for (low, high), n, mean in zip(intervals, groups.size(), groups["z"].mean(), strict=True):
            # Wilson's interval of the share of the points, written out.
            share, squared = (mean + 1) / 2, 1.959963984540054**2
            centre = (share + squared / (2 * n)) / (1 + squared / n)
            half = np.sqrt(squared * (share * (1 - share) / n + squared / (4 * n**2))) / (1 + squared / n)
            assert (low, high) == pytest.approx((2 * (centre - half) - 1, 2 * (centre + half) - 1), abs=1e-9)


# -- files and the command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "PNG"])
@pytest.mark.slow
def test_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"plot.{ending}"
    style.save(scatter_of(scored(50)), path)  # an older plot, which is replaced
    style.save(scatter_of(scored(500)), path)
    content = path.read_bytes()
    assert content.startswith(MAGIC[ending.lower()])
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    style.save(scatter_of(scored(500)), path)
    assert path.read_bytes() == content


def test_points_are_pixels_in_vector_files(tmp_path: Path) -> None:
    style.save(scatter_of(scored(40_000)), tmp_path / "plot.svg")
    content = (tmp_path / "plot.svg").read_bytes()
    assert b"data:image/png;base64" in content
    assert len(content) < 2_000_000


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


@pytest.mark.parametrize("kind", OF_STORE)
def test_every_kind_of_a_store_as_a_file(db: Path, tmp_path: Path, kind: str) -> None:
    """An SVG's words are text; the line on standard output says how many positions, too."""
    words_of = ["plot", kind, "--db", str(db), "-o", str(tmp_path / "a.svg"), "--threshold", str(THRESHOLD)]
    done = CliRunner().invoke(cli, words_of)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{tmp_path / 'a.svg'}: ")
    assert done.stdout.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
    text = "\n".join(ElementTree.parse(tmp_path / "a.svg").getroot().itertext())
    with Store.open(db) as store:
        frame = view.frame(store, text=False)
    if kind != "results":
        assert f"{len(frame):,} positions" in text
        assert f"{len(frame):,} positions" in done.stdout
    assert f"{frame.attrs['net']['name']} · {frame.attrs['oracle']['label']} · alpha" in text


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["match", "match.pgn", "--db", "a.db"], "--db", 2),
        (["match"], "SOURCE", 2),
        (["rates", "other.db"], "--db other.db", 2),
        (["rates", "-o", "a.gif"], "a.gif", 2),
        (["results"], "no decided games", 1),
        (["scatter", "--db", "none.db"], "none.db", 1),
        (["scatter", "--net", "nonesuch"], "nonesuch", 1),
    ],
)
def test_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str, code: int
) -> None:
    mine_by_key(random_games(tmp_path / "random.pgn", 3), tmp_path / "valuerepair.db")
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ValueRepairError) as caught:
        CliRunner().invoke(cli, ["plot", *arguments], catch_exceptions=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == code
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_python_refuses_what_there_is_not(db: Path) -> None:
    with pytest.raises(UsageError, match="histogram"):
        vr.plot("histogram", db)
    with Store.open(db) as store, pytest.raises(UsageError, match="match"):
        vr.plot("match", store)
