"""A whole run of mining on a cluster of two workers on this machine against one with as many engines without Dask."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager

from valuerepair.archives import SampleOptions
from valuerepair.bench.by_hand import NODES_A_SECOND
from valuerepair.bench.ratio import BenchData, Comparison, Work, compare
from valuerepair.cluster import open_on_cluster
from valuerepair.mining import MineOptions, mine, open_evaluators
from valuerepair.mining.opening import Opened
from valuerepair.store import Store

WORKERS = 2
NODES = 20_000  # a fiftieth of the default: what Dask costs a position weighs fifty times as much
TARGET = 0.9


def two_workers(data: BenchData) -> Comparison:
    """Nodes/s from opening the store to the summary, with the same positions. Net, engines and workers run before."""
    count = max(64, round(data.seconds * WORKERS * NODES_A_SECOND / NODES / 2))
    sample = SampleOptions(per_game=None, positions=count)
    paths, deep, options = [data.archive], f"stockfish:nodes={NODES}", MineOptions(sample=sample)

    def work(opened: Opened, folder: str) -> Work:
        def run() -> float:
            name = os.path.join(folder, f"{len(os.listdir(folder))}.db")
            with Store.open(name, create=True) as store:
                summary = mine(paths, options, store, opened.net, opened.oracle)
            if summary.state == "interrupted":  # a signal, which ends the run and not yet the bench
                raise KeyboardInterrupt
            return float(summary.nodes)

        return run

    cluster: AbstractContextManager[Opened] = open_on_cluster(
        f"local:{WORKERS}", paths, sample, deep, data.net, threads=1, device="cpu"
    )
    local = open_evaluators(paths, sample, deep, data.net, WORKERS, device="cpu", threads=WORKERS)
    with tempfile.TemporaryDirectory(prefix="vr-bench-") as folder, cluster as there, local as here:
        return compare(
            f"vr mine --cluster local:{WORKERS}, {count} positions of {NODES:,} nodes",
            "nodes",
            f"vr mine with {WORKERS} engines",
            work(there, folder),
            work(here, folder),
            target=TARGET,
        )


BENCHES: dict[str, Callable[[BenchData], Comparison]] = {"cluster": two_workers}
