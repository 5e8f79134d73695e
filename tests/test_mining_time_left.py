"""What a run of mining shows while it works: the time left against simulated runs, and that something always moves."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from statsmodels.duration.survfunc import SurvfuncRight

from tests.mining_doubles import KeyNet, KeyOracle, random_games
from tests.test_cli_terminal import environment, on_a_terminal
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.sampling import sample
from valuerepair.chess.progress import Progress
from valuerepair.runs.mine import mine
from valuerepair.runs.options import MineOptions
from valuerepair.runs.progress import RunCounts, RunProgress, search_sizes
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
