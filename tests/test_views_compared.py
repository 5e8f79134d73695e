"""The plot of a comparison as matplotlib holds it, and the files it makes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from valuerepair.chess.origins import GAME
from valuerepair.chess.values import Alpha
from valuerepair.measure.by_kind import better_judge
from valuerepair.measure.compare import (
    CATEGORIES,
    Compared,
    ComparedScores,
    Comparison,
    NetRate,
    Selected,
)
from valuerepair.measure.labels import LabelChange
from valuerepair.rates import Interval, wilson
from valuerepair.report import compared_plot, style


def found(nets: int = 2, positions: int = 800) -> Compared:
    rng = np.random.default_rng(0)
    first = rng.normal(0, 0.35, positions)
    off = np.stack([first, *(0.6 * first + rng.normal(0, 0.25, positions) for _ in range(nets - 1))])
    wrong = np.abs(off) >= 0.55
    pairs = []
    for i in range(1, nets):
        counts = np.bincount(2 * wrong[0] + wrong[i], minlength=4).tolist()
        label = LabelChange("endgame", 9, 4, 3, 6, 1, Interval(-0.01, -0.02, -0.001))
        worse = LabelChange("in-check", 1, 6, 1, 0, 5, Interval(0.01, 0.002, 0.02))
        chosen = Selected(9, wilson(3, 9), 0.7, 0.5)
        interval = Interval((counts[1] - counts[2]) / positions, -0.3, 0.3)
        pairs.append(
            Comparison(
                "one",
                f"net-{i}",
                dict(zip(CATEGORIES, counts, strict=True)),
                interval,
                interval,
                chosen,
                chosen,
                wilson(3, 100),
                True,
                None,
                [],
                better_judge([], held_out=False),
                [label, worse],
            )
        )
    scores = ComparedScores(
        np.arange(positions),
        np.arange(positions) % 100,
        np.ones(positions),
        np.zeros(positions),
        off,
        off,
        np.full(positions, GAME, object),
    )
    return Compared(
        part=None,
        oracle="stockfish 15.1 nodes=5000",
        alpha=Alpha(349.2, "fitted"),
        q_from="cp",
        threshold=0.55,
        positions=positions,
        games=100,
        effective=float(positions),
        without_q=0,
        left_out={},
        nets=[NetRate("one", "ab", wilson(1, positions), 0.2, 0.4)],
        comparisons=pairs,
        scores=scores,
        all_kinds=scores,
    )


def points(figure: Figure, gid: str) -> Line2D:
    (artist,) = figure.findobj(lambda a: isinstance(a, Line2D) and a.get_gid() == gid)
    assert isinstance(artist, Line2D)
    return artist


@pytest.mark.parametrize("nets", [2, 3])
def test_every_position_is_in_its_category(nets: int) -> None:
    data = found(nets)
    figure = compared_plot.draw(data)
    assert len(data.comparisons) == nets - 1
    for i, pair in enumerate(data.comparisons):
        suffix = f"-{i + 1}" if i else ""
        for category, count in pair.counts.items():
            line = points(figure, category.replace(" ", "-") + suffix)
            x, y = np.abs(np.asarray(line.get_xdata(), float)), np.abs(np.asarray(line.get_ydata(), float))
            assert len(x) == count
            assert ((x >= 0.55) == (category in ("repaired", "still wrong"))).all()
            assert ((y >= 0.55) == (category in ("newly wrong", "still wrong"))).all()


def test_differences() -> None:
    data = found()
    figure = compared_plot.draw(data)
    middles = [float(np.asarray(points(figure, f"change-{i}").get_xdata(), float)[0]) for i in range(3)]
    assert middles == pytest.approx([100 * data.comparisons[0].share_by_games.difference, -1.0, 1.0])
    markers = [points(figure, f"change-{i}").get_marker() for i in (1, 2)]
    assert markers == ["v", "^"]


def test_a_file_has_every_artist_and_is_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    style.save(compared_plot.draw(found()), path)
    content = path.read_bytes()
    ids = {element.get("id") for element in ElementTree.fromstring(content).iter()}
    assert {"diagonal", "change-0"} <= ids
    style.save(compared_plot.draw(found()), path)
    assert path.read_bytes() == content
