"""What is fuzzed: for each parser of foreign bytes, inputs to begin with and a function that takes any bytes.

A target returns when the bytes were read or refused with a ValueRepairError (or the error its doc names), and raises
anything else: that is a fault. Results are checked against python-chess where it reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.fuzz.archives import (
    chunk_seeds,
    dump_seeds,
    epd_seeds,
    packed_seeds,
    pgn_seeds,
    run_chunk,
    run_dump,
    run_epd,
    run_packed,
    run_pgn,
)
from tests.fuzz.engines import engine_seeds, run_engine, run_server, server_seeds
from tests.fuzz.mutate import BINARY, TEXT
from tests.fuzz.own_files import (
    book_seeds,
    header_seeds,
    position_seeds,
    run_book,
    run_header,
    run_position,
)


@dataclass(frozen=True)
class Target:
    """`seeds` makes the inputs to begin with; `text` says that they are text, and damaged as such."""

    seeds: Callable[[], Sequence[bytes]]
    run: Callable[[bytes], object]
    text: bool

    @property
    def damage(self) -> Sequence[Callable[..., bytes]]:
        return TEXT if self.text else BINARY


TARGETS: dict[str, Target] = {
    "pgn": Target(pgn_seeds, run_pgn, text=True),
    "epd": Target(epd_seeds, run_epd, text=True),
    "dump": Target(dump_seeds, run_dump, text=True),
    "chunk": Target(chunk_seeds, run_chunk, text=False),
    "packed": Target(packed_seeds, run_packed, text=False),
    "engine": Target(engine_seeds, run_engine, text=True),
    "server": Target(server_seeds, run_server, text=True),
    "book": Target(book_seeds, run_book, text=True),
    "header": Target(header_seeds, run_header, text=False),
    "position": Target(position_seeds, run_position, text=True),
}
