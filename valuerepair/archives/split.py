"""Splits PGN text into games without parsing: a thread reads ahead, and a compiled scanner finds the games."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.open import OnBytes, Source, Stream
from valuerepair.arrays import Bytes
from valuerepair.chess.bits import ALL, ZERO, lowest
from valuerepair.chess.jit import inlined_kernel, kernel

HEADROOM = 1 << 18  # bytes before a piece, a multiple of 8
MAX_GAME = 1 << 23  # bytes; anything longer is not a game
_STARTS = 1 << 15


@dataclass(frozen=True, slots=True)
class SplitGames:
    """Consecutive games in a buffer: game i is ``data[cuts[i]:cuts[i + 1]]``.

    `first` is the 1-based number of game 0 in its archive, `base` the offset of ``data[0]`` in the stream. If the games
    are `unfinished`, the last one ends where the stream broke off. If they are `overlong`, there is one game, longer
    than `MAX_GAME`, and `data` has only its beginning.
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
        self._inside = False  # the next piece begins inside an overlong game, which is skipped
        self._starts = np.empty(_STARTS, np.int64)

    def feed(self, buffer: Bytes, length: int, *, last: bool = False, cut: bool = False) -> list[SplitGames]:
        """The games that this piece completes. They refer to `buffer`; use them before it is filled again.

        `buffer` holds the piece in ``[HEADROOM:HEADROOM + length]``. `cut`: the stream broke off there.
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
        games = self._cut(buffer, begin, end, base, last)
        if cut and games:
            games[-1] = replace(games[-1], unfinished=True)
        return games

    def _cut(self, data: Bytes, begin: int, end: int, base: int, last: bool) -> list[SplitGames]:
        words = data[: len(data) & ~7].view(np.uint64)
        games: list[SplitGames] = []
        at = begin
        while True:
            n = find_games(data, words, at, end, last, self._inside, self._starts)
            self._inside = self._inside and not n
            full = n == len(self._starts)
            closed = n if last and not full else n - 1
            if closed > 0:
                cuts = np.append(self._starts[:n], end) if closed == n else self._starts[:n].copy()
                games.append(self._numbered(data, cuts, base))
            at = int(self._starts[n - 1]) if n else at
            if not full:
                break
        if last:
            self._carry = self._carry[:0]
        elif end - at > MAX_GAME:
            games += self._give_up(data, at, end, base, words)
        else:
            self._carry = data[at:end].copy() if n or not self._inside else self._line(data, at, end)
        return games

    def _give_up(self, data: Bytes, at: int, end: int, base: int, words: NDArray[np.uint64]) -> list[SplitGames]:
        """Splits more than `MAX_GAME` bytes in which no game ends, as if the stream ended here.

        This finds the games that an unclosed comment hides. An endless game is returned once, marked as overlong, and
        skipped up to the next header.
        """
        games: list[SplitGames] = []
        n = 0 if self._inside else find_games(data, words, at, end, True, False, self._starts)
        if n > 1:
            games.append(self._numbered(data, self._starts[:n].copy(), base))
            at = int(self._starts[n - 1])
        if end - at > MAX_GAME:
            if n:
                games.append(replace(self._numbered(data, np.array([at, end], np.int64), base), overlong=True))
                self._inside = True
            self._carry = self._line(data, at, end)
        else:
            self._carry = data[at:end].copy()
        return games

    @staticmethod
    def _line(data: Bytes, at: int, end: int) -> Bytes:
        """The unfinished last line: of text that belongs to no game, only this must be kept."""
        tail = data[max(at, end - HEADROOM // 2) : end]
        breaks = np.flatnonzero(tail == 10)
        line: Bytes = tail[breaks[-1] + 1 if len(breaks) else len(tail) :].copy()
        return line

    def _numbered(self, data: Bytes, cuts: NDArray[np.int64], base: int) -> SplitGames:
        games = SplitGames(data, cuts, self.games + 1, base)
        self.games += len(games)
        return games


Words = NDArray[np.uint64]
Starts = NDArray[np.int64]

NEWLINE, RETURN, SPACE, TAB = 10, 13, 32, 9
OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET = 123, 125, 91, 93
OPEN_PAREN, CLOSE_PAREN, SEMICOLON, PERCENT, QUOTE = 40, 41, 59, 37, 34
_ONES, _LOWS = np.uint64(0x0101010101010101), np.uint64(0x7F7F7F7F7F7F7F7F)
_NOTHING, _TAGS, _MOVES = 0, 1, 2  # the section of a game that a line belongs to


@kernel
def _zeros(word: Any) -> Any:
    """Sets the high bit of each byte that is zero, and no other bit (Hacker's Delight, section 6-1)."""
    return ~(((word & _LOWS) + _LOWS) | word | _LOWS)


@inlined_kernel
def _find(words: Words, at: int, end: int, a: int, b: int, c: int) -> int:
    """The first index in [at:end) of one of three bytes, or -1; `words` is the memory in groups of eight bytes.

    It is inlined where the bytes are constants, so a search for one byte, given three times, costs no more.
    """
    wide_a, wide_b, wide_c = _ONES * np.uint64(a), _ONES * np.uint64(b), _ONES * np.uint64(c)
    i = at >> 3
    unread = ALL << np.uint64(8 * (at & 7))
    while i << 3 < end:
        word = words[i]
        marks = (_zeros(word ^ wide_a) | _zeros(word ^ wide_b) | _zeros(word ^ wide_c)) & unread
        if marks != ZERO:
            hit = (i << 3) + (lowest(marks) >> 3)
            return hit if hit < end else -1
        unread = ALL
        i += 1
    return -1


@inlined_kernel
def _newline(words: Words, at: int, end: int) -> int:
    """The end of the line that contains `at`, or -1."""
    return _find(words, at, end, NEWLINE, NEWLINE, NEWLINE)


@kernel
def _is_letter(byte: int) -> bool:
    return 65 <= byte <= 90 or 97 <= byte <= 122 or 48 <= byte <= 57 or byte == 95


@kernel
def is_blank(byte: int) -> bool:
    return (byte == SPACE) | (byte == RETURN) | (byte == TAB)


@kernel
def tag_name_end(data: Bytes, at: int, end: int) -> int:
    """The end of the tag name if a tag line begins at `at` (``[Name``), otherwise -1."""
    if data[at] != OPEN_BRACKET:
        return -1
    name = at + 1
    while name < end and data[name] == SPACE:
        name += 1
    stop = name
    while stop < end and _is_letter(data[stop]):
        stop += 1
    return stop if stop > name else -1


@kernel
def _same_tag(data: Bytes, at: int, eol: int, tag: int, tag_end: int) -> bool:
    """Whether the tag line data[at:eol] has the tag name data[tag:tag_end], the bracket included."""
    if tag_end <= tag + 1 or at + tag_end - tag >= eol:
        return False
    is_same = not _is_letter(data[at + tag_end - tag])
    for i in range(tag_end - tag):
        is_same = is_same and data[at + i] == data[tag + i]
    return is_same


@kernel
def tag_line_rest(data: Bytes, at: int, eol: int) -> int:
    """Where movetext begins after the tag of the line data[at:eol]; `eol` if the line has only the tag."""
    last = eol - 1
    while last > at and is_blank(data[last]):
        last -= 1
    if data[last] == CLOSE_BRACKET:
        return eol  # nearly always
    for i in range(at + 1, last):
        if data[i] == QUOTE and data[i + 1] == CLOSE_BRACKET:
            return i + 2
    return eol  # a tag that is not closed


@kernel
def _ends_with_result(data: Bytes, at: int, eol: int) -> bool:
    """Whether the line data[at:eol] ends with a game's result."""
    last = eol
    while last > at and is_blank(data[last - 1]):
        last -= 1
    first = last
    while first > at and not is_blank(data[first - 1]):
        first -= 1
    return is_result(data, first, last)


@kernel
def is_result(data: Bytes, at: int, end: int) -> bool:
    """Whether the token is ``*``, ``1-0``, ``0-1`` or ``1/2-1/2``."""
    size = end - at
    if size == 1:
        return bool(data[at] == 42)
    if size == 3:
        white = data[at] == 49 and data[at + 2] == 48
        return bool(data[at + 1] == 45 and (white or (data[at] == 48 and data[at + 2] == 49)))
    if size == 7:
        for i in range(3):
            if data[at + i] != data[at + 4 + i]:
                return False
        return bool(data[at] == 49 and data[at + 1] == 47 and data[at + 2] == 50 and data[at + 3] == 45)
    return False


@kernel
def _tags_inside(data: Bytes, at: int, end: int) -> int:
    """The first tag line after an empty line in data[at:end], or -1: a game that begins inside an unclosed comment."""
    for i in range(at, end - 3):
        if data[i] != NEWLINE:
            continue
        line = i + 1
        if data[line] == RETURN:
            line += 1
        if line + 1 < end and data[line] == NEWLINE and tag_name_end(data, line + 1, end) > 0:
            return line + 1
    return -1


@kernel
def _comment_end(data: Bytes, words: Words, brace: int, end: int, last: bool) -> int:
    """Where to continue after the comment that opens at `brace`; -1 if its end is not in the data.

    PGN comments do not nest. Another opening brace before the closing one, with a header between them, therefore means
    that this comment was never closed and a new game begins at the header, which is then returned.
    """
    close = _find(words, brace + 1, end, OPEN_BRACE, CLOSE_BRACE, CLOSE_BRACE)
    if close >= 0 and data[close] == CLOSE_BRACE:
        return close + 1
    if close < 0:
        return _tags_inside(data, brace, end) if last else -1
    header = _tags_inside(data, brace, close)
    if header >= 0:
        return header
    close = _find(words, close, end, CLOSE_BRACE, CLOSE_BRACE, CLOSE_BRACE)
    if close >= 0:
        return close + 1
    return _tags_inside(data, brace, end) if last else -1


@kernel
def _pass_movetext(data: Bytes, words: Words, at: int, end: int, last: bool) -> tuple[int, int]:
    """Passes over the rest of a movetext line, and over all lines of comments that begin in it.

    Returns where to continue, and the line's end; (-1, -1) if the data ends inside a comment.
    """
    while True:
        hit = _find(words, at, end, NEWLINE, OPEN_BRACE, SEMICOLON)
        if hit >= 0 and data[hit] == OPEN_BRACE:
            at = _comment_end(data, words, hit, end, last)
            if at < 0:
                return -1, -1
            if data[at - 1] != CLOSE_BRACE:
                return at, at  # a new game's header, inside a comment never closed
            continue
        if hit >= 0 and data[hit] == SEMICOLON:
            hit = _newline(words, hit, end)
        return (hit + 1, hit) if hit >= 0 else (end, end)


@kernel
def _next_tag(data: Bytes, words: Words, at: int, end: int, last: bool) -> int:
    """The next tag line after the movetext at `at`; `end` if there is no tag line; -1 if the data ends in a comment.

    It is fast because it does not look at single lines; an escape line (``%``) counts as movetext.
    """
    while True:
        hit = _find(words, at, end, OPEN_BRACKET, OPEN_BRACE, SEMICOLON)
        if hit < 0:
            return end
        if data[hit] == OPEN_BRACE:
            at = _comment_end(data, words, hit, end, last)
            if at < 0 or data[at - 1] != CLOSE_BRACE:
                return at  # the header of a new game, inside a comment never closed
        elif data[hit] == SEMICOLON:
            eol = _newline(words, hit, end)
            if eol < 0:
                return end
            at = eol + 1
        else:
            at = hit + 1
            begins = data[hit - 1] == NEWLINE or (hit > 2 and is_mark(data, hit - 3, end))
            if begins and (at == end or data[at] == SPACE or _is_letter(data[at])):
                return hit


@kernel
def _pass_tags(data: Bytes, words: Words, at: int, end: int, initial: int) -> int:
    """Passes over whole tag lines whose names do not begin with the letter `initial`."""
    while at + 1 < end and data[at] == OPEN_BRACKET and _is_letter(data[at + 1]) and data[at + 1] != initial:
        eol = _newline(words, at, end)
        if eol < 0 or (data[eol - 1] != CLOSE_BRACKET and (data[eol - 1] != RETURN or data[eol - 2] != CLOSE_BRACKET)):
            break
        at = eol + 1
    return at


@kernel
def pass_blanks(data: Bytes, at: int, end: int) -> int:
    while at < end and is_blank(data[at]):
        at += 1
    return at


@kernel
def find_games(data: Bytes, words: Words, at: int, end: int, last: bool, inside: bool, starts: Starts) -> int:
    """Writes to `starts` where games begin in data[at:end]; returns the number of games.

    A game begins at a tag line that follows movetext, at a tag line that repeats the game's first tag (the game before
    has no moves), and, where games have no tags at all, after a line that ends with a result. Tag lines inside braces
    begin no game. `at` is the start of a line; `inside` says whether this line is movetext of an earlier game. The last
    game may continue after the data, unless this is the `last` piece. Stops when `starts` is full.
    """
    n = 0
    section = _MOVES if inside else _NOTHING
    tag, tag_end = 0, 0  # the name of the current game's first tag; empty when it has none
    over = False  # the last movetext line ended with a result
    while at < end and n < len(starts):
        line = at
        if is_mark(data, at, end):
            at += 3
            continue
        if data[at] == OPEN_BRACKET and (at + 1 == end or data[at + 1] == SPACE or _is_letter(data[at + 1])):
            eol = _newline(words, at, end)
            if eol < 0:
                if not last:
                    break
                eol = end
            # A game has only headers if its first tag is repeated.
            if section != _TAGS or (data[at + 1] == data[tag + 1] and _same_tag(data, at, eol, tag, tag_end)):
                starts[n] = line
                n += 1
                tag, tag_end = at, max(tag_name_end(data, at, eol), at)
            section = _TAGS
            at = tag_line_rest(data, at, eol)
            if at == eol:
                at = _pass_tags(data, words, eol + 1, end, data[tag + 1])
                continue
        else:
            text = pass_blanks(data, at, end)
            if text == end:
                break
            if data[text] == NEWLINE:
                at = text + 1
                continue
            if data[at] == PERCENT:
                eol = _newline(words, at, end)
                at = eol + 1 if eol >= 0 else end
                continue
            if section == _NOTHING or (over and tag_end == tag):
                starts[n] = line
                n += 1
                tag, tag_end = 0, 0
        section = _MOVES
        if tag_end > tag:
            at = _next_tag(data, words, at, end, last)
        else:
            at, eol = _pass_movetext(data, words, at, end, last)
            over = at >= 0 and _ends_with_result(data, line, eol)
        if at < 0:
            break
    return n


@kernel
def is_mark(data: Bytes, at: int, end: int) -> bool:
    """Whether a byte-order mark begins here; in joined files it also occurs in the middle."""
    return data[at] == 0xEF and at + 3 <= end and data[at + 1] == 0xBB and data[at + 2] == 0xBF


PIECE = 1 << 20  # bytes; the division into pieces does not depend on how the bytes arrive
AHEAD = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """`length` bytes of a source in ``buffer[HEADROOM:]``, unpacked from `packed` bytes of the file.

    `broken`, of the last piece only, says how the stream broke off.
    """

    source: Source
    buffer: Bytes
    length: int
    packed: int
    first: bool
    last: bool
    broken: str | None


class Pieces:
    """The pieces of all sources in order, at most `most` bytes of each source; a context manager that ends its thread.

    `on_bytes` is called with the number of packed bytes of each piece when the piece is yielded.
    """

    def __init__(self, sources: Sequence[Source], on_bytes: OnBytes | None = None, most: int | None = None) -> None:
        self._sources, self._on_bytes, self._most = sources, on_bytes, most
        self._full: queue.Queue[Piece | BaseException | None] = queue.Queue()
        self._free: queue.Queue[Bytes | None] = queue.Queue()
        for _ in range(AHEAD):
            self._free.put(new_buffer(PIECE))
        self._stop, self._packed = False, 0  # bytes read since the last piece
        self._thread = threading.Thread(target=self._read_all, name="archive reader", daemon=True)

    def __enter__(self) -> Pieces:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._free.put(None)
        # A read of standard input cannot be interrupted; the thread is a daemon and dies with the process.
        self._thread.join(timeout=1.0)

    def __iter__(self) -> Iterator[Piece]:
        """Yields the pieces; requesting the next one frees the buffer of the last one."""
        while True:
            item = self._full.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            if self._on_bytes is not None:
                self._on_bytes(item.packed)
            yield item
            self._free.put(item.buffer)

    def _read_all(self) -> None:
        try:
            for source in self._sources:
                self._read(source)
                if self._stop:
                    return
            self._full.put(None)
        except BaseException as error:  # `__iter__` raises it in the thread that reads the pieces
            self._full.put(error)

    def _read(self, source: Source) -> None:
        with Stream(source, self._count, self._most) as stream:
            first, last, by_returns = True, False, False
            while not last:
                buffer = self._free.get()
                if buffer is None or self._stop:
                    self._stop = True
                    return
                length = stream.read_into(buffer.data[HEADROOM:])
                last = length < PIECE
                content = buffer[HEADROOM : HEADROOM + length]
                if first:  # old Macintosh files end lines in a carriage return alone
                    by_returns = NEWLINE not in content
                if by_returns:
                    content[content == RETURN] = NEWLINE
                self._full.put(Piece(source, buffer, length, self._packed_since(), first, last, stream.broken))
                first = False

    def _count(self, amount: int) -> None:
        self._packed += amount

    def _packed_since(self) -> int:
        """The bytes read since the last call."""
        packed, self._packed = self._packed, 0
        return packed
