"""Lines of EPD, the same to archives, `vr eval`, books and openings: against python-chess, and those that are none."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.books.check import read_book
from valuerepair.chess.position_text import numbered_lines, read_epd, read_positions
from valuerepair.errors import ValueRepairError, one_line
from valuerepair.play.openings import read_openings

K = "4k3/8/8/8/8/8/4P3/4K3 w - -"
OTHER = "4k3/8/8/8/8/8/3PP3/4K3 w - - 0 1"  # a good line above the odd one


def of_archives(path: Path) -> str:
    report = ReadReport()
    positions = [p for batch in sample([str(path)], SampleOptions(per_game=None), report) for p in batch]
    if report.rejected:
        kind, _, reason = report.examples[0][2].partition(": line 2: ")
        assert report.rejected == {kind: 1}
        raise ValueError(reason)
    return positions[1].fen


def of_typed(path: Path) -> str:
    try:
        return list(read_positions(str(path)))[1].fen
    except ValueRepairError as error:
        raise ValueError(str(error).removeprefix(f"{path}: line 2: ")) from None


def of_openings(path: Path) -> str:
    try:
        return read_openings(path)[1].fen
    except ValueRepairError as error:
        raise ValueError(str(error).removeprefix(f"{path}:2: ")) from None


def read_everywhere(path: Path, line: str, *, end: str = "\n") -> str:
    """The position of the line in all three; raises ValueError with what all of them say."""
    path.write_text(f"{OTHER}{end}{line}{end}", encoding="utf-8", newline="")
    answers = []
    for reader in (of_archives, of_typed, of_openings):
        try:
            answers.append((reader(path), ""))
        except ValueError as error:
            answers.append(("", one_line(error)))
    assert answers == answers[:1] * 3
    problems = [(entry.line, entry.problem) for entry in read_book(path) if entry.problem]
    assert problems == ([(2, answers[0][1])] if answers[0][1] else [])
    if answers[0][1]:
        raise ValueError(answers[0][1])
    return answers[0][0]


@pytest.mark.parametrize(
    "operations",
    [
        "",
        "bm e4;",
        "bm e4",
        "bm e3 e4; am Kd1;",
        "bm;",
        "noop;",
        "hmvc 3; fmvn 4;",
        "fmvn 0;",
        'id "a; hmvc 7;"; hmvc 2;',
        'id "a \\" b; hmvc 9;"; hmvc 1;',
        'id "a" bm e4; hmvc 5',
        "- - bm e4;",
        "pv e4 Kd7 Kd2;",
        "\tce 4;\tacd 5;",
        'id"x";',
    ],
)
def test_lines_are_read_as_by_python_chess(operations: str, tmp_path: Path) -> None:
    board = chess.Board()
    meant = board.set_epd(f"{K} {operations}")
    assert read_everywhere(tmp_path / "a.epd", f"{K} {operations}") == board.fen()
    line = read_epd(f"{K} {operations}")
    texts = {name: value for name, value in meant.items() if isinstance(value, str | int)}
    assert {name: line.operations[name] for name in texts} == {name: str(value) for name, value in texts.items()}
    assert line.operations.keys() == meant.keys()
    assert [chess.Move.from_uci(move) for move in line.best] == meant.get("bm", [])


@pytest.mark.parametrize(
    ("line", "counters"),
    [
        (f"{K} 5", "5 1"),
        (f"{K} 3 70 dm 1;", "3 70"),
        (f"{K} 3 70; dm 1;", "3 70"),
        (f"{K} 7 9 hmvc 3; fmvn 4;", "7 9"),
        (f"{K};", "0 1"),
        (f"{K} ; bm e4 + ; id BK.01 ", "0 1"),
        (f'{K} hmvc "5";', "5 1"),
        (f'{K} c0 say "a; hmvc 7;" so; hmvc 2;', "2 1"),
        (f"{K} bm #2; 00:15; 00:00 @ C3;", "0 1"),
        (f"{K} bm #11; --:-- @ C0/R-4; 00'40\" (Gustav);", "0 1"),
        (f"{K} bm e4!, e3?!;", "0 1"),
        (f"{K} bm e2e4; pv e2e4 e8d7 e4e5;", "0 1"),
        (f"\ufeff{K}", "0 1"),
    ],
)
def test_what_suites_have_beyond_python_chess(line: str, counters: str, tmp_path: Path) -> None:
    for end in ("\n", "\r\n"):
        assert read_everywhere(tmp_path / "a.epd", line, end=end) == f"{K} {counters}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hello", "a FEN has at least four fields"),
        ("4k3/8/8/8/8/8/4P3/4K3 w", "a FEN has at least four fields"),
        ("a sentence of five words", "expected 'w' or 'b' for turn part of fen"),
        ("4k3/8/8/8/8/8/4P3/4K3 W - -", "expected 'w' or 'b' for turn part of fen"),
        ("8/8/8/8/8/8/8/8 w - -", "not a legal position: no white king, no black king, empty"),
        (f"{K} hmvc 70000;", "a move counter is not a number below 65536"),
        (f"{K} 65536 1", "a move counter is not a number below 65536"),
        (f"{K} 0 {2**64}", "a move counter is not a number below 65536"),
        (f"{K} hmvc zero;", "hmvc 'zero' is not a number"),
        (f"{K} hmvc;", "hmvc '' is not a number"),
        (f"{K} hmvc 1 2;", "hmvc '1 2' is not a number"),
        (f"{K} -1 5", "'-1' is one word too many"),
        (f"{K} 0 1 2 3", "'2' is one word too many"),
        (f"{K} 0 1 e2e4", "'e2e4' is one word too many"),
        (f"{K} e4 e5;", "'e4' is one word too many"),
        (f'{K} id "a bm e4;', "cannot read the operations from 'id \"a bm e4;'"),
        (f"{K} bm Nf9;", "bm Nf9: no legal move"),
        (f"{K} bm e4 e5;", "bm e5: no legal move"),
        (f"{K} bm --;", "bm --: no legal move"),
        (f"{K} pv e4 e5;", "pv e5: no legal move"),
        (
            "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9",
            "not a legal position: bad castling rights (king or rook is not at home; Chess960 is not supported)",
        ),
    ],
)
def test_lines_that_are_none_are_one_error_with_file_and_line(line: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_everywhere(tmp_path / "a.epd", line)
    assert str(caught.value).startswith(reason)


def test_empty_lines_and_comments_count_as_lines() -> None:
    text = f"\ufeff# a comment\r\n{K}\r\n\r\n  \t\n#{K}\n\ufeff{K} 0 1;\n"
    assert list(numbered_lines(text.split("\n"))) == [(2, K), (6, f"{K} 0 1;")]
