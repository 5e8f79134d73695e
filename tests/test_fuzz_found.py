"""Faults that fuzzing found, each with a small input: none may come back."""

from __future__ import annotations

import gzip
import tarfile
import time
from io import BytesIO
from pathlib import Path

import pytest

from tests.fuzz.archives import read_archive
from valuerepair import files
from valuerepair.archives.epd import MAX_LINE, LineSplitter
from valuerepair.archives.headers import position_headers, read_headers
from valuerepair.archives.open import Source, TarError, members
from valuerepair.archives.options import RecordedOptions
from valuerepair.books.check import read_text
from valuerepair.chess.origins import Recorded
from valuerepair.engines.uci import SearchReader, parse_option
from valuerepair.errors import ValueRepairError
from valuerepair.nets.weights import LC0_MAGIC, read_header, read_net_file

ILLEGAL_START = b'[Event "b"]\n[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n\n1. e4 e5 *\n\n'


def test_games_behind_one_with_an_illegal_start_keep_their_own_positions() -> None:
    found, report = read_archive(ILLEGAL_START + b'[Event "c"]\n\n1. d4 f5 2. c4 *\n', "a.pgn")
    assert report.rejected == {"illegal start position": 1}
    assert [position.fen.split()[0] for position in found] == [
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR",
        "rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR",
        "rnbqkbnr/ppppp1pp/8/5p2/3P4/8/PPP1PPPP/RNBQKBNR",
    ]
    assert [position.origin.played for position in found] == ["d2d4", "f7f5", "c2c4"]


def test_an_archive_of_illegal_starts_alone() -> None:
    found, report = read_archive(ILLEGAL_START, "a.pgn")
    assert not found
    assert report.rejected == {"illegal start position": 1}


def test_a_game_of_latin_1_keeps_its_start_position() -> None:
    """Its letters are two bytes each in UTF-8, and the tags are as much longer: the last one is the FEN."""
    tags = '[Event "Café"]\n[White "François-André Philidor"]\n[SetUp "1"]\n[FEN "{}"]\n\n'
    start = "rnbqkbnr/ppppp1pp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    text = (tags.format(start) + "1. e4 c5 {naïve} 2. Qh5+ g6 *\n").encode("latin-1")
    found, _ = read_archive(text, "a.pgn")
    assert [position.start_fen for position in found] == [start] * 4
    assert found[0].origin.headers["FEN"] == start


@pytest.mark.parametrize(
    "movetext", [b"1. e4 e5 2. Ke4 (2. Nf3) Nc6) 3. Bb5 *\n", b"1. e4 e5 2. Ke4) (2. d4) exd4) *\n"]
)
def test_variations_that_nobody_opened_behind_a_wrong_move(movetext: bytes) -> None:
    """Of which python-chess loses count; it is asked because the other reader refuses the game."""
    found, report = read_archive(b'[Event "a"]\n\n' + movetext + b'\n[Event "b"]\n\n1. d4 *\n', "a.pgn")
    assert report.rejected == {"illegal move": 1}
    assert [position.origin.played for position in found] == ["d2d4"]


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000])
def test_numbers_of_many_digits_are_no_evaluations_and_no_ratings(number: str) -> None:
    comments = [
        f"[%eval #{number}]",
        f"[%eval {number}.5]",
        f"[%eval 0.1,{number}]",
        f"+0.1/{number} 1s",
        f"-M{number}/3",
    ]
    comments += [f"d={number}, wv=0.1", f"d=3, wv=M{number}"]
    for comment in comments:
        headers = f'[Event "a"]\n[WhiteElo "{number}"]\n[BlackElo "2000"]\n\n'
        text = f"{headers}1. e4 {{{comment}}} e5 {{{comment}}} 2. d4 *\n"
        for kind in ("eval", "cutechess", "tcec"):
            assert read_archive(text.encode(), "a.pgn", recorded=RecordedOptions(kind))[0] == []
        assert len(read_archive(text.encode(), "a.pgn")[0]) == 3
        assert read_archive(text.encode(), "a.pgn", min_elo=1)[1].rejected == {"no Elo": 1}
    line = f"4k3/8/8/8/8/8/8/4K2R w K - ce {number}; dm {number}; bm #{number}; acd {number};"
    assert [p.origin.recorded for p in read_archive(line.encode(), "a.epd")[0]] == [None]


def test_a_start_beyond_the_last_move_number_is_no_crash() -> None:
    for number in ("99999999999999999999", "65535", "7" * 5000):
        text = f'[Event "a"]\n[FEN "4k3/8/8/8/8/8/8/4K2R w K - 0 {number}"]\n\n1. O-O Kd7 *\n'
        found, report = read_archive(text.encode(), "a.pgn")
        assert report.games == 1
        assert len(found) in (0, 2)


@pytest.mark.parametrize(
    "evaluations",
    [
        '[{"pvs":[{"cp":null,"line":"e2e4"}],"knodes":1,"depth":1}]',
        '[{"pvs":[{"cp":"high"}],"knodes":1,"depth":1}]',
        '[{"pvs":[{"cp":1e300}],"knodes":1,"depth":1}]',
        '[{"pvs":["cp"],"knodes":1,"depth":1}]',
        '{"pvs":[{"cp":1}]}',
        '["cp"]',
        "7",
    ],
)
def test_entries_of_a_dump_that_are_no_evaluations(evaluations: str) -> None:
    line = f'{{"fen":"4k3/8/8/8/8/8/8/4K2R w K -","evals":{evaluations}}}\n'
    assert [position.origin.recorded for position in read_archive(line.encode(), "a.jsonl")[0]] == [None]


def test_an_evaluation_of_a_dump_with_odd_depths_is_read() -> None:
    odd = '{"pvs":[{"cp":5}],"depth":"deep"}'
    deep = '{"pvs":[{"cp":7,"line":3}],"depth":9,"knodes":18446744073709551615}'
    line = f'{{"fen":"4k3/8/8/8/8/8/8/4K2R w K -","evals":[{odd},{deep}]}}\n'
    ((position,), _) = read_archive(line.encode(), "a.jsonl", recorded=RecordedOptions("dump", min_depth=1))
    assert position.origin.recorded == Recorded("dump", cp=7, depth=9)


def test_numbers_of_an_engine_that_no_search_comes_to_are_passed_over() -> None:
    reader = SearchReader()
    reader.add("info depth 9 score cp 12 nodes 100 time 7")
    reader.add(f"info depth 10 score cp 13 nodes 9{'0' * 19} time 8")
    report = reader.report("bestmove e2e4", 1)
    assert (report.cp, report.nodes) == (12, 100)


@pytest.mark.parametrize("size", [b"-1000000000", b"0_7", b"0o17", b"+7", b"8"])
def test_sizes_in_a_tar_that_are_no_octal_numbers(size: bytes) -> None:
    head = bytearray(tarfile.TarInfo("game_1.gz").tobuf(tarfile.USTAR_FORMAT))
    head[124:136] = size.ljust(12, b"\0")
    head[148:156] = b"%06o\0 " % (sum(head[:148]) + 8 * 32 + sum(head[156:]))
    content = BytesIO(bytes(head) + bytes(2048))
    with pytest.raises(TarError, match="damaged at byte 0"):
        list(members(content.read, 1 << 20))


def test_a_number_without_end_in_a_net_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="protobuf is damaged"):
        read_header(LC0_MAGIC + b"\xff" * (1 << 24))


def test_what_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_UNPACKED", 1 << 20)
    path = tmp_path / "a.pgn.gz"
    path.write_bytes(gzip.compress(b" " * (1 << 20)))
    assert len(read_text(path)) == 1 << 20
    path.write_bytes(gzip.compress(LC0_MAGIC + bytes(1 << 21)))
    for read in (read_text, read_net_file):
        with pytest.raises(ValueRepairError, match="unpacks to more than"):
            read(path)


def test_lines_without_end_are_one_rejected_line_and_no_memory() -> None:
    fen = b"4k3/8/8/8/8/8/8/4K2R w K - 0 1"
    endless = fen + b" id " + b"x" * (3 << 20)
    whole = b"\n".join([fen, endless, fen.replace(b"R", b"Q").replace(b"K -", b"- -"), endless])
    splitter = LineSplitter(Source("", ""))
    blocks = []
    for at in range(0, len(whole), 100_000):
        blocks.append(splitter.feed(whole[at : at + 100_000], last=at + 100_000 >= len(whole)))
        assert len(splitter._partial) <= MAX_LINE
    assert [offset for block in blocks for offset in block.offsets] == [
        0,
        len(fen) + 1,
        len(fen) + len(endless) + 2,
        2 * len(fen) + len(endless) + 3,
    ]
    assert [number for block in blocks for number in block.numbers] == [1, 2, 3, 4]
    found, report = read_archive(whole, "a.epd")
    assert len(found) == 2
    assert report.rejected == {"not a position": 2}


def test_a_line_of_beginnings_of_tags_is_read_in_no_time() -> None:
    started = time.monotonic()
    text = b'[Event "a"]\n[White "b"]\n[x "' + b'[a "' * 500_000 + b"\n\n1. e4 *\n"
    assert position_headers(text)["White"] == "b"
    assert read_headers(text)["Event"] == "a"
    assert time.monotonic() - started < 10


def test_an_option_with_a_run_of_blanks_is_read_in_no_time() -> None:
    started = time.monotonic()
    option = parse_option("option name A type string default" + " " * 500_000 + "b c")
    assert option is not None
    assert option.default == "b c"
    assert time.monotonic() - started < 10
