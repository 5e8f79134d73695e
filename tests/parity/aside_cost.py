"""What positions beside the games cost the process that drives mining: processor time a position, with and without.

    python -m tests.parity.aside_cost [--positions 3000] [--rounds 3]

maia-1900 on the CPU and Stockfish at few nodes, whose processes are not counted, mine the archive of data/ in full; the
ways take turns, and the median of the rounds is told. `net` is what of the time the net's own runs took, here in the
threads that ask it, `else` is the rest: archives, draws, searches' trees, the store.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from valuerepair.archives.options import SampleOptions
from valuerepair.nets.net import open_net
from valuerepair.nets.session import RawOutputs, Session
from valuerepair.oracles.open import open_oracle
from valuerepair.runs.mine import mine
from valuerepair.runs.options import MineOptions
from valuerepair.store.store import Store

ARCHIVE = Path(__file__).parents[2] / "data" / "games.pgn.zst"
WAYS = (None, "0.5", "aside:0.5", "policy:0.5", "search:0.5")


class NetTime:
    """Processor seconds that all sessions took, and how many positions they were given."""

    def __init__(self) -> None:
        self.seconds, self.rows, self._lock = 0.0, 0, threading.Lock()
        self._run = Session.run

    def __enter__(self) -> NetTime:
        def timed(session: Session, planes: Any, options: Any = None) -> RawOutputs:
            begun = time.thread_time()
            found = self._run(session, planes, options)
            with self._lock:
                self.seconds, self.rows = self.seconds + time.thread_time() - begun, self.rows + len(planes)
            return found

        Session.run = timed  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        Session.run = self._run  # type: ignore[method-assign]


def measure(positions: int, nodes: int, aside: str | None) -> tuple[float, float, float]:
    """Processor milliseconds a position, those of them of the net, and how often the net was asked a position."""
    options = MineOptions(SampleOptions(positions=positions, per_game=None, off_game=aside))
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "a.db", create=True) as store,
        open_net(None, device="cpu", threads=1) as net,
        open_oracle(f"stockfish:nodes={nodes}", net_path=None) as oracle,
        NetTime() as spent,
    ):
        before = resource.getrusage(resource.RUSAGE_SELF)
        summary = mine([str(ARCHIVE)], options, store, net, oracle)
        after = resource.getrusage(resource.RUSAGE_SELF)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * whole / summary.sampled, 1000 * spent.seconds / summary.sampled, spent.rows / summary.sampled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=500)
    given = parser.parse_args()
    for way in WAYS:
        measure(100, given.nodes, way)  # compiles and imports
    found: dict[str | None, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    for _ in range(given.rounds):
        for way in WAYS:
            found[way].append(measure(given.positions, given.nodes, way))
    print("| --off-game | processor ms a position | net | else | net asked, times |\n|---|---|---|---|---|")
    for way, each in found.items():
        whole, net, times = (statistics.median(column) for column in zip(*each, strict=True))
        rest = statistics.median(whole - net for whole, net, _ in each)
        print(f"| {way or 'none'} | {whole:.2f} | {net:.2f} | {rest:.2f} | {times:.2f} |")


if __name__ == "__main__":
    main()
