"""Numbers that archives hold: what is no number, or none that the store has room for, counts as not there."""

from __future__ import annotations

import math

from valuerepair.positions import Recorded

_DIGITS = 18  # below 2**63; and Python itself reads no more than 4,300
_MOST = 10**_DIGITS


def whole(text: str) -> int | None:
    """The whole number that a text is, with or without a sign; None where it is none, or has more than 18 digits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if len(digits) <= _DIGITS and digits.isdecimal() else None


def whole_of(value: object) -> int | None:
    """The whole part of a number of JSON; None where it is no number, or too large."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if abs(value) < _MOST else None


def fits(found: Recorded) -> bool:
    """The evaluation has no number that is too large for any engine to mean it."""
    numbers = (found.cp, found.mate, found.depth, found.seldepth, found.nodes, found.time_ms)
    return all(number is None or -_MOST < number < _MOST for number in numbers)
