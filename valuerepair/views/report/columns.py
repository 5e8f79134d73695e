"""Numbers for a page as flat little-endian arrays, which JavaScript reads in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.positions import encode_move, encode_moves

_ALIGN = 8  # the largest number; a typed array begins at a multiple of its numbers' size


class Columns:
    """Arrays by name, one behind the other; `layout` says where each lies, `content` are their bytes."""

    def __init__(self) -> None:
        self.layout: dict[str, dict[str, Any]] = {}
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, name: str, values: NDArray[Any]) -> None:
        """Adds an array of one of the types f8, f4, u4, u2, u1."""
        content = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        kind = values.dtype.str.lstrip("<|=>")
        self.layout[name] = {"type": kind, "offset": self._size, "length": len(values)}
        padded = content + b"\0" * (-len(content) % _ALIGN)
        self._pieces.append(padded)
        self._size += len(padded)

    def add_lines(self, name: str, lines: Sequence[str]) -> None:
        """Adds lines of UCI moves joined by blanks: all moves in one array, and where each line begins.

        Moves are numbers as in `valuerepair.positions`; line i is ``name[name_from[i] : name_from[i + 1]]``.
        """
        split = [line.split() if line else [] for line in lines]
        flat = encode_moves([move for line in split for move in line])
        self.add_moves(name, flat, np.cumsum([0, *map(len, split)]))

    def add_moves(self, name: str, moves: NDArray[np.uint16], begins: NDArray[np.int64]) -> None:
        """Adds lines that are numbers already."""
        self.add(name, moves)
        self.add(f"{name}_from", begins.astype(np.uint32))

    def add_words(self, name: str, words: Sequence[str | None]) -> list[str]:
        """Adds words as numbers, 0 for none; returns the list that the numbers count in, its first word empty."""
        known = ["", *sorted({word for word in words if word})]
        place = {word: i for i, word in enumerate(known)}
        self.add(name, np.array([place[word or ""] for word in words], np.uint32))
        return known

    @property
    def content(self) -> bytes:
        return b"".join(self._pieces)


def moves_column(moves: Sequence[str | None]) -> NDArray[np.uint16]:
    """[n] single UCI moves as numbers, 0 for none (a1a1, which is no move)."""
    return np.array([encode_move(move) if move else 0 for move in moves], np.uint16)
