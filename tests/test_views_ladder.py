"""Plots of the screening ladder: what their artists hold against pandas, statsmodels and the commands' own tables."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from statsmodels.stats.proportion import proportion_confint

import valuerepair as vr
from tests.climbing_doubles import THRESHOLD
from tests.figure_parts import line, margins
from tests.plotted_store import draw, frame_of, hajek
from valuerepair.cli import cli
from valuerepair.report import figures, ladder, style
from valuerepair.screening.fit import CurvePoint


@pytest.fixture(scope="module")
def db(plotted_db: Path) -> Path:
    return plotted_db


@pytest.fixture(scope="module")
def frame(db: Path) -> pd.DataFrame:
    return frame_of(db)


def test_survival(db: Path, frame: pd.DataFrame) -> None:
    figure, plain = draw("survival", db), draw("survival", db, weighted=False)
    connection = sqlite3.connect(db)
    passages = pd.read_sql_query("SELECT * FROM screened WHERE screen_id IS NOT NULL", connection)
    connection.close()
    joined = passages.merge(frame, on="position_id").assign(cut=lambda t: t["cut_at"].fillna(np.inf))
    off = joined["disagreement"].abs() >= THRESHOLD
    rungs = [10, 100]
    mass = survived = 0.0
    for gid, members in (("candidates", joined[off]), ("others", joined[~off])):
        x, y = line(figure, gid)
        assert x.tolist() == [0, 1, 2]
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


def test_recall_is_that_of_vr_stats(db: Path) -> None:
    import json

    figure = draw("recall", db)
    shared = ["--db", str(db), "--alpha", "200", "--threshold", str(THRESHOLD), "--json"]
    table = json.loads(CliRunner().invoke(cli, ["stats", "--ladder", *shared]).stdout)["ladder"]
    x, y = line(figure, "curve")
    np.testing.assert_allclose(x, [point["share"] for point in table["curve"]])
    np.testing.assert_allclose(y, [point["recall"] for point in table["curve"]])
    ends = margins(figure, "curve-intervals")
    for (low, high), point in zip(ends, table["curve"], strict=True):
        bounds = proportion_confint(point["recall"] * point["positives"], point["positives"], method="wilson")
        assert (low, high) == pytest.approx(bounds, abs=1e-9)
    printed = json.loads(CliRunner().invoke(cli, ["stats", *shared]).stdout)["scored"]["screening"]
    assert (
        f"1/{printed['saving']:.1f} of the nodes, {printed['recall_said']}"
        in figures.draw("recall", db, alpha=200.0, threshold=THRESHOLD).description
    )


def test_a_ladder_for_candidates_beyond_scale_has_a_table_of_its_own(tmp_path: Path) -> None:
    sample = shutil.copy(Path(__file__).parents[1] / "data" / "sample.db", tmp_path / "sample.db")
    question = vr.Question(alpha=170, threshold=0.35)
    stats = [
        vr.stats(sample, one_question, ladder=True)
        for one_question in (question, replace(question, calibration="fitted"))
    ]
    plain, beyond = (one_stats.figures["ladder"] for one_stats in stats)
    assert (plain["calibration"], beyond["calibration"]) == ("none", "fitted")
    assert plain["stored"] is not None
    assert beyond["stored"] is None  # the store's ladder is for the other question
    assert beyond["positions"] == plain["positions"]
    assert beyond["candidates"] != plain["candidates"]
    text = "\n".join(stats[1].lines())
    assert "screening at threshold 0.35 beyond scale, alpha 170" in text
    assert "in use: none fitted at 0.35 beyond scale; vr mine does it\n" in text
