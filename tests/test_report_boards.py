"""The sheet of boards: every piece where the FEN has it, drawn once, small."""

from __future__ import annotations

from xml.etree import ElementTree

import chess
import pandas as pd
import pytest

from valuerepair.report import boards, style

SVG = "{http://www.w3.org/2000/svg}"
FENS = [
    "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3",
    "8/5k2/8/8/3Q4/8/8/4K3 w - - 0 1",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
]


def rows(*fens: str, deep: str | None = None, net: str | None = None) -> pd.DataFrame:
    n = len(fens)
    columns = {"net_best": [net] * n, "deep_best": [deep] * n, "game": range(1, n + 1), "ply": [40] * n}
    frame: pd.DataFrame = pd.DataFrame({"fen": fens, "net_q": [0.5] * n, "deep_q": [-0.25] * n, **columns})
    return frame


def sheet(frame: pd.DataFrame) -> tuple[ElementTree.Element, list[ElementTree.Element]]:
    root = ElementTree.fromstring(boards.draw_boards(frame))
    return root, root.findall(f"{SVG}svg")


@pytest.mark.parametrize("fen", FENS)
def test_pieces_stand_where_the_fen_has_them(fen: str) -> None:
    board = chess.Board(fen)
    _, (drawn,) = sheet(rows(fen))
    pieces = {}
    for use in drawn.findall(f"{SVG}use"):
        place = use.get("transform")
        if place is None:
            continue
        x, y = (float(v) for v in place.removeprefix("translate(").rstrip(")").split(","))
        file, rank = round(x / 45), 7 - round(y / 45)
        square = chess.square(file, rank) if board.turn == chess.WHITE else chess.square(7 - file, 7 - rank)
        pieces[square] = use.get("href")
    expected = {
        square: f"#{chess.COLOR_NAMES[piece.color]}-{chess.piece_name(piece.piece_type)}"
        for square, piece in board.piece_map().items()
    }
    assert pieces == expected


def test_every_drawing_is_defined_once_whatever_the_first_board_lacks() -> None:
    root, drawn = sheet(rows(FENS[1], FENS[0], FENS[2], FENS[1]))
    (definitions,) = root.findall(f"{SVG}defs")
    ids = [child.get("id") for child in definitions]
    used = {use.get("href", "").removeprefix("#") for use in root.iter(f"{SVG}use")}
    assert len(ids) == len(set(ids))
    assert used <= set(ids)
    assert len(list(definitions.iterfind(f"{SVG}g[@id='squares']/"))) == 64
    assert len(drawn) == 4
    assert not [board for board in drawn if board.find(f"{SVG}defs") is not None]


def test_twenty_boards_stay_small_and_do_not_overlap() -> None:
    root, drawn = sheet(rows(*FENS * 6, *FENS[:2]))
    assert len(ElementTree.tostring(root)) < 110_000
    assert len({(board.get("x"), board.get("y")) for board in drawn}) == 20
    width, height = (float(root.get(side, "0")) for side in ("width", "height"))
    for board in drawn:
        assert float(board.get("x", "")) + float(board.get("width", "")) <= width
        assert float(board.get("y", "")) + float(board.get("height", "")) <= height


def test_a_frame_s_own_captions() -> None:
    root, _ = sheet(rows(*FENS[:2]).assign(caption=["first\nsecond", "one <line>"]))
    assert [text.text for text in root.findall(f"{SVG}text")] == ["1. first", "second", "2. one <line>", None]
    root, _ = sheet(rows(FENS[0]))
    assert [text.text for text in root.findall(f"{SVG}text")] == [
        "1. net +0.50, deep -0.25",
        "Black to move, game 1, ply 40",
    ]


@pytest.mark.parametrize(
    ("deep", "net", "colours"),
    [
        ("d4d7", "d4h8", {style.BLUE, style.VERMILLION}),
        ("d4d7", "d4d7", {style.GREEN}),
        ("d4d7", None, {style.BLUE}),
        ("0000", "a1a1", set()),
        (None, None, set()),
    ],
)
def test_arrows(deep: str | None, net: str | None, colours: set[str]) -> None:
    root, _ = sheet(rows(FENS[1], deep=deep, net=net))
    assert {line.get("stroke") for line in root.iter(f"{SVG}line")} == colours
