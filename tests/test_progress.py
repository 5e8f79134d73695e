"""Progress: the time left against simulated matches, and what stands in a log."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
import pytest

from valuerepair.arrays import Floats
from valuerepair.progress import Progress

Captured = pytest.CaptureFixture[str]

# Spreads (standard deviation over mean) of 0 to 0.55, as games of chess have them, in several shapes.
DURATIONS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "equal": lambda rng, n: np.full(n, 80.0),
    "gamma": lambda rng, n: rng.gamma(4, 20, n),
    "uniform": lambda rng, n: rng.uniform(8, 160, n),
    "normal": lambda rng, n: rng.normal(80, 24, n).clip(5),
}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("valuerepair.progress.time.monotonic", clock)
    return clock


def ends_of(durations: Floats, jobs: int) -> list[float]:
    """When each game ends, in order: each is begun by the worker that is free first."""
    free, ends = [0.0] * jobs, []
    for duration in durations.tolist():
        ends.append(heapq.heappop(free) + duration)
        heapq.heappush(free, ends[-1])
    return sorted(ends)


@pytest.mark.parametrize("jobs", [1, 4, 32])
@pytest.mark.parametrize("kind", DURATIONS)
def test_the_time_left_of_simulated_matches(kind: str, jobs: int, clock: Clock) -> None:
    rng, errors = np.random.default_rng(5), []
    for _ in range(20):
        clock.now = 0.0
        ends = ends_of(DURATIONS[kind](rng, 240), jobs)
        with Progress("match", len(ends), quiet=True) as progress:
            progress.jobs = jobs
            for count, end in enumerate(ends, 1):
                clock.now = end
                progress.advance()
                left = progress.seconds_left()
                assert left is not None
                if count in (jobs, 40, 80, 120):
                    errors.append(left / (ends[-1] - end) - 1)
    # With 32 jobs a match is only seven games long, and the last game is waited for.
    assert abs(np.mean(errors)) < {1: 0.05, 4: 0.1, 32: 0.2}[jobs], errors


def test_one_job_is_exact_and_nothing_is_promised_before_the_first_ends(clock: Clock) -> None:
    with Progress("searching", 10, quiet=True) as progress:
        assert progress.seconds_left() is None
        for done in range(1, 10):
            clock.now = 30.0 * done
            progress.advance()
            assert progress.seconds_left() == pytest.approx(30 * (10 - done))
            clock.now += 10
            assert progress.seconds_left() == pytest.approx(30 * (10 - done) - 10)


def test_what_was_done_before_and_a_stage_are_not_in_the_rate(clock: Clock) -> None:
    with Progress("training", quiet=True) as progress:
        progress.set_total(1000, done=500)
        progress.stage("compiling")
        clock.now = 50.0
        progress.advance()
        progress.stage("")
        assert progress.seconds_left() is None
        for second in range(1, 100):
            clock.now = 50.0 + second
            progress.advance(2)
            assert progress.seconds_left() == pytest.approx((499 - 2 * second) / 2)


def test_the_rate_follows_the_last_minute(clock: Clock) -> None:
    with Progress("reading", 1000, quiet=True) as progress:
        for second in range(1, 301):
            clock.now = second
            progress.advance(1 if second <= 200 else 3)
    assert progress.seconds_left() == pytest.approx(500 / 3)


def test_a_log_gets_a_line_every_half_minute_and_nothing_if_quiet(clock: Clock, capsys: Captured) -> None:
    for quiet in (False, True):
        clock.now = 0.0
        with Progress("mining", unit="positions", quiet=quiet) as progress:
            progress.stage("reading")
            progress.say("a remark")
            clock.now = 31.0
            progress.stage("")
            progress.set_total(1200)
            progress.note("3 candidates")
            for _ in range(100):
                clock.now += 1
                progress.advance()
        lines = capsys.readouterr().err.splitlines()
        assert lines == ([] if quiet else [
            "a remark",
            "mining: 0 positions, 0:31",
            "mining: 30/1,200 positions, 1:01, 19:30 left, 3 candidates",
            "mining: 60/1,200 positions, 1:31, 19:00 left, 3 candidates",
            "mining: 90/1,200 positions, 2:01, 18:30 left, 3 candidates",
        ])  # fmt: skip
