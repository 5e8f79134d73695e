"""Speed of reading archives: sampled positions against python-chess."""

from __future__ import annotations

import io

import chess.pgn

from benchmarks.comparison import BenchData, Comparison, compare
from valuerepair.archives.open import Stream, find_sources
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample

THREADS = 2
SLICE_GAMES = 600  # python-chess reads these; its rate does not depend on how many there are
SLICE_BYTES = 1 << 20


def games_against_python_chess(data: BenchData) -> Comparison:
    """Games read, one position drawn of each, with FEN, history and headers, against python-chess reading games."""
    text = _beginning(data.archive)

    def ours() -> float:
        return _read(data.archive, SampleOptions(threads=THREADS)).parsed

    def theirs() -> float:
        stream, games = io.StringIO(text), 0
        while games < SLICE_GAMES and chess.pgn.read_game(stream) is not None:
            games += 1
        return games

    return compare("archive-sample", "games", "python-chess", ours, theirs, target=40)


def _read(path: str, options: SampleOptions) -> ReadReport:
    report = ReadReport()
    for _ in sample([path], options, report):
        pass
    return report


def _beginning(path: str) -> str:
    """The first megabyte of the games, decompressed."""
    buffer = bytearray(SLICE_BYTES)
    with Stream(find_sources([path])[0]) as stream:
        count = stream.read_into(memoryview(buffer))
    return bytes(buffer[:count]).decode("utf-8", "replace")
