"""Byte scanners over PGN text, compiled: where games begin, and how many moves a game's text holds.

Neither parses moves. `find_games` runs over every byte of an archive, so it reads eight bytes at a time; `census` runs
over the sampled games only and is the check that the real reader did not stop in the middle of one.

All kernels lie in this one module and read nothing from others: Numba's cache does not notice changes elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Starts = NDArray[np.int64]

# What `census` notices about a game's movetext.
OPEN_COMMENT = 1  # a comment without its end
OPEN_VARIATION = 2  # a variation without its end
MOVES_AFTER_RESULT = 4
BLANK_LINE = 8  # an empty line between moves: where the Rust reader stops
NULL_MOVE = 16
NUL_BYTE = 32
HAS_TAGS = 64

_NEWLINE, _RETURN, _SPACE, _TAB = 10, 13, 32, 9
_OPEN_BRACE, _CLOSE_BRACE, _OPEN_BRACKET, _CLOSE_BRACKET = 123, 125, 91, 93
_OPEN_PAREN, _CLOSE_PAREN, _SEMICOLON, _PERCENT, _QUOTE, _DOLLAR = 40, 41, 59, 37, 34, 36
_NONE, _ONE, _SEVEN, _ALL = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(0xFFFFFFFFFFFFFFFF)
_ONES, _LOWS = np.uint64(0x0101010101010101), np.uint64(0x7F7F7F7F7F7F7F7F)
_BYTE_INDEX = np.uint64(0x0001020304050607)  # times 256 ** k has k in its highest byte
# Sections of a game: nothing yet, tag lines, an empty line after tags, movetext.
_NOTHING, _TAGS, _GAP, _MOVES = 0, 1, 2, 3

F = TypeVar("F", bound=Callable[..., Any])


def _compiled(function: F) -> F:
    return cast(F, njit(nogil=True, cache=True, error_model="numpy")(function))


@_compiled
def _zeros(word: Any) -> Any:
    """The high bit of each byte that is zero, and of no other (Hacker's Delight, section 6-1)."""
    return ~(((word & _LOWS) + _LOWS) | word | _LOWS)


@_compiled
def _first(marks: Any) -> int:
    """The index of the lowest byte marked by `_zeros`."""
    lowest = (marks & (~marks + _ONE)) >> _SEVEN
    return np.int64((lowest * _BYTE_INDEX) >> np.uint64(56))


@_compiled
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


@_compiled
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


@_compiled
def _letter(byte: int) -> bool:
    return 65 <= byte <= 90 or 97 <= byte <= 122 or 48 <= byte <= 57 or byte == 95


@_compiled
def _tag_name_end(data: Bytes, at: int, end: int) -> int:
    """The end of the tag name when a tag line begins at `at` (``[Name``), -1 when none does."""
    if data[at] != _OPEN_BRACKET:
        return -1
    name = at + 1
    while name < end and data[name] == _SPACE:
        name += 1
    stop = name
    while stop < end and _letter(data[stop]):
        stop += 1
    return stop if stop > name else -1


@_compiled
def _same(data: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    if a_end - a != b_end - b:
        return False
    for i in range(a_end - a):
        if data[a + i] != data[b + i]:
            return False
    return True


@_compiled
def _same_initial(data: Bytes, a: int, b: int, end: int) -> bool:
    return a + 1 < end and data[a + 1] == data[b + 1]


@_compiled
def _is_event(data: Bytes, at: int, end: int) -> bool:
    return (
        end - at == 6
        and data[at + 1] == 69
        and data[at + 2] == 118
        and data[at + 3] == 101
        and data[at + 4] == 110
        and data[at + 5] == 116
    )


@_compiled
def _tag_line_rest(data: Bytes, at: int, eol: int) -> int:
    """Where movetext begins behind the tag of the line data[at:eol], or `eol` when nothing but the tag is there."""
    last = eol - 1
    while last > at and (data[last] == _SPACE or data[last] == _RETURN or data[last] == _TAB):
        last -= 1
    if data[last] == _CLOSE_BRACKET:
        return eol
    for i in range(at + 1, last):
        if data[i] == _QUOTE and data[i + 1] == _CLOSE_BRACKET:
            return i + 2
    return eol  # a tag that is not closed


@_compiled
def _ends_with_result(data: Bytes, at: int, eol: int) -> bool:
    """The line data[at:eol] ends with a game's result."""
    last = eol
    while last > at and (data[last - 1] == _SPACE or data[last - 1] == _RETURN or data[last - 1] == _TAB):
        last -= 1
    first = last
    while first > at and data[first - 1] != _SPACE and data[first - 1] != _TAB:
        first -= 1
    return _is_result(data, first, last)


@_compiled
def _is_result(data: Bytes, at: int, end: int) -> bool:
    """``*``, ``1-0``, ``0-1`` or ``1/2-1/2``."""
    size = end - at
    if size == 1:
        return data[at] == 42
    if size == 3:
        return data[at + 1] == 45 and (
            (data[at] == 49 and data[at + 2] == 48) or (data[at] == 48 and data[at + 2] == 49)
        )
    if size == 7:
        for i in range(3):
            if data[at + i] != data[at + 4 + i]:
                return False
        return data[at] == 49 and data[at + 1] == 47 and data[at + 2] == 50 and data[at + 3] == 45
    return False


@_compiled
def _tags_inside(data: Bytes, at: int, end: int) -> int:
    """The first tag line behind an empty line in data[at:end], or -1: a game that begins inside an unclosed comment."""
    for i in range(at, end - 3):
        if data[i] != _NEWLINE:
            continue
        line = i + 1
        if data[line] == _RETURN:
            line += 1
        if line + 1 < end and data[line] == _NEWLINE and _tag_name_end(data, line + 1, end) > 0:
            return line + 1
    return -1


@_compiled
def _comment_end(data: Bytes, words: Words, brace: int, end: int, last: bool) -> int:
    """Where scanning goes on after the comment that opens at `brace`; -1 when its end is not in the data.

    PGN comments do not nest. So another opening brace before the closing one, with a header between them, means that
    this comment was never closed and a new game begins at the header: that place is returned.
    """
    close = _find(words, brace + 1, end, _OPEN_BRACE, _CLOSE_BRACE, _CLOSE_BRACE)
    if close >= 0 and data[close] == _CLOSE_BRACE:
        return close + 1
    if close < 0:
        return _tags_inside(data, brace, end) if last else -1
    header = _tags_inside(data, brace, close)
    if header >= 0:
        return header
    close = _find_one(words, close, end, _CLOSE_BRACE)
    if close >= 0:
        return close + 1
    return _tags_inside(data, brace, end) if last else -1


@_compiled
def find_games(data: Bytes, words: Words, at: int, end: int, last: bool, inside: bool, starts: Starts) -> int:
    """Finds where games begin in data[at:end] and writes those places to `starts`; returns how many.

    A game begins at a tag line that follows movetext, at a tag line that repeats the first tag of a game without
    moves, and, where games have no tags at all, behind a line that ends with a result. Tag lines inside braces begin
    nothing. `at` is the start of a line. `inside` says that it lies in the movetext of a game begun before. The last
    start is that of a game whose end was not seen; unless `last`, it may be about to grow. Stops when `starts` is full.
    """
    n = 0
    section = _MOVES if inside else _NOTHING
    first_tag, first_tag_end = 0, 0  # of the current game; equal when it has no tags
    over = False  # the last movetext line ended with a result
    while at < end and n < len(starts):
        line = at
        if data[at] == 0xEF and at + 3 <= end and data[at + 1] == 0xBB and data[at + 2] == 0xBF:
            at += 3  # a byte-order mark, also where files were joined
            continue
        tag = data[at] == _OPEN_BRACKET and (at + 1 == end or data[at + 1] == _SPACE or _letter(data[at + 1]))
        if tag:
            eol = _find_one(words, at, end, _NEWLINE)
            if eol < 0:
                if not last:
                    break
                eol = end
            fresh = section == _MOVES or section == _NOTHING
            if not fresh and (section == _GAP or _same_initial(data, at, first_tag, eol)):
                name_end = _tag_name_end(data, at, eol)
                event = _is_event(data, at, name_end)
                again = first_tag_end > first_tag and _same(data, at, name_end, first_tag, first_tag_end)
                fresh = (again and (event or section == _GAP)) or (event and section == _GAP)
            if fresh:
                starts[n] = line
                n += 1
                first_tag, first_tag_end = at, _tag_name_end(data, at, eol)
                over = False
            section = _TAGS
            at = _tag_line_rest(data, at, eol)
            if at == eol:
                at = eol + 1
                continue
        else:
            text = at
            while text < end and (data[text] == _SPACE or data[text] == _TAB or data[text] == _RETURN):
                text += 1
            if text == end:
                break
            if data[text] == _NEWLINE:
                if section == _TAGS:
                    section = _GAP
                at = text + 1
                continue
            if data[at] == _PERCENT:
                eol = _find_one(words, at, end, _NEWLINE)
                if eol < 0:
                    break
                at = eol + 1
                continue
            if section == _NOTHING or (over and first_tag_end == first_tag):
                starts[n] = line
                n += 1
                first_tag, first_tag_end = 0, 0
                over = False
        section = _MOVES
        over = False
        # The rest of the line is movetext; a comment in it may run over many lines.
        while True:
            hit = _find(words, at, end, _NEWLINE, _OPEN_BRACE, _SEMICOLON)
            if hit < 0:
                at = end
                break
            if data[hit] == _OPEN_BRACE:
                at = _comment_end(data, words, hit, end, last)
                if at < 0:
                    return n
                if data[at - 1] != _CLOSE_BRACE:
                    break  # a new game's header, inside a comment never closed
                continue
            if data[hit] == _SEMICOLON:
                hit = _find_one(words, hit, end, _NEWLINE)
                if hit < 0:
                    at = end
                    break
            if first_tag_end == first_tag:
                over = _ends_with_result(data, line, hit)
            at = hit + 1
            break
    return n


@_compiled
def census(data: Bytes, starts: Starts, ends: Starts, moves: Starts, flags: Starts, bodies: Starts) -> None:
    """Counts the moves of the main line of each game data[starts[i]:ends[i]] and notes what is odd in its text.

    Writes the number of tokens that stand where moves stand (they need not be legal, or moves), the flags above, and
    where the movetext begins.
    """
    for g in range(len(starts)):
        at, end = starts[g], ends[g]
        found, noted, depth = 0, 0, 0
        result, blank, body = False, False, -1
        line_start = True
        while at < end:
            byte = data[at]
            if line_start and (byte == _PERCENT or byte == 0xEF):
                if byte == 0xEF:
                    at += 3
                    continue
                while at < end and data[at] != _NEWLINE:
                    at += 1
                continue
            if line_start and body < 0 and _tag_name_end(data, at, end) >= 0:
                eol = at
                while eol < end and data[eol] != _NEWLINE:
                    eol += 1
                noted |= HAS_TAGS
                at = _tag_line_rest(data, at, eol)
                line_start = False
                continue
            if byte == _NEWLINE:
                blank = blank or line_start
                line_start = True
                at += 1
                continue
            if byte == _SPACE or byte == _TAB or byte == _RETURN:
                at += 1
                continue
            if byte == 0:
                noted |= NUL_BYTE
            if body < 0:
                body = at
            elif blank:
                noted |= BLANK_LINE
            line_start, blank = False, False
            if byte == _OPEN_BRACE:
                while at < end and data[at] != _CLOSE_BRACE:
                    at += 1
                if at == end:
                    noted |= OPEN_COMMENT
                at += 1
                continue
            if byte == _SEMICOLON:
                while at < end and data[at] != _NEWLINE:
                    at += 1
                continue
            if byte == _OPEN_PAREN:
                depth += 1
                at += 1
                continue
            if byte == _CLOSE_PAREN:
                depth = max(depth - 1, 0)
                at += 1
                continue
            token = at
            while at < end and not _delimits(data[at]):
                if data[at] == 0:
                    noted |= NUL_BYTE
                at += 1
            if at == token:  # a stray closing brace
                at += 1
                continue
            if depth > 0:
                continue
            if _is_result(data, token, at):
                result = True
                continue
            # Castling may be written with zeros: not a move number.
            if not (data[token] == 48 and token + 1 < at and data[token + 1] == 45):
                while token < at and (48 <= data[token] <= 57 or data[token] == 46):
                    token += 1
            if token == at or not _begins_move(data, token, at):
                continue
            found += 1
            if result:
                noted |= MOVES_AFTER_RESULT
            if at - token >= 2 and (
                (data[token] == 45 and data[token + 1] == 45) or (data[token] == 90 and data[token + 1] == 48)
            ):
                noted |= NULL_MOVE
        if depth > 0:
            noted |= OPEN_VARIATION
        moves[g], flags[g], bodies[g] = found, noted, body if body >= 0 else end


@_compiled
def _delimits(byte: int) -> bool:
    return byte <= _SPACE and byte != 0 or byte in (_OPEN_BRACE, _CLOSE_BRACE, _OPEN_PAREN, _CLOSE_PAREN, _SEMICOLON)


@_compiled
def _begins_move(data: Bytes, at: int, end: int) -> bool:
    """Not an annotation: a move begins with a letter, castling with zeros, a null move with ``--``."""
    byte = data[at]
    if byte == 48 or byte == 64:
        return True
    if byte == 45:
        return end - at >= 2 and data[at + 1] == 45
    return 65 <= byte <= 90 or 97 <= byte <= 122 or byte >= 128
