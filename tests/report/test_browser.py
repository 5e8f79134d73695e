"""The report in a real browser: hostile games do nothing, points open boards, keys and phones do too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import chess
import pytest

from tests.cli_tree import SAMPLE
from tests.mining_doubles import mine_by_key, random_games
from tests.report.attacking import ARCHIVE, ATTACKS
from tests.report.browser import Visit, visit
from tests.report.reading import (
    THRESHOLD,
    Report,
    change,
    loneliest,
    nothing_happened,
    pixel,
    set_filter,
    show_in_list,
)
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.report.show import describe, fact_lines
from valuerepair.report.stats import stats_lines, store_figures
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


# -- hostile text


def test_what_headers_say_is_text_wherever_it_is_shown(page: Visit, made: Report) -> None:
    rows = made.frame[made.frame["disagreement"].abs() >= THRESHOLD]
    # Which attack stands in which header turns from game to game: so each stands in each once.
    rows = rows.assign(turn=(rows["game"] - 1) % len(ATTACKS)).drop_duplicates("turn")
    assert len(rows) == len(ATTACKS)
    seen = ""
    for position in rows["position_id"]:
        show_in_list(page, position)
        seen += page.evaluate("() => document.getElementById('detail').textContent")
    page.page.hover(".facts")  # for handlers of the mouse
    whole = " ".join(seen.split())
    for attack in (*ATTACKS, ARCHIVE):
        assert " ".join(attack.split()) in whole
    set_filter(page, "text", "<script>window.pwned")
    assert (
        page.evaluate("() => document.querySelectorAll('main script, main iframe, main img, main style').length") == 0
    )
    assert (
        page.evaluate("() => document.querySelectorAll('base, meta[http-equiv=refresh], a[href^=javascript]').length")
        == 0
    )
    nothing_happened(page, made.path)


def test_archives_are_only_in_the_packed_part_of_the_file(made: Report) -> None:
    text = made.path.read_text("utf-8")
    for attack in (*ATTACKS, ARCHIVE, "pwned"):
        assert attack not in text
    # What looks like a placeholder in a header was not filled in.
    assert text.count("<script") == 4


def test_the_policy_refuses_what_would_get_into_the_page(phone: Visit, made: Report) -> None:
    """Each refusal is an error of the page, and the tests on a phone are not about errors."""
    tried = phone.evaluate(
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
    phone.evaluate("() => new Promise((resolve) => setTimeout(resolve, 1))")
    assert phone.evaluate("() => 'pwned' in window") is False
    assert phone.requests == [made.path.absolute().as_uri()]


# -- points and boards


def test_a_click_on_a_point_opens_its_board(page: Visit, made: Report) -> None:
    row = loneliest(made.frame)
    page.page.mouse.move(*pixel(page, row))
    page.page.mouse.click(*pixel(page, row))
    page.page.wait_for_function(
        "(id) => document.getElementById('detail-title').textContent.endsWith(` ${id}`)", arg=str(row.position_id)
    )
    detail = page.text("#detail")
    assert row.fen in detail
    assert f"{row.net_q:+.3f}".replace("-", "−") in detail
    assert f"{row.deep_q:+.3f}".replace("-", "−") in detail
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


def test_copied_fen_and_moves(page: Visit, made: Report) -> None:
    row = loneliest(made.frame)
    page.page.evaluate("() => document.getElementById('positions').scrollIntoView()")
    while not page.page.is_visible(f"#positions [data-position='{row.position_id}']"):
        page.page.click("#more")
    page.page.click(f"#positions [data-position='{row.position_id}']")
    for button, wanted in (("Copy FEN", row.fen), ("Copy UCI moves", f"position startpos moves {row.moves}")):
        page.page.click(f"#detail button:text-is('{button}')")
        page.page.wait_for_function(
            "(what) => document.getElementById('copied').textContent.startsWith(what)", arg=button[5:]
        )
        assert page.evaluate("() => navigator.clipboard.readText()") == wanted


def test_by_keyboard_alone(page: Visit, made: Report) -> None:
    worst = made.frame.loc[made.frame["disagreement"].abs().sort_values(ascending=False, kind="stable").index]
    press = page.page.keyboard.press
    page.page.focus("#scatter")
    press("End")
    press("Home")
    press("ArrowRight")
    press("ArrowRight")
    press("ArrowLeft")
    title = page.text("#detail-title")
    assert page.evaluate("() => document.activeElement.id") == "scatter"
    press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "detail"
    shown = float(made.frame.loc[made.frame["position_id"] == int(title.split()[1]), "disagreement"].iloc[0])
    assert abs(shown) == pytest.approx(worst["disagreement"].abs().iloc[1])
    assert page.text("#pv-at").startswith("move 0 of")
    press("ArrowRight")
    assert page.text("#pv-at").startswith("move 1 of")
    assert page.page.locator("#board .lit").count() == 2
    press("Home")
    assert page.text("#pv-at").startswith("move 0 of")
    press("Escape")
    assert page.evaluate("() => document.activeElement.id") == "scatter"


def test_everything_can_be_reached_by_tab_and_has_a_name(page: Visit) -> None:
    page.page.evaluate("() => document.querySelector('.skip').focus()")
    reached = set()
    for _ in range(60):
        page.page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.id || document.activeElement.dataset.drag || ''"))
    for wanted in (
        "theme",
        "threshold",
        "sign",
        "phase",
        "side",
        "label",
        "family",
        "text",
        "scatter",
        "lasso",
        "deep-low",
    ):
        assert wanted in reached
    nameless = page.evaluate(
        """() => Array.from(document.querySelectorAll("main button, main select, main input, main [tabindex='0']"))
            .filter((each) => !(each.textContent.trim() || each.labels?.length || each.ariaLabel))
            .filter((each) => !each.hasAttribute("aria-describedby"))
            .map((each) => each.outerHTML)"""
    )
    assert nameless == []


def test_end_and_home_of_the_list_from_a_position_that_is_not_in_it(page: Visit, made: Report) -> None:
    size = made.frame.set_index("position_id")["disagreement"].abs().sort_values(ascending=False, kind="stable")
    listed, other = size[size >= 1], size[size < 1].index[0]
    for key, wanted in (("End", -1), ("Home", 0)):
        set_filter(page, "threshold", str(THRESHOLD))
        show_in_list(page, other)
        set_filter(page, "threshold", "1")
        assert page.text("#detail-title") == f"Position {other}"
        page.page.focus("#scatter")
        page.page.keyboard.press(key)
        assert page.text("#detail-title") == f"Position {listed.index[wanted]}"


def test_a_list_button_gives_the_focus_back(page: Visit) -> None:
    page.page.focus("#positions li:nth-child(3) button")
    page.page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "detail"
    page.page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement === document.querySelector('#positions li:nth-child(3) button')")


# -- looks


@pytest.mark.slow
def test_on_a_phone_in_the_dark(chromium: Browser, made: Report) -> None:
    with visit(chromium, made.path, width=390, height=844, scheme="dark", touch=True) as page:
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        page.page.tap("#positions li:nth-child(1) button")
        page.page.wait_for_selector("#board svg:visible")
        box = page.page.locator("#board svg").bounding_box()
        assert box is not None
        assert 300 < box["width"] <= 390
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        paper = "() => getComputedStyle(document.querySelector('main section')).backgroundColor"
        assert page.evaluate(paper) == "rgb(28, 30, 33)"
        assert page.evaluate("() => document.getElementById('scatter')._fullLayout.paper_bgcolor") == "#1c1e21"
        page.page.select_option("#theme", "light")
        assert page.evaluate(paper) == "rgb(255, 255, 255)"
        page.page.wait_for_function("() => document.getElementById('scatter')._fullLayout.paper_bgcolor === '#ffffff'")
        nothing_happened(page, made.path)


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.1 for two colours ``#rrggbb``."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_stand_out(page: Visit, scheme: str) -> None:
    change(
        page,
        """(name) => {
            const theme = document.getElementById("theme");
            theme.value = name;
            theme.dispatchEvent(new Event("change"));
        }""",
        scheme,
    )
    names = ["ink", "paper", "ground", "optimistic", "pessimistic", "accent"]
    values = page.evaluate(
        """(names) => names.map(
            (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim())""",
        names,
    )
    colours = dict(zip(names, values, strict=True))
    assert contrast(colours["ink"], colours["paper"]) > 7
    assert contrast(colours["ink"], colours["ground"]) > 7
    for name in ("optimistic", "pessimistic", "accent"):
        assert contrast(colours[name], colours["paper"]) > 3


def test_second_looks_are_said_to_be_some_of_the_candidates(sample_page: Visit) -> None:
    with Store.open(SAMPLE) as store:
        ids = store.candidates(Question(threshold=0.3))["position_id"].tolist()
        looked = {
            id_ for (id_,) in store.connection.execute("SELECT position_id FROM deep_values WHERE stage = 'second'")
        }
    assert 0 < len(looked & set(ids)) < len(ids)
    cards = sample_page.evaluate("() => document.getElementById('cards').textContent")
    assert f"Second looks{len(looked & set(ids))} of {len(ids)} candidates, the worst first, by stockfish" in cards


@pytest.mark.usefixtures("without_charts")
def test_recorded_values_are_not_said_to_be_searched(chromium: Browser, tmp_path: Path) -> None:
    """And positions beside the games are not positions of the archive."""
    db = tmp_path / "recorded.db"
    mine_by_key(random_games(tmp_path / "random.pgn", 20), db)
    with Store.open(db, write=True) as store, store.writing() as connection:
        connection.execute("UPDATE oracles SET kind = 'recorded', label = 'recorded kind=eval'")
        connection.execute("UPDATE deep_values SET nodes = 0, depth = 0, seldepth = 0, time_ms = 0")
        connection.execute("UPDATE positions SET kind = 'aside' WHERE id % 3 = 0")
        (of_games, beside, games) = connection.execute(
            "SELECT sum(kind = 'game'), sum(kind = 'aside'), count(DISTINCT game_id) FROM positions"
        ).fetchone()
    with Store.open(db) as store:
        page_module.write(store, tmp_path / "a.html", Question())
        assert "scored in full; 0 nodes" not in "\n".join(stats_lines(store_figures(store)))
        assert "0 nodes" not in "\n".join(fact_lines(describe(store, "1", Question())))
    with visit(chromium, tmp_path / "a.html") as page:
        cards = dict(
            page.evaluate(
                """() => Array.from(document.querySelectorAll('#cards div'),
                    (card) => Array.from(card.children, (each) => each.textContent))"""
            )
        )
        facts = page.text(".facts")
    assert cards["Archives"] == f"random.pgn: {of_games} positions of {games} games, {beside} beside them"
    assert cards["Recall"] == "all values are those recorded in the archives"
    assert "Cost" not in cards
    assert "Searched" not in facts


@pytest.mark.usefixtures("without_charts")
def test_the_recall_is_said_as_in_the_figures(chromium: Browser, plotted_db: Path, tmp_path: Path) -> None:
    with Store.open(plotted_db) as store:
        page_module.write(store, tmp_path / "a.html", Question(threshold=THRESHOLD))
        screening = store_figures(store, Question(threshold=THRESHOLD))["scored"]["screening"]
    with visit(chromium, tmp_path / "a.html") as page:
        cards = page.evaluate("() => document.getElementById('cards').textContent")
    assert f"Recall{screening['recall_said'].removeprefix('recall ')}, screening at 1/" in cards


@pytest.mark.usefixtures("without_charts")
def test_the_recall_of_a_net_without_a_ladder_says_whose_ladder_chose(chromium: Browser, tmp_path: Path) -> None:
    with Store.open(SAMPLE) as store:
        page_module.write(store, tmp_path / "a.html", Question(net="maia-1100", threshold=0.35))
    with visit(chromium, tmp_path / "a.html") as page:
        cards = page.evaluate("() => document.getElementById('cards').textContent")
    assert "Recallpositions were screened for maia-1900" in cards
