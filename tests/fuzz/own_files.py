"""Fuzzed: books, stores, the headers of nets, and positions as users type them."""

from __future__ import annotations

import gzip
from contextlib import suppress

import chess

from tests.fuzz.archives import epd_seeds, legal
from tests.fuzz.inputs import ROOT, file_of, games
from valuerepair.errors import ValueRepairError

SAMPLE = ROOT / "data" / "sample.db"


def book_seeds() -> list[bytes]:
    pgn = (
        b'[Event "a"]\n[FEN "4k3/P7/8/8/8/8/8/4K2R w K - 0 30"]\n\n1. a8=Q+ {a comment} Kd7 2. O-O *\n\n'
        b"1. e4 e5 2. Nf3 Nc6 1/2-1/2\n\n"
    )
    return [pgn, games()[0], b"".join(epd_seeds()[:1]), b"4k3/8/8/8/8/8/8/4K2R w K -\n"]


def run_book(data: bytes) -> None:
    """The reader of books, of both kinds, packed and not."""
    from valuerepair.books.check import Entry, read_book

    for name in ("book.pgn", "book.epd"):
        entries: list[Entry] = []
        with file_of(data, name) as path, suppress(ValueRepairError):
            entries = [entry for entry in read_book(path) if entry.fen]
        for entry in entries:
            board = chess.Board(entry.start_fen)
            for move in entry.moves:
                board.push(legal(board, move))
            assert board.fen().split()[:3] == entry.fen.split()[:3]
    with file_of(gzip.compress(data)[: max(len(data) // 2, 30)], "book.pgn.gz") as path, suppress(ValueRepairError):
        read_book(path)


def header_seeds() -> list[bytes]:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    layout = bytes([1 << 3, 1, 3 << 3, 4, 4 << 3, 2, 5 << 3, 2, 6 << 3, 1])
    block = field(1, field(3, b"\x00\x01" * 8))
    net = b"\x0d\xc0\x01\x00\x00" + field(3, bytes([1 << 3, 0, 2 << 3, 26])) + field(4, field(2, layout))
    net += field(5, bytes([1 << 3, 100])) + field(10, block + field(2, b"\x0a\x00") * 3)
    return [net, gzip.compress(net)]


def run_header(data: bytes) -> None:
    """The header of a net. Bytes that are none are refused with ValueError, which the reader of nets expects."""
    from valuerepair.nets.weights import read_header, unpack

    with suppress(ValueError):
        read_header(unpack(data))


def position_seeds() -> list[bytes]:
    return [
        b"startpos moves e2e4 e7e5 g1f3",
        b"position fen 4k3/P7/8/8/8/8/8/4K2R w K - 0 30 moves a7a8q e8d7 e1g1\n8/8/8/8/8/5k2/6q1/7K w - - 12 40",
        b'8/4k3/8/8/8/8/8/5RK1 w - - hmvc 3; fmvn 9; c3 "history fen 4k3/8/8/8/8/8/8/4K2R w K - 0 1: e1g1 e8e7";',
        b"r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - moves 0000 Bb5 a6 -- Z0",
    ]


def run_position(data: bytes) -> None:
    """A position as text and as a file of lines; python-chess reaches the same by its moves."""
    from valuerepair.chess.position_text import read_position, read_positions

    with suppress(ValueError):
        position = read_position(data.decode("utf-8", "replace"))
        board = chess.Board(position.start_fen)
        for move in position.moves:
            assert chess.Move.from_uci(move) in board.legal_moves, move
            board.push_uci(move)
        assert board.fen() == position.fen
    with file_of(data, "a.epd") as path, suppress(ValueRepairError):
        list(read_positions(path))
