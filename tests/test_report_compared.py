"""The plot of a comparison as matplotlib holds it, and the files it makes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from valuerepair.chess.values import Alpha
from valuerepair.measure.compare import Compared, Comparison, by_origin
from valuerepair.measure.compared_nets import ComparedNet, ComparedPositions
from valuerepair.report import plots, style


def found(nets: int = 2, positions: int = 800) -> Compared:
    """Half of the positions are of games, half after a random move."""
    rng, rows = np.random.default_rng(0), np.arange(positions)
    first = rng.normal(0, 0.35, positions)
    off = np.stack([first, *(0.6 * first + rng.normal(0, 0.25, positions) for _ in range(nets - 1))])
    of = ComparedPositions(
        rows, rows % 100, (rows % 2).astype(np.int8), np.ones(positions), np.zeros(positions), off
    )  # fmt: skip
    return Compared(
        judge="stockfish 15.1 nodes=5000",
        part=None,
        alpha=Alpha(349.2, "fitted"),
        q_from="cp",
        threshold=0.55,
        without_q=0,
        left_out={},
        nets=[ComparedNet(f"net-{i}", "ab", "") for i in range(nets)],
        comparisons=[Comparison("net-0", f"net-{i}", None, by_origin(of, i, [0.55])) for i in range(1, nets)],
        positions=of,
    )


def points(figure: Figure, gid: str) -> Line2D:
    (artist,) = figure.findobj(lambda a: isinstance(a, Line2D) and a.get_gid() == gid)
    assert isinstance(artist, Line2D)
    return artist


@pytest.mark.parametrize("nets", [2, 3])
def test_every_position_is_in_its_category_and_in_the_panel_of_its_origin(nets: int) -> None:
    data = found(nets)
    figure = plots.compared(data)
    rows = [row for pair in data.comparisons for row in pair.by_origin]
    assert len(figure.axes) == len(rows) == 2 * (nets - 1)
    for i, row in enumerate(rows):
        suffix, at = f"-{i + 1}" if i else "", row.at(0.55)
        still = at.first.count - at.repaired
        right = row.positions - still - at.repaired - at.newly_wrong
        counts = {
            "right-both": right, "still-wrong": still, "repaired": at.repaired, "newly-wrong": at.newly_wrong,
        }  # fmt: skip
        for category, count in counts.items():
            line = points(figure, category + suffix)
            x, y = np.abs(np.asarray(line.get_xdata(), float)), np.abs(np.asarray(line.get_ydata(), float))
            assert len(x) == count
            assert ((x >= 0.55) == (category in ("repaired", "still-wrong"))).all()
            assert ((y >= 0.55) == (category in ("newly-wrong", "still-wrong"))).all()


def test_a_file_has_every_artist_and_is_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    style.save(plots.compared(found()), path)
    content = path.read_bytes()
    ids = {element.get("id") for element in ElementTree.fromstring(content).iter()}
    assert {"diagonal", "diagonal-2"} <= ids
    style.save(plots.compared(found()), path)
    assert path.read_bytes() == content
