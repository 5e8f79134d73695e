"""``python -m tests.soak [MINUTES [NET]]``: mining, matches and self-play, again and again, and nothing may grow.

Every round mines a new archive into a new store with crashing engines, plays a match of scripted engines, and games of
the net against itself with their training records; after each, memory, open files, threads and children are noted.
After the first quarter of the time all must stay flat.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from click.testing import CliRunner

from tests.match_doubles import FAKE, fake_side, write_book
from tests.mining_doubles import KeyNet, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.cli import cli
from valuerepair.engines.kinds import UCI, JudgeSetup
from valuerepair.engines.spec import EngineSpec
from valuerepair.engines.uci import EngineSetup
from valuerepair.oracles.uci_oracle import UciOracle
from valuerepair.play.pgn import read_written
from valuerepair.runs.mine import mine
from valuerepair.runs.options import MineOptions
from valuerepair.store.store import Store

MORE_MEMORY = 64 << 20  # bytes that may come after the first quarter: caches of compiled kernels, SQLite's pages
MORE_FILES = 4


@dataclass(frozen=True)
class Sample:
    """What the process holds after a round."""

    seconds: float
    memory: int
    files: int
    threads: int
    children: int
    zombies: int


def look(started: float) -> Sample:
    gc.collect()
    process = psutil.Process()
    children = process.children(recursive=True)
    zombies = sum(child.status() == psutil.STATUS_ZOMBIE for child in children)
    memory = process.memory_info().rss
    return Sample(time.monotonic() - started, memory, process.num_fds(), process.num_threads(), len(children), zombies)


def one_round(folder: Path, number: int, net: str) -> int:
    """Mines a new archive with engines of which some crash, and plays; the positions scored or failed."""
    archive = random_games(folder / f"{number}.pgn", 20, seed=number, plies=30)
    engine = EngineSetup(sys.executable, (FAKE, "play", "crash-on=d7d6"))
    setup = JudgeSetup(EngineSpec(UCI, {"nodes": 9}, timeout=2.0), engine)
    with Store.open(folder / f"{number}.db", create=True) as store, UciOracle(setup, 2) as oracle:
        options = MineOptions(sample=SampleOptions(per_game=3), screen=None)
        found = mine([str(archive)], options, store, KeyNet(), oracle).report.positions
        assert len(store.frame()) > 0
    book = write_book(folder / "book.pgn", 2)
    sides = fake_side("one"), fake_side("two")
    assert played(folder / "match.pgn", "match", *sides, "--openings", str(book), "--nodes", "9") == 4
    records = "--training", str(folder / "chunks"), "--db", str(folder / "plays.db")
    how = "--nodes", "4", "--temperature", "0.8", "--device", "cpu"
    assert played(folder / "self.pgn", "selfplay", str(book), "--net", net, *how, *records) == 2
    assert len(list((folder / "chunks").glob("*.gz"))) == 2
    return found


def played(path: Path, *arguments: str) -> int:
    """The games of a command, which runs in this process, so that what it leaves behind is seen."""
    done = CliRunner().invoke(cli, [*arguments, "-o", str(path)])
    assert done.exit_code == 0, done.output
    return len(read_written(path)[0])


def soak(minutes: float, net: str) -> list[Sample]:
    """Rounds for so long; raises AssertionError where something grew."""
    started = time.monotonic()
    samples: list[Sample] = []
    number = positions = 0
    while not samples or samples[-1].seconds < 60 * minutes:
        with tempfile.TemporaryDirectory() as folder:
            positions += one_round(Path(folder), number, net)
        samples.append(look(started))
        number += 1
    warm = [sample for sample in samples if sample.seconds >= 15 * minutes]
    first, last = warm[0], warm[-1]
    print(
        f"{number} rounds in {last.seconds / 60:.1f} min, {positions:,} positions, {6 * number} games; after the first "
        f"quarter: memory {first.memory >> 20} to {last.memory >> 20} MiB (most {max(s.memory for s in warm) >> 20}), "
        f"files {first.files} to {last.files}, threads {first.threads} to {last.threads}, "
        f"children {first.children} to {last.children}, zombies at most {max(s.zombies for s in warm)}"
    )
    assert max(sample.memory for sample in warm) < first.memory + MORE_MEMORY
    assert max(sample.files for sample in warm) <= first.files + MORE_FILES
    assert max(sample.children for sample in warm) <= first.children
    assert not any(sample.zombies for sample in warm)
    return samples


if __name__ == "__main__":
    soak(float((sys.argv[1:] or ["30"])[0]), (sys.argv[2:] or ["maia-1900"])[0])
