"""The progress of a run: its stage, what is done, the time left, its speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from valuerepair.archives.open import total_bytes
from valuerepair.progress import Progress
from valuerepair.runs.workers import ArchiveReader
from valuerepair.text import format_rate, quantity


@dataclass(frozen=True)
class RunCounts:
    """How far a run is: positions that the net has `valued`, and those that earlier runs finished (`before`); searches
    `begun`, those in flight (`searching`), and the `nodes` of the others; `candidates`, None before the first score.
    """

    valued: int
    before: int
    begun: int
    searching: int
    nodes: int
    candidates: int | None


class RunProgress:
    """Brings a run's progress up to date."""

    def __init__(
        self,
        progress: Progress,
        reader: ArchiveReader,
        limit: int | None,
        under_way: Callable[[], Sequence[int]] = lambda: (),
    ) -> None:
        """`under_way` gives the nodes so far of the searches in flight, if the oracle knows them."""
        self._progress, self._reader, self._limit = progress, reader, limit
        self._under_way = under_way
        self._bytes = total_bytes(reader.paths)
        self._started = time.monotonic()

    def show(self, counts: RunCounts, *, reading: bool) -> None:
        """Brings the progress up to date."""
        part = self._reader.bytes_read / self._bytes if reading and self._bytes else 1
        read = f"read {100 * part:.0f} %" if part < 1 else ""
        if not counts.begun:
            sampled = self._reader.report.positions
            self._progress.stage("net values" if sampled else "reading")
            reading_note = read
            self._progress.note(f"{counts.valued:,} of {sampled:,} positions" if sampled else reading_note)
            return
        self._progress.stage("")
        expected = self._expected(counts, reading=reading)
        if expected != self._progress.total:
            self._progress.set_total(expected)
        under_way = self._under_way()
        nodes = counts.nodes + sum(under_way)
        notes = []
        if counts.candidates is not None:
            notes.append(quantity(counts.candidates, "candidate"))
        if nodes:
            notes.append(f"{nodes:,} nodes" if under_way else "")
            notes.append(format_rate(nodes / (time.monotonic() - self._started)))
        self._progress.note(", ".join(note for note in (*notes, read) if note))
        self._progress.advance(0)  # a plain log gets its line even while no search ends

    def _expected(self, counts: RunCounts, *, reading: bool) -> int | None:
        """The number of searches of this run, made and to come; None while unknown. While archives are being read, it
        is extrapolated from the games parsed so far, by bytes."""
        sampled = float(self._reader.report.positions)
        if reading:
            so_far, read = self._reader.report.expected, self._reader.bytes_read
            if so_far is None or not (self._bytes and read):
                return None
            sampled = so_far * max(self._bytes / read, 1)
        new = round(sampled) - counts.before
        if self._limit is not None:
            new = min(new, self._limit)
        return max(new, counts.begun) or None
