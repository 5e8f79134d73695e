"""Tells lc0's training chunks from other files by their first bytes: records begin with their version."""

from __future__ import annotations

import re
import zlib

HEAD = 1024
_GZIP = b"\x1f\x8b"
_LARGEST_VERSION = 31  # the first byte of no text
_CHUNK_NAME = re.compile(r"(?:game_|training[._])\d+(?:[._]\d+)*\.gz")
_NO_INNER_ENDING = re.compile(r"[^.]+(?:\.\d+)*\.gz")


def chunk_version(head: bytes) -> int | None:
    """The version of the training record that unpacked bytes begin with; None when they are no such record."""
    version = int.from_bytes(head[:4], "little")
    return version if len(head) >= 8 and 0 < version <= _LARGEST_VERSION else None


def unpacked(head: bytes, size: int = 64) -> bytes:
    """The beginning of what is in a file that begins so: gzip is unpacked, anything else given as it is."""
    if head[:2] != _GZIP:
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, size)
    except zlib.error:
        return b""


def is_chunk_file(path: str) -> bool:
    """The file is a training chunk, packed or not."""
    with open(path, "rb") as file:
        return chunk_version(unpacked(file.read(HEAD))) is not None


def named_as_chunk(name: str) -> bool:
    """The file has a name as lc0 gives to chunks."""
    return _CHUNK_NAME.fullmatch(name) is not None


def counts_as_chunk(path: str, name: str) -> bool:
    """A file of a folder is a training chunk: by its name, or by content where the name says nothing."""
    if named_as_chunk(name):
        return True
    return _NO_INNER_ENDING.fullmatch(name) is not None and is_chunk_file(path)
