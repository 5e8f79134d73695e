"""Progress of long work on standard error: one line a stage on a terminal, a plain line now and then in a log."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from tqdm import tqdm

from valuerepair.text import format_duration

PLAIN_INTERVAL_S = 30.0
_WITH_TOTAL = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
_STAGE = "{desc}, {elapsed}{postfix}"
_RECENT = 60  # ends of pieces, at least a second apart: the rate follows the last minute


class Progress:
    """Counts pieces of work done towards `total` (None: unknown), of which `jobs` run at once, and shows them.

    On a terminal with a movable cursor this is a tqdm bar, elsewhere (also with TERM=dumb) a plain line about every
    half minute. With `quiet` nothing is shown. Use as a context manager.
    """

    def __init__(self, label: str, total: int | None = None, unit: str = "", *, quiet: bool = False) -> None:
        self._label, self._unit, self._quiet = label, unit, quiet
        self._started = time.monotonic()
        self._shown = self._started
        self._note = self._stage = ""
        self.total, self.done, self.jobs = total, 0, 1
        self._ends = deque([(self._started, 0.0)], _RECENT)
        self._bar: tqdm[NoReturn] | None = None
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not quiet:
            self._bar = tqdm(total=total, desc=label, unit=f" {unit}", dynamic_ncols=True, bar_format=self._bar_format)

    def advance(self, amount: int = 1) -> None:
        """Adds finished pieces of work; with 0 it only shows what is due."""
        self.done += amount
        if amount:
            self._note_end()
        self._show(amount)

    def set_total(self, total: int | None, *, done: int | None = None) -> None:
        """Sets the total once it is known, and how many pieces of it were `done` before."""
        if done is not None:
            amount, self.done = done - self.done, done
            self._ends = deque([(time.monotonic(), float(done))], _RECENT)
            if self._bar is not None:
                self._bar.update(amount)
        self.total = total
        if self._bar is not None:
            self._bar.total, self._bar.bar_format = total, self._bar_format
            self._bar.refresh()

    def stage(self, name: str) -> None:
        """Names work that is not counted; with "" the counts are shown again, and their time begins."""
        if name == self._stage:
            return
        self._stage = name
        self._ends = deque([(time.monotonic(), float(self.done))], _RECENT)
        if self._bar is not None:
            self._bar.bar_format = self._bar_format
            self._bar.set_description_str(f"{self._label}: {name}" if name else self._label)
        self._show()

    def note(self, text: str) -> None:
        """Sets the text after the counts: speed, results so far."""
        self._note = text

    def say(self, line: str) -> None:
        """Prints a line above the bar without breaking it."""
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        elif not self._quiet:
            print(line, file=sys.stderr, flush=True)

    def seconds_left(self) -> float | None:
        """Seconds to the end at the rate of the last minute; None before the first piece ends.

        When a piece ends, the other jobs are half through theirs: the rate counts these halves as done. The end waits
        for the last ones, so they count as left.
        """
        (then, before), (end, work) = self._ends[0], self._ends[-1]
        if not self.total or work <= before or end <= then:
            return None
        return max((self.total - self.done) * (end - then) / (work - before) - (time.monotonic() - end), 0.0)

    def _note_end(self) -> None:
        end = time.monotonic(), self.done + (self.jobs - 1) / 2
        if len(self._ends) > 2 and end[0] - self._ends[-2][0] < 1:
            self._ends[-1] = end
        else:
            self._ends.append(end)

    @property
    def _bar_format(self) -> str | None:
        return _STAGE if self._stage else None if self.total is None else _WITH_TOTAL

    def _show(self, amount: int = 0) -> None:
        seconds, now = None if self._stage else self.seconds_left(), time.monotonic()
        left = "" if seconds is None or self.done == self.total else f"{format_duration(seconds)} left"
        words = ", ".join(word for word in (left, self._note) if word)
        if self._bar is not None:
            self._bar.set_postfix_str(words, refresh=False)
            self._bar.update(amount)
        elif not self._quiet and now - self._shown >= PLAIN_INTERVAL_S:
            self._shown = now
            count = f"{self.done:,}/{self.total:,}" if self.total else f"{self.done:,}"
            state = self._stage or f"{count} {self._unit.removesuffix('s') if count == '1' else self._unit}"
            line = ", ".join(word for word in (state, format_duration(now - self._started), words) if word)
            print(f"{self._label}: {line}", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


class _Remarks(logging.Handler):
    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        self._write(record.getMessage())


@contextmanager
def remarks_to(write: Callable[[str], None]) -> Iterator[None]:
    """Passes the package's log messages, from level INFO on, to `write`, which any thread may call."""
    logger, handler = logging.getLogger("valuerepair"), _Remarks(write)
    level = logger.level
    logger.addHandler(handler)
    if not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
