"""Sampled positions against python-chess: moves, boards, headers, evaluations; and games not as they seem."""

from __future__ import annotations

import gzip
import io
import logging
from collections.abc import Sequence
from pathlib import Path

import chess
import chess.pgn
import pytest
import zstandard

from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import Position

EVERYTHING = SampleOptions(per_game=None, min_ply=0)
HEADER = '[Event "E"]\n[White "W"]\n[Black "B"]\n[Result "1-0"]\n\n'


def positions(paths: Sequence[Path], options: SampleOptions = EVERYTHING) -> tuple[list[Position], ReadReport]:
    report = ReadReport()
    sampled = [p for batch in sample([str(p) for p in paths], options, report) for p in batch]
    assert report.adds_up, report
    assert report.positions == len(sampled)
    return sampled, report


def of_text(
    tmp_path: Path, text: str | bytes, options: SampleOptions = EVERYTHING
) -> tuple[list[Position], ReadReport]:
    path = tmp_path / "games.pgn"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return positions([path], options)


def check_against_python_chess(position: Position, text: str) -> None:
    """The position is the one that python-chess reaches in the same game by the same moves."""
    game = chess.pgn.read_game(io.StringIO(text))
    assert game is not None
    assert not game.errors
    board = game.board()
    assert position.start_fen == board.fen()
    moves = list(game.mainline_moves())
    assert position.moves == tuple(m.uci() for m in moves[: len(position.moves)])
    for move in moves[: len(position.moves)]:
        board.push(move)
    assert position.fen == board.fen()
    assert position.ply == board.ply()
    assert position.origin.played == moves[len(position.moves)].uci()
    for name, value in position.origin.headers.items():
        assert game.headers[name] == value
    assert position.origin.result == game.headers["Result"]


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    return zstandard.ZstdDecompressor().stream_reader(data).read() if path.suffix == ".zst" else data


@pytest.mark.parametrize(
    ("name", "per_game", "share"),
    [
        ("iccf-scca.pgn", 3, 1.0),
        ("leela-ID352.pgn.gz", 1, 0.2),
        ("lichess-blitz.pgn", 1, 0.2),
        ("otb-masters.pgn.zst", 1, 0.003),
        ("tcec-lc0-s16.pgn.zst", 1, 0.3),
    ],
)
def test_real_archives_agree_with_python_chess(shared_data: Path, name: str, per_game: int, share: float) -> None:
    path = shared_data / "pgn" / name
    data = unpacked(path)
    sampled, report = positions([path], SampleOptions(per_game=per_game, game_share=share))
    assert len(sampled) > 20
    assert set(report.rejected) <= {"no moves"}
    for position in sampled:
        assert position.ply >= 8
        game = data[position.origin.offset : position.origin.offset + 100_000]
        try:
            text = game.decode("utf-8")
        except UnicodeDecodeError:
            text = game.decode("latin-1")
        check_against_python_chess(position, text)


def test_all_plies_of_a_game_with_its_history(tmp_path: Path) -> None:
    text = HEADER + "1. e4 c5 2. e5 d5 3. exd6 e5 4. Nf3 Nc6 5. Bc4 Bd7 6. O-O Qf6 7. d4 O-O-O "
    text += "8. dxe5 Bg4 9. d7+ Kb8 10. exf6 Bxf3 11. fxg7 Rxd7 12. gxh8=N Bxd1 1-0\n"
    sampled, report = of_text(tmp_path, text)
    assert [len(p.moves) for p in sampled] == list(range(24))
    assert report.looked_at == 24
    for position in sampled:
        check_against_python_chess(position, text)


def test_a_game_from_a_fen_with_black_to_move(tmp_path: Path) -> None:
    fen = "r3k2r/pppq1ppp/2npbn2/4p3/4P3/2NPBN2/PPPQ1PPP/R3K2R b KQkq - 4 9"
    text = f'[Event "E"]\n[Result "*"]\n[SetUp "1"]\n[FEN "{fen}"]\n\n9... O-O-O 10. O-O d5 *\n'
    sampled, _ = of_text(tmp_path, text)
    assert [p.ply for p in sampled] == [17, 18, 19]
    assert sampled[0].fen == sampled[0].start_fen == fen
    assert sampled[0].history_known
    for position in sampled:
        check_against_python_chess(position, text)


@pytest.mark.parametrize("evaluation", ["#3", "#-2,30", "0.30", "-1.25,22"])
@pytest.mark.parametrize(
    "comments",
    [
        "{ [%eval E] } { hello }",
        "{ a } {[%eval E]}{ b; } $1\n{ {c }",
        "; } {\n{ [%eval E] } ; {\n",
        "{[%eval E] }\n{[%eval 9]}",
        "{ [%eval E] } (2. Nf3 { (a) } (2. Bf4) {b}) { hello }",
        "{ [%eval E] } (2. Nf3)\n$1 {[%eval 9]} { no }",
    ],
)
def test_every_comment_of_a_move_is_read_as_python_chess_does(tmp_path: Path, evaluation: str, comments: str) -> None:
    moves = "1. d4 { x } d5 2. e4 COMMENTS e5 { y; } 3. Nf3 *\n".replace("COMMENTS", comments.replace("E", evaluation))
    text = f'[White "a}} {{b"]\n\n{moves}'
    game = chess.pgn.read_game(io.StringIO(text))
    assert game is not None
    (ours,) = (p for p in of_text(tmp_path, text)[0] if p.origin.played == "e7e5")
    e4 = list(game.mainline())[2]
    expected, recorded = e4.eval(), ours.origin.recorded
    assert expected is not None
    assert recorded is not None
    assert (recorded.cp, recorded.mate) == (expected.black().score(), expected.black().mate())
    assert recorded.depth == (e4.eval_depth() or 0)
    assert ours.origin.headers["White"] == "a} {b"


def test_the_half_move_clock_goes_on_after_255(tmp_path: Path) -> None:
    texts = [
        f"1. e4 e5 {'Nf3 Nf6 Ng1 Ng8 ' * 80}Ke2 Ke7 Kd3 Kd6 a4 a5 Kc4 *\n\n",
        '[FEN "4k3/8/8/8/8/8/8/4K3 w - - 254 200"]\n\nKd1 Kd8 Kc1 Kc8 *\n\n',
        '[FEN "4k2b/8/8/8/8/8/8/4K3 w - - 900 900"]\n\nKd1 Kd8 Kc1 Kc8 *\n\n',
        '[FEN "4k2n/8/8/8/8/8/8/4K3 w - - 255 200"]\n\nKd1 Kd8 Kc1 Kc8 *\n\n',
        '[FEN "4k3/7p/8/8/8/8/8/4K3 w - - 300 400"]\n\nKd1 Kd8 Kc1 h6 Kb1 *\n\n',
    ]
    found, _ = of_text(tmp_path, "".join(texts))
    clocks = set()
    for position in found:
        check_against_python_chess(position, texts[(position.origin.game or 0) - 1])
        clocks.add(int(position.fen.split()[4]))
    assert {254, 255, 256, 257, 258, 300, 301, 302, 321, 322, 323, 324, 900, 901, 902, 903} <= clocks


@pytest.mark.parametrize(
    ("movetext", "reason"),
    [
        ("1. e4 e5 2. Nf6 Nc6 1-0", "illegal move"),
        ("1. e4 e5 2. xyzzy Nc6 1-0", "unreadable move"),
        ("1. e4 -- 2. Nf3 1-0", "null move"),
        ("1. e4 Z0 2. Nf3 1-0", "null move"),
        ("1. e4 e5 { oh\n2. Nf3 Nc6 1-0", "comment never closed"),
        ("1. e4 e5 (1... c5 2. Nf3 Nc6 1-0", "variation never closed"),
        ("1. e4 e5 1-0 2. Nf3 Nc6 1-0", "moves after the result"),
        ("1-0", "no moves"),
        ("", "no moves"),
        ("1. e4 e5 2. \x00 Nf3 1-0", "not text"),
        ("1. ♘f3 d5 1-0", "unreadable move"),
        ("1. Sf3 d5 1-0", "unreadable move"),
        ("1. e4 N 1... e5 1-0", "unreadable move"),
    ],
)
def test_bad_games_are_rejected_whole_with_their_reason(tmp_path: Path, movetext: str, reason: str) -> None:
    good = HEADER + "1. d4 d5 1-0\n\n"
    sampled, report = of_text(tmp_path, good + HEADER + movetext + "\n\n" + good.replace("d4 d5", "c4 c5"))
    assert report.rejected == {reason: 1}
    assert report.parsed == 2
    assert [p.origin.game for p in sampled] == [1, 1, 3]  # the initial position is there once
    assert report.duplicates == 1
    assert [(offset, why.split(":")[0]) for _, offset, why in report.examples] == [(len(good), reason)]


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ('[Variant "Crazyhouse"]', "variant Crazyhouse"),
        ('[Variant "chess 960"]', "Chess960"),
        ('[Variant "fischerandom"]', "Chess960"),
        ('[FEN "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9"]', "Chess960"),
        ('[FEN "nrkbbqrn/pppppppp/8/8/8/8/PPPPPPPP/NRKBBQRN w KQkq - 0 1"]', "Chess960"),
        ('[fen "nrkbbqrn/pppppppp/8/8/8/8/PPPPPPPP/NRKBBQRN w KQkq - 0 1"]', "Chess960"),
        ('[FEN "hello"]', "illegal start position"),
        ('[FEN "8/8/8/8/8/8/k6K/R6R w - - 0 1"]', "illegal start position"),
    ],
)
def test_variants_and_bad_starts_are_counted(tmp_path: Path, tags: str, reason: str) -> None:
    _, report = of_text(tmp_path, f'{HEADER}1. e4 *\n\n[Event "V"]\n{tags}\n\n1. Nf3 Nf6 *\n')
    assert report.rejected == {reason: 1}


@pytest.mark.parametrize("variant", ["Standard", "From Position", "chess"])
def test_standard_chess_by_other_names_is_no_variant(tmp_path: Path, variant: str) -> None:
    _, report = of_text(tmp_path, f'[Event "E"]\n[Variant "{variant}"]\n\n1. e4 e5 *\n')
    assert report.parsed == 1


@pytest.mark.parametrize(
    "movetext",
    [
        "1. e4 e5\n\n2. Nf3 Nc6 3. Bb5 1-0",  # an empty line, where the Rust reader stops
        "1. e4 e5\n \r\n% escape\n\n2. Nf3 Nc6 3. Bb5 1-0",
        "1. e2e4 e7e5 2. g1f3 b8c6 3. f1b5 1-0",
        "1. e4! e5?? $3 2. Nf3!? {c} (2. f4 (2. d4) exf4) 2... Nc6 3 . Bb5 1/2",
        "1.e4 1... e5 2.Nf3 ; a { rest\n2...Nc6 3.Bb5± 1-0",
    ],
)
def test_unusual_notation_is_read_to_the_end(tmp_path: Path, movetext: str) -> None:
    sampled, report = of_text(tmp_path, HEADER + movetext + "\n")
    assert report.rejected == {}
    played = [p.origin.played for p in sampled]
    assert played == ["e2e4", "e7e5", "g1f3", "b8c6", "f1b5"]


def test_promotions_and_captures_without_their_signs(tmp_path: Path) -> None:
    text = '[Event "E"]\n[FEN "1r5k/P7/8/8/8/8/8/K7 w - - 0 1"]\n\n1. ab8Q+ Kg7 *\n'
    sampled, report = of_text(tmp_path, text)
    assert report.rejected == {}
    assert sampled[0].origin.played == "a7b8q"


def test_headers_in_latin1_and_with_escapes(tmp_path: Path) -> None:
    latin = HEADER.replace('"W"', '"Réti"').encode("latin-1") + b"1. Nf3 d5 1-0\n\n"
    utf8 = HEADER.replace('"W"', '"Č \\"x\\" \\\\"').encode() + b"1. c4 e5 1-0\n\n"
    sampled, _ = of_text(tmp_path, latin + utf8)
    assert {p.origin.headers["White"] for p in sampled} == {"Réti", 'Č "x" \\'}


def test_all_of_the_ugly_files_add_up(shared_data: Path) -> None:
    logging.getLogger("chess.pgn").setLevel(logging.CRITICAL)
    folder = shared_data / "pgn" / "ugly"
    sampled, report = positions([folder], SampleOptions(min_ply=0))
    assert report.parsed > 380
    assert {"no moves", "Chess960", "variant Crazyhouse", "variant Antichess", "null move"} <= set(report.rejected)
    for position in sampled:
        data = Path(position.origin.source).read_bytes()[position.origin.offset :][:100_000]
        game = chess.pgn.read_game(io.StringIO(data.decode("latin-1").removeprefix("\xef\xbb\xbf")))
        assert game is not None
        board = game.board()
        for move in position.moves:
            board.push_uci(move)  # raises where the move is not legal
        assert board.fen() == position.fen


def test_games_that_are_rejected_as_illegal_have_errors_in_python_chess_too(shared_data: Path) -> None:
    logging.getLogger("chess.pgn").setLevel(logging.CRITICAL)
    path = shared_data / "pgn" / "ugly" / "immortal_games.pgn"
    _, report = positions([path])
    illegal = [offset for _, offset, why in report.examples if why.startswith("illegal move")]
    assert len(illegal) == 3
    for offset in illegal:
        game = chess.pgn.read_game(io.StringIO(path.read_bytes()[offset:].decode("latin-1")))
        assert game is not None
        assert game.errors
