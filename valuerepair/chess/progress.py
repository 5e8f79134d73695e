"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from tqdm import tqdm

# tqdm starts colorama if it is installed, which would strip escape sequences from pipes, even with FORCE_COLOR.
if (_colorama := sys.modules.get("colorama.initialise")) is not None:
    _colorama.deinit()

PLAIN_INTERVAL_S = 10.0
_WITHOUT_ETA = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
_STAGE = "{desc}, {elapsed}{postfix}"
_TICK_S = 1.0
_RATE_TICK_S = 1.0
_RATE_WINDOW = 60  # ticks, or units that take longer than a tick


class RecentRate:
    """The rate of work over the last minute, without the first unit, which includes set-up and compilation."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=_RATE_WINDOW)

    def add(self, now: float, done: float) -> None:
        """Records that `done` units in total are done at second `now` of a clock."""
        if done > 0 and (not self._points or now - self._points[-1][0] >= _RATE_TICK_S):
            self._points.append((now, done))

    def seconds(self, units: float) -> float | None:
        """Seconds for `units` more; None until a second after the first unit, and while there is no progress."""
        if len(self._points) < 2 or self._points[-1][1] <= self._points[0][1]:
            return None
        (then, before), (now, done) = self._points[0], self._points[-1]
        return units * (now - then) / (done - before)


class Progress:
    """Counts work done towards `total` (None: unknown) and shows it on standard error with an ETA.

    On a terminal with a movable cursor this is a tqdm bar, elsewhere (also with TERM=dumb) a plain line at most every
    ten seconds, so that logs stay short. The time left follows from the rate of the last minute. With `own_eta` the
    caller shows its own estimate in `note`, because its units are unequal. With `quiet` nothing is shown. `stage` names
    work without a count. Use as a context manager.
    """

    def __init__(
        self, label: str, total: int | None = None, unit: str = "", *, quiet: bool = False, own_eta: bool = False
    ) -> None:
        self._label, self._unit, self._quiet = label, unit, quiet
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not quiet
        self._started = self._shown = time.monotonic()
        self._note, self._stage, self._own_eta = "", "", own_eta
        self._rate = RecentRate()
        self._ticking: threading.Event | None = None
        self.total, self.done = total, 0
        self._bar: tqdm[NoReturn] | None = None
        if self._terminal:
            self._bar = tqdm(total=total, desc=label, unit=f" {unit}", dynamic_ncols=True, bar_format=self._bar_format)

    def advance(self, amount: int = 1) -> None:
        """Adds finished work."""
        self.done += amount
        self._rate.add(time.monotonic(), self.done)
        if self._bar is not None:
            self._bar.set_postfix_str(self._words, refresh=False)
            self._bar.update(amount)
        elif not self._quiet and time.monotonic() - self._shown >= PLAIN_INTERVAL_S:
            self._print_line()

    def set_total(self, total: int | None) -> None:
        """Sets the total once it becomes known."""
        self.total = total
        if self._bar is not None:
            self._bar.total, self._bar.bar_format = total, self._bar_format
            self._bar.refresh()

    def stage(self, name: str) -> None:
        """Shows the name of a stage and the elapsed time instead of the counts; with "" the counts again."""
        if name == self._stage or self._quiet:
            return
        self._stage = name
        if self._bar is not None:
            self._bar.bar_format = self._bar_format
            self._bar.set_description_str(f"{self._label}: {name}" if name else self._label)
        if name and self._ticking is None:
            self._ticking = threading.Event()
            threading.Thread(target=self._tick, args=(self._ticking,), name="progress", daemon=True).start()
        elif not name:
            self._stop_ticking()

    def note(self, text: str) -> None:
        """Sets the text after the bar (counts, rates)."""
        self._note = text
        if self._bar is not None:
            self._bar.set_postfix_str(self._words, refresh=False)

    def say(self, line: str) -> None:
        """Prints a line above the bar without breaking it."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)

    @property
    def _bar_format(self) -> str | None:
        if self._stage:
            return _STAGE
        return None if self.total is None and not self._own_eta else _WITHOUT_ETA

    @property
    def _words(self) -> str:
        """The time left, if known, and the note."""
        seconds = None if self._own_eta or not self.total else self._rate.seconds(self.total - self.done)
        time_left = "" if seconds is None else f"{format_duration(seconds)} left"
        return ", ".join(words for words in (time_left, self._note) if words)

    def _tick(self, stopped: threading.Event) -> None:
        """Updates the line of a stage, during which the caller's thread is busy."""
        while not stopped.wait(_TICK_S):
            self._refresh()

    def _refresh(self) -> None:
        if (bar := self._bar) is not None:
            bar.refresh()
        elif time.monotonic() - self._shown >= PLAIN_INTERVAL_S:
            self._print_line()

    def _stop_ticking(self) -> None:
        if self._ticking is not None:
            self._ticking.set()
            self._ticking = None

    def close(self) -> None:
        self._stop_ticking()
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _print_line(self) -> None:
        self._shown = time.monotonic()
        elapsed = self._shown - self._started
        count = f"{self.done}/{self.total}" if self.total else f"{self.done}"
        unit = self._unit.removesuffix("s") if count == "1" else self._unit
        state = self._stage or f"{count} {unit}"
        line = ", ".join(words for words in (state, format_duration(elapsed), self._words) if words)
        print(f"{self._label}: {line}", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def format_rate(nodes_per_second: float) -> str:
    """Nodes a second in words: thousands for nets, millions for alpha-beta engines."""
    if nodes_per_second >= 1e5:
        return f"{nodes_per_second / 1e6:.2f} Mnodes/s"
    return f"{nodes_per_second:,.0f} nodes/s"


def format_nodes(nodes: int) -> str:
    """``12,000 nodes``, or ``1.2 Mnodes`` from a million on."""
    return f"{nodes / 1e6:,.1f} Mnodes" if nodes >= 1e6 else f"{nodes:,} nodes"


def format_duration(seconds: float) -> str:
    """``75`` as ``1:15``, ``3700`` as ``1:01:40``."""
    minutes, remaining = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{remaining:02d}" if hours else f"{minutes}:{remaining:02d}"


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


class _Remarks(logging.Handler):
    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        self._write(record.getMessage())
