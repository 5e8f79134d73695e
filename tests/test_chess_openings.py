"""Openings by position and by header, against python-chess replaying the named lines and our own games."""

from __future__ import annotations

import io
from pathlib import Path

import chess
import chess.pgn
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from valuerepair.chess.openings import UNKNOWN, OpeningName, eco_code, family, named_positions, openings_of
from valuerepair.chess.positions import STARTPOS_FEN

GAMES = Path(__file__).parents[1] / "data" / "games.pgn.zst"


def opening_of(header: str | None, start_fen: str, moves: list[str]) -> OpeningName:
    return openings_of([header], [start_fen], [moves])[0]


@pytest.fixture(scope="module")
def by_epd() -> dict[str, OpeningName]:
    """The named positions as python-chess reaches and writes them."""
    names = {}
    for eco, name, moves in named_positions():
        board = chess.Board()
        for move in moves:
            board.push(board.parse_uci(move))  # raises for what is not legal
        names[board.epd()] = OpeningName(eco, name)
    return names


def our_games(count: int) -> list[list[str]]:
    text = io.StringIO(zstandard.ZstdDecompressor().stream_reader(GAMES.open("rb")).read().decode())
    games = [chess.pgn.read_game(text) for _ in range(count)]
    return [[move.uci() for move in game.mainline_moves()] for game in games if game is not None]


def test_every_named_line_is_legal_and_leads_to_its_own_name(by_epd: dict[str, OpeningName]) -> None:
    rows = named_positions()
    assert len(by_epd) == len(rows) > 3000
    openings = openings_of([None] * len(rows), [STARTPOS_FEN] * len(rows), [moves for _, _, moves in rows])
    assert openings == [OpeningName(eco, name) for eco, name, _ in rows]
    assert {eco[0] for eco, _, _ in rows} == set("ABCDE")


def test_games_have_the_name_of_their_last_named_board(by_epd: dict[str, OpeningName]) -> None:
    """lichess's rule, by python-chess: play backwards until a named position is found."""
    games = our_games(150)
    expected = []
    for moves in games:
        board, last = chess.Board(), OpeningName()
        for move in moves[:44]:
            board.push_uci(move)
            last = by_epd.get(board.epd(), last)
        expected.append(last)
    assert openings_of([None] * len(games), [STARTPOS_FEN] * len(games), games) == expected
    assert len({opening.name for opening in expected}) > 30


def test_a_game_that_starts_in_a_named_position() -> None:
    board = chess.Board()
    for move in ["e2e4", "c7c6", "d2d4", "d7d5", "e4e5"]:
        board.push_uci(move)
    opening = opening_of(None, board.fen(), ["c8f5"])
    assert opening.eco == "B12"
    assert opening.name.startswith("Caro-Kann Defense: Advance")
    assert opening_of(None, "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1", ["e3e4"]) == OpeningName()


def test_the_header_has_the_code_and_the_board_the_name() -> None:
    moves = ["e2e4", "e7e5", "g1f3", "g8f6"]
    assert opening_of("C43/05", STARTPOS_FEN, moves) == OpeningName("C43", opening_of(None, STARTPOS_FEN, moves).name)
    assert (
        opening_of("?", STARTPOS_FEN, moves)
        == opening_of(None, STARTPOS_FEN, moves)
        == OpeningName("C42", "Petrov's Defense")
    )


@pytest.mark.parametrize(
    ("header", "code"),
    [("B90", "B90"), (" c42a ", "C42"), ("E12/03", "E12"), ("A00 ", "A00"), ("E12; DROP TABLE games", "E12")],
)
def test_codes_in_headers(header: str, code: str) -> None:
    assert eco_code(header) == code


@pytest.mark.parametrize(
    "header", [None, "", "?", "-", "F12", "B9", "B901", "E٣٤", "Dutch Defence", "<b>B90</b>", "\x00", "B" * 100_000]
)
def test_other_headers_are_no_code(header: str | None) -> None:
    assert eco_code(header) == ""
    assert family(eco_code(header)) == UNKNOWN


@given(st.text() | st.from_regex(r" ?[A-Fa-e][0-9\u0660]{2,3}/?"))
def test_no_header_gives_anything_but_a_code(header: str) -> None:
    code = eco_code(header)
    assert code == "" or (len(code) == 3 and code[0] in "ABCDE" and code[1:].isdecimal() and code.isascii())


def test_families() -> None:
    assert {family(f"B{n}") for n in range(20, 100)} == {"Sicilian Defense"}
    assert {family(f"C{n:02}") for n in range(20)} == {"French Defense"}
    assert {family(f"C{n}") for n in range(60, 100)} == {"Ruy Lopez"}
    assert {family(f"C{n}") for n in range(30, 40)} == {"King's Gambit"}
    assert family("Z99") == UNKNOWN


def test_an_illegal_or_broken_line_counts_up_to_the_break() -> None:
    whole = opening_of(None, STARTPOS_FEN, ["e2e4", "c7c5"])
    assert opening_of(None, STARTPOS_FEN, ["e2e4", "c7c5", "e1e8", "g1f3"]) == whole
    assert opening_of(None, STARTPOS_FEN, ["e2e4", "c7c5", "", "g1f3"]) == whole
