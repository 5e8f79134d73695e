"""Moves as the report writes them, in a real browser, against python-chess."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import chess
import pandas as pd
import pytest

from tests.report.browser import Visit, visit
from tests.report.reading import Report, loneliest, pixel, show_in_list
from valuerepair.books.emit import san_flags
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SAMPLE = Path(__file__).parents[2] / "data" / "sample.db"

# Where notation is hard, with a move that makes it so.
HARD = {
    # Three knights: file and rank must be named, the rank, or the file.
    "8/5k2/8/1N6/8/8/8/1N1N1K2 w - - 0 1": "Nb1c3",
    "8/5k2/8/1N6/8/8/8/1N3K2 w - - 0 1": "N5c3",
    "8/5k2/8/8/8/8/8/1N1N1K2 w - - 0 1": "Ndc3",
    # The other knight is pinned, or its king in check, so nothing must be named.
    "4k3/8/8/b7/8/2N3N1/8/4K3 w - - 0 1": "Ne4",
    "8/k7/8/8/1b6/8/3N2N1/4K3 w - - 0 1": "Nf4",
    "k7/8/8/8/4r3/8/2N5/4K1N1 w - - 0 1": "Ne2",
    # Smothered, and not.
    "6rk/6pp/8/6N1/8/8/8/K7 w - - 0 1": "Nf7#",
    "7k/6pp/8/6N1/8/8/8/K7 w - - 0 1": "Nf7+",
    "5k2/8/8/8/8/8/8/4K2R w K - 0 1": "O-O+",
    "3k4/8/8/8/8/8/8/R3K3 w Q - 0 1": "O-O-O+",
    "4rkr1/4p1p1/8/8/8/8/8/4K2R w K - 0 1": "O-O#",
    "5k2/P6P/8/8/8/8/8/K7 w - - 0 1": "a8=Q+",
    "6nk/5P1p/7P/8/8/8/8/K5R1 w - - 0 1": "fxg8=Q#",
    "7k/5P1p/7P/8/8/8/8/K7 w - - 0 1": "f8=R#",
    # A double step gives check: it can be taken en passant, or the pawn that could is pinned.
    "5n2/4Q3/R7/3k3K/3p4/8/2P5/2Q3Q1 w - - 0 1": "c4+",
    "2R1Q3/4K3/8/3k1B2/3p4/5N2/2P3n1/8 w - - 0 1": "c4+",
    "N7/8/7R/2bk4/3p2N1/1K1Q4/2P5/8 w - - 0 1": "c4#",
    # Check by the pawn that goes off the board, and by the man behind it.
    "8/8/8/R2pP2k/8/8/8/K7 w - d6 0 2": "exd6+",
    # Black, too.
    "k7/4p3/8/3PK3/8/8/8/8 b - - 0 7": "e6",
    "k7/8/8/8/8/8/p7/1N5K b - - 3 9": "axb1=N",
    "r3k2r/8/8/8/8/8/8/5K2 b kq - 0 30": "O-O+",
}


def scripts() -> str:
    """The modules that write moves, without what they tell each other."""
    folder = Path(page_module.__file__).parent / "page_template"
    text = "".join((folder / f"{name}.js").read_text("utf-8") for name in ("data", "board"))
    return re.sub(r"^export ", "", re.sub(r"^import .*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)


def spoken(page: Visit, boards: list[chess.Board]) -> list[list[str]]:
    """What the page writes for each legal move of each board."""
    moves = [[move.uci() for move in board.legal_moves] for board in boards]
    flags = [
        san_flags([board.fen()] * len(row), [[move] for move in row]).tolist()
        for board, row in zip(boards, moves, strict=True)
    ]
    with_moves = [
        [board.fen(), list(zip(row, own, strict=True))] for board, row, own in zip(boards, moves, flags, strict=True)
    ]
    script = (
        "(asked) => {%s\n return asked.map(([fen, moves]) => moves.map(([move, flags]) => "
        "san(parseFen(fen), move, flags))); }"
    )
    texts: list[list[str]] = page.evaluate(script % scripts(), with_moves)
    return texts


def wanted(boards: list[chess.Board]) -> list[list[str]]:
    return [[board.san(move) for move in board.legal_moves] for board in boards]


def test_hard_moves(page: Visit) -> None:
    boards = [chess.Board(fen) for fen in HARD]
    texts = spoken(page, boards)
    assert texts == wanted(boards)
    for sans, move in zip(texts, HARD.values(), strict=True):
        assert move in sans


def test_all_moves_of_random_games(page: Visit) -> None:
    boards = []
    dice = random.Random(4)
    for _ in range(4):
        board = chess.Board()
        while not board.is_game_over() and board.ply() < 150:
            board.push(dice.choice(list(board.legal_moves)))
            if board.ply() % 2 == 0:
                boards.append(board.copy(stack=False))
    expected = wanted(boards)
    every = [move for moves in expected for move in moves]
    assert len(every) > 5_000
    assert sum(len(re.sub(r"[x+#]|=.|O-O.*", "", move)) > 3 for move in every) > 100  # that need a file or rank
    assert sum(move.endswith("+") for move in every) > 50
    assert spoken(page, boards) == expected


@pytest.mark.usefixtures("without_charts")
def test_moves_of_the_sample_and_its_worst_board_at_once(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    with Store.open(SAMPLE) as store:
        page_module.write(store, path, Question(threshold=0.35))
        frame = store.frame()
    worst = frame.loc[frame["disagreement"].abs().sort_values(ascending=False, kind="stable").index]
    assert set(worst["side"].head(4)) == {"w", "b"}
    with visit(chromium, path, width=700, height=600) as page:
        for i, row in enumerate(worst.head(4).itertuples()):
            if i:  # the first is there without a click
                show_in_list(page, int(str(row.position_id)))
            detail = page.text("#detail").splitlines()
            assert detail[0] == f"Position {row.position_id}"
            board = chess.Board(str(row.fen))
            before = f"{board.fullmove_number}." if board.turn else f"{board.fullmove_number}..."
            played, net, deep = (
                board.san(chess.Move.from_uci(str(move))) for move in (row.played, row.net_best, row.deep_best)
            )
            assert f"deep search's best move: {before} {deep}" in detail
            assert f"net's best move: {before} {net}" in detail
            assert f"move played: {before} {played}" in detail
            line = [chess.Move.from_uci(move) for move in str(row.pv).split()]
            assert len(line) > 2
            shown = page.evaluate(
                "() => Array.from(document.querySelectorAll('#pv li > *'), (each) => each.textContent)"
            )
            assert " ".join(shown).replace("... ", "...") == board.variation_san(line)
            for place in ("#positions", "#worst"):
                text = " ".join(page.text(f"{place} [data-position='{row.position_id}']").split())
                assert re.search(rf"net {re.escape(net)} [+−]0\.\d+,? deep {re.escape(deep)} [+−]", text)
        assert page.errors == []


def test_the_point_under_the_mouse_is_told(page: Visit, made: Report) -> None:
    row = loneliest(made.frame)
    x, y = pixel(page, row)
    page.page.mouse.move(x - 4, y)
    page.page.mouse.move(x, y)
    page.page.wait_for_selector("#tip:visible")
    best = "" if pd.isna(row.deep_best) else chess.Board(row.fen).san(chess.Move.from_uci(row.deep_best)) + " "
    q = f"{row.deep_q:+.3f}".replace("-", "−")
    assert f", deep {best}{q}, difference" in page.text("#tip")
    page.page.mouse.move(1, 1)
    page.page.wait_for_selector("#tip", state="hidden")
