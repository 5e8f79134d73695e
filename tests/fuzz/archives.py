"""Fuzzed: archives of games, positions, evaluations and training chunks; python-chess checks what is read of them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import BytesIO
from typing import Any

import chess
import zstandard

from tests.fuzz.inputs import file_of, fits_columns, games
from tests.v6_records import positions_of, records_of
from valuerepair.archives.options import RecordedOptions, SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import Position
from valuerepair.errors import ValueRepairError


def pgn_seeds() -> list[bytes]:
    """Stretches of our own games, with evaluations in their comments as three programs write them."""
    own = games()
    plain = [b"".join(own[i : i + 3]) for i in range(0, 60, 3)]
    moves = (
        b"1. e4 {[%eval 0.25,12]} e5 {[%eval #-3]} 2. Nf3 {+0.25/12 1.2s} Nc6 {d=9, sd=12, n=100, wv=0.43, mt=3} *\n"
    )
    start = b'[FEN "4k3/8/8/8/8/8/4P3/4K2R w K - 0 30"]\n[SetUp "1"]\n\n30. O-O {-M6/64 0.16s} Kd8 (30... Kf8 $1) 1-0\n'
    return [*plain, b'[Event "a"]\n[WhiteElo "2400"]\n\n' + moves, b'[Event "b"]\n' + start]


def read_archive(data: bytes, name: str, **options: Any) -> tuple[list[Position], ReadReport]:
    """Samples a file of this content and name; what a file without games raises counts as nothing found."""
    report, found = ReadReport(), []
    with file_of(data, name) as path, suppress(ValueRepairError):
        chosen = SampleOptions(**{"min_ply": 0, "per_game": None, "threads": 1, **options})
        for batch in sample([path], chosen, report):
            found += list(batch)
        assert report.adds_up, report.lines()
    check_positions(found)
    return found, report


def check_positions(found: Sequence[Position]) -> None:
    """Every position is the one that python-chess reaches by its moves, legal, and fits the store's columns."""
    boards: dict[tuple[str, tuple[str, ...]], chess.Board] = {}
    for position in found:
        before = boards.get((position.start_fen, position.moves[:-1])) if position.moves else None
        board = before.copy(stack=False) if before is not None else chess.Board(position.start_fen)
        for move in position.moves[-1:] if before is not None else position.moves:
            board.push(legal(board, move))
        boards[position.start_fen, position.moves] = board
        reached, said = board.fen().split(), position.fen.split()
        # A side that can be told only by the position before (checkers that no move can give) is python-chess's own.
        assert said[:4] == reached[:4], f"{position.fen} is {board.fen()}"
        if position.origin.played is not None:
            legal(board, position.origin.played)
        if (recorded := position.origin.recorded) is not None:
            scores, effort = (recorded.cp, recorded.mate), (recorded.depth, recorded.seldepth)
            assert fits_columns(*scores, *effort, recorded.nodes, recorded.time_ms), recorded


def legal(board: chess.Board, text: str) -> chess.Move:
    """That move, which must be a legal one."""
    move = chess.Move.from_uci(text)
    assert move in board.legal_moves, f"{text} in {board.fen()}"
    return move


def run_pgn(data: bytes) -> None:
    """The splitter, the census, the Rust reader behind them, filters, and the evaluations in comments."""
    read_archive(data, "a.pgn")
    read_archive(data, "a.pgn", per_game=2, quiet=True, min_elo=1000, time_control="blitz,180+2", result="decisive")
    for kind in ("eval", "cutechess", "tcec"):
        read_archive(data, "a.pgn", recorded=RecordedOptions(kind))


def epd_seeds() -> list[bytes]:
    lines = [
        b'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - bm e4; id "start"; ce 25; acd 12; acn 1000; acs 3;\n',
        b"r3k2r/8/8/3pP3/8/8/8/R3K2R w KQkq d6 0 12\n",
        b"# a comment\n8/8/8/8/8/5k2/6q1/7K w - - 12 40 dm -3; bm #2;\n",
        b"4k3/P7/8/8/8/8/8/4K3 b - - 99 120; ce -12000\n",
        b'rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - ce 32766; c3 "position startpos moves e2e4 e7e5";\n',
        b'8/4k3/8/8/8/8/8/5RK1 w - - bm Rf3; ce 9; c3 "position fen 4k3/8/8/8/8/8/8/4K2R w K - 0 1 moves e1g1 e8e7";\n',
    ]
    return [b"".join(lines), b"".join(lines[::-1]), *lines]


def run_epd(data: bytes) -> None:
    """EPD and FEN lines and their opcodes. What is taken is legal to python-chess too."""
    for kind in (None, "epd"):
        found, _ = read_archive(data, "a.epd", recorded=kind and RecordedOptions(kind))
        for position in found:
            status = chess.Board(position.fen).status() & ~chess.STATUS_TOO_MANY_CHECKERS & ~_LENIENT
            assert status == chess.STATUS_VALID, f"{position.fen}: {status!r}"


# Positions that no game reaches but every engine plays: both readers say more of them than lc0 does.
_LENIENT = (
    chess.STATUS_TOO_MANY_WHITE_PAWNS
    | chess.STATUS_TOO_MANY_BLACK_PAWNS
    | chess.STATUS_TOO_MANY_WHITE_PIECES
    | chess.STATUS_TOO_MANY_BLACK_PIECES
    | chess.STATUS_IMPOSSIBLE_CHECK
)


def dump_seeds() -> list[bytes]:
    entries = [
        {
            "fen": "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq -",
            "evals": [
                {"pvs": [{"cp": 31, "line": "e7e5 g1f3"}, {"cp": 20, "line": "c7c5"}], "knodes": 900, "depth": 30}
            ],
        },
        {
            "fen": "r3k2r/8/8/8/8/8/8/R3K2R w KQkq -",
            "evals": [
                {"pvs": [{"mate": 5, "line": "e1h1 e8a8"}], "knodes": 7, "depth": 9},
                {"pvs": [{"cp": -3, "line": "a1a8"}], "knodes": 8, "depth": 12},
            ],
        },
    ]
    lines = [json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in entries]
    return [b"".join(lines) * 2, json.dumps(entries[0]).encode() + b"\n" + lines[1], *lines]


def run_dump(data: bytes) -> None:
    """lichess's evaluation dump."""
    read_archive(data, "a.jsonl")
    read_archive(data, "a.jsonl", recorded=RecordedOptions("dump"))
    read_archive(data, "a.jsonl", recorded=RecordedOptions("dump", min_depth=10, min_nodes=8000))


@cache
def chunk_records() -> tuple[bytes, ...]:
    """The records of two short games, in a standard and a canonical input format."""
    first = ["e2e4", "c7c5", "g1f3", "d7d6", "d2d4", "c5d4", "f3d4", "g8f6"]
    second = ["d2d4", "d7d5", "c2c4", "d5c4", "e2e3", "b7b5", "a2a4", "c7c6", "a4b5", "c6b5", "d1f3"]
    made = [records_of(positions_of(m), m, form) for m, form in ((first, 1), (second, 1), (first, 3), (second, 5))]
    return tuple(records.tobytes() for records in made)


def chunk_seeds() -> list[bytes]:
    return list(chunk_records())


def run_chunk(data: bytes) -> None:
    """Training records, which may be damaged inside a whole gzip stream."""
    read_archive(gzip.compress(data, 1), "game_000001.gz")
    read_archive(data, "training.1.gz", recorded=RecordedOptions("chunks"))


def packed_seeds() -> list[bytes]:
    """Chunks in a tar, as files of their own, and games packed in each way."""
    held = BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for i, content in enumerate(chunk_records()[:2]):
            info = tarfile.TarInfo(f"game_{i}.gz" if i else "long" * 40 + "/game_1.gz")
            packed = gzip.compress(content)
            info.size = len(packed)
            tar.addfile(info, BytesIO(packed))
    text = b"".join(games()[:4])
    level = zstandard.ZstdCompressor(level=3)
    one = gzip.compress(chunk_records()[0])
    return [held.getvalue(), one, gzip.compress(text), bz2.compress(text), lzma.compress(text), level.compress(text)]


def run_packed(data: bytes) -> None:
    """Tar archives and compressed streams: outlines, members, checksums."""
    read_archive(data, "a.tar")
    read_archive(data, "a.pgn.zst")
    read_archive(data, "training.1.gz")
