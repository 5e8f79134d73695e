"""The picture of a family in the report, in a real browser: its points, their boards, keys; cards without one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import chess
import pytest
from valuerepair.report.family import Leaf, family_of, places

from tests.expanded_store import expanded_store
from tests.report.browser import Visit, visit
from tests.report.conftest import draw_no_charts
from tests.report.reading import BOX, table
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.report.page import families_of
from valuerepair.report.stats import headline, store_figures
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

ASKED = Question(alpha=170.0)
REACHED = Question(alpha=170.0, expanded="all")


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return expanded_store(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def opened(chromium: Browser, db: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    path = tmp_path_factory.mktemp("page") / "report.html"
    with Store.open(db) as store:
        page_module.write(store, path, REACHED)
    with visit(chromium, path) as visited:
        yield visited
        assert not visited.errors
        assert visited.requests == [path.absolute().as_uri()]


@pytest.fixture(scope="module")
def leaves(db: Path) -> list[Leaf]:
    with Store.open(db) as store:
        return family_of(store, int(store.candidates(ASKED)["position_id"].iloc[0]), ASKED)


@pytest.fixture(scope="module", params=[pytest.param("light", marks=pytest.mark.slow), "dark"])
def narrow(
    request: pytest.FixtureRequest, chromium: Browser, db: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Visit]:
    """On a phone, with a parent so far away that the picture is wider than its card."""
    folder = tmp_path_factory.mktemp("narrow")
    path, wide = folder / "report.html", folder / "wide.db"
    shutil.copy(db, wide)
    with Store.open(wide, write=True) as store, store.writing() as connection:
        connection.execute("UPDATE expanded SET distance = 40 WHERE step = 'parent' AND distance = 4")
    with Store.open(wide) as store, pytest.MonkeyPatch.context() as patch:
        draw_no_charts(patch)
        page_module.write(store, path, ASKED)
    with visit(chromium, path, width=360, height=780, scheme=request.param, touch=True) as visited:
        yield visited


def show(page: Visit, position: int) -> None:
    """Opens the card of a candidate, by way of the list."""
    while not page.page.is_visible(f"#positions [data-position='{position}']"):
        page.page.click("#more")
    page.page.click(f"#positions [data-position='{position}']")


def drawn(page: Visit) -> dict[int, chess.Piece]:
    """The men on the board, by square; a board with Black below is turned back."""
    board = page.evaluate(
        """() => ({men: Array.from(document.querySelectorAll("#board use"), (piece) => [
            piece.getAttribute("href"), piece.getAttribute("transform").match(/\\d+/g).map((n) => Number(n) / 45)]),
            turned: document.querySelector("#board .coordinate").textContent === "h"})"""
    )
    men = {}
    for name, (x, y) in board["men"]:
        colour, _, piece = name[1:].partition("-")
        square = chess.square(7 - int(x), int(y)) if board["turned"] else chess.square(int(x), 7 - int(y))
        men[square] = chess.Piece(chess.PIECE_NAMES.index(piece), colour == "white")
    return men


def points(page: Visit) -> list[dict[str, Any]]:
    members: list[dict[str, Any]] = page.evaluate(
        """() => Array.from(document.querySelectorAll(".family-box .member"), (point) => ({
            kind: point.classList[1], at: point.classList.contains("at"), label: point.getAttribute("aria-label"),
            place: point.getAttribute("transform").match(/-?[\\d.]+/g).map(Number)}))"""
    )
    return members


def test_the_rates_are_the_archives(opened: Visit, db: Path, leaves: list[Leaf]) -> None:
    """Of a question that asks for what was reached, too."""
    with Store.open(db) as store:
        figures = store_figures(store, REACHED)
        frame = store.frame(REACHED)
    scored = figures["scored"]
    assert " ".join(opened.text("#headline").split()) == headline(figures)
    positions = int(opened.evaluate("() => document.getElementById('counts').dataset.positions"))
    assert positions == frame["disagreement"].notna().sum() > scored["positions"]
    for name, key in (("phase", "by_phase"), ("side", "by_side")):
        wanted = [[f"{row['candidates']:,}", f"{row['scored']:,}"] for row in scored[key] if row["scored"]]
        assert [cells[1:3] for cells in table(opened, name)] == wanted
    assert "Positions that vr expand reached are left out." in opened.text("#rates-what")
    show(opened, leaves[0].position_id)
    holds_no_hole(opened)


def holds_no_hole(page: Visit) -> None:
    """The plot and the list below it are as high as the board's card beside them."""
    plot, card, positions = (page.evaluate(BOX, part) for part in (".look > section", "#detail", "#list"))
    assert page.page.locator(".family-box").count() == 1
    assert 0 < positions["top"] - plot["bottom"] < 30
    assert positions["bottom"] == pytest.approx(card["bottom"], abs=2)


def test_a_point_for_each_position_where_it_belongs(opened: Visit, leaves: list[Leaf]) -> None:
    show(opened, leaves[0].position_id)
    members = points(opened)
    assert [point["kind"] for point in members] == [leaf.mark.replace(" ", "-") for leaf in leaves]
    for point, leaf in zip(members, leaves, strict=True):
        assert f"position {leaf.position_id}: net {leaf.net_q:+.3f}".replace("-", "−") in point["label"]
        assert leaf.move in point["label"]
    expected = places(leaves)
    across = {(point["place"][0], place.ply) for point, place in zip(members, expected, strict=True)}
    down = {(point["place"][1], place.lane) for point, place in zip(members, expected, strict=True)}
    for pairs in (across, down):  # one number of pixels for each ply, and for each lane, in their order
        ordered = sorted(pairs)
        assert [step for _, step in ordered] == sorted({step for _, step in pairs})
        assert len({pixels for pixels, _ in ordered}) == len(ordered)
    assert [point["at"] for point in members] == [True] + [False] * (len(members) - 1)


def test_a_click_shows_the_board_and_the_line_goes_back(opened: Visit, leaves: list[Leaf]) -> None:
    show(opened, leaves[0].position_id)
    for i in (1, 5, len(leaves) - 1):
        opened.page.locator(".family-box .member").nth(i).click()
        assert drawn(opened) == chess.Board(leaves[i].fen).piece_map()
        assert str(leaves[i].position_id) in opened.text("#family-at")
        label = opened.page.get_attribute("#board svg", "aria-label") or ""
        assert label.startswith(f"Position {leaves[i].position_id}, ")
        assert label.endswith(f"FEN {leaves[i].fen}")
    opened.page.click("#detail button[aria-label='to the position']")
    assert drawn(opened) == chess.Board(leaves[0].fen).piece_map()
    assert f"position {leaves[0].position_id}:" in opened.text("#family-at")


def test_keys_go_through_the_family_and_leave_the_line_alone(opened: Visit, leaves: list[Leaf]) -> None:
    show(opened, leaves[0].position_id)
    opened.page.focus(".family-box .member.at")
    for key, i in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", len(leaves) - 1), ("Home", 0)):
        opened.page.keyboard.press(key)
        assert drawn(opened) == chess.Board(leaves[i].fen).piece_map()
        assert opened.evaluate("() => document.activeElement.classList.contains('at')")
    assert opened.text("#pv-at").startswith("move 0 of")


def test_a_member_that_is_a_candidate_has_the_same_picture(opened: Visit, leaves: list[Leaf]) -> None:
    show(opened, leaves[0].position_id)
    labels = [point["label"] for point in points(opened)]
    member = next(i for i, leaf in enumerate(leaves) if i and leaf.candidate)
    show(opened, leaves[member].position_id)
    members = points(opened)
    assert [point["label"] for point in members] == labels
    assert [i for i, point in enumerate(members) if point["at"]] == [member]


def test_a_candidate_without_a_family_has_no_picture(opened: Visit, db: Path) -> None:
    with Store.open(db) as store:
        ids = store.candidates(ASKED)["position_id"].tolist()
        alone = next(number for number in ids if not family_of(store, number, ASKED))
    show(opened, alone)
    assert points(opened) == []
    assert "Family" not in opened.text("#detail-body")


def test_the_summary_says_what_was_reached(opened: Visit, db: Path) -> None:
    with Store.open(db) as store:
        (reached,) = store.connection.execute("SELECT count(*) FROM expanded").fetchone()
    assert f"{reached} positions, " in opened.text("#cards")
    assert "expanded: 2" in opened.evaluate("() => document.getElementById('stats').textContent")


def test_a_store_that_was_not_expanded_has_no_families(db: Path, tmp_path: Path) -> None:
    with Store.open(db) as store:
        frame = store.frame(ASKED)
        families = families_of(store, frame.attrs, frame, 0.55)
    assert families["trees"]
    assert set(families["roots"].values()) == set(families["trees"])
    bare = tmp_path / "bare.db"
    shutil.copy(db, bare)
    with Store.open(bare, write=True) as store, store.writing() as connection:
        connection.execute("DELETE FROM expanded")
    with Store.open(bare) as store:
        statements: list[str] = []
        store.connection.set_trace_callback(statements.append)
        assert families_of(store, frame.attrs, frame, 0.55) == {**families, "roots": {}, "trees": {}}
    assert len([text for text in statements if "FROM expanded" in text]) == 1


def test_on_a_phone_the_picture_stays_within_the_page(narrow: Visit) -> None:
    assert narrow.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    ink, paper = (
        narrow.evaluate("(part) => getComputedStyle(document.querySelector(part)).fill", part)
        for part in (".member.candidate .fill", ".member .ring")
    )
    assert ink != paper


def test_where_the_picture_is_wider_than_the_card_its_position_is_in_view(narrow: Visit) -> None:
    narrow.page.click("#positions button >> nth=0")
    box, root = (narrow.evaluate(BOX, part) for part in (".family-box", ".member.at"))
    assert narrow.evaluate("() => document.querySelector('.family-box').scrollLeft") > 0
    assert box["left"] <= root["left"] <= root["right"] <= box["right"]
