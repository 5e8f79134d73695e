"""The limit of a side's thinking: a number of nodes or a time per move, or a clock with increment."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from valuerepair.engines.spec import MOST_MS, count, milliseconds
from valuerepair.errors import UsageError

# How far a side may exceed its time: delays of our own threads on a busy machine are not the engine's fault.
MARGIN_MS = 100
_CLOCK = re.compile(r"(?:(?P<minutes>\d+):)?(?P<seconds>\d+(?:\.\d+)?)(?:\+(?P<increment>\d+(?:\.\d+)?))?")
_FORMS = "nodes=800, movetime=100ms or a clock as 10+0.1 (seconds and increment)"


@dataclass(frozen=True, slots=True)
class Clock:
    """The time left and the increment per move of each side, in milliseconds."""

    white: int
    black: int
    white_increment: int = 0
    black_increment: int = 0


@dataclass(frozen=True, slots=True)
class TimeControl:
    """One of three limits: `nodes` per move, `movetime` per move (ms), or a clock with `base` and `increment` (ms).

    The clock of a game is a `Clock` that `start` makes and `after` advances. A side may exceed its time by `margin`
    (ms); its clock then shows 0.
    """

    nodes: int | None = None
    movetime: int | None = None
    base: int | None = None
    increment: int = 0
    margin: int = MARGIN_MS

    @property
    def by_clock(self) -> bool:
        """Whether games are played by the clock."""
        return self.base is not None

    def start(self) -> Clock:
        """The clock before the first move; it shows the increment if the base is 0. ValueError if not `by_clock`."""
        if self.base is None:
            raise ValueError(f"{self} has no clock")
        begin = self.base or self.increment
        return Clock(begin, begin, self.increment, self.increment)

    def after(self, clock: Clock, white_moved: bool, seconds: float) -> Clock | None:
        """The clock after a move of `seconds`; None if the side exceeded its time by more than the margin."""
        remaining = (clock.white if white_moved else clock.black) - round(1000 * seconds)
        if remaining < -self.margin:
            return None
        if white_moved:
            return replace(clock, white=max(0, remaining) + clock.white_increment)
        return replace(clock, black=max(0, remaining) + clock.black_increment)

    @property
    def tag(self) -> str:
        """PGN's TimeControl: ``10+0.1``, ``0.1/move``, and ``-`` (none) by nodes."""
        if self.base is not None:
            return f"{self.base / 1000:g}" + (f"+{self.increment / 1000:g}" if self.increment else "")
        return f"{self.movetime / 1000:g}/move" if self.movetime is not None else "-"

    def __str__(self) -> str:
        """The text that `parse_time_control` parses."""
        if self.nodes is not None:
            return f"nodes={self.nodes}"
        return f"movetime={self.movetime}ms" if self.movetime is not None else self.tag


def parse_time_control(text: str, margin: int = MARGIN_MS) -> TimeControl:
    """Parses ``nodes=800`` (k, M), ``movetime=100ms`` (or ``0.1s``; plain numbers are ms), ``10+0.1`` or ``1:30+1``.

    Raises UsageError.
    """
    if not 0 <= margin <= MOST_MS:
        raise UsageError(f"margin {margin}: must be milliseconds, 0 or more")
    name, equals, value = (part.strip() for part in text.partition("="))
    if equals and name == "nodes":
        return TimeControl(nodes=count(value, f"nodes={value}"), margin=margin)
    if equals and name == "movetime":
        return TimeControl(movetime=milliseconds(value, f"movetime={value}"), margin=margin)
    if "/" in text:
        raise UsageError(f"time control {text!r}: moves in a period are not supported; give {_FORMS}")
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"time control {text!r}: give {_FORMS}")
    base = round(1000 * (60 * int(match["minutes"] or 0) + float(match["seconds"])))
    increment = round(1000 * float(match["increment"] or 0))
    if not 0 < base + increment <= MOST_MS:
        raise UsageError(f"time control {text!r}: must be above 0 and at most {MOST_MS // 1000:,} seconds")
    return TimeControl(base=base, increment=increment, margin=margin)


def parse_control(nodes: str | None, movetime: str | None, clock: str | None, margin: int) -> TimeControl | None:
    """A match's time control from the texts of --nodes, of a side's movetime and of --tc; None without one.

    Raises UsageError for two of them.
    """
    texts = {"nodes": nodes, "movetime": movetime, "tc": clock}
    limits = {name: text for name, text in texts.items() if text is not None}
    if len(limits) > 1:
        raise UsageError(f"{' and '.join(f'--{name}' for name in limits)}: give one of them")
    for name, text in limits.items():
        control = parse_time_control(text if name == "tc" else f"{name}={text}", margin)
        if name == "tc" and not control.by_clock:
            raise UsageError(
                f"--tc {text}: must be a clock like 10+0.1; other limits are --nodes, and movetime= of a side"
            )
        return control
    return None
