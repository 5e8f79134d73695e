"""Books as openings, against python-chess and the book checker."""

from __future__ import annotations

import gzip
from pathlib import Path

import chess
import chess.pgn
import pytest

from valuerepair.chess.board import keys, parse_fens
from valuerepair.errors import ValueRepairError
from valuerepair.play.openings import check_playable, read_openings

BOOK = """[Event "a"]
[White "Q \\"x\\""]
[Result "*"]

1. e4 c5 2. Nf3 {a comment} d6 *

[Event "b"]
[FEN "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"]

*

1. d4 d5 2. c4 e6 1-0
"""


@pytest.mark.parametrize("strict", [True, False])
def test_a_pgn_book_is_read_as_it_is_written(tmp_path: Path, strict: bool) -> None:
    path = tmp_path / "book.pgn.gz"
    path.write_bytes(gzip.compress(BOOK.encode()))
    openings = read_openings(path, strict=strict)
    assert [o.number for o in openings] == [0, 1, 2]
    assert openings[0].moves == ("e2e4", "c7c5", "g1f3", "d7d6")
    assert [openings[0].tags[name] for name in ("Event", "White")] == ["a", 'Q "x"']
    assert (openings[1].moves, openings[1].fen.split()[1]) == ((), "b")
    assert openings[1].start_fen == openings[1].fen
    assert openings[2].tags.get("FEN") is None
    for opening in openings:
        board = chess.Board(opening.start_fen)
        for move in opening.moves:
            board.push_uci(move)
        assert board.fen() == opening.fen
        assert opening.key == int(keys(parse_fens([opening.fen]))[0])


def test_what_lc0_would_refuse_is_refused_only_where_asked(tmp_path: Path) -> None:
    path = tmp_path / "book.pgn"
    path.write_text("1. e4 (1. d4 d5) 1... e5 *\n")
    assert read_openings(path)[0].moves == ("e2e4", "e7e5")
    with pytest.raises(ValueRepairError, match=r"book.pgn:1: .*variation"):
        read_openings(path, strict=True)
    black = '[FEN "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"]\n\ne5 2. Nf3 *\n'
    path.write_text(black)
    with pytest.raises(ValueRepairError, match="mirrored"):
        read_openings(path, strict=True)
    assert read_openings(path)[0].moves == ("e7e5", "g1f3")


@pytest.mark.parametrize("name", ["book.epd", "book.fen"])
def test_epd_and_fen_lines(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(
        '# remark\n4k3/8/8/8/8/8/4P3/4K3 w - - hmvc 5; fmvn 39; id "x";\n\n8/8/8/8/8/5k2/6q1/7K w - - 0 1\n'
    )
    assert [o.fen for o in read_openings(path)] == [
        "4k3/8/8/8/8/8/4P3/4K3 w - - 5 39",
        "8/8/8/8/8/5k2/6q1/7K w - - 0 1",
    ]
    with pytest.raises(ValueRepairError, match=rf"{name}:4: lc0 plays no game from the end of this entry"):
        read_openings(path, strict=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pgn", "", "no opening"),
        ("a.pgn", "1. e4 e4 *\n", "game 1: illegal san"),
        ("a.pgn", "1. e4 *\n\n(1. e5 e4) 1. d4 *\n", "game 2: its moves"),
        ("a.epd", "no position\n", "a.epd:1: a FEN has at least four fields"),
        ("a.fen", "8/8/8/8/8/8/8/8 w - -\n", "a.fen:1: not a legal position"),
        ("a.pgn", '[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n\n*\n', "not a legal position: no white king"),
        ("a.pgn", '[Variant "Chess960"]\n\n1. e4 *\n', "game 1: Chess960 is not supported"),
        ("a.pgn", '[Variant "Atomic"]\n\n1. e4 *\n', "game 1: atomic is not supported"),
    ],
)
def test_books_that_are_none(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueRepairError, match=message):
        read_openings(path)
    with pytest.raises(ValueRepairError, match="no such file"):
        read_openings(tmp_path / "none.pgn")
    with pytest.raises(ValueRepairError, match="Is a directory"):
        read_openings(tmp_path)


def test_whole_games_are_said_to_be_no_openings(tmp_path: Path) -> None:
    moves = "1. e4 e5 " + " ".join(f"{n}. Nf3 Nf6 {n + 1}. Ng1 Ng8" for n in range(2, 26, 2))
    (tmp_path / "games.pgn").write_text(f"{moves} 1/2-1/2\n")
    with pytest.raises(ValueRepairError, match=r"opening 1 ends the game \(.*\); these look like whole games"):
        check_playable(read_openings(tmp_path / "games.pgn"), "games.pgn")
