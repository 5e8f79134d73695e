"""Inputs to begin with that several targets share, and bytes as a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import zstandard

ROOT = Path(__file__).parents[2]
GAMES = ROOT / "data" / "games.pgn.zst"


_I64 = 1 << 63


def fits_columns(*numbers: int | None) -> bool:
    """Whether SQLite's columns hold these numbers."""
    return all(number is None or -_I64 <= number < _I64 for number in numbers)


@contextmanager
def file_of(data: bytes, name: str) -> Iterator[str]:
    """A file with this content, in memory where the machine has such a folder."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        yield path


@cache
def games() -> tuple[bytes, ...]:
    """Our own games, as text."""
    text = zstandard.ZstdDecompressor().stream_reader(GAMES.read_bytes(), read_across_frames=True).read()
    return tuple(b"[Event " + one for one in text.split(b"[Event ")[1:])
