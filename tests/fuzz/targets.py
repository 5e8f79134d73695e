"""What is fuzzed: for each parser of foreign bytes, inputs to begin with and a function that takes any bytes.

A target returns when the bytes were read or refused with a ValueRepairError (or the error its doc names), and raises
anything else: that is a fault. Results are checked against python-chess where it reads the same.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path

import chess
import click
import zstandard

from tests.fuzz.mutate import BINARY, TEXT
from tests.v6_records import positions_of, records_of
from valuerepair.archives import ReadReport, SampleOptions, sample
from valuerepair.archives.recorded_options import RecordedOptions
from valuerepair.errors import ValueRepairError
from valuerepair.positions import Position

ROOT = Path(__file__).parents[2]
GAMES = ROOT / "data" / "games.pgn.zst"
SAMPLE = ROOT / "data" / "sample.db"
_I64 = 1 << 63


@dataclass(frozen=True)
class Target:
    """`seeds` makes the inputs to begin with; `text` says that they are text, and damaged as such."""

    seeds: Callable[[], Sequence[bytes]]
    run: Callable[[bytes], object]
    text: bool

    @property
    def damage(self) -> Sequence[Callable[..., bytes]]:
        return TEXT if self.text else BINARY


@contextmanager
def file_of(data: bytes, name: str) -> Iterator[str]:
    """A file with this content, in memory where the machine has such a folder."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        yield path


# -- archives ---------------------------------------------------------------------------------------------------------


@cache
def games() -> tuple[bytes, ...]:
    """Our own games, as text."""
    text = zstandard.ZstdDecompressor().stream_reader(GAMES.read_bytes(), read_across_frames=True).read()
    return tuple(b"[Event " + one for one in text.split(b"[Event ")[1:])


def pgn_seeds() -> list[bytes]:
    """Stretches of our own games, with evaluations in their comments as three programs write them."""
    own = games()
    plain = [b"".join(own[i : i + 3]) for i in range(0, 60, 3)]
    moves = (
        b"1. e4 {[%eval 0.25,12]} e5 {[%eval #-3]} 2. Nf3 {+0.25/12 1.2s} Nc6 {d=9, sd=12, n=100, wv=0.43, mt=3} *\n"
    )
    start = b'[FEN "4k3/8/8/8/8/8/4P3/4K2R w K - 0 30"]\n[SetUp "1"]\n\n30. O-O {-M6/64 0.16s} Kd8 (30... Kf8 $1) 1-0\n'
    return [*plain, b'[Event "a"]\n[WhiteElo "2400"]\n\n' + moves, b'[Event "b"]\n' + start]


def read_archive(data: bytes, name: str, **options: object) -> tuple[list[Position], ReadReport]:
    """Samples a file of this content and name; what a file without games raises counts as nothing found."""
    report, found = ReadReport(), []
    with file_of(data, name) as path, suppress(ValueRepairError):
        chosen = SampleOptions(**{"min_ply": 0, "per_game": None, "threads": 1, **options})  # type: ignore[arg-type]  # by name
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
            board.push(_legal(board, move))
        boards[position.start_fen, position.moves] = board
        reached, said = board.fen().split(), position.fen.split()
        # A side that can be told only by the position before (checkers that no move can give) is python-chess's own.
        assert said[:4] == reached[:4], f"{position.fen} is {board.fen()}"
        if position.origin.played is not None:
            _legal(board, position.origin.played)
        if (recorded := position.origin.recorded) is not None:
            numbers = (recorded.cp, recorded.mate, recorded.depth, recorded.seldepth, recorded.nodes, recorded.time_ms)
            assert all(number is None or -_I64 <= number < _I64 for number in numbers), recorded


def _legal(board: chess.Board, text: str) -> chess.Move:
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


# -- engines ----------------------------------------------------------------------------------------------------------


def engine_seeds() -> list[bytes]:
    return [
        b"id name Fake 1\noption name Hash type spin default 16 min 1 max 33554432\n"
        b"option name Style type combo default solid var solid var very wild\nuciok\nreadyok\n",
        b"info depth 12 seldepth 20 multipv 1 score cp 31 wdl 300 400 300 nodes 1000 nps 9 time 5 pv e2e4 e7e5\n"
        b"info depth 13 score cp 29 lowerbound nodes 2000\ninfo string bestmove h1h8\nbestmove e2e4 ponder e7e5\n",
        b"info depth 3 score mate -2 nodes 77 pv e7e8q\ninfo nodes 99 time 1\nbestmove (none)\n",
    ]


def run_engine(data: bytes) -> None:
    """What an engine says. A report may be refused with ValueError, which the engine's keeper expects."""
    from valuerepair.engines.info import SearchReader
    from valuerepair.engines.uci import parse_option

    reader = SearchReader()
    lines = data.decode("utf-8", "replace").split("\n")
    for line in lines:
        option = parse_option(line)
        if option is not None:
            option.problem("5")
            option.problem(line)
        reader.take(line)
    for line in lines[-3:]:
        with suppress(ValueError):
            report = reader.report(line, 1)
            numbers = (report.cp, report.mate, report.depth, report.seldepth, report.nodes, report.time_ms)
            assert all(number is None or -_I64 <= number < _I64 for number in numbers), report


def server_seeds() -> list[bytes]:
    return [
        b"uci\nisready\nucinewgame\nposition startpos moves e2e4 e7e5\ngo nodes 8\n",
        b"setoption name MinibatchSize value 4\nposition fen 6k1/5ppp/8/8/8/8/8/R6K w - - 0 1\n"
        b"go depth 2 searchmoves a1a8\n",
        b"setoption name MultiPV value 3\ngo wtime 10 btime 10 winc 1 binc 1 movestogo 3\nstop\nponderhit\n",
        b"go movetime 3\nsetoption name CPuct value 2.5\ndebug on\ngo mate 1\n",
    ]


def run_server(data: bytes) -> None:
    """Our own UCI server: every `go` is answered by one `bestmove`. Searches are small."""
    from tests.uci_fake_net import open_material_net
    from valuerepair.mcts.uci.server import UciServer

    lines = [line for line in data.decode("utf-8", "replace").splitlines() if not _too_long(line)][:12]
    going = sum(line.split()[:1] == ["go"] for line in lines)
    if any(line.split()[:1] == ["quit"] for line in lines):
        return
    said: list[str] = []
    UciServer(open_material_net, said.append).run(iter([*lines, "stop"]))
    assert sum(line.startswith("bestmove ") for line in said) == going, (lines, said)
    assert not any("\n" in line or _UNFORESEEN.match(line) for line in said), said


def _too_long(line: str) -> bool:
    """A legal wish for a long search or much memory is no fault."""
    words = line.split()
    asks_much = words[:1] == ["go"] and any(len(word) > 2 and word.isdecimal() for word in words)
    return asks_much or (words[:1] == ["setoption"] and any(word.lower() in _COSTLY for word in words))


# What the server says of an exception that is no ValueRepairError.
_UNFORESEEN = re.compile(r"info string error: [A-Z]\w*(?:Error|Exception|Interrupt)\b")
_COSTLY = ("hash", "threads", "weights", "device", "weightsfile", "syzygypath", "moveoverhead", "nodespermove")


# -- files of our own and of lc0 --------------------------------------------------------------------------------------


def book_seeds() -> list[bytes]:
    pgn = (
        b'[Event "a"]\n[FEN "4k3/P7/8/8/8/8/8/4K2R w K - 0 30"]\n\n1. a8=Q+ {a comment} Kd7 2. O-O *\n\n'
        b"1. e4 e5 2. Nf3 Nc6 1/2-1/2\n\n"
    )
    return [pgn, games()[0], b"".join(epd_seeds()[:1]), b"4k3/8/8/8/8/8/8/4K2R w K -\n"]


def run_book(data: bytes) -> None:
    """The book checker, and lc0's reader as rebuilt, of both kinds, packed and not."""
    from valuerepair.books.check import BookCheck

    for name in ("book.pgn", "book.epd"):
        entries: list[tuple[str, tuple[str, ...], str]] = []
        with file_of(data, name) as path, suppress(ValueRepairError):
            list(BookCheck(path, lambda entry, found=entries: found.append((entry.start_fen, entry.moves, entry.fen))))  # type: ignore[misc]  # a default holds the list
        for start, moves, fen in entries:
            board = chess.Board(start)
            for move in moves:
                board.push(_legal(board, move))
            assert board.fen().split()[:3] == fen.split()[:3]
    with file_of(gzip.compress(data)[: max(len(data) // 2, 30)], "book.pgn.gz") as path, suppress(ValueRepairError):
        list(BookCheck(path))


def store_seeds() -> list[bytes]:
    """A small store of ten positions, and the pages of its beginning."""
    with tempfile.TemporaryDirectory() as folder:
        small = os.path.join(folder, "small.db")
        with sqlite3.connect(f"file:{SAMPLE}?mode=ro", uri=True) as whole, sqlite3.connect(small) as target:
            whole.backup(target)
        target.close()
        whole.close()
        with sqlite3.connect(small) as store:
            store.execute("PRAGMA foreign_keys = OFF")
            kept = "(SELECT id FROM positions ORDER BY id LIMIT 10)"
            for (table,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
                if "position_id" in columns:
                    store.execute(f"DELETE FROM {table} WHERE position_id NOT IN {kept}")
            store.execute("PRAGMA journal_mode = DELETE")
        store.execute("VACUUM")
        store.close()
        data = Path(small).read_bytes()
    return [data, data[:8192]]


def run_store(data: bytes) -> None:
    """Opening a store, its tables as frames, its statistics. SQLite's own complaints come as ValueRepairError."""
    from valuerepair.store import Store

    with file_of(data, "a.db") as path:
        for write in (False, True):
            with suppress(ValueRepairError), Store.open(path, write=write) as store:
                store.frame()
                store.candidates(0.5)


def config_seeds() -> list[bytes]:
    return [
        b'[defaults]\ndb = "own.db"\nquiet = true\n[stats]\nthreshold = 0.7\njson = true\n[nets.list]\njson = false\n',
        b'[mine]\narchives = "a"\nnet = "maia"\nalpha = 170\n'
        b'per-game = 3\n"deep" = "stockfish:nodes=10"\n[fit]\nalpha=[1, 2]\n',
    ]


@cache
def all_commands() -> dict[str, click.Command]:
    from valuerepair.cli import cli

    context = click.Context(cli)
    return {name: cli.get_command(context, name) or cli for name in cli.list_commands(context)}


def run_config(data: bytes) -> None:
    """A configuration file, and every option in it for every command."""
    from valuerepair.cli.config_file import find

    with file_of(data, "valuerepair.toml") as path, suppress(ValueRepairError):
        commands = all_commands()
        config = find(path, commands)
        assert config is not None
        config.check_defaults(commands.values())
        for name, command in commands.items():
            config.of(command, name)


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
    from valuerepair.nets.header import read_header, unpack

    with suppress(ValueError):
        read_header(unpack(data))


TARGETS: dict[str, Target] = {
    "pgn": Target(pgn_seeds, run_pgn, text=True),
    "epd": Target(epd_seeds, run_epd, text=True),
    "dump": Target(dump_seeds, run_dump, text=True),
    "chunk": Target(chunk_seeds, run_chunk, text=False),
    "packed": Target(packed_seeds, run_packed, text=False),
    "engine": Target(engine_seeds, run_engine, text=True),
    "server": Target(server_seeds, run_server, text=True),
    "book": Target(book_seeds, run_book, text=True),
    "store": Target(store_seeds, run_store, text=False),
    "config": Target(config_seeds, run_config, text=True),
    "header": Target(header_seeds, run_header, text=False),
}
