"""PGN's TimeControl tag, and the classes that lichess makes of it."""

from __future__ import annotations

import re

SPEEDS = ("bullet", "blitz", "rapid", "classical", "correspondence")
EXPECTED_MOVES = 40  # lichess's estimate of a game's length: base + 40 increments
_LIMITS = (
    ("bullet", 180),
    ("blitz", 480),
    ("rapid", 1500),
)  # estimated seconds, exclusive (lichess-org/scalachess Speed)
DAY = 86_400
_PHASE = re.compile(r"(?:(?P<moves>\d+)/)?(?P<base>\d+(?:\.\d+)?)(?:\+(?P<increment>\d+(?:\.\d+)?))?$")
_PER_MOVE = re.compile(r"(?P<base>\d+(?:\.\d+)?)/move$")


def parse_time_control(text: str) -> tuple[float, float] | None:
    """(estimated seconds for 40 moves without increment, increment in seconds), or None when the text says nothing.

    Knows ``180+2``, ``300``, ``40/7200:3600`` (phases), ``0.25/move``, hourglass ``*180``. Days per move, as in
    ``1/259200``, come out as 40 times as long.
    """
    text = text.strip().lstrip("*")
    per_move = _PER_MOVE.match(text)
    if per_move:
        return EXPECTED_MOVES * float(per_move["base"]), 0.0
    phases = [_PHASE.match(phase) for phase in text.split(":")]
    seconds, increment, left = 0.0, 0.0, float(EXPECTED_MOVES)
    for number, phase in enumerate(phases, 1):
        if phase is None:
            return None
        increment = max(increment, float(phase["increment"] or 0))
        moves = float(phase["moves"] or 0) or left
        if left > 0:
            # The last phase repeats until the game ends; of the first, all is there from the first move on.
            seconds += float(phase["base"]) * (max(left / moves, 1.0) if number == len(phases) else 1.0)
            left -= moves
    return seconds, increment


def speed(text: str) -> str | None:
    """The class of a TimeControl tag, by lichess's estimate ``base + 40 * increment``; None when it is unknown."""
    text = text.strip()
    if text == "-":
        return "correspondence"
    parsed = parse_time_control(text)
    if parsed is None:
        return None
    base, increment = parsed
    if base >= DAY:
        return "correspondence"
    estimate = base + EXPECTED_MOVES * increment
    return next((name for name, limit in _LIMITS if estimate < limit), "classical")


def matches(text: str, wanted: str) -> bool | None:
    """The tag is of one of the wanted classes or literal controls (joined by commas); None when it is unknown."""
    own = speed(text)
    if own is None:
        return None
    parts = [part.strip() for part in wanted.split(",")]
    literal = (parse_time_control(part) for part in parts if part not in SPEEDS)
    return own in parts or (text != "-" and parse_time_control(text) in literal)
