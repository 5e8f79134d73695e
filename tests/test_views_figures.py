"""Every kind of plot: what its artists hold against pandas and statsmodels on the same store; files; refusals."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from statsmodels.stats.proportion import proportion_confint

from tests.climbing_doubles import THRESHOLD, ClimbingOracle, climb_by_key, ladder_options, options_for
from tests.figure_parts import artist, band, bars, has, line, margins, words
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.candidates.labelled import labels_of, names
from valuerepair.cli import cli
from valuerepair.deep.screen_fit import CurvePoint
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.store import Store
from valuerepair.store.plays import Play, add_plays
from valuerepair.store.rates import weighted
from valuerepair.store.rows import RunRecord
from valuerepair.views import figures, ladder, style
from valuerepair.views.calibration import BINS

OF_STORE = [name for name, kind in figures.KINDS.items() if kind.reads == figures.STORE]
OF_POSITIONS = ["scatter", "hexbin", "residuals", "rate", "by-phase", "by-side", "by-men"]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was screened, with games played from some of its positions."""
    folder = tmp_path_factory.mktemp("figures")
    archive = random_games(folder / "random.pgn", 100)
    climb_by_key(archive, folder / "screened.db", options_for(ladder_options(audit=0.15)), ClimbingOracle())
    play_games(folder / "screened.db")
    return folder / "screened.db"


def play_games(db: Path) -> None:
    """Three games of known results from every third position, and undecided ones from others."""
    rng = np.random.default_rng(0)
    with Store.open(db, write=True) as store:
        frame = store.frame()
        run = store.begin_run(RunRecord("played", "selfplay", {}, 0, {}))
        plays: list[Play] = []
        for i, (key, fen, q) in enumerate(zip(frame["key"], frame["fen"], frame["deep_q"], strict=True)):
            for _ in range(3 if i % 3 == 0 else i % 3 - 1):
                z = float(rng.choice([-1, 0, 1], p=[(1 - q) / 2 * 0.8, 0.2, (1 + q) / 2 * 0.8])) if i % 3 == 0 else None
                result = "*" if z is None else {1: "1-0", 0: "1/2-1/2", -1: "0-1"}[int(z)]
                plays.append(Play(len(plays), i, int(key), fen, "own", "own", result, z, 40, "checkmate"))
        add_plays(store, run, plays)
        store.commit()


@pytest.fixture(scope="module")
def frame(db: Path) -> pd.DataFrame:
    with Store.open(db) as store:
        found = store.frame(alpha=200.0)
    assert set(found["weight"]) != {1.0}
    assert (found["weight"] > 1).sum() > 10
    return found


def draw(kind: str, db: Path, **options: Any) -> Figure:
    if figures.KINDS[kind].reads == figures.STORE:
        options = {
            "alpha": 200.0,
            **({"threshold": THRESHOLD} if "threshold" in figures.KINDS[kind].options else {}),
            **options,
        }
    return figures.draw(kind, db, **options)


# -- positions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_weight", [True, False])
def test_hexagons_hold_the_weight_of_their_positions(db: Path, frame: pd.DataFrame, by_weight: bool) -> None:
    cells = artist(draw("hexbin", db, weighted=by_weight), "density")
    centres, found = cells.get_offsets(), np.ma.filled(cells.get_array(), 0)
    weight = frame["weight"].to_numpy() if by_weight else np.ones(len(frame))
    assert found.sum() == pytest.approx(weight.sum())
    # Each position belongs to the nearest centre, by the steps of the grid of centres.
    step_x, step_y = 2 / 44, 2 / int(44 / np.sqrt(3))  # of matplotlib's grid of 44
    dx = (frame["deep_q"].to_numpy()[:, None] - centres[None, :, 0]) / step_x
    dy = (frame["net_q"].to_numpy()[:, None] - centres[None, :, 1]) / step_y
    nearest = np.argmin(dx**2 + 3 * dy**2, axis=1)
    np.testing.assert_allclose(np.bincount(nearest, weight, minlength=len(found)), found)


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
    [found] = [text for text in axes.findobj(Text) if text.get_text() == axes.get_title("left") != ""]
    assert isinstance(found, Text)
    return found


def test_words_below_a_title_stay_within_the_figure_and_leave_the_plot_its_width(db: Path) -> None:
    """Names of nets and where alpha is from may be long."""
    with style.house_style():
        widths = []
        for words in (
            "short",
            "a-net-with-a-long-name · stockfish 15.1 nodes=1000000 · alpha 170, default" + 9 * " as few so far",
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
    for kind in OF_POSITIONS:
        figure = draw(kind, db)
        figure.draw_without_rendering()
        assert all(text.get_window_extent().x1 <= figure.bbox.width for text in figure.axes[0].texts), kind
        assert heading(figure.axes[0]).get_window_extent().y1 <= figure.bbox.height, kind


# -- rates ------------------------------------------------------------------------------------------------------------


def test_rates_end_where_the_disagreements_do(db: Path, frame: pd.DataFrame) -> None:
    right = draw("rate", db).axes[0].get_xlim()[1]
    assert right == pytest.approx(np.floor(frame["disagreement"].abs().max() * 20) / 20 + 0.1)


def hajek(hits: pd.Series[bool], weight: pd.Series[float]) -> float:
    return float((hits * weight).sum() / weight.sum())


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
            low, high = proportion_confint(int((size >= t).sum()), len(size), method="wilson")
            assert ends[round(t, 9)][1] == pytest.approx(high)
            assert ends[round(t, 9)][0] == pytest.approx(max(low, (size >= t).mean() / 100))
    assert f"{100 * hajek(off.abs() >= THRESHOLD, frame['weight']):.2f} %" in words(weighed)


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
        rate = weighted(hits[members].to_numpy(), frame["weight"][members].to_numpy())
        assert weighed[name][1:] == pytest.approx((rate.low, rate.high))
        assert plain[name][0] == pytest.approx(hits[members].mean())
        assert plain[name][1:] == pytest.approx(proportion_confint(hits[members].sum(), members.sum(), method="wilson"))


def test_rates_by_men_cover_every_position(db: Path, frame: pd.DataFrame) -> None:
    figure = draw("by-men", db, weighted=False)
    found = 0.0
    for name, (rate, _, _) in bars(figure).items():
        low, _, high = name.partition(" to ")
        members = frame["pieces"].between(int(low), int(high or low))
        assert rate == pytest.approx((frame["disagreement"][members].abs() >= THRESHOLD).mean())
        found += members.sum()
    assert found == len(frame)
    assert line(figure, "every")[0][0] == pytest.approx((frame["disagreement"].abs() >= THRESHOLD).mean())


def test_shares_of_labels(db: Path, frame: pd.DataFrame) -> None:
    rows = frame[frame["disagreement"].abs() >= THRESHOLD]
    with Store.open(db) as store:
        of_rows = names(labels_of(store, rows))
    found, plain = bars(draw("by-label", db)), bars(draw("by-label", db, weighted=False))
    for name in ("optimistic", "middlegame", "forced", "in-check"):
        hits = pd.Series([name in each for each in of_rows], rows.index)
        assert (name in found) == hits.any()
        if hits.any():
            assert found[name][0] == pytest.approx(hajek(hits, rows["weight"]))
            assert plain[name][1:] == pytest.approx(proportion_confint(hits.sum(), len(hits), method="wilson"))


# -- the ladder -------------------------------------------------------------------------------------------------------


def test_survival(db: Path, frame: pd.DataFrame) -> None:
    figure, plain = draw("survival", db), draw("survival", db, weighted=False)
    connection = sqlite3.connect(db)
    passages = pd.read_sql_query("SELECT * FROM screened WHERE screen_id IS NOT NULL", connection)
    connection.close()
    joined = passages.merge(frame, on="position_id").assign(cut=lambda t: t["cut_at"].fillna(np.inf))
    off = joined["disagreement"].abs() >= THRESHOLD
    rungs = [0, 10, 100]
    mass = survived = 0.0
    for gid, members in (("candidates", joined[off]), ("others", joined[~off])):
        x, y = line(figure, gid)
        assert x.tolist() == [0, 1, 2, 3]
        np.testing.assert_allclose(y, [1, *(hajek(members["cut"] > rung, members["weight"]) for rung in rungs)])
        np.testing.assert_allclose(line(plain, gid)[1], [1, *((members["cut"] > rung).mean() for rung in rungs)])
        mass, survived = mass + members["weight"].sum(), survived + y[-1] * members["weight"].sum()
    # Whatever the weights, together they say how many of all that went up the ladder reached its top.
    failed = passages["searched"].astype(bool) & ~passages["position_id"].isin(frame["position_id"])
    assert survived / mass == pytest.approx(passages[~failed]["cut_at"].isna().mean(), abs=0.02)
    candidates, others = line(figure, "candidates")[1][-1], line(figure, "others")[1][-1]
    assert candidates > others


def test_numbers_of_recall_do_not_cover_one_another() -> None:
    points = [
        CurvePoint(wanted, share, 1.0, 3, 3)
        for wanted, share in ((0.8, 0.2), (0.9, 0.201), (0.95, 0.21), (0.98, 0.25), (0.99, 0.27))
    ]
    with style.house_style():
        figure, axes = style.new_figure(7.0, 5.2)
        ladder._draw_curve(axes, points)
        axes.plot(1, 1)
        axes.set_xscale("log")
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.texts]
    assert axes.texts[0].get_text().startswith("0.8 to ")
    assert axes.texts[-1].get_text().endswith("0.99")
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("terminal", [True, False])
def test_on_a_terminal_cross_validation_says_that_it_takes_long(
    db: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from valuerepair.views import screen_table

    def stop(*_: object) -> None:
        raise ValueRepairError("said before the work")

    monkeypatch.setattr(screen_table, "fit_screen", stop)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with caplog.at_level("INFO", "valuerepair"), pytest.raises(ValueRepairError, match="said before"):
        figures.draw("recall", db, alpha=200.0, threshold=THRESHOLD)
    [record] = [record for record in caplog.records if "cross-validating" in record.getMessage()]
    assert record.levelname == ("WARNING" if terminal else "INFO")


def test_recall_is_that_of_vr_fit_screen_and_vr_stats(db: Path) -> None:
    import json

    figure = draw("recall", db)
    shared = ["--db", str(db), "--alpha", "200", "--threshold", str(THRESHOLD), "--json"]
    table = json.loads(CliRunner().invoke(cli, ["fit", "screen", "--recall", "0.95", *shared]).stdout)
    x, y = line(figure, "curve")
    np.testing.assert_allclose(x, [point["share"] for point in table["curve"]])
    np.testing.assert_allclose(y, [point["recall"] for point in table["curve"]])
    ends = margins(figure, "curve-intervals")
    for (low, high), point in zip(ends, table["curve"], strict=True):
        bounds = proportion_confint(point["recall"] * point["positives"], point["positives"], method="wilson")
        assert (low, high) == pytest.approx(bounds, abs=1e-9)
    told = json.loads(CliRunner().invoke(cli, ["stats", *shared]).stdout)["scored"]["screening"]
    assert (
        f"1/{told['saving']:.1f} of the nodes, recall {100 * told['recall']:.1f} %"
        in figures.drawing("recall", db, alpha=200.0, threshold=THRESHOLD).said
    )


# -- games ------------------------------------------------------------------------------------------------------------


def test_calibration_of_games(db: Path, frame: pd.DataFrame) -> None:
    connection = sqlite3.connect(db)
    plays = pd.read_sql_query("SELECT key, z FROM plays WHERE z IS NOT NULL", connection)
    connection.close()
    z = plays.groupby("key")["z"].mean()
    played = frame.assign(z=frame["key"].astype(np.int64).map(z)).dropna(subset="z")
    assert len(played) == len(z) > 20
    figure = draw("calibration", db)
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
        figure = figures.draw("calibration", store)
    assert [float(each[0]) for each in line(figure, "net")] == pytest.approx([row.net_q, 1])
    assert margins(figure, "net-intervals")[0] == pytest.approx([2 * 0.2065493 - 1, 1], abs=1e-5)


# -- all kinds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OF_STORE)
def test_every_kind_of_a_store_as_a_file(db: Path, tmp_path: Path, kind: str) -> None:
    """An SVG's words are text, with the counts that pandas finds; the line on standard output says so too."""
    asked = [] if kind == "calibration" else ["--threshold", str(THRESHOLD)]
    done = CliRunner().invoke(cli, ["plot", kind, "--db", str(db), "-o", str(tmp_path / "a.svg"), *asked])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{tmp_path / 'a.svg'}: ")
    assert done.stdout.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
    text = "\n".join(ElementTree.parse(tmp_path / "a.svg").getroot().itertext())
    with Store.open(db) as store:
        found = store.frame(text=False)
    if kind in OF_POSITIONS:
        assert f"{len(found):,} positions" in text
    if kind not in ("calibration", "recall", "rate", "by-phase", "by-side", "by-men"):
        candidates = int((found["disagreement"].abs() >= THRESHOLD).sum())
        assert f"{candidates:,} candidates" in text or kind == "survival"
    assert f"{found.attrs['net']['name']} · {found.attrs['oracle']['label']} · alpha" in text


@pytest.mark.parametrize("kind", ["scatter", "rate", "by-label", "calibration"])
def test_an_open_store_and_its_path_give_the_same_figure(db: Path, tmp_path: Path, kind: str) -> None:
    with Store.open(db) as store:
        style.save(figures.draw(kind, store), tmp_path / "a.svg")
    style.save(figures.draw(kind, str(db)), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_file_is_whole_or_as_it_was(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.svg").write_text("an older plot")

    def half(self: Figure, stream: Any, **_: Any) -> None:
        stream.write(b"<svg")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="No space left"):
        CliRunner().invoke(
            cli, ["plot", "by-side", "--db", str(db), "-o", str(tmp_path / "a.svg")], catch_exceptions=False
        )
    assert (tmp_path / "a.svg").read_text() == "an older plot"
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was never screened, and from whose positions nothing was played."""
    folder = tmp_path_factory.mktemp("bare")
    mine_by_key(random_games(folder / "random.pgn", 8), folder / "bare.db")
    return folder / "bare.db"


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["nonsense"], "no kind of plot nonsense; there are scatter, hexbin", 2),
        (["calibration", "--threshold", "0.4"], "vr plot calibration has no use for --threshold", 2),
        (["recall", "--unweighted"], "vr plot recall has no use for --unweighted", 2),
        (["elo", "match.pgn", "--db", "a.db"], "vr plot elo has no use for --db", 2),
        (["elo"], "vr plot elo reads the PGN of a vr match: give it, vr plot elo SOURCE", 2),
        (["hexbin", "other.db"], "vr plot hexbin reads a store: give it with --db other.db", 2),
        (["hexbin", "-o", "a.gif"], "a.gif: a plot's name ends in .png, .svg or .pdf", 2),
        (["rate", "--threshold", "3"], "threshold", 2),
        (["calibration"], "no decided games from its positions; vr selfplay BOOK --db", 1),
        (["recall"], "nothing was screened with", 1),
        (["survival"], "vr mine --screen auto learns one", 1),
        (["by-label", "--threshold", "2"], "no candidate at 2; give a lower --threshold", 1),
        (["scatter", "--db", "none.db"], "there is no store at none.db", 1),
    ],
)
def test_refused_in_one_line(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    given = arguments if "--db" in arguments or "elo" in arguments else [*arguments, "--db", str(bare)]
    with pytest.raises(ValueRepairError) as caught:
        CliRunner().invoke(cli, ["plot", *given], catch_exceptions=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == code
    assert not list(tmp_path.iterdir())


def test_python_refuses_as_the_command_does(bare: Path) -> None:
    with pytest.raises(UsageError, match="the plot calibration has no use for threshold; it takes alpha, net"):
        figures.draw("calibration", bare, threshold=0.5)
    with pytest.raises(UsageError, match="no kind of plot histogram"):
        figures.draw("histogram", bare)
    with Store.open(bare) as store, pytest.raises(UsageError, match="reads the PGN of a vr match, not a store"):
        figures.draw("elo", store)


def test_every_kind_is_in_the_help_and_in_the_docs() -> None:
    shown = CliRunner().invoke(cli, ["plot", "--help"]).stdout
    page = (Path(__file__).parents[1] / "docs" / "plots.md").read_text("utf-8")
    for name, kind in figures.KINDS.items():
        assert f"{name} " in shown
        assert kind.help in shown
        assert f"### {name}\n" in page


def test_few_positions_have_no_line(bare: Path) -> None:
    assert not has(figures.draw("hexbin", bare), "nonsense")
    assert has(figures.draw("hexbin", bare), "lowess")
