"""Training chunks as they lie in folders and tars: found in a fixed order, checked, counted, read again at random.

A chunk is one game: a gzip stream of records of version 6 (`valuerepair.chess.v6`). Only plain tars are taken, since
chunks are later read in another order than they lie in.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from io import FileIO
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.open import COMPRESSIONS, TarError, bare_name, chunk_version, members
from valuerepair.chess import v6
from valuerepair.cores import usable_cores
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import open_regular
from valuerepair.nets.weights import INPUT_FORMAT_NAMES

MAX_PACKED = 1 << 24  # bytes of a packed chunk
MAX_RECORDS = 8192  # of one game; lc0 ends one at ply 450
_OPEN_TARS = 64
_AHEAD = 8  # chunks in flight for each thread that unpacks

Records = NDArray[np.void]  # [n] of v6.RECORD
T = TypeVar("T")
Made = TypeVar("Made")


class BrokenChunk(ValueError):
    """A file that is no usable chunk; the message says why in few words, the same for all of a kind."""


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """A packed chunk. `archive` is a number in its `Archives`; `name` is that of a tar's member."""

    archive: int
    name: str
    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Archives:
    """Files that hold chunks, in reading order: `paths` as they are opened, `names` relative to what was given."""

    paths: list[str]
    names: list[str]

    def is_tar(self, archive: int) -> bool:
        """Whether it holds many chunks; else it is one."""
        return self.paths[archive].lower().endswith(".tar")

    def total_bytes(self) -> int:
        """On disk, for progress."""
        return sum(os.path.getsize(path) for path in self.paths)


def find_archives(given: Sequence[str]) -> Archives:
    """The ``.gz`` and ``.tar`` files in folders, searched recursively in sorted order, or such files themselves.

    Raises UsageError for what is not there, and ValueRepairError for packed tars and where there is nothing to read.
    """
    found = Archives([], [])
    for path in given:
        if os.path.isdir(path):
            before = len(found.paths)
            for name in _inside(path, ""):
                _add(found, os.path.join(path, name), name)
            if len(found.paths) == before:
                raise ValueRepairError(f"{path}: no chunks (.gz) and no .tar files in this folder")
        elif os.path.exists(path):
            _add(found, path, os.path.basename(path))
        else:
            raise UsageError(f"{path}: no such file or folder")
    return found


def _inside(root: str, below: str) -> Iterator[str]:
    """Names relative to `root`, sorted folder by folder; hidden ones are none of ours, as for lc0's loader."""
    with os.scandir(os.path.join(root, below)) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        name = os.path.join(below, entry.name)
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _inside(root, name)
        elif bare_name(entry.name).endswith(".tar") or entry.name.lower().endswith(".gz"):
            yield name


def _add(found: Archives, path: str, name: str) -> None:
    lowered = path.lower()
    if bare_name(path).endswith(".tar") and not lowered.endswith(".tar"):
        raise ValueRepairError(f"{path}: a packed tar cannot be read in any order; unpack it (its chunks are packed)")
    if not lowered.endswith((".tar", *COMPRESSIONS)):
        raise UsageError(f"{path}: a chunk's name ends in .gz, an archive's in .tar")
    found.paths.append(path)
    found.names.append(name)


def read_archives(archives: Archives, broken: Callable[[str, str], None]) -> Iterator[ChunkFile]:
    """All chunk files in order, packed. `broken(name, reason)` hears of tars that break off."""
    for number, path in enumerate(archives.paths):
        if not archives.is_tar(number):
            with open_regular(path) as file:
                yield ChunkFile(number, "", 0, file.read(MAX_PACKED + 1))
            continue
        with open_regular(path) as file:
            try:
                for member in members(file.read, MAX_PACKED + 1):
                    if os.path.basename(member.name) != "LICENSE":  # lc0's archives carry it along
                        yield ChunkFile(number, member.name, member.offset, member.content)
            except TarError as error:
                broken(archives.names[number], str(error))


class RandomReader:
    """Reads chunks again by archive, offset and size; keeps the last tars open."""

    def __init__(self, archives: Archives) -> None:
        self._archives = archives
        self._open: OrderedDict[int, FileIO] = OrderedDict()

    def read(self, archive: int, offset: int, size: int) -> bytes:
        """The packed chunk; shorter where the file has shrunk."""
        if not self._archives.is_tar(archive):
            with open(self._archives.paths[archive], "rb") as file:
                return file.read(size)
        if archive not in self._open:
            if len(self._open) >= _OPEN_TARS:
                self._open.popitem(last=False)[1].close()
            self._open[archive] = FileIO(self._archives.paths[archive])
        self._open.move_to_end(archive)
        self._open[archive].seek(offset)
        return self._open[archive].read(size)

    def close(self) -> None:
        """Closes all tars."""
        while self._open:
            self._open.popitem()[1].close()


# -- content ----------------------------------------------------------------------------------------------------------


def digest_of(content: bytes) -> int:
    """64 bits of BLAKE2b of a packed chunk: its name in all seeded choices, wherever it lies."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def unpack(content: bytes) -> Records:
    """The records of a packed chunk, all of one input format. Raises BrokenChunk."""
    if len(content) > MAX_PACKED:
        raise BrokenChunk("longer than a game")
    if content[:2] != b"\x1f\x8b":
        raise BrokenChunk("not packed with gzip" if chunk_version(content[:8]) else "no training chunk")
    member = zlib.decompressobj(wbits=31)
    most = MAX_RECORDS * v6.RECORD.itemsize
    try:
        data = member.decompress(content, most + 1)
    except zlib.error:
        raise BrokenChunk("damaged gzip stream") from None
    version = chunk_version(data[:8])
    if version != v6.VERSION:
        raise BrokenChunk(f"training data of version {version}" if version else "no training chunk")
    if len(data) > most:
        raise BrokenChunk("longer than a game")
    if not member.eof:
        raise BrokenChunk("cut off")
    if member.unused_data.strip(b"\0"):
        raise BrokenChunk("bytes behind its end")
    if len(data) % v6.RECORD.itemsize:
        raise BrokenChunk("not a whole number of records")
    records = np.frombuffer(data, v6.RECORD)
    if (records["version"] != v6.VERSION).any() or (records["input_format"] != records["input_format"][0]).any():
        raise BrokenChunk("damaged records")
    return records


def pack(records: Records) -> bytes:
    """A chunk of these records, the same bytes at any time."""
    return gzip.compress(records.tobytes(), 6, mtime=0)


def in_order(work: Callable[[T], Made], items: Iterable[T]) -> Generator[tuple[T, Made], None, None]:
    """Each item with what `work` makes of it, in order, on all cores (unpacking leaves Python's lock alone)."""
    cores = usable_cores()
    waiting: deque[tuple[T, Future[Made]]] = deque()
    with ThreadPoolExecutor(cores) as pool:
        try:
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) >= _AHEAD * cores:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


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
            one, other = (INPUT_FORMAT_NAMES.get(n, f"unknown, {n}") for n in (first[0], input_format))
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
