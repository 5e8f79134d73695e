"""Follows the outline of a zstd stream, to tell a stream that ends from one that breaks off.

The decompressor reads across frames at full speed but does not say whether the last frame was whole. The outline is
cheap: a frame header, then blocks of known size (RFC 8878, section 3.1).
"""

from __future__ import annotations

FRAME_MAGIC = 0xFD2FB528
SKIPPABLE_MAGIC = 0x184D2A50  # and the fifteen values after it


class ZstdOutline:
    """Feed it the compressed bytes in order; `whole` says whether they end where a frame ends."""

    def __init__(self) -> None:
        self._head = b""  # bytes of a header not yet complete
        self._skip = 0  # bytes of content to pass over
        self._state = "frame"  # what the next header is of: a frame, a block
        self._checksum = False
        self._lost = False  # no zstd frame here: the decompressor says what is wrong

    @property
    def whole(self) -> bool:
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
            taken = data[at : at + need]
            self._head += taken
            at += len(taken)
            if len(taken) == need and len(self._head) == self._header_size():
                self._read_header()

    def _header_size(self) -> int:
        """Bytes of the next header, as far as those already here tell."""
        if self._state == "block":
            return 3
        if len(self._head) < 5:
            return 5
        if self._magic() != FRAME_MAGIC:
            return 8
        descriptor = self._head[4]
        single = descriptor >> 5 & 1
        content_size = (single, 2, 4, 8)[descriptor >> 6]
        dictionary = (0, 1, 2, 4)[descriptor & 3]
        return 5 + (1 - single) + dictionary + content_size

    def _magic(self) -> int:
        return int.from_bytes(self._head[:4], "little")

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
