"""The files in a tar archive, read as a stream: in order, without seeking, and with a word on where it breaks off.

The standard library's reader takes a tar that breaks off between two files for a whole one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_BLOCK = 512
_OCTAL = re.compile(rb"[0-7]*")
_MAX_NAME = 1 << 16
_REGULAR, _LONG_NAME, _PAX = (b"0", b"\0", b"7"), b"L", b"x"

Read = Callable[[int], bytes]  # gives fewer bytes than asked for only at the end


@dataclass(frozen=True, slots=True)
class Member:
    """A file of the archive. `offset` is where its content begins; `size` is what the header says, which `content`
    falls short of where the archive breaks off."""

    name: str
    offset: int
    size: int
    content: bytes


class TarError(ValueError):
    """The stream is no tar archive, or breaks off; the message says where."""


def looks_like_tar(head: bytes) -> bool:
    """The first 512 bytes of an archive: POSIX and GNU archives both say ``ustar``."""
    return head[257:262] == b"ustar"


def members(read: Read, most: int) -> Iterator[Member]:
    """The regular files in order; of one larger than `most` bytes only the beginning is given.

    Raises TarError where the archive breaks off or is damaged, after all files before.
    """
    at, name = 0, ""
    while True:
        head = read(_BLOCK)
        if len(head) < _BLOCK:
            raise TarError(f"the tar archive breaks off at byte {at + len(head):,}")
        at += _BLOCK
        if not any(head):
            return
        kind, size = head[156:157], _number(head[124:136])
        if size is None or _number(head[148:156]) != _checksum(head):
            raise TarError(f"the tar archive is damaged at byte {at - _BLOCK:,}")
        own = kind in _REGULAR
        content = read(min(size, most if own else _MAX_NAME))
        skipped = _skip(read, size - len(content) + -size % _BLOCK) if len(content) == min(size, most) else 0
        if own:
            yield Member(name or _name(head), at, size, content)
            name = ""
        elif kind == _LONG_NAME:
            name = content.rstrip(b"\0").decode("utf-8", "replace")
        elif kind == _PAX:
            name = _pax_path(content) or name
        if skipped < size - len(content) + -size % _BLOCK:
            raise TarError(f"the tar archive breaks off at byte {at + len(content) + skipped:,}")
        at += size + -size % _BLOCK


def _skip(read: Read, count: int) -> int:
    done = 0
    while done < count:
        data = read(min(count - done, 1 << 20))
        if not data:
            break
        done += len(data)
    return done


def _number(field: bytes) -> int | None:
    """Octal digits, or base 256 where the first bit is set."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    text = field.strip(b"\0 ")
    return int(text or b"0", 8) if _OCTAL.fullmatch(text) else None


def _checksum(head: bytes) -> int:
    """Of all bytes of the header, its own field as blanks."""
    return sum(head[:148]) + 8 * 32 + sum(head[156:])


def _name(head: bytes) -> str:
    prefix, name = head[345:500].split(b"\0")[0], head[:100].split(b"\0")[0]
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "replace")


def _pax_path(content: bytes) -> str:
    for line in content.split(b"\n"):
        _, _, entry = line.partition(b" ")
        if entry.startswith(b"path="):
            return entry[5:].decode("utf-8", "replace")
    return ""
