"""Reads archives ahead of their user, in a thread: decompression runs while games are split and parsed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from valuerepair.archives.open import OnBytes, Source, Stream
from valuerepair.archives.split import HEADROOM, Bytes, new_buffer

PIECE = 1 << 20  # bytes; the cut into pieces does not depend on how the bytes arrive
AHEAD = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """`length` bytes of a source in ``buffer[HEADROOM:]``. `broken` (last piece only) says how the stream broke off."""

    source: Source
    buffer: Bytes
    length: int
    first: bool
    last: bool
    broken: str | None


class Pieces:
    """The pieces of all sources in order, of each at most `most` bytes; a context manager that ends its thread."""

    def __init__(
        self, sources: Sequence[Source], on_bytes: OnBytes | None = None, piece: int = PIECE, most: int | None = None
    ) -> None:
        self._sources, self._on_bytes, self._size, self._most = sources, on_bytes, piece, most
        self._full: queue.Queue[Piece | BaseException | None] = queue.Queue()
        self._free: queue.Queue[Bytes | None] = queue.Queue()
        for _ in range(AHEAD):
            self._free.put(new_buffer(piece))
        self._stop = False
        self._thread = threading.Thread(target=self._read_all, name="archive reader", daemon=True)

    def __enter__(self) -> Pieces:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop = True
        self._free.put(None)
        # A read of standard input cannot be interrupted; the thread is a daemon and dies with the process.
        self._thread.join(timeout=1.0)

    def __iter__(self) -> Iterator[Piece]:
        """Each piece's buffer is used again once the next piece is asked for."""
        while True:
            item = self._full.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
            self._free.put(item.buffer)

    def _read_all(self) -> None:
        try:
            for source in self._sources:
                self._read(source)
                if self._stop:
                    return
            self._full.put(None)
        except BaseException as error:  # handed to the user of the pieces, in its own thread
            self._full.put(error)

    def _read(self, source: Source) -> None:
        with Stream(source, self._on_bytes, self._most) as stream:
            first, last = True, False
            while not last:
                buffer = self._free.get()
                if buffer is None or self._stop:
                    self._stop = True
                    return
                length = stream.read_into(buffer.data[HEADROOM:])
                last = length < self._size
                self._full.put(Piece(source, buffer, length, first, last, stream.broken))
                first = False
