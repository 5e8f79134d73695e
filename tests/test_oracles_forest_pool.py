"""The pool of forests: every position once, threads kept busy evenly, cancelling, closing, and what breaks."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, wait
from typing import cast

import pytest

from valuerepair.chess.positions import STARTPOS_FEN, Position
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.pool import ForestPool
from valuerepair.mcts.result import RootMove, SearchResult


def result(nodes: int) -> SearchResult:
    move = RootMove("e2e4", nodes - 1, 1.0, 0.1, 0.1, 0.2, 3.0, None, None, ("e2e4",))
    return SearchResult(nodes, nodes, 0.1, 0.1, 0.2, 3.0, 0.1, (move,), 1, 1)


class CountingForest:
    """A forest whose trees are done after as many rounds as the position's ply says."""

    def __init__(self, trees: int, delay: float = 0.0) -> None:
        self.trees, self.delay = trees, delay
        self.growing: dict[object, int] = {}
        self.sizes: list[int] = []
        self.slept_s = 0.0  # a loaded machine sleeps longer than it is told
        self.rounds = threading.Event()
        self.fail: Exception | None = None

    @property
    def free(self) -> int:
        return self.trees - len(self.growing)

    @property
    def busy(self) -> int:
        return len(self.growing)

    def add(self, position: Position, nodes: int, tag: object = None, *, seed: int = 0) -> int:
        assert nodes == 5
        assert self.free > 0
        if position.ply == 0:
            raise ValueRepairError("not a legal position: no kings")
        self.growing[tag] = position.ply
        return 0

    def step(self) -> list[tuple[object, SearchResult]]:
        assert self.growing
        self.sizes.append(len(self.growing))
        self.rounds.set()
        begun = time.perf_counter()
        time.sleep(self.delay)
        self.slept_s += time.perf_counter() - begun
        if self.fail is not None:
            raise self.fail
        self.growing = {tag: left - 1 for tag, left in self.growing.items()}
        done = [tag for tag, left in self.growing.items() if not left]
        for tag in done:
            del self.growing[tag]
        return [(tag, result(5)) for tag in done]


def pool_of(forests: Sequence[CountingForest]) -> ForestPool:
    return ForestPool(cast("Sequence[Forest]", forests))


def position(ply: int) -> Position:
    return Position(STARTPOS_FEN, ply=ply)


def submit(pool: ForestPool, ply: int) -> Future[float | str]:
    return pool.submit(
        position(ply), 5, lambda found, seconds: seconds if found.nodes == 5 else "wrong", lambda why: why
    )


def test_every_position_is_searched_and_the_seconds_add_up() -> None:
    forests = [CountingForest(4, 0.002), CountingForest(3, 0.002)]
    pool = pool_of(forests)
    futures = [submit(pool, 1 + i % 9) for i in range(100)]
    wait(futures, 30)
    seconds = [f.result(0) for f in futures]
    pool.close()
    assert sum(sum(f.sizes) for f in forests) == sum(1 + i % 9 for i in range(100))
    assert [max(f.sizes) for f in forests] == [4, 3]  # full, and never more
    total = sum(float(s) for s in seconds)
    assert total == pytest.approx(sum(f.slept_s for f in forests), rel=0.5)
    assert total >= 0.002 * sum(len(f.sizes) for f in forests)


def test_few_positions_are_spread_over_all_threads() -> None:
    forests = [CountingForest(64, 0.005), CountingForest(64, 0.005)]
    pool = pool_of(forests)
    wait([submit(pool, 40) for _ in range(10)], 30)
    pool.close()
    assert sorted(max(f.sizes) for f in forests) == [5, 5]


def test_a_position_that_cannot_be_searched_fails_alone() -> None:
    pool = pool_of([CountingForest(2)])
    bad, good = submit(pool, 0), submit(pool, 3)
    assert bad.result(10) == "not a legal position: no kings"
    assert isinstance(good.result(10), float)
    pool.close()


def test_what_an_answer_raises_is_raised_by_its_future_alone() -> None:
    def refuse(why: str) -> float:
        raise UsageError(why)

    pool = pool_of([CountingForest(2)])
    bad, good = pool.submit(position(0), 5, lambda found, seconds: seconds, refuse), submit(pool, 3)
    with pytest.raises(UsageError, match="no kings"):
        bad.result(10)
    assert isinstance(good.result(10), float)
    pool.close()


def test_closing_finishes_what_runs_and_cancels_what_waits() -> None:
    forest = CountingForest(1, 0.02)
    pool = pool_of([forest])
    running, waiting = submit(pool, 5), submit(pool, 5)
    assert forest.rounds.wait(10)
    pool.close()
    assert isinstance(running.result(0), float)
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="closed"):
        submit(pool, 1)


def test_closing_with_cancel_abandons_what_runs() -> None:
    forest = CountingForest(1, 0.02)
    pool = pool_of([forest])
    running, waiting = submit(pool, 1_000_000), submit(pool, 5)
    assert forest.rounds.wait(10)
    begun = time.monotonic()
    pool.close(cancel=True)
    assert time.monotonic() - begun < 2
    with pytest.raises(CancelledError):
        running.result(0)
    assert waiting.cancelled()


def test_a_search_is_cancelled_until_it_begins() -> None:
    forest = CountingForest(1, 0.01)
    pool = pool_of([forest])
    running, waiting, last = submit(pool, 20), submit(pool, 5), submit(pool, 2)
    assert forest.rounds.wait(10)
    assert waiting.cancel()
    assert not running.cancel()
    assert isinstance(last.result(10), float)
    pool.close()
    assert sum(forest.sizes) == 22


def test_a_net_that_breaks_is_told_to_everyone() -> None:
    forests = [CountingForest(1), CountingForest(1)]
    forests[0].fail = forests[1].fail = RuntimeError("the device is gone\nand more")
    pool = pool_of(forests)
    futures = [submit(pool, 5) for _ in range(5)]
    for future in futures:
        with pytest.raises(ValueRepairError, match=r"^the search broke: RuntimeError: the device is gone$"):
            future.result(10)
    with pytest.raises(ValueRepairError, match="the device is gone"):
        submit(pool, 5).result(0)
    pool.close()
