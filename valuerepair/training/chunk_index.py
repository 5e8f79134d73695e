"""What chunks there are on one side of a mixture: 28 bytes for each game, besides the names of loose files."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.nets.header import INPUT_FORMATS
from valuerepair.training.chunk_files import (
    Archives,
    BrokenChunk,
    ChunkFile,
    digest_of,
    find_archives,
    in_order,
    read_archives,
    unpack,
)

EXAMPLES = 3

Index = NDArray[np.int64]


@dataclass(slots=True)
class LeftOut:
    """Files that are no usable chunks, counted by reason, and the names of the first few."""

    reasons: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def add(self, name: str, reason: str) -> None:
        """Counts one file."""
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{name}: {reason}")

    def __str__(self) -> str:
        return ", ".join(f"{reason} {n:,}" for reason, n in self.reasons.items())


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The usable chunks of some folders in reading order, one element each of the arrays [n].

    `archive`, `offset` and `size` say where the packed chunk lies, `records` how many positions it has, `digest` is
    `digest_of` it. `sha256` is over the SHA-256 of all of them in order: the identity of the input, whatever its
    folders are called.
    """

    given: tuple[str, ...]
    archives: Archives
    archive: NDArray[np.int32]
    offset: Index
    size: NDArray[np.int32]
    records: NDArray[np.int32]
    digest: NDArray[np.uint64]
    input_format: int
    sha256: str
    left_out: LeftOut

    @property
    def games(self) -> int:
        return len(self.archive)

    @property
    def positions(self) -> int:
        return int(self.records.sum(dtype=np.int64))


def read_index(given: Sequence[str], on_bytes: Callable[[int], None] = lambda n: None) -> ChunkIndex:
    """Reads and checks every chunk of some folders or tars once. `on_bytes` hears of packed bytes read.

    Files that are no usable chunks are counted and left out. Raises ValueRepairError when none is left, and when the
    chunks are not all of one input format.
    """
    archives, left_out, sha = find_archives(given), LeftOut(), hashlib.sha256()
    columns = (array("i"), array("q"), array("i"), array("i"), array("Q"))
    first: tuple[int, str] | None = None
    for chunk, seen in in_order(_look, read_archives(archives, left_out.add)):
        on_bytes(len(chunk.content))
        name = name_of(archives, chunk)
        if isinstance(seen, str):
            left_out.add(name, seen)
            continue
        records, input_format, digest, own = seen
        if first is None:
            first = (input_format, name)
        elif input_format != first[0]:
            one, other = (INPUT_FORMATS.get(n, f"unknown, {n}") for n in (first[0], input_format))
            raise ValueRepairError(
                f"{first[1]} has input format {one}, {name} has {other}: a net is trained on one; mix them separately"
            )
        sha.update(own)
        for column, value in zip(
            columns, (chunk.archive, chunk.offset, len(chunk.content), records, digest), strict=True
        ):
            column.append(value)
    if first is None:
        raise ValueRepairError(f"{', '.join(given)}: no usable chunk: {left_out or 'the archives are empty'}")
    return ChunkIndex(
        tuple(given),
        archives,
        archive=np.array(columns[0], np.int32),
        offset=np.array(columns[1], np.int64),
        size=np.array(columns[2], np.int32),
        records=np.array(columns[3], np.int32),
        digest=np.array(columns[4], np.uint64),
        input_format=first[0],
        sha256=sha.hexdigest(),
        left_out=left_out,
    )


def name_of(archives: Archives, chunk: ChunkFile) -> str:
    """For messages: the file's name, and the member's in a tar."""
    name = archives.names[chunk.archive]
    return f"{name}: {chunk.name}" if chunk.name else name


def _look(chunk: ChunkFile) -> tuple[int, int, int, bytes] | str:
    """Records, input format, digest and SHA-256 of a chunk, or why it cannot be used."""
    try:
        records = unpack(chunk.content)
    except BrokenChunk as reason:
        return str(reason)
    own = hashlib.sha256(chunk.content).digest()
    return len(records), int(records["input_format"][0]), digest_of(chunk.content), own
