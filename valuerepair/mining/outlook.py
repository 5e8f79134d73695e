"""What a run shows while it works: how far it is, what is to come, speed."""

from __future__ import annotations

import time

from valuerepair.archives import total_bytes
from valuerepair.mining.workers import Reader
from valuerepair.progress import Progress, format_rate

TICK_S = 0.5


class Outlook:
    """Brings a run's progress up to date, at most every half second."""

    def __init__(self, progress: Progress, reader: Reader, limit: int | None) -> None:
        self._progress, self._reader, self._limit = progress, reader, limit
        self._bytes = total_bytes(reader.paths)
        self._started = self._ticked = time.monotonic()

    @property
    def due(self) -> bool:
        """The last `show` is long enough ago."""
        return time.monotonic() - self._ticked >= TICK_S

    def show(self, candidates: int | None, nodes: int, before: int, begun: int, *, reading: bool) -> None:
        """Shows the run with so many positions done before it, and so many begun in it."""
        self._ticked = time.monotonic()
        expected = self._expected(before, begun, reading=reading)
        if expected != self._progress.total:
            self._progress.set_total(expected)
        notes = []
        if candidates is not None:
            notes.append(f"{candidates:,} candidates")
        if nodes:
            notes.append(format_rate(nodes / (time.monotonic() - self._started)))
        if reading and self._bytes:
            notes.append(f"read {100 * self._reader.bytes_read / self._bytes:.0f} %")
        self._progress.note(", ".join(notes))
        # A plain log gets its line also while nothing finishes.
        self._progress.advance(0)

    def _expected(self, before: int, begun: int, *, reading: bool) -> int | None:
        """Searches of this run, done and to come; while archives are read, as many more as the bytes left promise."""
        found = float(self._reader.report.positions)
        if reading and self._bytes is None:
            return None
        if reading and self._bytes and 0 < self._reader.bytes_read < self._bytes:
            found *= self._bytes / self._reader.bytes_read
        new = round(found) - before
        if self._limit is not None:
            new = min(new, self._limit)
        return max(new, begun) or None
