"""What a run of mining shows while it works: the time left against simulated runs, and that something always moves."""

from __future__ import annotations

import heapq
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from statsmodels.duration.survfunc import SurvfuncRight

from tests.mining_doubles import KeyNet, KeyOracle, random_games
from tests.test_cli_terminal import environment, on_a_terminal
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.sampling import sample
from valuerepair.chess.progress import Progress
from valuerepair.chess.time_left import PieceSizes
from valuerepair.runs.mine import mine
from valuerepair.runs.options import MineOptions
from valuerepair.runs.progress import Pace, RunCounts, RunProgress, search_sizes
from valuerepair.runs.workers import ArchiveReader
from valuerepair.store.store import Store

WHOLE = 1_000_000
RUNGS = (5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)


@pytest.mark.parametrize("seed", range(5))
def test_what_searches_still_cost_is_the_estimate_of_kaplan_and_meier(seed: int) -> None:
    dice = np.random.default_rng(seed)
    true = np.minimum(dice.choice([*RUNGS, WHOLE, WHOLE], 80), WHOLE)
    seen = dice.integers(1, WHOLE, 80)  # censored there
    ended = true <= seen
    curve = SurvfuncRight(np.minimum(true, seen), ended)
    times = np.concatenate([[0.0], curve.surv_times])
    alive = np.concatenate([[1.0], curve.surv_prob])
    sizes = search_sizes(true[ended].tolist(), seen[~ended].tolist(), WHOLE)
    grid = np.arange(0, WHOLE, 500) + 250.0
    survival = alive[np.searchsorted(times, grid, side="right") - 1]
    for so_far in (0, 7_500, 150_000, 600_000):
        beyond = grid > so_far
        here = alive[np.searchsorted(times, so_far, side="right") - 1]
        assert sizes.remaining(np.array([so_far]))[0] == pytest.approx(500 * survival[beyond].sum() / here, rel=1e-6)


def costs(dice: np.random.Generator, positions: int, *, learning: int, kept: float) -> list[tuple[int, bool]]:
    """What each position costs, and whether it is cut: the first ones are searched in full, then a share, and most
    others end at a rung."""
    costs_and_cuts = []
    for number in range(positions):
        whole = number < learning or dice.random() < kept
        costs_and_cuts.append(
            (WHOLE, False) if whole else (int(dice.choice(RUNGS, p=(0.5, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02))), True)
        )
    return costs_and_cuts


@dataclass
class Look:
    """What is said at one moment, and the truth."""

    at: float
    said: float | None
    left: float


def by_engines(positions: Sequence[tuple[int, bool]], engines: int, *, cuts: bool) -> list[Look]:
    """A run with engines of a million nodes a second, twice as many searches submitted; a look at every end."""
    now = 0.0
    pace = Pace(WHOLE, cuts=cuts, now=lambda: now)
    free, ends = [0.0] * engines, []
    for nodes, cut in positions:
        begin = heapq.heappop(free)
        heapq.heappush(free, begin + nodes / 1e6)
        ends.append((begin + nodes / 1e6, nodes, cut))
    looks = []
    for done, (now, nodes, cut) in enumerate(sorted(ends), 1):
        pace.ended(nodes, cut=cut)
        searching = min(2 * engines, len(ends) - done)
        looks.append(Look(now, pace.seconds(len(ends) - done - searching, searching), max(ends)[0] - now))
    return looks


def by_trees(positions: Sequence[tuple[int, bool]], trees: int, *, cuts: bool) -> list[Look]:
    """A forest: each round every tree gets a visit, and takes the longer the more trees there are."""
    now = 0.0
    pace = Pace(200, cuts=cuts, now=lambda: now)
    waiting = [(max(1, nodes * 200 // WHOLE), cut) for nodes, cut in positions]
    growing: list[tuple[int, int, bool]] = []  # visits, nodes, cut
    looks = []
    while waiting or growing:
        while waiting and len(growing) < trees:
            nodes, cut = waiting.pop(0)
            growing.append((0, nodes, cut))
        now += 0.01 + 0.0004 * len(growing)
        grown = [(visits + 1, nodes, cut) for visits, nodes, cut in growing]
        growing = [tree for tree in grown if tree[0] < tree[1]]
        under_way = [visits for visits, _, _ in growing]
        for visits, nodes, cut in grown:
            if visits >= nodes:
                pace.ended(nodes, cut=cut, under_way=under_way)
        looks.append(Look(now, pace.seconds(len(waiting), len(growing), under_way), now))
    return [Look(look.at, look.said, now - look.at) for look in looks]


def judged(looks: Iterable[Look]) -> tuple[float, float]:
    """The share of the run in which a time was said, and of those looks the share within a factor of two (or 5 s)."""
    every = list(looks)
    estimated = [look for look in every if look.said is not None]
    near = [max(look.said or 0, 5) / max(look.left, 5) for look in estimated]
    spoken = sum(b.at - a.at for a, b in pairwise(every) if a.said is not None) / every[-1].at
    return spoken, float(np.mean([0.5 <= ratio <= 2 for ratio in near]))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("positions", "engines"), [(200, 2), (300, 2), (1000, 16), (3000, 64)])
@pytest.mark.slow
def test_the_time_left_of_engines(positions: int, engines: int, seed: int) -> None:
    searches = costs(np.random.default_rng(seed), positions, learning=64, kept=0.25)
    looks = by_engines(searches, engines, cuts=True)
    first_cut = next(number for number, (_, cut) in enumerate(searches) if cut)
    assert all(look.said is None for look in looks[:first_cut])
    spoken, near = judged(looks)
    assert spoken > 0.25
    assert near > 0.95


def test_the_time_left_where_nothing_is_cut() -> None:
    searches = [(WHOLE, False)] * 100
    assert judged(by_engines(searches, 4, cuts=False))[1] == 1
    spoken, near = judged(by_trees(searches, 32, cuts=False))
    assert spoken > 0.98
    assert near == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("positions", "trees", "learning"), [(300, 512, 0), (600, 128, 0), (3000, 512, 64)])
def test_the_time_left_of_trees(positions: int, trees: int, learning: int, seed: int) -> None:
    searches = costs(np.random.default_rng(seed), positions, learning=learning, kept=0.25)
    spoken, near = judged(by_trees(searches, trees, cuts=True))
    assert spoken > 0.8
    assert near > 0.9


@pytest.mark.parametrize(("positions", "trees", "learning"), [(600, 128, 0), (3000, 512, 64)])
def test_what_the_estimate_is_worth(monkeypatch: pytest.MonkeyPatch, positions: int, trees: int, learning: int) -> None:
    """By the mean of the searches that have ended, which are the short ones, the time left would often be wrong."""

    class ByMean(PieceSizes):
        def left(self, so_far: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.maximum(self.mean - so_far, 0.0)

    def by_mean(ended: Sequence[int], under_way: Sequence[int], whole: int | None) -> PieceSizes:
        return ByMean(np.array(ended, np.float64), np.ones(len(ended)), np.array([]))

    searches = costs(np.random.default_rng(0), positions, learning=learning, kept=0.25)
    assert judged(by_trees(searches, trees, cuts=True))[1] > 0.9
    monkeypatch.setattr("valuerepair.runs.progress.search_sizes", by_mean)
    assert judged(by_trees(searches, trees, cuts=True))[1] < 0.8


class Shown(Progress):
    """Keeps what is shown."""

    def __init__(self) -> None:
        super().__init__("mining", quiet=True, own_eta=True)
        self.stages: list[str] = []
        self.seen: list[tuple[int, str]] = []

    def stage(self, name: str) -> None:
        self.stages.append(name)

    def note(self, text: str) -> None:
        self.seen.append((self.done, text))


@pytest.mark.parametrize("name", ["lichess-blitz.pgn", pytest.param("otb-masters.pgn.zst", marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [SampleOptions(), SampleOptions(game_share=0.1), SampleOptions(min_elo=2000)])
def test_the_total_is_that_of_all_archives(shared_data: Path, name: str, options: SampleOptions) -> None:
    """Files are read and split into games ahead of what is parsed, and to their ends before all is parsed."""
    path = str(shared_data / "pgn" / name)
    reader, progress = ArchiveReader([path], options), Shown()

    def read(count: int) -> None:
        reader.bytes_read += count

    shown = RunProgress(progress, reader, None, None)
    shown.show(RunCounts(0, 0, 1, 0, 0, None), reading=True)
    totals = [progress.total]
    for _ in sample([path], options, reader.report, on_bytes=read):
        shown.show(RunCounts(0, 0, 1, 0, 0, None), reading=True)
        totals.append(progress.total)
    assert len(totals) > 1
    share = np.array(totals[1:], np.float64) / reader.report.positions
    assert share == pytest.approx(np.ones(len(share)), abs=0.3)
    assert share[-1] == pytest.approx(1, abs=0.01)
    assert totals[0] is None


class Growing(KeyOracle):
    """Searches of which it is known how far they are."""

    visits = 0

    @property
    def under_way(self) -> list[int]:
        self.visits += 7
        return [self.visits, 3]


def test_nodes_move_before_the_first_search_is_over(tmp_path: Path) -> None:
    random_games(tmp_path / "games.pgn", 6)
    shown = Shown()
    with Store.open(tmp_path / "a.db", create=True) as store, Growing(delay=1.6) as oracle:
        options = MineOptions(sample=SampleOptions(per_game=1))
        mine([str(tmp_path / "games.pgn")], options, store, KeyNet(), oracle, progress=shown)
    before = [note for done, note in shown.seen if done == 0 and " nodes, " in note]
    assert len(set(before)) >= 2
    assert shown.stages[-1] == ""


SLOW = """
import time
from valuerepair.chess import progress
progress.PLAIN_INTERVAL_S = progress._TICK_S = 0.2
with progress.Progress("mining", unit="positions", own_eta=True) as p:
    p.stage("compiling")
    {busy}
    p.stage("")
    p.set_total(3)
    p.advance(2)
    p.note("about 1:00 left")
    time.sleep(0.3)
    p.advance(1)
"""
BUSY = "end = time.monotonic() + 2.5\n    while time.monotonic() < end: sum(range(1000))"


@pytest.mark.slow
def test_a_stage_moves_while_the_caller_does_nothing_for_it() -> None:
    program = textwrap.dedent(SLOW).format(busy=BUSY)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=True
    )
    lines = done.stderr.splitlines()
    assert {"mining: compiling, 0:01", "mining: compiling, 0:02"} <= set(lines)
    assert lines[-1].startswith("mining: 3/3 positions, ")
    assert lines[-1].endswith("about 1:00 left")
    shown = on_a_terminal([sys.executable, "-c", program], TERM="xterm")
    assert {"mining: compiling, 00:01", "mining: compiling, 00:02"} <= {part.strip() for part in shown.split("\r")}
    assert "3/3" in shown
