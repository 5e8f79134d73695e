"""The report in a real browser: hostile games do nothing; points, keys, filters, lines and phones work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chess
import numpy as np
import pandas as pd
import pytest

from tests.cli_tree import SAMPLE
from tests.report.attacking import ARCHIVE, ATTACKS, THRESHOLD, Report
from tests.report.browser import Visit, visit
from valuerepair.mining.again import evidence
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.report.stats import store_stats
from valuerepair.store import view
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def errors_of(frame: pd.DataFrame, threshold: float = THRESHOLD) -> pd.DataFrame:
    """The candidates of a frame, the worst first."""
    size = frame["disagreement"].abs().sort_values(ascending=False, kind="stable")
    found: pd.DataFrame = frame.loc[size[size >= threshold].index]
    return found


# -- hostile text -----------------------------------------------------------------------------------------------------


def test_what_headers_say_is_text_wherever_it_is_shown(page: Visit, made: Report) -> None:
    rows = errors_of(made.frame)
    # Which attack stands in which header turns from game to game: so each stands in each once.
    rows = rows.assign(turn=(rows["game"] - 1) % len(ATTACKS)).drop_duplicates("turn")
    assert len(rows) == len(ATTACKS)
    seen = ""
    for fen, position in zip(rows["fen"], rows["position_id"], strict=True):
        page.set_filter("text", fen)
        page.wait_for_position(position)
        seen += page.evaluate("() => document.getElementById('facts').textContent")
    whole = " ".join(seen.split())
    for attack in (*ATTACKS, ARCHIVE):
        assert " ".join(attack.split()) in whole
    page.set_filter("text", "<script>window.pwned")
    counted = "(parts) => document.querySelectorAll(parts).length"
    assert page.evaluate(counted, "main script, main iframe, main img, main style") == 0
    assert page.evaluate(counted, "base, meta[http-equiv=refresh], a[href^=javascript]") == 0
    page.nothing_happened(made.path)


def test_texts_of_games_are_only_in_the_packed_part_of_the_file(made: Report) -> None:
    text = made.path.read_text("utf-8")
    for attack in (*ATTACKS, ARCHIVE, "pwned"):
        assert attack not in text
    # What looks like a placeholder in a header was not filled in.
    assert text.count("<script") == 3


def test_the_policy_refuses_what_would_get_into_the_page(chromium: Browser, made: Report) -> None:
    reached: list[str] = []
    with visit(chromium, made.path) as page:
        page.page.on("requestfinished", lambda request: reached.append(request.url))
        page.evaluate(
            """async () => {
                document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.pwned=1'>");
                document.body.appendChild(document.createElement("script")).text = "pwned = 2";
                await fetch("https://example.com/3").catch(() => null);
                await new Promise((resolve) => setTimeout(resolve, 50));
            }"""
        )
        assert page.evaluate("() => 'pwned' in window") is False
    assert reached == []


# -- points and boards ------------------------------------------------------------------------------------------------


def loneliest(frame: pd.DataFrame) -> pd.Series[Any]:
    """The error that is farthest from all other points."""
    places = frame[["deep_q", "net_q"]].to_numpy()
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + 9 * np.eye(len(places))
    nearest = pd.Series(apart.min(1), frame.index)
    found: pd.Series[Any] = frame.loc[nearest[frame["disagreement"].abs() >= THRESHOLD].idxmax()]
    return found


def pixel(page: Visit, row: pd.Series[Any]) -> tuple[float, float]:
    """Where the point of a row with deep_q and net_q is on the screen."""
    page.page.locator("#chart").scroll_into_view_if_needed()
    x, y = page.evaluate(
        """([deep, net]) => {
            const chart = document.getElementById("chart");
            const { xaxis, yaxis } = chart._fullLayout;
            const box = chart.getBoundingClientRect();
            return [box.x + xaxis._offset + xaxis.l2p(deep), box.y + yaxis._offset + yaxis.l2p(net)];
        }""",
        [row["deep_q"], row["net_q"]],
    )
    return float(x), float(y)


def shown_men(page: Visit, white: bool) -> dict[int, chess.Piece]:
    """The pieces on the board that the page shows, with White or Black at the bottom."""
    drawn = page.evaluate(
        """() => Array.from(document.querySelectorAll("#board use"), (piece) => [
            piece.getAttribute("href"), piece.getAttribute("transform").match(/\\d+/g).map((n) => Number(n) / 45)])"""
    )
    men = {}
    for name, (x, y) in drawn:
        colour, _, piece = name[1:].partition("-")
        square = chess.square(int(x), 7 - int(y)) if white else chess.square(7 - int(x), int(y))
        men[square] = chess.Piece(chess.PIECE_NAMES.index(piece), colour == "white")
    return men


def test_a_click_on_a_point_shows_its_position(page: Visit, made: Report) -> None:
    row = loneliest(made.frame)
    page.page.mouse.move(*pixel(page, row))
    page.page.mouse.click(*pixel(page, row))
    page.wait_for_position(row.position_id)
    told, board = page.text("#told"), chess.Board(row.fen)
    assert told.startswith("White to move." if board.turn else "Black to move.")
    # The doubles' best moves are drawn by chance, and mostly illegal.
    san = {move.uci(): board.san(move) for move in board.legal_moves}
    for who, q, best in (("net", row.net_q, row.net_best), ("judge", row.deep_q, row.deep_best)):
        assert f"{who} says {q:+.2f}" + (f" and plays {san[best]}" if best in san else "") in told
    assert shown_men(page, board.turn) == board.piece_map()
    assert page.page.locator("#board .arrow").count() == len({row.net_best, row.deep_best} & set(san))
    facts = page.text("#facts")
    assert row.fen in facts
    assert f"game {row.game}, ply {row.ply}" in facts
    link = page.page.get_attribute("#facts a", "href")
    assert link == "https://lichess.org/analysis/standard/" + row.fen.replace(" ", "_")


def test_arrow_keys_walk_through_the_worst(page: Visit, made: Report) -> None:
    worst = errors_of(made.frame)["position_id"].tolist()
    page.wait_for_position(worst[0])
    for key, expected in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("ArrowLeft", 0), ("ArrowLeft", 0)):
        page.page.keyboard.press(key)
        page.wait_for_position(worst[expected])
    page.page.click("#next")
    page.wait_for_position(worst[1])
    assert page.text("#title") == f"Number 2 of {len(worst)} errors"
    page.page.click("#list button:nth-child(5)")
    page.wait_for_position(worst[4])


# -- the sample -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on data/sample.db at 0.35."""
    path = tmp_path_factory.mktemp("sample") / "report.html"
    with Store.open(SAMPLE) as store:
        page_module.write(store, path, Question(threshold=0.35))
    return path


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_what_one_wants_to_see_first_is_first(chromium: Browser, sample: Path, width: int, height: int) -> None:
    is_phone = width < 600
    with Store.open(SAMPLE) as store:
        sentence = store_stats(store, Question(threshold=0.35)).headline
        rows = view.candidates(store, Question(threshold=0.35))
        verdict = evidence(store, rows)["verdict"].iloc[0]
    worst = rows.iloc[0]
    with visit(chromium, sample, width=width, height=height, scheme="dark", touch=is_phone) as page:
        assert " ".join(page.text("#headline").split()) == sentence
        tops = [
            page.evaluate("(id) => document.getElementById(id).getBoundingClientRect().top", part)
            for part in ("headline", "chart", *(() if is_phone else ("told", "board")))
        ]
        assert 0 <= min(tops) <= max(tops) < height / 2
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        page.wait_for_position(worst.position_id)
        assert verdict == "search right"
        assert page.text("#told").endswith("Second look: the judge is right.")
        assert worst.net_best == worst.deep_best
        assert page.page.locator("#board .arrow.both").count() == 1
        assert page.page.locator(".card").count() == 4
        if is_phone:
            page.page.tap("#list button:nth-child(2)")
            page.wait_for_position(rows.iloc[1].position_id)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        page.nothing_happened(sample)


def test_without_any_error_the_largest_difference_is_shown(chromium: Browser, tmp_path: Path) -> None:
    with Store.open(SAMPLE) as store:
        page_module.write(store, tmp_path / "r.html", Question(threshold=1.9))
        worst = view.candidates(store, Question(threshold=0.35)).iloc[0]
    with visit(chromium, tmp_path / "r.html") as page:
        assert page.text("#headline").startswith("No position of these games")
        page.wait_for_position(worst.position_id)
        page.page.keyboard.press("ArrowRight")
        assert page.text("#title") == "Judged about right"
        page.set_filter("threshold", "0.5")
        assert page.text("#title").startswith("The worst of")
        page.nothing_happened(tmp_path / "r.html")


def test_the_judges_line_is_stepped_through(chromium: Browser, sample: Path) -> None:
    with Store.open(SAMPLE) as store:
        row = view.candidates(store, Question(threshold=0.35)).iloc[0]
    board = chess.Board(row.fen)
    white, start, line = board.turn, board.copy(), row.pv.split()
    with visit(chromium, sample) as page:
        assert re.sub(r"\s+", " ", page.text("#line").strip()) == board.variation_san([*map(chess.Move.from_uci, line)])
        for uci in line:
            page.page.click("#step")
            board.push_uci(uci)
            assert shown_men(page, white) == board.piece_map()
            assert page.page.locator("#board .lit").count() == 2
        assert page.page.is_disabled("#step")
        page.page.click("#line button:nth-child(1)")
        page.page.click("#back")
        assert shown_men(page, white) == start.piece_map()
        assert page.errors == []


def test_filters_leave_the_positions_that_fit(page: Visit, made: Report) -> None:
    frame = made.frame

    def expect(rows: pd.DataFrame, threshold: float = THRESHOLD) -> None:
        errors = errors_of(rows, threshold)
        assert page.text("#count") == f"{len(rows)} positions, {len(errors)} errors"
        assert len(rows) > len(errors) > 0
        page.wait_for_position(errors["position_id"].iloc[0])
        points = page.evaluate("() => document.getElementById('chart').data.slice(0, 3).map((trace) => trace.x.length)")
        signs = [int((np.sign(errors["disagreement"]) == sign).sum()) for sign in (1, -1)]
        assert points == [len(rows) - len(errors), *signs]

    def choose(name: str, word: str) -> None:
        script = "([id, word]) => [...document.getElementById(id).options].find((each) => each.text === word).value"
        page.set_filter(name, page.evaluate(script, [name, word]))

    expect(frame)
    page.set_filter("threshold", "1.2")
    expect(frame, 1.2)
    choose("phase", "middlegame")
    rows = frame[frame["phase"] == "middlegame"]
    expect(rows, 1.2)
    choose("labels", "tactical")
    expect(rows[rows["tactical"]], 1.2)
    assert page.text("#set") == "(3 set)"
    page.evaluate("() => document.querySelector('#filters form').reset()")
    page.page.wait_for_function("() => document.getElementById('set').textContent === ''")
    opening = frame["opening"].value_counts().index[0]
    choose("opening", opening)
    expect(frame[frame["opening"] == opening])
    page.set_filter("text", "nobody plays in such a game")
    assert page.text("#count") == "0 positions, 0 errors"
    assert page.page.is_visible("#none")
    page.page.keyboard.press("ArrowRight")
    page.set_filter("text", "")
    expect(frame[frame["opening"] == opening])
    assert page.errors == []


def test_without_webgl_many_points_are_drawn_all_the_same(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "_SVG_POINTS", 0)
    with Store.open(SAMPLE) as store:
        page_module.write(store, tmp_path / "r.html")
    before = """
        const original = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
            return kind.includes("webgl") ? null : original.call(this, kind, ...rest);
        };"""
    for script, expected in (("", "scattergl"), (before, "scatter")):
        with visit(chromium, tmp_path / "r.html", before=script) as page:
            kinds = page.evaluate("() => document.getElementById('chart').data.slice(0, 3).map((trace) => trace.type)")
            assert set(kinds) == {expected}
            page.nothing_happened(tmp_path / "r.html")
