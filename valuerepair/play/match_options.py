"""What a match is told on the command line, as text."""

from __future__ import annotations

import math

from valuerepair.errors import UsageError
from valuerepair.play.referee import DrawRule, WinRule
from valuerepair.play.sprt import Sprt
from valuerepair.play.time_control import TimeControl, parse_time_control

_SPRT = ("elo0", "elo1", "alpha", "beta")


def parse_control(nodes: str | None, movetime: str | None, clock: str | None, margin: int) -> TimeControl | None:
    """The match's limit of a move: one of the three, or None. Raises UsageError."""
    given = {"--nodes": nodes, "--movetime": movetime, "--tc": clock}
    named = [name for name, text in given.items() if text is not None]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)}: give one of them")
    if nodes is not None:
        return parse_time_control(f"nodes={nodes}", margin)
    if movetime is not None:
        return parse_time_control(f"movetime={movetime}", margin)
    if clock is not None:
        control = parse_time_control(clock, margin)
        if not control.by_clock:
            raise UsageError(f"--tc {clock}: is a clock as 10+0.1; there are --nodes and --movetime, too")
        return control
    return None


def parse_sprt(text: str) -> Sprt:
    """Reads ``elo0=0,elo1=5[,alpha=0.05,beta=0.05,model=normalized]``. Raises UsageError."""
    numbers: dict[str, float] = {}
    model = "normalized"
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if name == "model" and equals:
            model = value
        elif name in _SPRT and equals:
            numbers[name] = _number(value, f"--sprt {text}: {name}={value}")
        else:
            raise UsageError(f"--sprt {text}: {item!r} is none of {', '.join(_SPRT)} and model, each NAME=VALUE")
    if not {"elo0", "elo1"} <= numbers.keys():
        raise UsageError(f"--sprt {text}: elo0 and elo1 are needed, for example elo0=0,elo1=5")
    return Sprt(**numbers, model=model)


def parse_draw_rule(text: str) -> DrawRule:
    """Reads ``MOVE,PLIES,Q`` (``40,8,0.05``): from that move on, so many plies with |Q| at most that."""
    move, plies, q = _numbers(text, 3, "--draw", "MOVE,PLIES,Q, for example 40,8,0.05")
    return DrawRule(int(move), int(plies), q)


def parse_win_rule(text: str) -> WinRule:
    """Reads ``PLIES,Q`` (``6,0.95``): so many plies in which both sides give one of them at least that Q."""
    plies, q = _numbers(text, 2, "--win", "PLIES,Q, for example 6,0.95")
    return WinRule(int(plies), q)


def _numbers(text: str, count: int, option: str, form: str) -> list[float]:
    parts = text.split(",")
    if len(parts) != count or not all(part.strip().isdecimal() for part in parts[:-1]):
        raise UsageError(f"{option} {text}: give {form}")
    return [_number(part, f"{option} {text}: {part}") for part in parts]


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{where}: must be a number")
    return number
