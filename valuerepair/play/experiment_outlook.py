"""How long an experiment takes: the trial being played by the model of parallel games, those after it by nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from valuerepair.chess.progress import format_duration
from valuerepair.play.experiment import Trial, work_of
from valuerepair.play.outlook import Turns


class ExperimentOutlook:
    """The time left of trials that are played one after another, each `jobs` games at once."""

    def __init__(self, jobs: int, now: Callable[[], float] = time.monotonic) -> None:
        self._jobs, self._now = jobs, now
        self._turns, self._left, self._later = Turns(jobs, now), 0, 0.0
        self._name, self._begun, self._work = "", now(), 0.0
        self._spent = self._done = 0.0  # seconds and work of the trials before

    def begins(self, trial: Trial, missing: Sequence[int], later: float) -> None:
        """A trial begins whose `missing` games are played; `later` is the work (`work_of`) of those after it."""
        now = self._now()
        if self._work:
            self._spent, self._done = self._spent + now - self._begun, self._done + self._work
        self._turns, self._left, self._later = Turns(self._jobs, self._now), len(missing), later
        self._name, self._begun, self._work = trial.name, now, work_of(trial, len(missing))
        for number in missing:
            self._turns.comes(number)

    def ended(self, number: int) -> None:
        """A game of the trial is over."""
        self._turns.ended(number)
        self._left -= 1

    def remaining(self) -> tuple[float, float] | None:
        """(seconds left of this trial, of all); None as long as no game of it, or none at all, was played."""
        left = self._turns.remaining(self._left)
        if left is None or not self._done + self._work:
            return None
        seconds = self._spent + self._now() - self._begun + left.seconds
        return left.seconds, left.seconds + self._later * seconds / (self._done + self._work)

    def note(self) -> str:
        """The trial's name and the time left, for the progress line."""
        found = self.remaining()
        if found is None:
            return self._name
        own, whole = (format_duration(seconds) for seconds in found)
        return f"{self._name}, about {own} left" + (f", {whole} in all" if self._later else "")
