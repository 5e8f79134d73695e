"""What a run of mining shows while it works: its total, and that something always moves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.mining_doubles import KeyNet, KeyOracle, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.sampling import sample
from valuerepair.progress import Progress
from valuerepair.runs.mine import mine
from valuerepair.runs.options import MineOptions
from valuerepair.runs.progress import RunCounts, RunProgress
from valuerepair.runs.workers import ArchiveReader
from valuerepair.store.store import Store


class Shown(Progress):
    """Keeps what is shown."""

    def __init__(self) -> None:
        super().__init__("mining", quiet=True)
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

    shown = RunProgress(progress, reader, None)
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
