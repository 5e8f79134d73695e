"""Opens archives: plain, gzip, bzip2, xz, zstd and tar, files, folders and standard input, as streams of bytes."""

from __future__ import annotations

import bz2
import contextlib
import io
import logging
import lzma
import os
import re
import stat
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from valuerepair.errors import UsageError, ValueRepairError

log = logging.getLogger(__name__)
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
PACKED_TARS = (".tgz", ".tbz2", ".txz", ".tzst")
ENDINGS = (".pgn", ".epd", ".fen", ".jsonl", ".tar")
READ_SIZE = 1 << 16  # small, so that the count of bytes read is hardly ahead of the unpacked ones
# Archives made with `zstd --long=31` need a window of two gigabytes; the decompressor uses only what a frame needs.
MAX_WINDOW = 1 << 31

# What decoders raise for damaged streams.
_DAMAGE = (zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError, OSError, ValueError)

OnBytes = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Source:
    """An archive: its path as the user gave it (``-``: standard input), and the identity that seeds its sampling."""

    path: str
    identity: str

    @property
    def read_once(self) -> bool:
        """Whether it is standard input or a pipe: bytes read to identify its format are lost to later readers."""
        return self.path == "-" or Path(self.path).is_fifo()


def find_sources(paths: Sequence[str]) -> list[Source]:
    """The archives at the given paths, each once; folders are searched recursively, in sorted order.

    Raises UsageError for a missing path or a device, and ValueRepairError for a folder without archives, or one that
    cannot be read.
    """
    if not paths:
        raise UsageError("no archive given; name files, folders, or - for standard input")
    sources: list[Source] = []
    for path in paths:
        if path == "-":
            sources.append(Source("-", "-"))
        elif os.path.isdir(path):
            inside = files_in(path, _is_archive)
            if not inside:
                endings = ", ".join(ENDINGS)
                raise ValueRepairError(
                    f"{path}: no {endings} files (packed ones count too) or lc0 chunks in this folder"
                )
            sources += [Source(str(Path(path, name)), bare_name(Path(name).as_posix())) for name in inside]
        elif os.path.exists(path):
            mode = os.stat(path).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):  # /dev/zero never ends
                raise UsageError(f"{path}: is a device or socket; name files, folders, pipes, or - for standard input")
            sources.append(Source(path, bare_name(os.path.basename(path))))
        else:
            raise UsageError(f"{path}: no such file or folder")
    for source in sources:
        if (readable := source.path.encode(errors="replace").decode()) != source.path:  # a store could not keep it
            raise UsageError(f"{readable}: is not valid UTF-8; rename the file or folder")
    first = {os.path.abspath(source.path): source for source in reversed(sources)}
    return [source for source in sources if first[os.path.abspath(source.path)] is source]


def files_in(root: str, is_wanted: Callable[[str], bool]) -> list[str]:
    """The wanted files below a folder, relative to it, sorted folder by folder; hidden files and folders are left out.

    Links to folders are followed, except links to the root and to the folders above it. Each folder is read once, real
    folders before links, so that the name of a file does not depend on a link. Raises ValueRepairError for a folder or
    file that cannot be read.
    """
    real_root = os.path.join(os.path.realpath(root), "")
    files, seen, waiting = list[str](), set[str](), deque([""])
    try:
        while waiting:
            folder = waiting.popleft()
            place = os.path.join(root, folder)
            real = os.path.realpath(place)
            if real in seen or (folder and real_root.startswith(os.path.join(real, ""))):
                continue
            seen.add(real)
            with os.scandir(place) as entries:
                visible = [entry for entry in entries if not entry.name.startswith(".") and entry.name != "lost+found"]
            for entry in sorted(visible, key=lambda entry: entry.name):
                name, linked = os.path.join(folder, entry.name), entry.is_symlink()
                if os.path.isdir(entry.path) if linked else entry.is_dir():
                    (waiting.append if linked else waiting.appendleft)(name)
                elif (linked or entry.is_file()) and is_wanted(entry.path):
                    if linked:
                        os.stat(entry)  # raises for a link that leads nowhere
                    files.append(name)
    except OSError as error:
        raise ValueRepairError(f"{error.filename}: {error.strerror}") from None
    return sorted(files, key=lambda name: name.split(os.sep))


def _is_archive(path: str) -> bool:
    return bare_name(path).endswith(ENDINGS) or counts_as_chunk(path)


def bare_name(name: str) -> str:
    """The name without the ending of a compression, in lower case: ``Games.PGN.zst`` is ``games.pgn``."""
    lowered = name.lower()
    if lowered.endswith(PACKED_TARS):
        return lowered[: lowered.rindex(".")] + ".tar"
    return next((lowered[: -len(e)] for e in COMPRESSIONS if lowered.endswith(e)), lowered)


def total_bytes(paths: Sequence[str]) -> int | None:
    """Bytes on disk of all archives, for progress; None if standard input or a pipe is among them."""
    total = 0
    for source in find_sources(paths):
        if source.path == "-" or not os.path.isfile(source.path):
            return None
        total += os.path.getsize(source.path)
    return total


class Stream:
    """The decompressed bytes of one archive; a context manager.

    `broken` is None, or, after the end of a damaged stream, one line about where and why it broke off. The stream ends
    after `most` bytes; a longer archive counts as broken off there.
    """

    def __init__(self, source: Source, on_bytes: OnBytes | None = None, most: int | None = None) -> None:
        self.source, self._most = source, most
        self.broken: str | None = None
        try:
            self._file: BinaryIO = sys.stdin.buffer if source.path == "-" else open(source.path, "rb")  # noqa: SIM115  # closed in __exit__
            self._raw = _Counted(self._file, on_bytes)
            self._decoder = _decoder(io.BufferedReader(self._raw, READ_SIZE))
        except OSError as error:
            raise ValueRepairError(f"{source.path}: {error.strerror or error}") from None
        self._returned = 0
        log.debug("reading %s", source.path)

    def read_into(self, target: memoryview) -> int:
        """Fills `target` and returns the number of bytes, which is below its size only at the end of the stream."""
        filled, room = 0, len(target)
        if self._most is not None:
            room = min(room, self._most - self._returned)
        while filled < room:
            try:
                count = self._decoder.readinto1(target[filled:room])
            except _DAMAGE as error:
                self.broken = f"{error} (at byte {self._raw.count:,} of the file)"
                break
            if count == 0:
                break
            filled += count
        self._returned += filled
        if filled == room < len(target):
            self._look_for_more()
        return filled

    def read(self, size: int) -> bytes:
        """The next bytes; fewer than `size` only at the end of the stream."""
        data = bytearray(size)
        return bytes(data[: self.read_into(memoryview(data))])

    def _look_for_more(self) -> None:
        """Sets `broken` if the archive has more than `most` bytes."""
        if self.broken is None:
            with contextlib.suppress(*_DAMAGE):
                if self._decoder.readinto1(memoryview(bytearray(1))):
                    self.broken = f"there are more than {self._most:,} bytes, the limit"

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()


class _Counted(io.RawIOBase):
    """A file that counts the bytes read."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes | None) -> None:
        self._file, self._on_bytes, self.count = file, on_bytes, 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        data = self._file.read(len(target))
        target[: len(data)] = data
        self.count += len(data)
        if self._on_bytes is not None and data:
            self._on_bytes(len(data))
        return len(data)


def _decoder(raw: io.BufferedReader) -> io.BufferedReader | _Members | _Zstd:
    """The decoder for the compression that the first bytes identify."""
    head = raw.peek(6)
    if head[:2] == b"\x1f\x8b":
        return _Members(raw, _Gzip, "gzip")
    if head[:3] == b"BZh":
        return _Members(raw, bz2.BZ2Decompressor, "bzip2")
    if head[:6] == b"\xfd7zXZ\x00":
        return _Members(raw, lzma.LZMADecompressor, "xz")
    magic = int.from_bytes(head[:4], "little")
    if magic == FRAME_MAGIC or magic & 0xFFFFFFF0 == SKIPPABLE_MAGIC:
        return _Zstd(raw)
    return raw


class _Zstd:
    """All frames of a zstd stream, decoded straight into the caller's memory."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw, self._outline = raw, ZstdOutline()
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        self._reader = decompressor.stream_reader(self, read_size=READ_SIZE, read_across_frames=True)  # type: ignore[arg-type]  # it only calls read()

    def read(self, size: int) -> bytes:
        data = self._raw.read(size)
        self._outline.feed(data)
        return data

    def readinto1(self, target: memoryview) -> int:
        count = self._reader.readinto(target)
        if count == 0 and not self._outline.complete:
            raise EOFError("the zstd stream breaks off")
        return count


class _Gzip:
    """zlib's decompressor with the interface of the bz2 and lzma ones."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = not self._zlib.unconsumed_tail and len(out) < max_length
        return out


class _Members:
    """Gzip members, bzip2 streams or xz streams, each read by a new decompressor. Padding after a stream is ignored.

    (BZ2File and LZMAFile of the standard library take a damaged later stream for padding.)
    """

    def __init__(self, raw: io.BufferedReader, new_decompressor: Callable[[], Any], name: str) -> None:
        self._raw, self._new_decompressor, self._name = raw, new_decompressor, name
        self._decompressor, self._data = new_decompressor(), b""

    def readinto1(self, target: memoryview) -> int:
        while True:
            if self._decompressor.eof and not self._next_member():
                return 0
            if self._decompressor.needs_input and not self._data:
                self._data = self._raw.read(READ_SIZE)
                if not self._data:
                    raise EOFError(f"the {self._name} stream breaks off")
            data, self._data = self._data, b""
            out = self._decompressor.decompress(data, len(target))
            if out:
                target[: len(out)] = out
                return len(out)

    def _next_member(self) -> bool:
        """Begins with the next member; returns False at the end of the file."""
        data = self._decompressor.unused_data.lstrip(b"\0")
        while not data:
            further = self._raw.read(READ_SIZE)
            if not further:
                return False
            data = further.lstrip(b"\0")
        self._decompressor, self._data = self._new_decompressor(), data
        return True


def read_text(data: bytes) -> str:
    """Text in UTF-8, or otherwise in Latin-1."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


FRAME_MAGIC = 0xFD2FB528
SKIPPABLE_MAGIC = 0x184D2A50  # and the fifteen values after it


class ZstdOutline:
    """Follows the frames of compressed bytes, fed in order; `complete` says whether the bytes end with a frame.

    zstandard's reader does not say whether its input ended there.
    """

    def __init__(self) -> None:
        self._head = b""  # bytes of a header not yet complete
        self._skip = 0  # bytes of content to skip
        self._state = "frame"  # the owner of the next header: a frame or a block
        self._checksum = False
        self._lost = False  # not a zstd frame: the decompressor reports the error

    @property
    def complete(self) -> bool:
        return self._lost or (self._state == "frame" and self._skip == 0 and not self._head)

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self._lost:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            need = self._header_size() - len(self._head)
            part = data[at : at + need]
            self._head += part
            at += len(part)
            if len(part) == need and len(self._head) == self._header_size():
                self._read_header()

    def _header_size(self) -> int:
        """Bytes of the next header, as far as known from its beginning."""
        if self._state == "block":
            return 3
        if len(self._head) < 5:
            return 5
        if int.from_bytes(self._head[:4], "little") != FRAME_MAGIC:
            return 8
        return zstandard.frame_header_size(self._head)

    def _read_header(self) -> None:
        head, self._head = self._head, b""
        if self._state == "block":
            value = int.from_bytes(head, "little")
            last, kind, size = value & 1, value >> 1 & 3, value >> 3
            self._skip = 1 if kind == 1 else size
            if last:
                self._skip += 4 * self._checksum
                self._state = "frame"
            return
        magic = int.from_bytes(head[:4], "little")
        if magic == FRAME_MAGIC:
            self._checksum = bool(head[4] >> 2 & 1)
            self._state = "block"
        elif magic & 0xFFFFFFF0 == SKIPPABLE_MAGIC:
            self._skip = int.from_bytes(head[4:8], "little")
        else:
            self._lost = True


HEAD = 1024
MAX_PACKED = 1 << 24  # bytes of a compressed chunk
MAX_RECORDS = 8192  # of a chunk; lc0 ends a game at ply 450
_GZIP = b"\x1f\x8b"
_LARGEST_VERSION = 31  # a text begins with a byte above 31, or with a blank
_CHUNK_NAME = re.compile(r"(?:game_|training[._])\d+(?:[._]\d+)*\.gz")
_NO_INNER_ENDING = re.compile(r"[^.]+(?:\.\d+)*\.gz")


def chunk_version(head: bytes) -> int | None:
    """The version of the training record at the beginning of unpacked bytes; None if there is no such record."""
    version = int.from_bytes(head[:4], "little")
    return version if len(head) >= 8 and 0 < version <= _LARGEST_VERSION else None


def unpacked(head: bytes) -> bytes:
    """The first 64 bytes of the content of a gzip file that begins with `head`; of another file, `head` itself."""
    if head[:2] != _GZIP:
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 64)
    except zlib.error:
        return b""


def named_as_chunk(name: str) -> bool:
    """Whether lc0 gives this name to chunks."""
    return _CHUNK_NAME.fullmatch(name) is not None


def counts_as_chunk(path: str) -> bool:
    """Whether a file in a folder is a training chunk, by its name or, if the name does not tell, by its content."""
    name = os.path.basename(path)
    if named_as_chunk(name) or _NO_INNER_ENDING.fullmatch(name) is None:
        return named_as_chunk(name)
    with open(path, "rb") as file:
        return chunk_version(unpacked(file.read(HEAD))) is not None


_BLOCK = 512
_OCTAL = re.compile(rb"[0-7]*")
_MAX_NAME = 1 << 16
_REGULAR, _LONG_NAME, _PAX = (b"0", b"\0", b"7"), b"L", b"x"

Read = Callable[[int], bytes]  # returns fewer bytes than requested only at the end


@dataclass(frozen=True, slots=True)
class TarMember:
    """A file of the archive. `offset` is where its content begins, `size` the size in its header; `content` is shorter
    if the archive breaks off."""

    name: str
    offset: int
    size: int
    content: bytes


class TarError(ValueError):
    """The stream is not a tar archive, or breaks off at the place in the message."""


def looks_like_tar(head: bytes) -> bool:
    """Whether `head`, the first 512 bytes, begins a tar archive: POSIX and GNU archives both have ``ustar`` there."""
    return head[257:262] == b"ustar"


def members(read: Read, most: int) -> Iterator[TarMember]:
    """The regular files of a tar archive in order, each with at most its first `most` bytes; then the files of archives
    that were appended to it.

    Raises TarError if the archive breaks off or is damaged, after it has yielded the files before that place. (Python's
    tarfile silently ends at a damaged header.)
    """
    at, name, ended = 0, "", False
    while True:
        head = read(_BLOCK)
        if ended and len(head) < _BLOCK and not any(head):
            return
        if len(head) < _BLOCK:
            raise TarError(f"the tar archive breaks off at byte {at + len(head):,}")
        at += _BLOCK
        if ended := not any(head):
            continue
        kind, size = head[156:157], _tar_number(head[124:136])
        if size is None or _tar_number(head[148:156]) != _tar_checksum(head):
            raise TarError(f"the tar archive is damaged at byte {at - _BLOCK:,}")
        regular = kind in _REGULAR
        content = read(min(size, most if regular else _MAX_NAME))
        skipped = _skip(read, size - len(content) + -size % _BLOCK) if len(content) == min(size, most) else 0
        if regular:
            yield TarMember(name or _tar_name(head), at, size, content)
            name = ""
        elif kind == _LONG_NAME:
            name = content.rstrip(b"\0").decode("utf-8", "replace")
        elif kind == _PAX:
            name = _pax_path(content) or name
        if skipped < size - len(content) + -size % _BLOCK:
            raise TarError(f"the tar archive breaks off at byte {at + len(content) + skipped:,}")
        at += size + -size % _BLOCK


def _skip(read: Read, count: int) -> int:
    skipped = 0
    while skipped < count:
        data = read(min(count - skipped, 1 << 20))
        if not data:
            break
        skipped += len(data)
    return skipped


def _tar_number(field: bytes) -> int | None:
    """A number in octal digits, or in base 256 if the first bit is set; None for other bytes."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    text = field.strip(b"\0 ")
    return int(text or b"0", 8) if _OCTAL.fullmatch(text) else None


def _tar_checksum(head: bytes) -> int:
    """The sum of all bytes of the header, with blanks in place of the checksum."""
    return sum(head[:148]) + 8 * 32 + sum(head[156:])


def _tar_name(head: bytes) -> str:
    prefix, name = head[345:500].split(b"\0")[0], head[:100].split(b"\0")[0]
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "replace")


def _pax_path(content: bytes) -> str:
    for line in content.split(b"\n"):
        _, _, entry = line.partition(b" ")
        if entry.startswith(b"path="):
            return entry[5:].decode("utf-8", "replace")
    return ""
