"""One comparison: our rate over the other's, alternating, so that a noisy machine hits both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import ValueRepairError

Work = Callable[[], float]  # does the work once and returns how much was done (games, bytes, positions, nodes)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rates per second of both sides, one entry a repeat, and the median of the ratios of the paired repeats.

    The goal is a ratio of `target`, and a median rate of ours of at least `floor` where one is set.
    """

    name: str
    unit: str
    against: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    target: float
    floor: float = 0.0

    @property
    def ratio(self) -> float:
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest ratio of a repeat."""
        ratios = [a / b for a, b in zip(self.ours, self.theirs, strict=True)]
        return min(ratios), max(ratios)

    @property
    def met(self) -> bool:
        return self.ratio >= self.target and statistics.median(self.ours) >= self.floor


def compare(
    name: str,
    unit: str,
    against: str,
    ours: Work,
    theirs: Work,
    *,
    target: float,
    repeats: int = 5,
    floor: float = 0.0,
) -> Comparison:
    """Times both sides `repeats` times in alternation, after one unmeasured run of ours (compilation, page cache)."""
    ours()
    pairs = [(_rate(ours), _rate(theirs)) for _ in range(repeats)]
    return Comparison(name, unit, against, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), target, floor)


def _rate(work: Work) -> float:
    start = time.perf_counter()
    amount = work()
    return amount / (time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class BenchData:
    """What benchmarks run on: a ``.pgn.zst`` archive, a net (None: the default), seconds a measurement aims at."""

    archive: str
    net: str | None = None
    seconds: float = 5.0


def sampled(archive: str, at_least: int, options: SampleOptions | None = None) -> PositionBatch:
    """The first positions that a sample draws from an archive: at least so many, or all where there are fewer."""
    found: list[PositionBatch] = []
    for batch in sample([archive], options or SampleOptions(), ReadReport()):
        found.append(batch)
        if sum(map(len, found)) >= at_least:
            break
    if not found:
        raise ValueRepairError(f"{archive}: no positions in it")
    return PositionBatch.concat(found)
