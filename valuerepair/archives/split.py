"""A streaming splitter: from pieces of decompressed PGN text to games and their byte offsets, without parsing.

A piece comes in a buffer with room before it, into which the unfinished game of the piece before is copied; so the
text is never copied as a whole, and memory stays at a few pieces however large the archive is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.scan import find_games

HEADROOM = 1 << 18  # bytes before a piece, a multiple of 8
MAX_GAME = 1 << 23  # bytes; a "game" longer than this is none
_STARTS = 1 << 15

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Games:
    """Consecutive games in a buffer: game i is ``data[cuts[i]:cuts[i + 1]]``.

    `first` is the 1-based number of game 0 in its archive, `base` the stream offset of ``data[0]``. `unfinished` says
    that the last game ends where the stream was cut, `overlong` that the only game here is longer than `MAX_GAME`
    and only its beginning is given.
    """

    data: Bytes
    cuts: NDArray[np.int64]
    first: int
    base: int
    unfinished: bool = False
    overlong: bool = False

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def text(self, i: int) -> bytes:
        return self.data[self.cuts[i] : self.cuts[i + 1]].tobytes()

    def offset(self, i: int) -> int:
        """The byte at which game i begins in the decompressed stream."""
        return self.base + int(self.cuts[i])


def new_buffer(piece: int) -> Bytes:
    """A buffer for pieces of up to `piece` bytes (a multiple of 8); the piece begins at ``HEADROOM``."""
    return np.empty(HEADROOM + piece, np.uint8)


class Splitter:
    """Finds the games of one archive. Feed its pieces in order; the last one (it may be empty) with ``last=True``."""

    def __init__(self) -> None:
        self.games = 0
        self._carry = np.empty(0, np.uint8)
        self._offset = 0  # stream offset of the next piece
        self._inside = False  # the next piece begins inside a game that was given up as overlong
        self._starts = np.empty(_STARTS, np.int64)

    def feed(self, buffer: Bytes, length: int, *, last: bool = False, cut: bool = False) -> list[Games]:
        """The games that are complete now. They refer to `buffer`; use them before it is filled again.

        `buffer` holds the piece in ``[HEADROOM:HEADROOM + length]``. `cut` says that the stream broke off there.
        """
        begin = HEADROOM - len(self._carry)
        if begin < 0:
            piece = buffer[HEADROOM : HEADROOM + length]
            buffer = new_buffer((len(self._carry) + length + 7) & ~7)
            begin = HEADROOM
            buffer[begin : begin + len(self._carry)] = self._carry
            buffer[begin + len(self._carry) : begin + len(self._carry) + length] = piece
        else:
            buffer[begin:HEADROOM] = self._carry
        end = begin + len(self._carry) + length
        base = self._offset - len(self._carry) - begin
        self._offset += length
        found = self._cut(buffer, begin, end, base, last)
        if cut and found:
            found[-1] = Games(found[-1].data, found[-1].cuts, found[-1].first, base, unfinished=True)
        return found

    def _cut(self, data: Bytes, begin: int, end: int, base: int, last: bool) -> list[Games]:
        words = data[: len(data) & ~7].view(np.uint64)
        found: list[Games] = []
        at = begin
        while True:
            n = find_games(data, words, at, end, last, self._inside, self._starts)
            if n and self._inside:
                self._inside = False
            full = n == len(self._starts)
            closed = n if last and not full else n - 1
            if closed > 0:
                cuts = np.append(self._starts[:n], end) if closed == n else self._starts[:n].copy()
                found.append(self._numbered(data, cuts, base))
            at = int(self._starts[n - 1]) if n else at
            if not full:
                break
        if last:
            self._carry = self._carry[:0]
        elif end - at > MAX_GAME:
            found += self._give_up(data, at, end, base, words)
        else:
            self._carry = data[at:end].copy() if n or not self._inside else self._line(data, at, end)
        return found

    def _give_up(self, data: Bytes, at: int, end: int, base: int, words: NDArray[np.uint64]) -> list[Games]:
        """More bytes without the end of a game than a game has: look again as if the stream ended here.

        An unclosed comment then lets go of the games it swallowed. Where there is really one endless game, it is
        given once, marked, and skipped up to the next header.
        """
        found: list[Games] = []
        n = 0 if self._inside else find_games(data, words, at, end, True, False, self._starts)
        if n > 1:
            found.append(self._numbered(data, self._starts[:n].copy(), base))
            at = int(self._starts[n - 1])
        if end - at > MAX_GAME:
            if n:
                games = self._numbered(data, np.array([at, end], np.int64), base)
                found.append(Games(games.data, games.cuts, games.first, base, overlong=True))
                self._inside = True
            self._carry = self._line(data, at, end)
        else:
            self._carry = data[at:end].copy()
        return found

    @staticmethod
    def _line(data: Bytes, at: int, end: int) -> Bytes:
        """The unfinished line at the end: all that is kept of text which belongs to no game."""
        tail = data[max(at, end - HEADROOM // 2) : end]
        breaks = np.flatnonzero(tail == 10)
        line: Bytes = tail[breaks[-1] + 1 if len(breaks) else len(tail) :].copy()
        return line

    def _numbered(self, data: Bytes, cuts: NDArray[np.int64], base: int) -> Games:
        games = Games(data, cuts, self.games + 1, base)
        self.games += len(games)
        return games
