"""Books that the report writes in the browser: those of vr books, readable by lc0 and python-chess."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING

import chess
import chess.pgn
import pandas as pd
import pytest

from tests.report.browser import Visit
from tests.report.reading import THRESHOLD, Report, pixel
from valuerepair.books.check import BookCheck
from valuerepair.books.options import BookOptions
from valuerepair.books.write import write_books
from valuerepair.question import Question
from valuerepair.store.store import Store

if TYPE_CHECKING:
    pass


def downloaded(page: Visit, kind: str, folder: Path) -> Path:
    with page.page.expect_download() as waiting:
        page.page.click(f"#download-{kind}")
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def checked(path: Path) -> BookCheck:
    book = BookCheck(str(path))
    assert list(book) == []
    return book


def test_all_candidates_are_the_book_that_vr_books_writes(page: Visit, made: Report, tmp_path: Path) -> None:
    with Store.open(made.db) as store:
        write_books(store, tmp_path / "books", Question(threshold=THRESHOLD), BookOptions(near_duplicates="keep"))
    for kind, separator in (("epd", "\n"), ("pgn", "*\n\n")):
        path = downloaded(page, kind, tmp_path)
        ours, theirs = path.read_text("utf-8"), (tmp_path / "books" / f"book.{kind}").read_text("utf-8")
        assert sorted(ours.split(separator)) == sorted(theirs.split(separator))
        checked(path)


@pytest.mark.parametrize("drag", ["select", pytest.param("lasso", marks=pytest.mark.slow)])
def test_a_dragged_area_is_listed_and_downloads(page: Visit, made: Report, tmp_path: Path, drag: str) -> None:
    corners = pd.DataFrame({"deep_q": [-0.62, 0.04, 0.04, -0.62], "net_q": [0.93, 0.93, 0.11, 0.11]})
    places = [pixel(page, corner) for _, corner in corners.iterrows()]
    page.page.click(f"[data-drag={drag}]")
    page.page.mouse.move(*places[0])
    page.page.mouse.down()
    path = [places[2]] if drag == "select" else [*places[1:], places[0]]
    for place in path:
        page.page.mouse.move(*place, steps=3)
    page.page.mouse.up()
    page.page.wait_for_selector("#unselect:visible")
    frame = made.frame
    margin = 2.2 / 400  # a pixel or so
    inside = frame["deep_q"].between(-0.62 + margin, 0.04 - margin) & frame["net_q"].between(
        0.11 + margin, 0.93 - margin
    )
    outside = ~(
        frame["deep_q"].between(-0.62 - margin, 0.04 + margin) & frame["net_q"].between(0.11 - margin, 0.93 + margin)
    )
    count = int(page.text("#list-what").split()[0])
    assert inside.sum() <= count <= (~outside).sum()
    while page.page.is_visible("#more"):
        page.page.click("#more")
    listed = page.evaluate(
        "() => Array.from(document.querySelectorAll('#positions button'), (each) => Number(each.dataset.position))"
    )
    assert set(frame[inside]["position_id"]) <= set(listed) <= set(frame[~outside]["position_id"])
    assert len(listed) == len(set(listed)) == count > 5
    assert "selected positions" in page.text("#list-what")
    chosen = frame.set_index("position_id").loc[listed]
    epd = downloaded(page, "epd", tmp_path)
    assert checked(epd).entries == count
    entries = [chess.Board.from_epd(line) for line in epd.read_text().splitlines()]
    assert [board.fen() for board, _ in entries] == [chess.Board(fen).fen() for fen in chosen["fen"]]
    pgn = downloaded(page, "pgn", tmp_path)
    assert checked(pgn).entries == count
    reader = io.StringIO(pgn.read_text("utf-8"))
    for _, row in chosen.iterrows():
        game = chess.pgn.read_game(reader)
        assert game is not None
        assert not game.errors
        assert game.end().board().epd() == chess.Board(row["fen"]).epd()
        assert math.isclose(float(game.headers["NetQ"]), row["net_q"], abs_tol=5.1e-4)


def test_an_area_by_numbers(page: Visit, made: Report) -> None:
    for name, value in (("deep-low", "-0.5"), ("deep-high", "0.25"), ("net-low", "0"), ("net-high", "1")):
        page.page.fill(f"#{name}", value)
    page.page.click("#region button")
    wanted = made.frame["deep_q"].between(-0.5, 0.25) & made.frame["net_q"].between(0, 1)
    assert int(page.text("#list-what").split()[0]) == wanted.sum() > 0
    page.page.click("#unselect")
    assert "candidates" in page.text("#list-what")
