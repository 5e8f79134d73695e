"""The progress of a run: its stage, what is done, the time left, its speed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from valuerepair.archives.open import total_bytes
from valuerepair.chess.progress import Progress, RecentRate, format_duration, format_rate
from valuerepair.chess.time_left import PieceSizes
from valuerepair.runs.workers import ArchiveReader
from valuerepair.text import quantity

# The number of searches that must end after the first cut before their costs predict those of the others.
_ENOUGH_ENDED = 16
# If this number of searches have ended and none was cut, none will be cut soon.
_UNCUT = 128
_MOST_REMEMBERED = 500


class Pace:
    """Estimates how long the searches of a run still take, from the nodes of those that have ended.

    `full_nodes` is the number of nodes of a search that is not cut, None if unknown; `cuts` says whether searches may
    be cut. Costs before the first cut do not predict later ones, because the first positions are searched in full.
    """

    def __init__(self, full_nodes: int | None, *, cuts: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._full_nodes, self._cuts, self._now = full_nodes, cuts, now
        self._cutting = False
        self._begin([])

    def _begin(self, under_way: Sequence[int]) -> None:
        self._costs: deque[int] = deque(maxlen=_MOST_REMEMBERED)
        self._since, self._ended, self._spent, self._spent_before = self._now(), 0, 0, sum(under_way)

    def ended(self, nodes: int, *, cut: bool, under_way: Sequence[int] = ()) -> None:
        """Counts a search that ended after `nodes` nodes; `under_way` has the nodes so far of those in flight."""
        if cut and not self._cutting:
            self._cutting = True
            self._begin([nodes, *under_way])
        self._costs.append(nodes)
        self._ended += 1
        self._spent += nodes

    def seconds(self, waiting: int, searching: int, under_way: Sequence[int] = ()) -> float | None:
        """Seconds until `waiting` searches that have not begun and `searching` in flight end; None if it is too early
        to say."""
        if not self._can_predict(searching, under_way):
            return None
        spent = self._spent + sum(under_way) - self._spent_before
        elapsed = self._now() - self._since
        if spent <= 0 or elapsed <= 0:
            return None
        sizes = search_sizes(self._costs, under_way, self._full_nodes)
        unseen = max(waiting + searching - len(under_way), 0)
        nodes = unseen * sizes.mean + float(sizes.remaining(np.array(under_way)).sum())
        return nodes * elapsed / spent

    def _can_predict(self, searching: int, under_way: Sequence[int]) -> bool:
        if not self._cuts:
            return bool(under_way and self._full_nodes) or self._ended > searching // 2
        if not self._cutting:
            return self._ended >= _UNCUT
        # Cut searches end first. If the progress of the others is unknown, wait until all in flight could have ended.
        return self._ended >= (_ENOUGH_ENDED if under_way else max(_ENOUGH_ENDED, searching))


def search_sizes(ended: Sequence[int], under_way: Sequence[int], full_nodes: int | None) -> PieceSizes:
    """The distribution of search costs, up to `full_nodes`, from ended searches and the nodes so far of the others."""
    longest = max([*under_way, *ended], default=0) if full_nodes is None else full_nodes
    nodes = np.minimum(np.array([*ended, longest], np.float64), longest)
    return PieceSizes(nodes, np.append(np.ones(len(ended)), 1e-9), np.array(under_way, np.float64))


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
        pace: Pace | None,
        under_way: Callable[[], Sequence[int]] = lambda: (),
    ) -> None:
        """`under_way` gives the nodes so far of the searches in flight, if the oracle knows them. `pace` is None if
        nothing is searched."""
        self._progress, self._reader, self._limit = progress, reader, limit
        self._pace, self._under_way = pace, under_way
        self._bytes = total_bytes(reader.paths)
        self._started = time.monotonic()
        self._read, self._begun = RecentRate(), RecentRate()  # of unpacked bytes, of evaluations

    def ended(self, nodes: int, *, cut: bool) -> None:
        """Counts a search that ended after this many nodes."""
        if self._pace is not None:
            self._pace.ended(nodes, cut=cut, under_way=self._under_way() if cut else ())

    def show(self, counts: RunCounts, *, reading: bool) -> None:
        """Brings the progress up to date."""
        part = self._reader.bytes_read / self._bytes if reading and self._bytes else 1
        read = f"read {100 * part:.0f} %" if part < 1 else ""
        if not counts.begun:
            sampled = self._reader.report.positions
            self._progress.stage("net values" if sampled else "reading")
            reading_note = read and read + self._reading_left()
            self._progress.note(f"{counts.valued:,} of {sampled:,} positions" if sampled else reading_note)
            return
        self._progress.stage("")
        expected = self._expected(counts, reading=reading)
        if expected != self._progress.total:
            self._progress.set_total(expected)
        under_way = self._under_way()
        nodes = counts.nodes + sum(under_way)
        notes = [self._time_left(counts, expected, under_way)]
        if counts.candidates is not None:
            notes.append(quantity(counts.candidates, "candidate"))
        if nodes:
            notes.append(f"{nodes:,} nodes" if under_way else "")
            notes.append(format_rate(nodes / (time.monotonic() - self._started)))
        self._progress.note(", ".join(note for note in (*notes, read) if note))
        self._progress.advance(0)  # a plain log gets its line even while no search ends

    def _reading_left(self) -> str:
        """The time that reading still takes at the speed of the last minute.

        It counts unpacked bytes that were parsed: bytes that a resumed run only skips do not predict the speed.
        """
        read, packed = self._reader.report.bytes_read, self._reader.bytes_read
        if not (read and packed and self._bytes):
            return ""
        self._read.add(time.monotonic(), read)
        seconds = self._read.seconds(read * (self._bytes / packed - 1))
        return "" if seconds is None else f", about {format_duration(seconds)} left to read"

    def _time_left(self, counts: RunCounts, expected: int | None, under_way: Sequence[int]) -> str:
        if expected is None:
            return ""
        waiting = expected - counts.begun
        if self._pace is None:
            self._begun.add(time.monotonic(), counts.begun)
            seconds = self._begun.seconds(waiting)
        else:
            seconds = self._pace.seconds(waiting, counts.searching, under_way)
        return f"about {format_duration(seconds)} left" if seconds is not None else "time left not known yet"

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
