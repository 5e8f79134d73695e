"""lc0's training chunks in files and tar archives: found, counted, unpacked; a chunk counts as a game.

Only records of version 6 are read (`valuerepair.v6`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from valuerepair import v6
from valuerepair.archives.chunk_rows import CANONICAL_FORMATS, STANDARD_FORMATS, Chunk, draw
from valuerepair.archives.headers import header_reject
from valuerepair.archives.open import OnBytes, Source, Stream, bare_name
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.recorded_options import CHUNKS, OTHER_KIND
from valuerepair.archives.report import ReadReport
from valuerepair.archives.rows import Rejected, Rows
from valuerepair.archives.select import game_hashes, in_share
from valuerepair.archives.sniff import HEAD, chunk_version, named_as_chunk, unpacked
from valuerepair.archives.tar import Member, TarError, looks_like_tar, members

BLOCK_CHUNKS = 16
_NO_CHUNK, _OTHER_VERSION = "no training chunk", "training data of version"
UNREADABLE = (_NO_CHUNK, _OTHER_VERSION)  # what the reasons to reject begin with where there is nothing to read
MAX_PACKED = 1 << 24  # bytes of a chunk as it lies in an archive
MAX_RECORDS = 8192  # of one chunk; lc0 ends a game at 450


@dataclass(slots=True)
class ChunkBlock:
    """Chunks as they lie in archives, packed, with the archive of each and its number and byte offset there.

    One block goes on through archives: a folder of files with one chunk each is read as fast as one tar of them.
    """

    sources: list[Source] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    def add(self, source: Source, content: bytes, name: str, number: int, offset: int) -> None:
        self.sources.append(source)
        self.chunks.append(content)
        self.names.append(name)
        self.numbers.append(number)
        self.offsets.append(offset)


def holds_chunks(source: Source) -> bool:
    """The archive is a training chunk, or a tar archive, packed or not."""
    if source.path == "-":
        return False
    try:
        with open(source.path, "rb") as file:
            head = file.read(HEAD)
    except OSError:
        return False  # reading it will say why
    beginning = unpacked(head)
    if chunk_version(beginning) is not None or looks_like_tar(head):
        return True
    if not beginning and named_as_chunk(os.path.basename(source.path)):
        return True  # so short that nothing can be unpacked
    return bare_name(source.path).endswith(".tar") and looks_like_tar(_beginning(source))


def _beginning(source: Source) -> bytes:
    buffer = bytearray(HEAD)
    with Stream(source) as stream:
        return bytes(buffer[: stream.read_into(memoryview(buffer))])


# -- reading ----------------------------------------------------------------------------------------------------------


def read_blocks(
    sources: Iterable[Source], options: SampleOptions, report: ReadReport, on_bytes: OnBytes | None
) -> Iterator[ChunkBlock]:
    """The chunks of archives in the share to look at, in blocks; counts all others, and what is no chunk."""
    block = ChunkBlock()
    for source in sources:
        for number, member in _chunks(source, options, report, on_bytes):
            block.add(source, member.content, member.name, number, member.offset)
            if len(block.chunks) >= BLOCK_CHUNKS:
                yield block
                block = ChunkBlock()
    if block.chunks:
        yield block


def _chunks(
    source: Source, options: SampleOptions, report: ReadReport, on_bytes: OnBytes | None
) -> Iterator[tuple[int, Member]]:
    """The chunks of one archive in the share to look at, with their numbers."""
    for number, member in enumerate(_members(source, options, report, on_bytes), 1):
        report.games += 1
        version = chunk_version(unpacked(member.content[:HEAD]))
        if version is None and (broken := _unpack(member.content)[1]):
            report.truncated.append((f"{source.name}: {member.name}" if member.name else source.name, broken))
            report.reject("cut off", source.name, member.offset, member.name)
        elif version != v6.VERSION:
            reason = _NO_CHUNK if version is None else f"{_OTHER_VERSION} {version}"
            report.reject(reason, source.name, member.offset, member.name)
        elif member.size > MAX_PACKED:
            report.reject("longer than a game", source.name, member.offset, member.name)
        elif not _is_drawn(source, number, options):
            report.not_sampled += 1
        else:
            yield number, member


def _is_drawn(source: Source, number: int, options: SampleOptions) -> bool:
    """The chunk is in the share to look at."""
    if options.game_share >= 1:
        return True
    return bool(in_share(game_hashes(options.seed, source.identity, np.array([number])), options.game_share)[0])


def _members(source: Source, options: SampleOptions, report: ReadReport, on_bytes: OnBytes | None) -> Iterator[Member]:
    """The files of a tar archive, or the one file that is a chunk itself."""
    with open(source.path, "rb") as file:
        content = file.read(HEAD)
        tar = looks_like_tar(content) or bare_name(source.path).endswith(".tar")
        if not tar:
            content += file.read(MAX_PACKED + 1 - len(content))
    if not tar:
        if on_bytes is not None:
            on_bytes(len(content))
        yield Member("", 0, len(content), content)
        return
    with Stream(source, on_bytes, options.max_bytes) as stream:
        try:
            yield from members(_reader(stream), MAX_PACKED)
        except TarError as error:
            report.truncated.append((source.name, f"{error}: {stream.broken}" if stream.broken else str(error)))


def _reader(stream: Stream) -> Callable[[int], bytes]:
    def read(size: int) -> bytes:
        data = bytearray(size)
        count = stream.read_into(memoryview(data))
        return bytes(data[:count])

    return read


def _unpack(content: bytes) -> tuple[bytes, str]:
    """The records of a chunk, and how its gzip stream breaks off; empty when it does not."""
    if content[:2] != b"\x1f\x8b":
        return content, ""
    parts, room = [], MAX_RECORDS * v6.RECORD.itemsize + 1
    while content and room > 0:
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(content, room))
        except zlib.error as error:
            return b"".join(parts), str(error)
        room -= len(parts[-1])
        if not member.eof:
            return b"".join(parts), "the gzip stream breaks off" if room > 0 else ""
        content = member.unused_data.lstrip(b"\0")
    return b"".join(parts), ""


# -- decoding ---------------------------------------------------------------------------------------------------------


def parse_chunks(block: ChunkBlock, options: SampleOptions) -> Rows:
    """Unpacks a block of chunks and draws positions of each; rejects and counts are in the result."""
    rows, sources = Rows(block.sources[0]), []
    found: list[Chunk] = []
    for i, source in enumerate(block.sources):
        chunk = _chunk(block, i, options, rows)
        if chunk is not None:
            found.append(chunk)
            sources.append(source)
            rows.numbers.append(block.numbers[i])
            rows.offsets.append(block.offsets[i])
    rows.parsed, rows.sources = len(found), sources
    if found:
        draw(found, options, rows)
    return rows


def _chunk(block: ChunkBlock, i: int, options: SampleOptions, rows: Rows) -> Chunk | None:
    """The whole records of a chunk; None, with the reason counted, where none can be used."""
    data, broken = _unpack(block.chunks[i])
    source, name, offset = block.sources[i], block.names[i], block.offsets[i]
    whole, rest = divmod(len(data), v6.RECORD.itemsize)
    if broken or rest:
        where = f"{source.name}: {name}" if name else source.name
        how = broken or f"{rest:,} bytes behind the last whole record"
        rows.truncated.append((where, f"{how} ({whole:,} whole records)"))
    reason = _bad_records(data, whole) or (
        OTHER_KIND if options.recorded is not None and options.recorded.kind != CHUNKS else None
    )
    if reason is None:
        chunk = Chunk.of(data, whole)
        if options.filters_headers:
            reason = header_reject(f'[Result "{chunk.result}"]\n'.encode(), options)
        if reason is None:
            return chunk
    rows.rejected.append(Rejected(reason, offset, name, source))
    return None


def _bad_records(data: bytes, n: int) -> str | None:
    """Why the records of a chunk cannot be used; None when they can."""
    if not 0 < n <= MAX_RECORDS:
        return "longer than a game" if n else "cut off"
    records = np.frombuffer(data, v6.RECORD, n)
    formats = records["input_format"]
    if (records["version"] != v6.VERSION).any() or (formats != formats[0]).any():
        return "damaged records"
    known = formats[0] in (*STANDARD_FORMATS, *CANONICAL_FORMATS)
    return None if known else f"unknown input format {formats[0]}"
