"""The report in a real browser: hostile games do nothing; points, keys, filters and phones do what they should."""

from __future__ import annotations

import random
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
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.report.page import san_flags
from valuerepair.report.stats import store_stats
from valuerepair.store import view
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# -- hostile text -----------------------------------------------------------------------------------------------------


def test_what_headers_say_is_text_wherever_it_is_shown(page: Visit, made: Report) -> None:
    rows = made.frame[made.frame["disagreement"].abs() >= THRESHOLD]
    # Which attack stands in which header turns from game to game: so each stands in each once.
    rows = rows.assign(turn=(rows["game"] - 1) % len(ATTACKS)).drop_duplicates("turn")
    assert len(rows) == len(ATTACKS)
    seen = ""
    for position in rows["position_id"]:
        page.show_in_list(position)
        seen += page.evaluate("() => document.getElementById('detail').textContent")
    page.page.hover(".facts")  # for handlers of the mouse
    whole = " ".join(seen.split())
    for attack in (*ATTACKS, ARCHIVE):
        assert " ".join(attack.split()) in whole
    page.set_filter("text", "<script>window.pwned")
    counted = "(parts) => document.querySelectorAll(parts).length"
    assert page.evaluate(counted, "main script, main iframe, main img, main style") == 0
    assert page.evaluate(counted, "base, meta[http-equiv=refresh], a[href^=javascript]") == 0
    page.nothing_happened(made.path)


def test_archives_are_only_in_the_packed_part_of_the_file(made: Report) -> None:
    text = made.path.read_text("utf-8")
    for attack in (*ATTACKS, ARCHIVE, "pwned"):
        assert attack not in text
    # What looks like a placeholder in a header was not filled in.
    assert text.count("<script") == 4


def test_the_policy_refuses_what_would_get_into_the_page(chromium: Browser, made: Report) -> None:
    with visit(chromium, made.path) as page:
        tried = page.evaluate(
            """async () => {
                const tries = {
                    markup: () => (document.body.innerHTML += "<img src=x onerror='window.pwned=1'>"),
                    evaluated: () => (0, eval)("window.pwned = 2"),
                    made: () => new Function("window.pwned = 3")(),
                    element: () => { document.body.appendChild(document.createElement("script")).text = "pwned = 4"; },
                    fetched: () => fetch("https://example.com/5"),
                    timed: () => setTimeout("window.pwned = 6", 0),
                };
                const refused = [];
                // What the debugger asks for may evaluate; what comes later is the page's own.
                await new Promise((resolve) => setTimeout(resolve, 50));
                for (const [name, attempt] of Object.entries(tries)) {
                    try { await attempt(); } catch { refused.push(name); }
                }
                return refused;
            }"""
        )
        assert tried == ["markup", "evaluated", "made", "element", "fetched", "timed"]
        # Timers fire in order: what was to run has had its turn.
        page.evaluate("() => new Promise((resolve) => setTimeout(resolve, 1))")
        assert page.evaluate("() => 'pwned' in window") is False
        assert page.requests == [made.path.absolute().as_uri()]


# -- points and boards ------------------------------------------------------------------------------------------------


def loneliest(frame: pd.DataFrame) -> pd.Series[Any]:
    """The candidate that is farthest from all other points."""
    places = frame[["deep_q", "net_q"]].to_numpy()
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + 9 * np.eye(len(places))
    nearest = pd.Series(apart.min(1), frame.index)
    found: pd.Series[Any] = frame.loc[nearest[frame["disagreement"].abs() >= THRESHOLD].idxmax()]
    return found


def pixel(page: Visit, row: pd.Series[Any]) -> tuple[float, float]:
    """Where the point of a row with deep_q and net_q is on the screen."""
    page.page.locator("#scatter").scroll_into_view_if_needed()
    x, y = page.evaluate(
        """([deep, net]) => {
            const chart = document.getElementById("scatter");
            const { xaxis, yaxis } = chart._fullLayout;
            const box = chart.getBoundingClientRect();
            return [box.x + xaxis._offset + xaxis.l2p(deep), box.y + yaxis._offset + yaxis.l2p(net)];
        }""",
        [row["deep_q"], row["net_q"]],
    )
    return float(x), float(y)


def wait_for_board(page: Visit, position: int) -> None:
    script = "(id) => document.getElementById('detail-title').textContent.endsWith(` ${id}`)"
    page.page.wait_for_function(script, arg=str(position))


def test_a_click_on_a_point_opens_its_board(page: Visit, made: Report) -> None:
    row = loneliest(made.frame)
    page.page.mouse.move(*pixel(page, row))
    page.page.mouse.click(*pixel(page, row))
    wait_for_board(page, row.position_id)
    detail = page.text("#detail")
    for said in (row.fen, f"{row.net_q:+.3f}".replace("-", "−"), f"{row.deep_q:+.3f}".replace("-", "−")):
        assert said in detail
    assert f"game {row.game}, ply {row.ply}" in detail
    board = chess.Board(row.fen)
    drawn = page.evaluate(
        """() => Array.from(document.querySelectorAll("#board use"), (piece) => [
            piece.getAttribute("href"), piece.getAttribute("transform").match(/\\d+/g).map((n) => Number(n) / 45)])"""
    )
    men = {}
    for name, (x, y) in drawn:
        colour, _, piece = name[1:].partition("-")
        square = chess.square(int(x), 7 - int(y)) if board.turn else chess.square(7 - int(x), int(y))
        men[square] = chess.Piece(chess.PIECE_NAMES.index(piece), colour == "white")
    assert men == board.piece_map()
    link = page.page.get_attribute("#detail a", "href")
    assert link == "https://lichess.org/analysis/standard/" + row.fen.replace(" ", "_")
    for button, wanted in (("Copy FEN", row.fen), ("Copy UCI moves", f"position startpos moves {row.moves}")):
        page.page.click(f"#detail button:text-is('{button}')")
        page.page.wait_for_function("(what) => document.getElementById('copied').textContent.startsWith(what)",
                                    arg=button[5:])  # fmt: skip
        assert page.evaluate("() => navigator.clipboard.readText()") == wanted


def test_by_keyboard_alone(page: Visit, made: Report) -> None:
    worst = made.frame["disagreement"].abs().sort_values(ascending=False, kind="stable")
    press = page.page.keyboard.press
    page.page.focus("#scatter")
    for key in ("End", "Home", "ArrowRight", "ArrowRight", "ArrowLeft"):
        press(key)
    title = page.text("#detail-title")
    assert page.evaluate("() => document.activeElement.id") == "scatter"
    press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "detail"
    shown = float(made.frame.loc[made.frame["position_id"] == int(title.split()[1]), "disagreement"].iloc[0])
    assert abs(shown) == pytest.approx(worst.iloc[1])
    press("ArrowRight")
    assert page.text("#pv-at").startswith("move 1 of")
    assert page.page.locator("#board .lit").count() == 2
    press("Escape")
    assert page.evaluate("() => document.activeElement.id") == "scatter"


# -- filters ----------------------------------------------------------------------------------------------------------


def expect(page: Visit, rows: pd.DataFrame, threshold: float = THRESHOLD) -> None:
    """Each chart, table and list shows these positions."""
    counts = page.evaluate(
        """() => {
            const sum = (values) => Array.from(values).reduce((total, value) => total + value, 0);
            const number = (text) => Number(text.replaceAll(",", ""));
            const points = document.getElementById("scatter").data.slice(0, 3).map((trace) => trace.x.length);
            const bars = document.getElementById("histogram").data.map((trace) => sum(trace.y));
            const column = (name, at) => sum(Array.from(
                document.querySelectorAll(`#table-${name} td:nth-of-type(${at})`), (cell) => number(cell.textContent)));
            const listed = number(document.getElementById("list-what").textContent.split(" ")[0]);
            return [sum(points), points[1] + points[2], bars[0] + bars[1], bars[1],
                column("side", 2), column("side", 1), listed];
        }"""
    )
    off = int((rows["disagreement"].abs() >= threshold).sum())
    weight = rows["weight"]
    of_candidates = weight[rows["disagreement"].abs() >= threshold].sum()
    assert len(rows) > 0
    assert counts == pytest.approx([len(rows), off, weight.sum(), of_candidates, len(rows), off, off])


def test_filters_act_on_all_charts(page: Visit, made: Report) -> None:
    frame = made.frame
    expect(page, frame)
    family = frame["opening_family"].value_counts().index[0]
    page.set_filter("family", family)
    expect(page, frame[frame["opening_family"] == family])
    page.set_filter("side", "b")
    page.set_filter("sign", "optimistic")
    page.set_filter("family", "")
    page.set_filter("threshold", "1.2")
    inside = (frame["side"] == "b") & (frame["disagreement"] > 0)
    expect(page, frame[inside], 1.2)
    assert page.evaluate("() => document.getElementById('filters-set').textContent") == " (3 set)"
    page.set_filter("text", "nobody plays in such a game")
    assert page.text("#counts") == "0 positions shown, 0 candidates"
    assert page.text("#detail-title") == "Board"
    page.page.focus("#scatter")
    for key in ("ArrowRight", "Enter", "Home"):
        page.page.keyboard.press(key)
    page.set_filter("text", "")
    size = frame[inside].set_index("position_id")["disagreement"].abs()
    assert page.text("#detail-title") == f"Position {size.idxmax()}"
    assert page.errors == []


def test_figures_are_those_of_vr_stats(page: Visit, made: Report) -> None:
    shown = page.evaluate("() => document.getElementById('stats').textContent")
    assert set(made.lines) < set(shown.splitlines())
    cells = page.evaluate(
        """() => Array.from(document.querySelectorAll("#table-side tbody tr"),
            (row) => Array.from(row.cells, (cell) => cell.textContent).slice(1))"""
    )
    rates = made.stats["scored"]["by_side"]
    assert cells == [[str(r["candidates"]), str(r["scored"]), f"{100 * r['rate']:.2f} %"] for r in rates]


# -- the first screen and the worst positions -------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_headline_and_the_whole_plot_are_on_the_first_screen(
    chromium: Browser, tmp_path: Path, width: int, height: int
) -> None:
    question, path, is_phone = Question(threshold=0.35), tmp_path / "r.html", width < 600
    with Store.open(SAMPLE) as store:
        page_module.write(store, path, question)
        sentence, order = store_stats(store, question).headline, view.candidates(store, question)
    with visit(chromium, path, width=width, height=height, scheme="dark", touch=is_phone) as page:
        assert " ".join(page.text("#headline").split()) == sentence
        top = page.evaluate("() => document.getElementById('headline').getBoundingClientRect().toJSON()")
        plot_top, plot_bottom = page.evaluate(
            """() => {
                const { yaxis } = document.getElementById("scatter")._fullLayout;
                const top = document.getElementById("scatter").getBoundingClientRect().top + yaxis._offset;
                return [top, top + yaxis._length];
            }"""
        )
        assert 0 <= top["top"] < top["bottom"] <= plot_top < plot_bottom <= height
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        shown = page.evaluate(
            "() => Array.from(document.querySelectorAll('#worst button'), (each) => Number(each.dataset.position))"
        )
        assert shown == order.drop_duplicates("game_id")["position_id"].head(8).tolist()
        if is_phone:
            page.page.tap("#positions li:nth-child(1) button")
            page.page.wait_for_selector("#board svg:visible")
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        page.nothing_happened(path)


def test_without_webgl_the_points_are_drawn_all_the_same(chromium: Browser, made: Report) -> None:
    before = """
        const original = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
            return kind.includes("webgl") ? null : original.call(this, kind, ...rest);
        };"""
    with visit(chromium, made.path, before=before) as page:
        kinds = page.evaluate("() => document.getElementById('scatter').data.map((trace) => trace.type)")
        assert set(kinds) == {"scatter"}
        expect(page, made.frame)


# -- moves ------------------------------------------------------------------------------------------------------------


def test_moves_are_written_as_by_python_chess(page: Visit) -> None:
    folder = Path(page_module.__file__).parent / "page_template"
    text = "".join((folder / f"{name}.js").read_text("utf-8") for name in ("data", "board"))
    text = re.sub(r"^export ", "", re.sub(r"^import .*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
    boards, dice = [], random.Random(4)
    for _ in range(4):
        board = chess.Board()
        while not board.is_game_over() and board.ply() < 150:
            board.push(dice.choice(list(board.legal_moves)))
            boards.append(board.copy(stack=False))
    moves = [[move.uci() for move in board.legal_moves] for board in boards]
    flags = [[san_flags(board, [move])[0] for move in row] for board, row in zip(boards, moves, strict=True)]
    asked = [[board.fen(), list(zip(*rows, strict=True))] for board, *rows in zip(boards, moves, flags, strict=True)]
    script = (
        "(asked) => {%s\n return asked.map(([fen, moves]) => moves.map(([move, flags]) => "
        "san(parseFen(fen), move, flags))); }"
    )
    wanted = [[board.san(move) for move in board.legal_moves] for board in boards]
    assert sum(map(len, wanted)) > 5_000
    assert page.evaluate(script % text, asked) == wanted
