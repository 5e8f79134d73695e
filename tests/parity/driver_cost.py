"""What mining costs the process that drives it: processor time a position, and how long its engines wait for it.

    python -m tests.parity.driver_cost [--positions 5000] [--engines 64] [--ms 1 10 100]

Net and engines are stand-ins that cost next to nothing: an engine sleeps for so many milliseconds at each rung and
gives a value that follows from the position. Everything else is real: sampling the archive of data/, the ladder with
its fits, the store. `idle` is the share of the time from the first search to the last that engines had none.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.climbing_doubles import NODES, ClimbingOracle, ShiftedNet, rung_result
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import Position
from valuerepair.nets.net import open_net
from valuerepair.oracles.open import open_oracle
from valuerepair.oracles.oracle import Climb, ClimbOutcome, GoOn
from valuerepair.question import Question
from valuerepair.runs.mine import mine
from valuerepair.runs.options import MineOptions
from valuerepair.screening.fit import fit_screen, package_rows
from valuerepair.screening.model import ScreenOptions, rungs_of
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

ARCHIVE = Path(__file__).parents[2] / "data" / "games.pgn.zst"


class SleepingEngines(ClimbingOracle):
    """Engines that take `seconds` for a rung; `busy` is what all of them were at work together."""

    def __init__(self, workers: int, seconds: float) -> None:
        super().__init__(workers, fails=False)
        self.identity = replace(self.identity, kind="stockfish")
        self._seconds, self._lock = seconds, threading.Lock()
        self.busy, self.begun, self.ended = 0.0, float("inf"), 0.0

    def _climb(self, position: Position, rungs: Sequence[int], go_on: GoOn) -> ClimbOutcome:
        begun, slept = time.perf_counter(), 0.0
        results: list[DeepResult] = []
        for nodes in (*rungs, NODES):
            at = time.perf_counter()
            time.sleep(self._seconds)
            slept += time.perf_counter() - at
            results.append(rung_result(position, nodes))
            if nodes == NODES or not go_on(results):
                break
        with self._lock:
            self.busy, self.begun, self.ended = self.busy + slept, min(self.begun, begun), time.perf_counter()
        return Climb(tuple(results), whole=nodes == NODES)


def measure(positions: int, engines: int, seconds: float) -> tuple[float, float, float]:
    """Processor time a position (s), the share of the engines' time that they were idle, and positions a second."""
    options = MineOptions(
        SampleOptions(positions=positions, per_game=None), Question(threshold=0.5), screen=ScreenOptions()
    )
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "a.db", create=True) as store:
        oracle = SleepingEngines(engines, seconds)
        before = resource.getrusage(resource.RUSAGE_SELF)
        summary = mine([str(ARCHIVE)], options, store, ShiftedNet(), oracle)
        after = resource.getrusage(resource.RUSAGE_SELF)
        oracle.close()
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall = oracle.ended - oracle.begun
    return spent / summary.sampled, 1 - oracle.busy / (engines * wall), summary.sampled / wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=5000)
    parser.add_argument("--engines", type=int, default=64)
    parser.add_argument("--ms", type=float, nargs="+", default=[1, 10, 100])
    parser.add_argument("--stockfish", type=int, metavar="NODES", help="also with maia-1900 and Stockfish")
    arguments = parser.parse_args()
    measure(200, 2, 0.001)  # compiles and imports
    print("| ms a rung | processor ms a position | idle | positions/s |\n|---|---|---|---|")
    for milliseconds in arguments.ms:
        spent, idle, rate = measure(arguments.positions, arguments.engines, milliseconds / 1000)
        print(f"| {milliseconds:g} | {1000 * spent:.2f} | {idle:.0%} | {rate:,.0f} |", flush=True)
    positions, seconds = one_fit()
    print(f"\na fit of the ladder on the {positions:,} positions of the package: {seconds:.2f} s of processor time")
    if arguments.stockfish:
        few, many = (
            with_stockfish(count, arguments.stockfish) for count in (arguments.positions // 4, arguments.positions)
        )
        spent = 1000 * (many - few) / (arguments.positions - arguments.positions // 4)
        print(
            f"\nmaia-1900 and Stockfish at {arguments.stockfish:,} nodes: {spent:.2f} ms a position, the net's included"
        )


def one_fit() -> tuple[int, float]:
    """How many positions a ladder begins with, and the processor time of its fit to them, in seconds; of five."""
    data = package_rows("stockfish", 1_000_000, rungs_of(1_000_000), Question(alpha=170.0))
    assert data is not None
    spent = []
    for _ in range(5):
        begun = time.process_time()
        fit_screen(data, Question(threshold=0.55, alpha=170.0), 0.98)
        spent.append(time.process_time() - begun)
    return len(data), statistics.median(spent)


def with_stockfish(positions: int, nodes: int) -> float:
    """Processor time of the driver, in seconds, with the real net and engines, which are other processes."""
    options = MineOptions(SampleOptions(positions=positions, per_game=None), screen=ScreenOptions())
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "a.db", create=True) as store,
        open_net(None, device="cpu") as net,
        open_oracle(f"stockfish:nodes={nodes}", net_path=None) as oracle,
    ):
        before = resource.getrusage(resource.RUSAGE_SELF)
        mine([str(ARCHIVE)], options, store, net, oracle)
        after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
