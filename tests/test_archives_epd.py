"""EPD and FEN files as sources: bare positions, their recorded evaluations, and lines that are none."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import chess
import pytest

from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import Position

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR"


def run(path: Path, **options: Any) -> tuple[list[Position], ReadReport]:
    report = ReadReport()
    positions = [p for b in sample([str(path)], SampleOptions(**options), report) for p in b]
    assert report.adds_up, report
    return positions, report


def test_lines_of_all_kinds(tmp_path: Path) -> None:
    path = tmp_path / "suite.txt"
    path.write_bytes(
        b"\xef\xbb\xbf# a comment\r\n"
        b'r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - ce -12; id "quoted; name";\r\n\r\n'
        b"8/8/8/8/8/4k3/4p3/4K3 w - -\r\n"
        b"7k/8/5K2/8/8/8/8/6R1 w - - bm #2; acd 5;\r\n"
        b"7K/8/5k2/8/8/8/8/6r1 w - - 3 70 dm -1; D1 2 ;D2 5\r\n"
        b"rnbqkbnr/pppp1ppp/8/8/3Pp3/8/PPP1PPPP/RNBQKBNR b KQkq d3"
    )
    positions, report = run(path)
    assert report.rejected == {}
    assert report.rejected_positions == {"no legal move": 1}  # stalemate in line 4
    assert [p.origin.game for p in positions] == [2, 5, 6, 7]
    assert [(p.origin.eval_cp, p.origin.eval_mate) for p in positions] == [
        (-12, None),
        (None, 2),
        (None, -1),
        (None, None),
    ]
    assert positions[0].origin.headers == {"id": "quoted; name"}
    assert positions[2].fen == "7K/8/5k2/8/8/8/8/6r1 w - - 3 70"
    assert positions[2].ply == 138
    assert positions[3].fen.split()[3] == "d3"  # exd3 is legal
    for position in positions:
        assert not position.history_known
        assert position.moves == ()
        assert position.start_fen == position.fen
        assert position.origin.played is None
        assert chess.Board(position.fen).is_valid()


def test_bad_lines_and_positions_without_moves(tmp_path: Path) -> None:
    path = tmp_path / "bad.epd"
    path.write_text(
        f"{START} w KQkq - 0 1\n"
        "hello\n"
        "8/8/8/8/8/8/8/8 w - - 0 1\n"
        "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3\n"
        "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9\n"
        f"{START} w KQkq - 5 9\n"
    )
    positions, report = run(path)
    assert len(positions) == 1
    assert report.rejected == {"not a position": 1, "illegal position": 1, "Chess960": 1}
    assert report.rejected_positions == {"no legal move": 1}
    assert report.duplicates == 1
    assert ("line 2" in why for _, _, why in report.examples)
    assert report.examples[0][1] == len(f"{START} w KQkq - 0 1\n")
    assert report.examples[0][2].startswith("not a position: line 2: a FEN has at least four fields")


def test_a_line_at_a_cut_is_no_position(tmp_path: Path) -> None:
    text = "".join(f"4k3/8/8/8/8/8/4P3/4K3 w - - 0 {i + 1}\n" for i in range(60_000))
    packed = gzip.compress(text.encode())
    path = tmp_path / "cut.epd.gz"
    path.write_bytes(packed[: len(packed) // 2])
    _, report = run(path, game_share=0.001)
    assert report.rejected["cut off"] == 1
    assert len(report.truncated) == 1


def test_filters_that_bare_positions_can_have(tmp_path: Path) -> None:
    path = tmp_path / "suite.epd"
    path.write_text(f"{START} w KQkq -\n7k/8/5K2/8/8/8/8/6R1 w - -\n4k3/8/8/8/8/8/4R3/4K3 b - -\n")
    assert len(run(path, min_ply=8)[0]) == 3
    assert [p.origin.game for p in run(path, max_pieces=3)[0]] == [2, 3]
    assert [p.origin.game for p in run(path, no_check=True)[0]] == [1, 2]
    assert run(path, min_elo=2000)[1].rejected == {"no Elo": 3}
    assert len(run(path, positions=2, per_game=None)[0]) == 2


@pytest.mark.parametrize(
    "name",
    ["bratko-kopec.epd", "perft-ferdy-double-checks.epd", "perft.epd", "matetrack.epd", "STS1-STS15_LAN_v6.epd"],
)
def test_suites_are_read_as_python_chess_reads_them(shared_data: Path, name: str) -> None:
    path = shared_data / "epd" / name
    positions, report = run(path)
    lines = [line.strip() for line in path.read_text("latin-1").splitlines()]
    assert report.games == sum(bool(line.strip("\0 ")) for line in lines)
    for position in positions:
        fields = lines[position.origin.game - 1].replace(";", " ;").split()
        assert chess.Board(" ".join(fields[:4]) + " 0 1").epd() == " ".join(position.fen.split()[:4])
