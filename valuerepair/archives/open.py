"""Opens archives: plain, gzip, bzip2, xz and zstd, files, folders and standard input, as one stream of bytes each.

The compression is told by the first bytes, not by the name. A stream that breaks off gives all that came before the
cut, and says so afterwards in `Stream.broken`.
"""

from __future__ import annotations

import bz2
import contextlib
import logging
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import zstandard

from valuerepair.archives.frames import ZstdOutline
from valuerepair.archives.sniff import counts_as_chunk
from valuerepair.errors import UsageError, ValueRepairError

log = logging.getLogger(__name__)
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
PACKED_TARS = (".tgz", ".tbz2", ".txz", ".tzst")
ENDINGS = (".pgn", ".epd", ".fen", ".jsonl", ".tar")
READ_SIZE = 1 << 18
# Archives made with `zstd --long=31` need a window of two gigabytes; the decompressor takes only what a frame asks for.
MAX_WINDOW = 1 << 31

# What decoders say of damaged streams.
_DAMAGE = (zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError, OSError, ValueError)

OnBytes = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Source:
    """An archive. `name` is what the user sees, `identity` what seeds its sampling (the same on any machine)."""

    path: str
    name: str
    identity: str


def find_sources(paths: Sequence[str]) -> list[Source]:
    """The archives behind the given paths; folders are searched recursively, in sorted order.

    Raises UsageError for a missing path and ValueRepairError for a folder without archives.
    """
    if not paths:
        raise UsageError("no archive given; name files, folders, or - for standard input")
    sources: list[Source] = []
    for path in paths:
        if path == "-":
            sources.append(Source("-", "-", "-"))
        elif os.path.isdir(path):
            inside = sorted(p for p in Path(path).rglob("*") if p.is_file() and _is_archive(p))
            if not inside:
                endings = ", ".join(ENDINGS)
                raise ValueRepairError(
                    f"{path}: no {endings} files (packed ones count too) or lc0 chunks in this folder"
                )
            sources += [Source(str(p), str(p), bare_name(p.relative_to(path).as_posix())) for p in inside]
        elif os.path.exists(path):
            sources.append(Source(path, path, bare_name(os.path.basename(path))))
        else:
            raise UsageError(f"{path}: no such file or folder")
    return sources


def _is_archive(path: Path) -> bool:
    return bare_name(path.name).endswith(ENDINGS) or counts_as_chunk(str(path), path.name)


def bare_name(name: str) -> str:
    """The name without the ending of a compression, in lower case: ``Games.PGN.zst`` is ``games.pgn``."""
    lowered = name.lower()
    if lowered.endswith(PACKED_TARS):
        return lowered[: lowered.rindex(".")] + ".tar"
    return next((lowered[: -len(e)] for e in COMPRESSIONS if lowered.endswith(e)), lowered)


def total_bytes(paths: Sequence[str]) -> int | None:
    """Bytes on disk of all archives, for progress; None when standard input or a pipe is among them."""
    total = 0
    for source in find_sources(paths):
        if source.path == "-" or not os.path.isfile(source.path):
            return None
        total += os.path.getsize(source.path)
    return total


class _Decoder(Protocol):
    def readinto(self, target: memoryview) -> int: ...


class Stream:
    """The decompressed bytes of one archive; a context manager.

    `broken` is None, or after the end of the stream one line that says how it broke off. At most `most` bytes are
    given; when there are more, the stream broke off there.
    """

    def __init__(self, source: Source, on_bytes: OnBytes | None = None, most: int | None = None) -> None:
        self.source, self._most = source, most
        self.broken: str | None = None
        try:
            self._file: BinaryIO = sys.stdin.buffer if source.path == "-" else open(source.path, "rb")  # noqa: SIM115  # closed in __exit__
            raw = _Counted(self._file, on_bytes)
            self._decoder = _decoder(raw)
        except OSError as error:
            raise ValueRepairError(f"{source.name}: {error.strerror or error}") from None
        self._raw = raw
        self._given = 0
        # Of chunks there may be millions, a game each.
        level = logging.DEBUG if counts_as_chunk(source.path, source.name) else logging.INFO
        log.log(level, "reading %s", source.name)

    def read_into(self, target: memoryview) -> int:
        """Fills `target` and returns the number of bytes; fewer than its size only at the end of the stream."""
        filled = 0
        while filled < len(target):
            if self._most is not None and self._given + filled >= self._most:
                self._given += filled
                self._end()
                return filled
            try:
                count = self._decoder.readinto(target[filled : self._room(filled)])
            except _DAMAGE as error:
                self.broken = self._broke(str(error))
                break
            if count == 0:
                break
            filled += count
        self._given += filled
        return filled

    def _room(self, filled: int) -> int | None:
        """Where a piece must end that is filled so far, for the bytes that may be given; None: it may be full."""
        return None if self._most is None else self._most - self._given

    def _end(self) -> None:
        """As many bytes as may be given were given: says so when there are more."""
        if self.broken is None:
            with contextlib.suppress(*_DAMAGE):
                if self._decoder.readinto(memoryview(bytearray(1))):
                    self.broken = self._broke(f"there are more than the {self._most:,} bytes asked for")

    def _broke(self, why: str) -> str:
        return (
            f"{why} (at byte {self._raw.count:,} of the file); the {self._given:,} bytes before were used"
            if self._given
            else f"{why} (at byte {self._raw.count:,} of the file)"
        )

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()


class _Counted:
    """A file that counts what is read of it and can be looked at before it is read."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes | None) -> None:
        self._file, self._on_bytes, self.count = file, on_bytes, 0
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size and (more := self._file.read(size - len(self._ahead))):
            self._ahead += more
        return self._ahead

    def read(self, size: int = -1) -> bytes:
        if self._ahead:
            size = len(self._ahead) if size < 0 else size
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = self._file.read(READ_SIZE if size < 0 else size)
        self.count += len(data)
        if self._on_bytes is not None and data:
            self._on_bytes(len(data))
        return data


def _decoder(raw: _Counted) -> _Decoder:
    """The decoder for the compression that the first bytes name."""
    head = raw.peek(6)
    if head[:2] == b"\x1f\x8b":
        return _Members(raw, _Gzip, "gzip")
    if head[:3] == b"BZh":
        return _Members(raw, bz2.BZ2Decompressor, "bzip2")
    if head == b"\xfd7zXZ\x00":
        return _Members(raw, lzma.LZMADecompressor, "xz")
    magic = int.from_bytes(head[:4], "little")
    if magic == 0xFD2FB528 or magic & 0xFFFFFFF0 == 0x184D2A50:
        return _Zstd(raw)
    return _Plain(raw)


class _Plain:
    def __init__(self, raw: _Counted) -> None:
        self._raw = raw

    def readinto(self, target: memoryview) -> int:
        data = self._raw.read(min(len(target), READ_SIZE))
        target[: len(data)] = data
        return len(data)


class _Zstd:
    """All frames of a zstd stream, decoded straight into the caller's memory."""

    def __init__(self, raw: _Counted) -> None:
        self._raw, self._outline = raw, ZstdOutline()
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        self._reader = decompressor.stream_reader(self, read_size=READ_SIZE, read_across_frames=True)  # type: ignore[arg-type]  # it calls nothing but read()

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(size)
        self._outline.feed(data)
        return data

    def readinto(self, target: memoryview) -> int:
        count = self._reader.readinto(target)
        if count == 0 and not self._outline.whole:
            raise EOFError("the zstd stream breaks off")
        return count


class _Member(Protocol):
    """One gzip member, bzip2 stream or xz stream: the common ground of the standard library's decompressors."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the interface of those of bz2 and lzma."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        out = self._zlib.decompress(self._zlib.unconsumed_tail + data, max(max_length, 0))
        self.needs_input = not self._zlib.unconsumed_tail and len(out) < max_length
        return out


class _Members:
    """A sequence of members, each decoded by a decompressor of its own; padding behind the last one is ignored."""

    def __init__(self, raw: _Counted, member: Callable[[], _Member], name: str) -> None:
        self._raw, self._new, self._name = raw, member, name
        self._member, self._data = member(), b""

    def readinto(self, target: memoryview) -> int:
        while True:
            if self._member.eof and not self._next_member():
                return 0
            if self._member.needs_input and not self._data:
                self._data = self._raw.read(READ_SIZE)
                if not self._data:
                    raise EOFError(f"the {self._name} stream breaks off")
            data, self._data = self._data, b""
            out = self._member.decompress(data, len(target))
            if out:
                target[: len(out)] = out
                return len(out)

    def _next_member(self) -> bool:
        rest = self._member.unused_data.lstrip(b"\0") or self._raw.read(READ_SIZE).lstrip(b"\0")
        if not rest:
            return False
        self._member, self._data = self._new(), rest
        return True


def read_text(data: bytes) -> str:
    """Text that is UTF-8, or else Latin-1."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
