"""Where games begin in PGN text: a compiled scanner over every byte of an archive, which parses nothing.

It reads eight bytes at a time. Bytes are compared one by one, not by ``byte in (...)``: Numba makes that several times
slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.kernel import kernel

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Starts = NDArray[np.int64]

NEWLINE, RETURN, SPACE, TAB = 10, 13, 32, 9
OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET = 123, 125, 91, 93
OPEN_PAREN, CLOSE_PAREN, SEMICOLON, PERCENT, QUOTE = 40, 41, 59, 37, 34
_NONE, _ONE, _SEVEN, _ALL = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(0xFFFFFFFFFFFFFFFF)
_ONES, _LOWS = np.uint64(0x0101010101010101), np.uint64(0x7F7F7F7F7F7F7F7F)
_BYTE_INDEX = np.uint64(0x0001020304050607)  # times 256 ** k has k in its highest byte
_TWO_BITS, _BRACES = _ONES * np.uint64(0x60), _ONES * np.uint64(0x7B)
_NOTHING, _TAGS, _MOVES = 0, 1, 2  # what was seen of a game


@kernel
def _zeros(word: Any) -> Any:
    """The high bit of each byte that is zero, and of no other (Hacker's Delight, section 6-1)."""
    return ~(((word & _LOWS) + _LOWS) | word | _LOWS)


@kernel
def _first(marks: Any) -> int:
    """The index of the lowest byte marked by `_zeros`."""
    lowest = (marks & (~marks + _ONE)) >> _SEVEN
    return int((lowest * _BYTE_INDEX) >> np.uint64(56))


@kernel
def _find_one(words: Words, at: int, end: int, byte: int) -> int:
    """The first place of a byte in [at:end) of the memory that `words` is by eight bytes, or -1."""
    wide = _ONES * np.uint64(byte)
    i = at >> 3
    seen = _ALL << np.uint64(8 * (at & 7))
    while i << 3 < end:
        marks = _zeros(words[i] ^ wide) & seen
        if marks != _NONE:
            hit = (i << 3) + _first(marks)
            return hit if hit < end else -1
        seen = _ALL
        i += 1
    return -1


@kernel
def _find(words: Words, at: int, end: int, a: int, b: int, c: int) -> int:
    """The same for the first of three bytes."""
    wide_a, wide_b, wide_c = _ONES * np.uint64(a), _ONES * np.uint64(b), _ONES * np.uint64(c)
    i = at >> 3
    seen = _ALL << np.uint64(8 * (at & 7))
    while i << 3 < end:
        word = words[i]
        marks = (_zeros(word ^ wide_a) | _zeros(word ^ wide_b) | _zeros(word ^ wide_c)) & seen
        if marks != _NONE:
            hit = (i << 3) + _first(marks)
            return hit if hit < end else -1
        seen = _ALL
        i += 1
    return -1


@kernel
def _letter(byte: int) -> bool:
    return 65 <= byte <= 90 or 97 <= byte <= 122 or 48 <= byte <= 57 or byte == 95


@kernel
def is_blank(byte: int) -> bool:
    return (byte == SPACE) | (byte == RETURN) | (byte == TAB)


@kernel
def tag_name_end(data: Bytes, at: int, end: int) -> int:
    """The end of the tag name when a tag line begins at `at` (``[Name``), -1 when none does."""
    if data[at] != OPEN_BRACKET:
        return -1
    name = at + 1
    while name < end and data[name] == SPACE:
        name += 1
    stop = name
    while stop < end and _letter(data[stop]):
        stop += 1
    return stop if stop > name else -1


@kernel
def _same_tag(data: Bytes, at: int, eol: int, tag: int, tag_end: int) -> bool:
    """The tag line data[at:eol] has the tag name data[tag:tag_end], the bracket included."""
    if tag_end <= tag + 1 or at + tag_end - tag >= eol:
        return False
    same = not _letter(data[at + tag_end - tag])
    for i in range(tag_end - tag):
        same = same and data[at + i] == data[tag + i]
    return same


@kernel
def tag_line_rest(data: Bytes, at: int, eol: int) -> int:
    """Where movetext begins behind the tag of the line data[at:eol], or `eol` when nothing but the tag is there."""
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
    """The line data[at:eol] ends with a game's result."""
    last = eol
    while last > at and is_blank(data[last - 1]):
        last -= 1
    first = last
    while first > at and not is_blank(data[first - 1]):
        first -= 1
    return is_result(data, first, last)


@kernel
def is_result(data: Bytes, at: int, end: int) -> bool:
    """``*``, ``1-0``, ``0-1`` or ``1/2-1/2``."""
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
    """The first tag line behind an empty line in data[at:end], or -1: a game that begins inside an unclosed comment."""
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
    """Where scanning goes on after the comment that opens at `brace`; -1 when its end is not in the data.

    PGN comments do not nest. So another opening brace before the closing one, with a header between them, means that
    this comment was never closed and a new game begins at the header: that place is returned.
    """
    close = _find(words, brace + 1, end, OPEN_BRACE, CLOSE_BRACE, CLOSE_BRACE)
    if close >= 0 and data[close] == CLOSE_BRACE:
        return close + 1
    if close < 0:
        return _tags_inside(data, brace, end) if last else -1
    header = _tags_inside(data, brace, close)
    if header >= 0:
        return header
    close = _find_one(words, close, end, CLOSE_BRACE)
    if close >= 0:
        return close + 1
    return _tags_inside(data, brace, end) if last else -1


@kernel
def _pass_movetext(data: Bytes, words: Words, at: int, end: int, last: bool) -> tuple[int, int]:
    """Passes over the rest of a movetext line, and over all lines of comments that begin in it.

    Returns where to go on, and the line's end; (-1, -1) when the data ends in the middle of a comment.
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
            hit = _find_one(words, hit, end, NEWLINE)
        return (hit + 1, hit) if hit >= 0 else (end, end)


@kernel
def _find_special(words: Words, at: int, end: int) -> int:
    """The first ``[``, ``{``, ``;`` or escape character: the bytes that are 0x7B once two bits are set. Or -1."""
    i = at >> 3
    seen = _ALL << np.uint64(8 * (at & 7))
    while i << 3 < end:
        marks = _zeros((words[i] | _TWO_BITS) ^ _BRACES) & seen
        if marks != _NONE:
            hit = (i << 3) + _first(marks)
            return hit if hit < end else -1
        seen = _ALL
        i += 1
    return -1


@kernel
def _next_tag(data: Bytes, words: Words, at: int, end: int, last: bool) -> int:
    """The next tag line behind the movetext that goes on at `at`; `end` when there is none; -1 when the data ends in a
    comment. Lines as such are not looked at, which makes this fast; so an escape line (``%``) counts as movetext."""
    while True:
        hit = _find_special(words, at, end)
        if hit < 0:
            return end
        if data[hit] == OPEN_BRACE:
            at = _comment_end(data, words, hit, end, last)
            if at < 0 or data[at - 1] != CLOSE_BRACE:
                return at  # the header of a new game, inside a comment never closed
        elif data[hit] == SEMICOLON:
            eol = _find_one(words, hit, end, NEWLINE)
            if eol < 0:
                return end
            at = eol + 1
        else:
            at = hit + 1
            begins = data[hit - 1] == NEWLINE or (hit > 2 and is_mark(data, hit - 3, end))
            if begins and data[hit] == OPEN_BRACKET and (at == end or data[at] == SPACE or _letter(data[at])):
                return hit


@kernel
def _pass_tags(data: Bytes, words: Words, at: int, end: int, initial: int) -> int:
    """Passes over whole tag lines whose names do not begin with the letter `initial`."""
    while at + 1 < end and data[at] == OPEN_BRACKET and _letter(data[at + 1]) and data[at + 1] != initial:
        eol = _find_one(words, at, end, NEWLINE)
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
    """Finds where games begin in data[at:end] and writes those places to `starts`; returns how many.

    A game begins at a tag line that follows movetext, at a tag line that repeats the game's first tag (a game
    without moves), and, where games have no tags at all, behind a line that ends with a result. Tag lines inside
    braces begin nothing. `at` is the start of a line. `inside` says that it lies in the movetext of a game begun
    before. The last start is that of a game whose end was not seen; unless `last`, it may be about to grow. Stops
    when `starts` is full.
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
        if data[at] == OPEN_BRACKET and (at + 1 == end or data[at + 1] == SPACE or _letter(data[at + 1])):
            eol = _find_one(words, at, end, NEWLINE)
            if eol < 0:
                if not last:
                    break
                eol = end
            # A game of headers only is one whose first tag comes again.
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
                eol = _find_one(words, at, end, NEWLINE)
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
    """A byte-order mark; also in the middle, where files were joined."""
    return data[at] == 0xEF and at + 3 <= end and data[at + 1] == 0xBB and data[at + 2] == 0xBF
