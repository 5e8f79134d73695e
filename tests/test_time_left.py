"""Time left: against simulated matches, with durations of several kinds, and work whose first step compiles."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from valuerepair.arrays import Floats
from valuerepair.chess.progress import Progress, RecentRate
from valuerepair.chess.time_left import Turns, games_remaining

Draw = Callable[[np.random.Generator, int], Floats]

# Spreads (standard deviation over mean) of 0.3 to 0.55, as games of chess have them, in several shapes.
DURATIONS: dict[str, Draw] = {
    "gamma": lambda rng, n: rng.gamma(4, 20, n),
    "lognormal": lambda rng, n: 80 * rng.lognormal(0, 0.5, n),
    "uniform": lambda rng, n: rng.uniform(8, 160, n),
    "normal": lambda rng, n: rng.normal(80, 24, n).clip(5),
}


class Moment(NamedTuple):
    """One look at a match: errors over the true time left, ours and that of time by count, and whether it was held."""

    ours: float
    naive: float
    held: bool


def play(durations: Floats, jobs: int) -> Floats:
    """[games, 2] begins and ends: each game is begun by the worker that is free first."""
    free, games = [0.0] * jobs, []
    for duration in durations:
        begin = heapq.heappop(free)
        games.append((begin, begin + duration))
        heapq.heappush(free, begin + duration)
    return np.array(games)


def look(games: Floats, jobs: int, at: float) -> Moment | None:
    """What is said at a time of the match, None before the first game has ended."""
    done, running = games[games[:, 1] <= at], games[(games[:, 0] <= at) & (games[:, 1] > at)]
    found = games_remaining(jobs, list(done[:, 1] - done[:, 0]), len(games) - len(done), list(at - running[:, 0]))
    if found is None:
        return None
    truth = games[:, 1].max() - at
    naive = at / len(done) * len(games) - at
    return Moment(found.seconds / truth - 1, naive / truth - 1, found.low <= truth <= found.high)


def looks(draw: Draw, jobs: int, *, matches: int = 12, games: int = 240, until: float = 0.1) -> list[Moment]:
    """Looks at four times of the first tenth of each of the matches."""
    rng, seen = np.random.default_rng(5), []
    for _ in range(matches):
        match = play(draw(rng, games), jobs)
        times = match[:, 1].max() * until * np.array([0.25, 0.5, 0.75, 1.0])
        seen += [moment for at in times if (moment := look(match, jobs, float(at)))]
    return seen


def size(errors: list[float]) -> float:
    return float(np.mean(np.abs(errors)))


@pytest.mark.parametrize("kind", ["gamma", "lognormal"])
def test_one_job(kind: str) -> None:
    """One after another, chance is most of any error, and no estimate is without it; what errs to one side is less."""
    seen = looks(DURATIONS[kind], 1, matches=60, games=400)
    assert abs(np.mean([m.ours for m in seen])) <= 0.7 * abs(np.mean([m.naive for m in seen]))
    assert size([m.ours for m in seen]) <= size([m.naive for m in seen])


def test_the_end_waits_for_the_last_game() -> None:
    """Games of equal length: three more of them on two workers, of which one runs half way."""
    found = games_remaining(2, [100.0] * 60, 3, [50.0])
    assert found is not None
    assert found.seconds == pytest.approx(150, rel=0.03)
    assert found.low > 120
    assert found.high < 190


def test_games_that_last_longer_than_any_before() -> None:
    found = games_remaining(4, [10.0], 4, [1000.0] * 4)
    assert found is not None
    assert 0 < found.low < found.seconds < found.high < 1e9


def test_what_can_be_said_of_nothing() -> None:
    assert games_remaining(4, [], 10, [1.0, 2.0]) is None
    assert games_remaining(4, [], 0, []) == (0, 0, 0)


@pytest.mark.parametrize("at_once", [True, False])
def test_games_handed_over_at_once_begin_one_after_another(at_once: bool) -> None:
    """As to lc0's self-play, which gets the whole book and says of games only that they ended."""
    time, jobs = 0.0, 4
    games = play(np.random.default_rng(8).gamma(4, 20, 120), jobs)
    turns = Turns(jobs, lambda: time)
    last = games[:, 1].max()
    ends, handed = np.argsort(games[:, 1]), 0

    def hand_over(most: int) -> None:
        nonlocal handed
        while handed < min(most, len(games)):
            turns.add(handed)
            handed += 1

    hand_over(len(games) if at_once else jobs)
    errors = []
    for count, number in enumerate(ends.tolist(), 1):
        time = float(games[number, 1])
        turns.ended(number)
        hand_over(handed + 1)
        left = turns.remaining(len(games) - count)
        assert left is not None
        if count in (20, 40, 60, 80):
            errors.append(left.seconds / (last - time) - 1)
    assert size(errors) < 0.15
    assert turns.remaining(0) == (0, 0, 0)


def test_a_game_that_never_had_its_turn_says_nothing() -> None:
    """lc0 drops long games without a word; they are known at the end only."""
    turns = Turns(1, lambda: 5.0)
    for number in range(3):
        turns.add(number)
    turns.ended(2)
    assert turns.remaining(2) is None
    turns.ended(0)
    assert turns.remaining(1) is not None


def test_the_first_step_of_training_is_not_in_the_rate() -> None:
    """It compiles, and takes 50 times as long as the others."""
    now, rate = 0.0, RecentRate()
    for step in range(1, 1001):
        now += 25.0 if step == 1 else 0.5
        rate.add(now, step)
        left = rate.seconds(1000 - step)
        if step <= 2:
            assert left is None
        else:
            assert left == pytest.approx(0.5 * (1000 - step), rel=0.01)


def test_a_rate_follows_the_last_minute_and_says_nothing_of_work_that_stands_still() -> None:
    now, rate = 0.0, RecentRate()
    for second in range(300):
        now += 1
        rate.add(now, second + 1 if second < 200 else 200 + 3 * (second - 199))
    assert rate.seconds(300) == pytest.approx(100)
    for _ in range(60):
        now += 1
        rate.add(now, 500)
    assert rate.seconds(300) is None


def test_progress_says_no_time_left_from_its_first_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("valuerepair.chess.progress.time.monotonic", lambda: now)
    with Progress("Training", 1000, "steps") as progress:
        for step in range(60):
            now += 1 if step else 50
            progress.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Training: 1/1000 steps, 0:50"
    assert lines[1] == "Training: 11/1000 steps, 1:00, 16:29 left"


@pytest.mark.parametrize("age", [2.9, 3.0, 30.0, 3000.0])
def test_a_game_that_hangs_after_short_ones_has_bounds(age: float) -> None:
    found = games_remaining(1, [0.0157, 0.0108], 1, [age])
    assert found is not None
    assert 0 <= found.low <= found.seconds <= found.high < 1e6
