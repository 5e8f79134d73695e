"""Plots of positions, rates and games: what their artists hold against pandas and statsmodels on the same store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text
from statsmodels.regression.linear_model import OLS

from tests import plotted_store
from tests.climbing_doubles import THRESHOLD
from tests.figure_parts import artist, band, bars, line, margins, words
from tests.mining_doubles import mine_by_key, random_games
from tests.plotted_store import OF_POSITIONS, frame_of, hajek
from tests.survey_intervals import korn_graubard
from valuerepair.intervals import weighted
from valuerepair.judge.labelled import labels_of, names
from valuerepair.report import figures, style
from valuerepair.report.results import BINS
from valuerepair.store.plays import Play, add_plays
from valuerepair.store.rows import RunRecord
from valuerepair.store.store import Store

draw = cache(plotted_store.draw)  # what is drawn once is only looked at here


@pytest.fixture(scope="module")
def db(plotted_db: Path) -> Path:
    return plotted_db


@pytest.fixture(scope="module")
def frame(db: Path) -> pd.DataFrame:
    return frame_of(db)


# -- positions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_weight", [True, False])
def test_hexagons_hold_the_weight_of_their_positions(db: Path, frame: pd.DataFrame, by_weight: bool) -> None:
    cells = artist(draw("hexbin", db, weighted=by_weight), "density")
    centres, weights = cells.get_offsets(), np.ma.filled(cells.get_array(), 0)
    weight = frame["weight"].to_numpy() if by_weight else np.ones(len(frame))
    assert weights.sum() == pytest.approx(weight.sum())
    # Each position belongs to the nearest centre, by the steps of the grid of centres.
    step_x, step_y = 2 / 44, 2 / int(44 / np.sqrt(3))  # of matplotlib's grid of 44
    dx = (frame["deep_q"].to_numpy()[:, None] - centres[None, :, 0]) / step_x
    dy = (frame["net_q"].to_numpy()[:, None] - centres[None, :, 1]) / step_y
    nearest = np.argmin(dx**2 + 3 * dy**2, axis=1)
    np.testing.assert_allclose(np.bincount(nearest, weight, minlength=len(weights)), weights)


def test_residuals_are_the_scatter_less_the_diagonal(db: Path, frame: pd.DataFrame) -> None:
    """The line too: a local linear fit adds exactly what a straight line adds to its points."""
    scatter, residuals = draw("scatter", db), draw("residuals", db)
    x, y = line(scatter, "lowess")
    np.testing.assert_allclose(line(residuals, "lowess")[1], y - x, atol=1e-3)
    off = frame["net_q"] - frame["deep_q"]
    for gid, chosen in (
        ("optimistic", off >= THRESHOLD),
        ("pessimistic", off <= -THRESHOLD),
        ("positions", off.abs() < THRESHOLD),
    ):
        np.testing.assert_array_equal(line(residuals, gid)[1], off[chosen])
        np.testing.assert_array_equal(line(residuals, gid)[0], frame["deep_q"][chosen])
    unweighted = line(draw("scatter", db, weighted=False), "lowess")[1]
    assert np.abs(unweighted - y).max() > 0.02


def heading(axes: Axes) -> Text:
    [title] = [text for text in axes.findobj(Text) if text.get_text() == axes.get_title("left") != ""]
    assert isinstance(title, Text)
    return title


def test_words_below_a_title_stay_within_the_figure_and_leave_the_plot_its_width() -> None:
    """Names of nets and where alpha is from may be long."""
    with style.house_style():
        widths = []
        for words in (
            "short",
            "a-net-with-a-long-name · stockfish 15.1 nodes=1000000 · alpha 170 (default" + 9 * " as few so far",
        ):
            figure, axes = style.new_figure(6.4, 7.1)
            axes.set(xlabel="x", ylabel="y")
            style.title(axes, "Title", words, "and another line")
            figure.draw_without_rendering()
            assert " ".join(text.get_text() for text in axes.texts[::-1]).replace(" ·", "") == (
                f"{words} and another line".replace(" ·", "")
            )
            ends = [text.get_window_extent().x1 for text in axes.texts]
            assert max(ends) <= figure.bbox.width
            assert heading(axes).get_window_extent().y1 <= figure.bbox.height
            widths.append(axes.get_position().width)
    assert widths[0] == pytest.approx(widths[1], abs=0.01)


@pytest.mark.parametrize(
    "kind",
    [
        kind if kind in ("residuals", "rate", "by-men") else pytest.param(kind, marks=pytest.mark.slow)
        for kind in OF_POSITIONS
    ],
)
def test_words_below_the_title_of_a_plot_stay_within_the_figure(db: Path, kind: str) -> None:
    figure = draw(kind, db)
    figure.draw_without_rendering()
    assert all(text.get_window_extent().x1 <= figure.bbox.width for text in figure.axes[0].texts)
    assert heading(figure.axes[0]).get_window_extent().y1 <= figure.bbox.height


# -- rates ------------------------------------------------------------------------------------------------------------


def test_rates_end_where_the_disagreements_do(db: Path, frame: pd.DataFrame) -> None:
    right = draw("rate", db).axes[0].get_xlim()[1]
    assert right == pytest.approx(np.floor(frame["disagreement"].abs().max() * 20) / 20 + 0.1)


def by_games(hits: pd.Series[bool], games: pd.Series[int]) -> tuple[float, float]:
    """Korn and Graubard's interval by statsmodels' variance of games as clusters."""
    ones, ratio = np.ones(len(hits)), 0.0
    if hits.nunique() > 1:
        fit = OLS(hits.to_numpy(float), ones).fit(
            cov_type="cluster", cov_kwds={"groups": games.to_numpy(), "use_correction": False}
        )
        plain = hits.mean() * (1 - hits.mean()) / len(hits)
        ratio = float(fit.cov_params()[0, 0]) / plain
    fewer = min(int(hits.sum()), int((~hits).sum()))
    effective_games = len(hits) ** 2 / float((games.value_counts() ** 2).sum())
    return korn_graubard(float(hits.mean()), fewer, len(hits), effective_games, ratio)


def test_rates_by_threshold(db: Path, frame: pd.DataFrame) -> None:
    off = frame["disagreement"]
    weighed, plain = draw("rate", db), draw("rate", db, weighted=False)
    for gid, size in (("all", off.abs()), ("optimistic", off), ("pessimistic", -off)):
        for figure, weight in ((weighed, frame["weight"]), (plain, frame["weight"] * 0 + 1)):
            x, y = line(figure, gid)
            expected = {t / 20: hajek(size >= t / 20, weight) for t in range(1, 41)}
            np.testing.assert_allclose(y, [expected[round(t, 9)] for t in x])
            assert len(x) == sum(rate > 0 for rate in expected.values()) > 5
        ends = band(plain, f"{gid}-interval")
        for t in line(plain, gid)[0]:
            low, high = by_games(size >= t, frame["game_id"])
            assert ends[round(t, 9)][1] == pytest.approx(high)
            assert ends[round(t, 9)][0] == pytest.approx(max(low, (size >= t).mean() / 100))
    assert f"{100 * hajek(off.abs() >= THRESHOLD, frame['weight']):.2f} %" in words(weighed)


def test_a_net_that_is_nowhere_wrong_has_a_rate_of_0(tmp_path: Path) -> None:
    mine_by_key(random_games(tmp_path / "games.pgn", 6), tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "a.db")) as sql, sql:
        sql.execute("UPDATE net_values SET q = 0.01, w = NULL, d = NULL, l = NULL")
        sql.execute("UPDATE deep_values SET cp = 0, mate = NULL")
    figure = plotted_store.draw("rate", tmp_path / "a.db")
    assert "0.00 %" in words(figure)
    style.save(figure, tmp_path / "a.svg")


@pytest.mark.parametrize(
    ("kind", "column", "group"),
    [
        ("by-phase", "phase", {"opening": "opening", "middlegame": "middlegame", "endgame": "endgame"}),
        ("by-side", "side", {"White to move": "w", "Black to move": "b"}),
    ],
)
def test_rates_by_group(db: Path, frame: pd.DataFrame, kind: str, column: str, group: dict[str, str]) -> None:
    hits = (frame["disagreement"].abs() >= THRESHOLD).rename("hit")
    weighed, plain = bars(draw(kind, db)), bars(draw(kind, db, weighted=False))
    assert set(weighed) == {name for name, value in group.items() if (frame[column] == value).any()}
    assert len(weighed) > 1
    for name in weighed:
        members = frame[column] == group[name]
        assert weighed[name][0] == pytest.approx(hajek(hits[members], frame["weight"][members]))
        rate = weighted(*(frame.assign(hit=hits)[name][members].to_numpy() for name in ("hit", "weight", "game_id")))
        assert weighed[name][1:] == pytest.approx((rate.low, rate.high))
        assert plain[name][0] == pytest.approx(hits[members].mean())
        assert plain[name][1:] == pytest.approx(by_games(hits[members], frame["game_id"][members]))


def test_rates_by_men_cover_every_position(db: Path, frame: pd.DataFrame) -> None:
    figure = draw("by-men", db, weighted=False)
    total = 0.0
    for name, (rate, _, _) in bars(figure).items():
        low, _, high = name.partition(" to ")
        members = frame["pieces"].between(int(low), int(high or low))
        assert rate == pytest.approx((frame["disagreement"][members].abs() >= THRESHOLD).mean())
        total += members.sum()
    assert total == len(frame)
    assert line(figure, "overall")[0][0] == pytest.approx((frame["disagreement"].abs() >= THRESHOLD).mean())


def test_shares_of_labels(db: Path, frame: pd.DataFrame) -> None:
    rows = frame[frame["disagreement"].abs() >= THRESHOLD]
    with Store.open(db) as store:
        of_rows = names(labels_of(store, rows))
    drawn, plain = bars(draw("by-label", db)), bars(draw("by-label", db, weighted=False))
    for name in ("optimistic", "middlegame", "forced", "in-check"):
        hits = pd.Series([name in labels for labels in of_rows], rows.index)
        assert (name in drawn) == hits.any()
        if hits.any():
            assert drawn[name][0] == pytest.approx(hajek(hits, rows["weight"]))
            assert plain[name][1:] == pytest.approx(by_games(hits, rows["game_id"]))


# -- games ------------------------------------------------------------------------------------------------------------


def test_results_of_games(db: Path, frame: pd.DataFrame) -> None:
    connection = sqlite3.connect(db)
    plays = pd.read_sql_query("SELECT key, z FROM plays WHERE z IS NOT NULL", connection)
    connection.close()
    z = plays.groupby("key")["z"].mean()
    played = frame.assign(z=frame["key"].astype(np.int64).map(z)).dropna(subset="z")
    assert len(played) == len(z) > 20
    figure = draw("results", db)
    for gid in ("net", "deep"):
        q = played[f"{gid}_q"]
        part = pd.cut(q, np.linspace(-1, 1, BINS + 1).tolist(), right=False, include_lowest=True)
        groups = played.groupby(part, observed=True)
        x, y = line(figure, gid)
        np.testing.assert_allclose(x, groups[f"{gid}_q"].mean())
        np.testing.assert_allclose(y, groups["z"].mean(), atol=1e-12)
        assert f"mean (Z − Q)²: {((played['z'] - q) ** 2).mean():.3f}" in words(figure)
        for (low, high), n, mean in zip(
            margins(figure, f"{gid}-intervals"), groups.size(), groups["z"].mean(), strict=True
        ):
            # Wilson's interval of the share of the points, written out.
            share, squared = (mean + 1) / 2, 1.959963984540054**2
            centre = (share + squared / (2 * n)) / (1 + squared / n)
            half = np.sqrt(squared * (share * (1 - share) / n + squared / (4 * n**2))) / (1 + squared / n)
            assert (low, high) == pytest.approx((2 * (centre - half) - 1, 2 * (centre + half) - 1), abs=1e-9)
    assert f"{len(plays):,} decided games from {len(played):,} positions" in words(figure)


def test_one_game_of_one_position(tmp_path: Path) -> None:
    """By hand: a win is the share 1 of one trial, whose Wilson interval is 1 / (1 + 1.96²) = 0.20655 to 1."""
    mine_by_key(random_games(tmp_path / "random.pgn", 3), tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=True) as store:
        row = store.frame().dropna(subset="deep_q").iloc[0]
        run = store.begin_run(RunRecord("played", "selfplay", {}, 0, {}))
        add_plays(store, run, [Play(0, 0, int(row.key), row.fen, "own", "own", "1-0", 1.0, 9, "checkmate")])
        store.commit()
        figure = figures.draw("results", store)
    assert [float(value[0]) for value in line(figure, "net")] == pytest.approx([row.net_q, 1])
    assert margins(figure, "net-intervals")[0] == pytest.approx([2 * 0.2065493 - 1, 1], abs=1e-5)
