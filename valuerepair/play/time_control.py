"""The limit of a side's thinking: a number of nodes per move, or a clock with increment."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from valuerepair.engines.spec import MOST_MS, count
from valuerepair.errors import UsageError

# How far a side may exceed its time: delays of our own threads on a busy machine are not the engine's fault.
MARGIN_MS = 100
_CLOCK = re.compile(r"(?:(?P<minutes>\d+):)?(?P<seconds>\d+(?:\.\d+)?)(?:\+(?P<increment>\d+(?:\.\d+)?))?")


@dataclass(frozen=True, slots=True)
class Clock:
    """The time left and the increment per move of each side, in milliseconds."""

    white: int
    black: int
    white_increment: int = 0
    black_increment: int = 0


@dataclass(frozen=True, slots=True)
class TimeControl:
    """`nodes` per move, or a clock with `base` and `increment` (ms).

    The clock of a game is a `Clock` that `start` makes and `after` advances. A side may exceed its time by `MARGIN_MS`;
    its clock then shows 0.
    """

    nodes: int | None = None
    base: int | None = None
    increment: int = 0

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
        if remaining < -MARGIN_MS:
            return None
        if white_moved:
            return replace(clock, white=max(0, remaining) + clock.white_increment)
        return replace(clock, black=max(0, remaining) + clock.black_increment)

    @property
    def tag(self) -> str:
        """PGN's TimeControl: ``10+0.1``, and ``-`` (none) by nodes."""
        if self.base is None:
            return "-"
        return f"{self.base / 1000:g}" + (f"+{self.increment / 1000:g}" if self.increment else "")

    def __str__(self) -> str:
        return self.tag if self.nodes is None else f"nodes={self.nodes}"


def parse_control(nodes: str | None, clock: str | None) -> TimeControl | None:
    """A match's time control from the texts of --nodes (``800``, ``10k``) and --tc (``10+0.1``, ``1:30+1``).

    None without one; raises UsageError for both.
    """
    if nodes is not None and clock is not None:
        raise UsageError("--nodes and --tc: give one of them")
    if nodes is not None:
        return TimeControl(nodes=count(nodes, f"--nodes {nodes}"))
    if clock is None:
        return None
    match = _CLOCK.fullmatch(clock.strip())
    if match is None:
        raise UsageError(
            f"--tc {clock}: must be a clock like 10+0.1 (seconds and increment), without moves in a period; "
            "other limits are --nodes, and movetime= of a side"
        )
    base = round(1000 * (60 * int(match["minutes"] or 0) + float(match["seconds"])))
    increment = round(1000 * float(match["increment"] or 0))
    if not 0 < base + increment <= MOST_MS:
        raise UsageError(f"--tc {clock}: must be above 0 and at most {MOST_MS // 1000:,} seconds")
    return TimeControl(base=base, increment=increment)
