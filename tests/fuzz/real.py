"""Fuzzed: real archives, which lie in VALUEREPAIR_TEST_DATA and are no part of the project."""

from __future__ import annotations

import gzip
from io import BytesIO
from pathlib import Path

import zstandard

from tests.fuzz.archives import run_epd, run_pgn
from tests.fuzz.mutate import TEXT
from tests.fuzz.run import Mutating

_FIRST = 2 << 20  # bytes of an archive that are looked at
_MOST = 20_000  # bytes of a seed: a mutant is read five times
_STRETCHES = 16  # of a large archive


def real_archives(folder: Path) -> Mutating:
    """Mutants of the games of all PGN files below `folder`, large and small, as programs and people wrote them."""
    seeds = [seed for path in sorted(folder.rglob("*.pgn*")) for seed in _stretches(_beginning(path))]
    return Mutating("real", seeds, run_pgn, TEXT)


def real_suites(folder: Path) -> Mutating:
    """Mutants of the positions of all EPD files below `folder`."""
    lines = [path.read_bytes().splitlines(keepends=True) for path in sorted(folder.rglob("*.epd"))]
    seeds = [
        b"".join(suite[i : i + 5]) for suite in lines for i in range(0, len(suite), max(5, len(suite) // _STRETCHES))
    ]
    return Mutating("suites", seeds, run_epd, TEXT)


def _beginning(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=BytesIO(content)).read(_FIRST)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(content).read(_FIRST)
    return content[:_FIRST]


def _stretches(text: bytes) -> list[bytes]:
    """The whole text if it is short, else three games at each of several places."""
    if len(text) <= _MOST:
        return [text]
    head, *games = text.split(b"[Event ")
    starts = range(0, len(games), -(-len(games) // _STRETCHES))
    return [b"".join(b"[Event " + game for game in games[i : i + 3])[:_MOST] for i in starts] or [head[:_MOST]]
