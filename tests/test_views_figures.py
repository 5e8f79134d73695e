"""Plots of a store: what their artists hold against pandas and statsmodels; the files; what is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from statsmodels.regression.linear_model import OLS

from tests.figure_parts import band, bars, line, margins, words
from tests.mining_doubles import mine_by_key, random_games
from tests.plotted_store import QUESTION, THRESHOLD, frame_of, hajek
from tests.survey_intervals import wilson_by_games
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.measure.labels import labels_of, names
from valuerepair.rates import weighted
from valuerepair.report import figures, style
from valuerepair.report.plots import BINS
from valuerepair.store import view
from valuerepair.store.plays import Play, add_plays
from valuerepair.store.rows import RunRecord
from valuerepair.store.store import Store

OF_STORE = [name for name, kind in figures.KINDS.items() if kind.reads == figures.STORE]


@cache  # what is drawn once is only looked at here
def draw(kind: str, db: Path) -> Figure:
    return figures.draw(kind, db, QUESTION)


@pytest.fixture(scope="module")
def db(plotted_db: Path) -> Path:
    return plotted_db


@pytest.fixture(scope="module")
def frame(db: Path) -> pd.DataFrame:
    return frame_of(db)


# -- rates ------------------------------------------------------------------------------------------------------------


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
    return wilson_by_games(float(hits.mean()), fewer, len(hits), effective_games, ratio)


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


def test_intervals_are_those_of_games_as_clusters(db: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    """Of a store whose rows all weigh 1."""
    mine_by_key(random_games(tmp_path / "games.pgn", 30), tmp_path / "a.db")
    figure = draw("rates", tmp_path / "a.db")
    with Store.open(tmp_path / "a.db") as store:
        rows = view.frame(store, QUESTION)
    off = rows["disagreement"].abs().dropna()
    games = rows["game_id"][off.index]
    ends = band(figure, "all-interval")
    for t in line(figure, "all")[0]:
        low, high = by_games(off >= t, games)
        assert ends[round(t, 9)] == pytest.approx((max(low, (off >= t).mean() / 100), high))


@pytest.mark.parametrize(
    ("panel", "column", "group"),
    [
        ("phase", "phase", {"opening": "opening", "middlegame": "middlegame", "endgame": "endgame"}),
        ("side", "side", {"White": "w", "Black": "b"}),
    ],
)
def test_rates_by_group(db: Path, frame: pd.DataFrame, panel: str, column: str, group: dict[str, str]) -> None:
    hits = (frame["disagreement"].abs() >= THRESHOLD).rename("hit")
    drawn = bars(draw("rates", db), panel)
    assert set(drawn) == {name for name, value in group.items() if (frame[column] == value).any()}
    assert len(drawn) > 1
    for name in drawn:
        members = frame[column] == group[name]
        rate = weighted(*(frame.assign(hit=hits)[name][members].to_numpy() for name in ("hit", "weight", "game_id")))
        assert drawn[name] == pytest.approx((hajek(hits[members], frame["weight"][members]), rate.low, rate.high))


def test_rates_by_men_cover_every_position(db: Path, frame: pd.DataFrame) -> None:
    total = 0
    for name, (rate, _, _) in bars(draw("rates", db), "men").items():
        low, _, high = name.partition(" to ")
        members = frame["pieces"].between(int(low), int(high or low))
        hits = frame["disagreement"].abs() >= THRESHOLD
        assert rate == pytest.approx(hajek(hits[members], frame["weight"][members]))
        total += int(members.sum())
    assert total == len(frame)


def test_shares_of_labels(db: Path, frame: pd.DataFrame) -> None:
    rows = frame[frame["disagreement"].abs() >= THRESHOLD]
    with Store.open(db) as store:
        of_rows = names(labels_of(store, rows))
    drawn = bars(draw("rates", db), "label")
    for name in ("optimistic", "middlegame", "forced", "in-check"):
        hits = pd.Series([name in labels for labels in of_rows], rows.index)
        assert (name in drawn) == hits.any()
        if hits.any():
            assert drawn[name][0] == pytest.approx(hajek(hits, rows["weight"]))


def test_a_net_that_is_nowhere_wrong_has_a_rate_of_0(tmp_path: Path) -> None:
    mine_by_key(random_games(tmp_path / "games.pgn", 6), tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "a.db")) as sql, sql:
        sql.execute("UPDATE net_values SET q = 0.01, w = NULL, d = NULL, l = NULL")
        sql.execute("UPDATE deep_values SET cp = 0, mate = NULL")
    figure = figures.draw("rates", tmp_path / "a.db")
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


def test_one_game_of_one_position(tmp_path: Path) -> None:
    """By hand: a win is the share 1 of one trial, whose Wilson interval is 1 / (1 + 1.96²) = 0.20655 to 1."""
    mine_by_key(random_games(tmp_path / "random.pgn", 3), tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=True) as store:
        row = view.frame(store).dropna(subset="deep_q").iloc[0]
        with store.running(RunRecord("played", "selfplay", {}, {})) as run:
            add_plays(store, run, [Play(0, 0, int(row.key), row.fen, "own", "own", "1-0", 1.0, 9, "checkmate")])
        figure = figures.draw("results", store)
    assert [float(value[0]) for value in line(figure, "net")] == pytest.approx([row.net_q, 1])
    assert margins(figure, "net-intervals")[0] == pytest.approx([2 * 0.2065493 - 1, 1], abs=1e-5)


# -- the command ------------------------------------------------------------------------------------------------------


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


def test_a_file_is_whole_or_as_it_was(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = "<?xml version='1.0'?><dc:title>Matplotlib v3</dc:title>"
    (tmp_path / "a.svg").write_text(old)

    def half(self: Figure, stream: IO[bytes], **_: Any) -> None:
        stream.write(b"<svg")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="No space left"):
        CliRunner().invoke(cli, ["plot", "--db", str(db), "-o", str(tmp_path / "a.svg")], catch_exceptions=False)
    assert (tmp_path / "a.svg").read_text() == old
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


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
        figures.draw("histogram", db)
    with Store.open(db) as store, pytest.raises(UsageError, match="match"):
        figures.draw("match", store)
