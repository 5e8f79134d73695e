"""Finds training chunks in folders and tars in a fixed order, checks and counts them, and reads them in any order.

A chunk is one game: a gzip stream of records of version 6 (`valuerepair.chess.v6`). Tars must not be compressed: chunks
are read again in random order.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import zlib
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from io import FileIO
from itertools import chain, groupby, islice
from pathlib import Path
from tarfile import LENGTH_NAME
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.chunks import CANONICAL_FORMATS, STANDARD_FORMATS, ChunkRecords, boards_of
from valuerepair.archives.open import (
    COMPRESSIONS,
    MAX_PACKED,
    MAX_RECORDS,
    TarError,
    bare_name,
    chunk_version,
    counts_as_chunk,
    files_in,
    members,
)
from valuerepair.arrays import Flags
from valuerepair.chess import v6
from valuerepair.chess.rows import Index, Keys
from valuerepair.chess.v6 import Records
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.devices import usable_cores
from valuerepair.nets.weights import INPUT_FORMAT_NAMES
from valuerepair.training.chunk_output import UNFINISHED, TarShard

log = logging.getLogger(__name__)

READABLE_FORMATS = (*STANDARD_FORMATS, *CANONICAL_FORMATS)
HELD_OUT = "held out by the split"
NO_CHUNK = "no training chunk"
_HOW_TO_MAKE = "; vr chunks makes chunks of games"
_WITH_HELD_OUT = "with a held-out position"
_OPEN_TARS = 64
_AHEAD = 8  # items that wait for each working thread
_AT_ONCE = 16  # chunks that are decoded together

T = TypeVar("T")
Result = TypeVar("Result")
_Facts: TypeAlias = tuple[int, int, int, bytes]


class BrokenChunk(ValueError):
    """A file is not a usable chunk; the message is a short reason, by which these files are counted."""


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """A compressed chunk. `archive` is its index in `Archives`; `name` is the name in a tar, else empty."""

    archive: int
    name: str
    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Archives:
    """The files that hold chunks, in reading order: `paths` to open, `names` relative to the folders of the user."""

    paths: list[str]
    names: list[str]

    def is_tar(self, archive: int) -> bool:
        """Whether the file is a tar of chunks; otherwise it is one chunk."""
        return self.paths[archive].lower().endswith(".tar")

    def total_bytes(self) -> int:
        """The size of all files, for progress."""
        return sum(os.path.getsize(path) for path in self.paths)


def find_archives(inputs: Sequence[str]) -> Archives:
    """The ``.gz`` and ``.tar`` files among the inputs and in folders among them, searched recursively in sorted order.

    Raises UsageError for a missing path, and ValueRepairError for a compressed tar, and for a folder that has no such
    files or cannot be read.
    """
    archives = Archives([], [])
    for path in inputs:
        if os.path.isdir(path):
            # Like lc0's loader, without hidden files and folders.
            names = files_in(path, _is_archive)
            for name in names:
                _add(archives, os.path.join(path, name), name)
            if not names:
                raise ValueRepairError(f"{path}: no chunks (.gz) and no .tar files in this folder")
        elif os.path.exists(path):
            _add(archives, path, os.path.basename(path))
        else:
            raise UsageError(f"{path}: no such file or folder")
    return archives


def hold_chunks(inputs: Sequence[str]) -> bool:
    """Whether these files and folders hold training chunks: tars, or chunks by their names or contents.

    If not, they are games or missing. Raises UsageError for chunks among games.
    """
    are_chunks = [
        bool(files_in(path, _is_chunk)) if os.path.isdir(path) else os.path.isfile(path) and _is_chunk(path)
        for path in inputs
    ]
    if any(are_chunks) and not all(are_chunks):
        raise UsageError(
            f"{inputs[are_chunks.index(True)]}: has training chunks, {inputs[are_chunks.index(False)]} has not; give "
            "chunks and games in two commands"
        )
    return any(are_chunks)


def _is_chunk(path: str) -> bool:
    return bare_name(path).endswith(".tar") or counts_as_chunk(path)


def refuse_equal_names(archives: Archives) -> None:
    """Raises UsageError if two files have one name, under which both would be written."""
    for name, count in Counter(archives.names).items():
        if count > 1:
            raise UsageError(f"two of the inputs have a file {name}: give one after the other")


def _is_archive(path: str) -> bool:
    return bare_name(path).endswith(".tar") or path.lower().endswith(".gz")


def _add(archives: Archives, path: str, name: str) -> None:
    """Adds a file. Raises UsageError and ValueRepairError for other files than chunks and plain tars."""
    lowered = path.lower()
    if bare_name(path).endswith(".tar") and not lowered.endswith(".tar"):
        raise ValueRepairError(f"{path}: a compressed tar allows no random access; unpack it (but not its chunks)")
    if not lowered.endswith((".tar", *COMPRESSIONS)):
        raise UsageError(f"{path}: a chunk's name ends in .gz, an archive's in .tar{_HOW_TO_MAKE}")
    archives.paths.append(path)
    archives.names.append(name)


def read_archives(archives: Archives, broken_off: Callable[[str, str], None]) -> Iterator[ChunkFile]:
    """All compressed chunks in order. Calls `broken_off(name, reason)` for a tar that breaks off."""
    for number, path in enumerate(archives.paths):
        if not archives.is_tar(number):
            with open(path, "rb") as file:
                yield ChunkFile(number, "", 0, file.read(MAX_PACKED + 1))
            continue
        with open(path, "rb") as file:
            try:
                for member in members(file.read, MAX_PACKED + 1):
                    if os.path.basename(member.name) != "LICENSE":  # a file in lc0's archives
                        yield ChunkFile(number, member.name, member.offset, member.content)
            except TarError as error:
                broken_off(path, str(error))


class RandomReader:
    """Reads chunks again by archive, offset and size; keeps the most recently used tars open."""

    def __init__(self, archives: Archives) -> None:
        self._archives = archives
        self._open: OrderedDict[int, FileIO] = OrderedDict()

    def read(self, archive: int, offset: int, size: int) -> bytes:
        """The compressed chunk; shorter than `size` if the file has become shorter."""
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
    """64 bits of BLAKE2b of a compressed chunk. Seeded choices depend on them, wherever the chunk is stored."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def unpack(content: bytes) -> Records:
    """The records of a compressed chunk, all of one input format. Raises BrokenChunk."""
    if len(content) > MAX_PACKED:
        raise BrokenChunk("longer than a game")
    if content[:2] != b"\x1f\x8b":
        raise BrokenChunk("not packed with gzip" if chunk_version(content[:8]) else NO_CHUNK)
    member = zlib.decompressobj(wbits=31)
    most = MAX_RECORDS * v6.RECORD.itemsize
    try:
        data = member.decompress(content, most + 1)
    except zlib.error:
        raise BrokenChunk("damaged gzip stream") from None
    version = chunk_version(data[:8])
    if version != v6.VERSION:
        raise BrokenChunk(f"training data of version {version}" if version else NO_CHUNK)
    if len(data) > most:
        raise BrokenChunk("longer than a game")
    if not member.eof:
        raise BrokenChunk("cut off")
    if member.unused_data.strip(b"\0"):
        raise BrokenChunk("bytes after its end")
    if len(data) % v6.RECORD.itemsize:
        raise BrokenChunk("not a whole number of records")
    records = np.frombuffer(data, v6.RECORD)
    if (records["version"] != v6.VERSION).any() or (records["input_format"] != records["input_format"][0]).any():
        raise BrokenChunk("damaged records")
    return records


def unpack_or_reason(content: bytes) -> Records | str:
    """The records of a compressed chunk, or why it cannot be used."""
    try:
        return unpack(content)
    except BrokenChunk as reason:
        return str(reason)


def check_finite(name: str, records: Records, fields: Sequence[str]) -> None:
    """Raises ValueRepairError for the first record with an infinite value in one of the fields; NaN means unknown."""
    for value_field in fields:
        infinite = np.flatnonzero(np.isinf(records[value_field]))
        if len(infinite):
            record = infinite[0]
            raise ValueRepairError(
                f"{name}: record {record + 1} of {len(records)}: {value_field} is {records[value_field][record]:g}; "
                "leave this chunk out"
            )


def contain_any(chunks: Sequence[Records], keys: Keys) -> list[bool]:
    """Which of the chunks contain a position with one of these keys (`chess.board.keys`), which ascend.

    Decoding many chunks in one call takes hardly longer than decoding a single record.
    """
    readable = [i for i, records in enumerate(chunks) if records["input_format"][0] in READABLE_FORMATS]
    contained = [False] * len(chunks)
    if readable:
        boards = boards_of([ChunkRecords.of(chunks[i].tobytes(), len(chunks[i])) for i in readable])
        cuts = np.cumsum([len(chunks[i]) for i in readable])[:-1]
        for i, is_among in zip(readable, np.split(boards.usable & are_among(boards.keys, keys), cuts), strict=True):
            contained[i] = bool(is_among.any())
    return contained


def are_among(keys: Keys, held: Keys) -> Flags:
    """bool[n]: which keys are in `held`, which ascends."""
    if not len(held):
        return np.zeros(len(keys), np.bool_)
    return np.asarray(held[np.minimum(np.searchsorted(held, keys), len(held) - 1)] == keys)


def blocks(chunks: Iterable[T]) -> Iterator[list[T]]:
    """The chunks in lists that are decoded together."""
    remaining = iter(chunks)
    while block := list(islice(remaining, _AT_ONCE)):
        yield block


def pack(records: Records) -> bytes:
    """The compressed chunk of these records; equal records give equal bytes."""
    return gzip.compress(records.tobytes(), 6, mtime=0)


def in_order(work: Callable[[T], Result], items: Iterable[T]) -> Generator[tuple[T, Result], None, None]:
    """Each item with the result of `work`, in order. One thread per core works (unpacking releases Python's lock)."""
    cores = usable_cores()
    waiting: deque[tuple[T, Future[Result]]] = deque()
    with ThreadPoolExecutor(cores) as pool:
        try:
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) >= _AHEAD * cores:
                    oldest, future = waiting.popleft()
                    yield oldest, future.result()
            while waiting:
                oldest, future = waiting.popleft()
                yield oldest, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


def put_files(archives: Archives, chunks: Iterable[tuple[ChunkFile, bytes]], folder: Path) -> None:
    """Writes packed chunks as they were stored: loose ones under their names, those of a tar into a tar of its name."""
    for number, archive_chunks in groupby(chunks, lambda written: written[0].archive):
        target = folder / archives.names[number]
        target.parent.mkdir(parents=True, exist_ok=True)
        if not archives.is_tar(number):
            [(_, content)] = archive_chunks
            target.write_bytes(content)
            continue
        tar, used_names = TarShard(target), set[str]()
        for chunk, content in archive_chunks:
            name = _member_name(chunk.name, used_names)
            used_names.add(name)
            tar.add(name, content)
        tar.close()


def _member_name(name: str, used_names: set[str]) -> str:
    """The end of a name, at most as long as lczero-training's loader accepts; with a number if that is in use."""
    stem, ending = os.path.splitext(name)
    member, count = _last_bytes(name, LENGTH_NAME), 1
    while member in used_names:
        count += 1
        end = f"_{count}{_last_bytes(ending, 20)}"
        member = _last_bytes(stem, LENGTH_NAME - len(end.encode())) + end
    return member


def _last_bytes(text: str, most: int) -> str:
    return text.encode()[-most:].decode(errors="ignore")


EXAMPLES = 3


@dataclass(slots=True)
class LeftOut:
    """Files that are not usable chunks: their number by reason, and the first few names.

    `broken_off` are the tars that break off, each with the place; their chunks before that place are used.
    """

    reasons: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    broken_off: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, reason: str) -> None:
        """Counts one file."""
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{name}: {reason}")

    def break_off(self, path: str, how: str) -> None:
        """Notes a tar that breaks off."""
        self.broken_off.append((path, how))

    def __bool__(self) -> bool:
        return bool(self.reasons or self.broken_off)

    def __str__(self) -> str:
        reasons = [f"{reason} {n:,}" for reason, n in self.reasons.items()]
        return ", ".join([*reasons, *(f"{path}: {how}" for path, how in self.broken_off)])

    def none_usable(self, inputs: Sequence[str]) -> ValueRepairError:
        """The error to raise if no chunk of these folders and tars can be used."""
        hint = _HOW_TO_MAKE if NO_CHUNK in self.reasons else ""
        return ValueRepairError(f"{', '.join(inputs)}: no usable chunk: {self or 'the archives are empty'}{hint}")

    def lines(self) -> list[str]:
        """What was left out, as one line or none; `TruncatedInput` says what broke off."""
        return [f"left out: {replace(self, broken_off=[])}; first: {self.examples[0]}"] if self.reasons else []


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The n usable chunks of the folders and tars `inputs` in reading order; the arrays are [n].

    `archive`, `offset` and `size` locate the compressed chunk, `records` is its number of positions, `digest` its
    `digest_of`. `sha256` hashes the SHA-256 of all chunks in order: it identifies the input, whatever the names of its
    files and folders.
    """

    inputs: tuple[str, ...]
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


def read_index(
    inputs: Sequence[str], on_bytes: Callable[[int], None] = lambda n: None, held_out: Keys | None = None
) -> ChunkIndex:
    """Reads and checks every chunk of some folders or tars once. `on_bytes` is called with the bytes read from disk.

    Files that are not usable chunks are counted and left out, and so are chunks that contain a position with a key in
    `held_out`; the log warns of a folder that is not finished. Raises ValueRepairError if no usable chunk is left, and
    if the chunks have several input formats.
    """
    archives, left_out, sha = find_archives(inputs), LeftOut(), hashlib.sha256()
    for folder in inputs:
        if os.path.exists(os.path.join(folder, UNFINISHED)):
            log.warning(f"warning: {folder} is not finished: give the command that writes it again to resume")
    columns = (array("i"), array("q"), array("i"), array("i"), array("Q"))
    first: tuple[int, str] | None = None

    read_blocks = blocks(read_archives(archives, left_out.break_off))
    checked = in_order(lambda block: list(zip(block, _facts_of(block, held_out), strict=True)), read_blocks)
    for chunk, facts in chain.from_iterable(pairs for _, pairs in checked):
        on_bytes(len(chunk.content))
        name = name_of(archives, chunk)
        if isinstance(facts, str):
            left_out.add(name, facts)
            continue
        records, input_format, digest, chunk_sha256 = facts
        if first is None:
            first = (input_format, name)
        elif input_format != first[0]:
            raise ValueRepairError(
                f"{first[1]} has input format {format_name(first[0])}, {name} has {format_name(input_format)}: "
                "a net is trained on one; mix them separately"
            )
        sha.update(chunk_sha256)
        for column, value in zip(
            columns, (chunk.archive, chunk.offset, len(chunk.content), records, digest), strict=True
        ):
            column.append(value)
    if first is None:
        raise left_out.none_usable(inputs)
    return ChunkIndex(
        tuple(inputs),
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


def format_name(input_format: int) -> str:
    """lc0's name of an input format, for messages."""
    return INPUT_FORMAT_NAMES.get(input_format, f"unknown, {input_format}")


def name_of(archives: Archives, chunk: ChunkFile) -> str:
    """The name of a chunk in messages: that of its file and, in a tar, of its member."""
    name = archives.names[chunk.archive]
    return f"{name}: {chunk.name}" if chunk.name else name


def _facts_of(block: Sequence[ChunkFile], held_out: Keys | None) -> list[_Facts | str]:
    """Number of records, input format, digest and SHA-256 of each chunk, or why it cannot be used."""
    unpacked = [unpack_or_reason(chunk.content) for chunk in block]
    usable = [records for records in unpacked if not isinstance(records, str)]
    held = iter([False] * len(usable) if held_out is None else contain_any(usable, held_out))
    facts: list[_Facts | str] = []
    for chunk, records in zip(block, unpacked, strict=True):
        if isinstance(records, str):
            facts.append(records)
        elif next(held):
            facts.append(_WITH_HELD_OUT)
        else:
            sha256 = hashlib.sha256(chunk.content).digest()
            facts.append((len(records), int(records["input_format"][0]), digest_of(chunk.content), sha256))
    return facts
