"""How many moves a game's text holds, counted without knowing what a move is: compiled, for sampled games.

This is the check that the real reader did not stop in the middle of a game.
"""

from __future__ import annotations

import numpy as np

from valuerepair.archives.kernel import kernel
from valuerepair.archives.scan import (
    CLOSE_BRACE,
    CLOSE_PAREN,
    NEWLINE,
    OPEN_BRACE,
    OPEN_PAREN,
    PERCENT,
    SEMICOLON,
    SPACE,
    Bytes,
    Starts,
    is_mark,
    is_result,
    pass_blanks,
    tag_line_rest,
    tag_name_end,
)

# What `census` notices about a game's movetext.
OPEN_COMMENT = 1  # a comment without its end
OPEN_VARIATION = 2  # a variation without its end
MOVES_AFTER_RESULT = 4
BLANK_LINE = 8  # an empty line between moves: where the Rust reader stops
NULL_MOVE = 16
NUL_BYTE = 32
HAS_TAGS = 64
HAS_START = 128  # a FEN or Variant tag, or one that might be

_BLANKS = np.zeros(256, np.bool_)  # control characters too, but not NUL; and not the end of a line
_BLANKS[1:33] = True
_BLANKS[NEWLINE] = False
_DELIMITS = _BLANKS.copy()  # bytes that end a token
_DELIMITS[NEWLINE] = True
_DELIMITS[[OPEN_BRACE, CLOSE_BRACE, OPEN_PAREN, CLOSE_PAREN, SEMICOLON]] = True


@kernel
def _pass_line(data: Bytes, at: int, end: int) -> int:
    while at < end and data[at] != NEWLINE:
        at += 1
    return at


@kernel
def _movetext_begin(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where the movetext of the game data[at:end] begins, and flags for the tags before it."""
    noted = 0
    while at < end:
        if is_mark(data, at, end):
            at += 3
        elif data[at] == PERCENT:
            at = _pass_line(data, at, end)
        elif tag_name_end(data, at, end) >= 0:
            noted |= HAS_TAGS
            # [F, [f, [V and [v stand for FEN and Variant; whoever asks reads the tags themselves.
            initial = data[at + 1] | 32
            noted |= HAS_START if initial == 102 or initial == 118 or initial == SPACE else 0
            eol = _pass_line(data, at, end)
            at = tag_line_rest(data, at, eol)
            if pass_blanks(data, at, eol) < eol:
                break
        elif data[at] == NEWLINE:
            at += 1
        else:
            text = pass_blanks(data, at, end)
            if text < end and data[text] != NEWLINE:
                break
            at = text
    return at, noted


@kernel
def _count_moves(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """The tokens of the main line of the movetext data[at:end] that stand where moves stand, and the flags."""
    found, noted, depth = 0, 0, 0
    result, line_start, blank = False, False, False
    while at < end:
        byte = data[at]
        if byte == NEWLINE:
            blank = blank or line_start
            line_start = True
            at += 1
            continue
        if _BLANKS[byte]:
            at += 1
            continue
        if line_start and (byte == PERCENT or is_mark(data, at, end)):
            at = _pass_line(data, at, end) if byte == PERCENT else at + 3
            continue
        if blank:
            noted |= BLANK_LINE
        line_start, blank = False, False
        if byte == OPEN_BRACE:
            while at < end and data[at] != CLOSE_BRACE:
                at += 1
            if at == end:
                noted |= OPEN_COMMENT
            at += 1
        elif byte == SEMICOLON:
            at = _pass_line(data, at, end)
        elif (byte == OPEN_PAREN) | (byte == CLOSE_PAREN) | (byte == CLOSE_BRACE):
            depth = max(depth + (1 if byte == OPEN_PAREN else -1 if byte == CLOSE_PAREN else 0), 0)
            at += 1
        else:
            token = at
            while at < end and not _DELIMITS[data[at]]:
                if data[at] == 0:
                    noted |= NUL_BYTE
                at += 1
            if at == token:  # a control character: ends tokens, but is none itself
                at += 1
                continue
            if depth > 0:
                continue
            if is_result(data, token, at):
                result = True
                continue
            token = _pass_number(data, token, at)
            if _begins_move(data, token, at):
                found += 1
                noted |= MOVES_AFTER_RESULT if result else 0
                noted |= NULL_MOVE if _is_null_move(data, token, at) else 0
    return found, noted | (OPEN_VARIATION if depth > 0 else 0)


@kernel
def census(data: Bytes, starts: Starts, ends: Starts, moves: Starts, flags: Starts, bodies: Starts) -> None:
    """Counts the moves of the main line of each game data[starts[i]:ends[i]] and notes what is odd in its text.

    Writes the number of tokens that stand where moves stand (they need not be legal, or moves), the flags above, and
    where the movetext begins.
    """
    for g in range(len(starts)):
        body, tags = _movetext_begin(data, starts[g], ends[g])
        found, noted = _count_moves(data, body, ends[g])
        moves[g], flags[g], bodies[g] = found, noted | tags, body


@kernel
def _pass_number(data: Bytes, at: int, end: int) -> int:
    """Where a token goes on behind its move number (``12.``); castling may be written with zeros and is none."""
    if data[at] == 48 and at + 1 < end and data[at + 1] == 45:
        return at
    while at < end and (48 <= data[at] <= 57 or data[at] == 46):
        at += 1
    return at


@kernel
def _begins_move(data: Bytes, at: int, end: int) -> bool:
    """Not an annotation: a move begins with a letter or a figurine, castling with zeros, a null move with ``--``."""
    if at == end:
        return False
    byte = data[at]
    if byte == 101 and end - at <= 4 and data[end - 1] in (46, 112):  # `e.p.`, `ep`
        return False
    if byte == 45:
        return end - at >= 2 and data[at + 1] == 45
    if byte == 0xE2:
        return end - at > 2 and data[at + 1] == 0x99
    return bool(byte == 48 or byte == 64) or 65 <= byte <= 90 or 97 <= byte <= 122


@kernel
def _is_null_move(data: Bytes, at: int, end: int) -> bool:
    """``--`` or ``Z0``."""
    if end - at < 2:
        return False
    return bool((data[at] == 45 and data[at + 1] == 45) or (data[at] == 90 and data[at + 1] == 48))
