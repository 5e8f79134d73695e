"""Stockfish under the judge and in whole runs of mining against Stockfish fed by hand; and what Dask costs."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from contextlib import AbstractContextManager

from benchmarks.comparison import BenchData, Comparison, Work, compare, sampled
from valuerepair.archives.options import SampleOptions
from valuerepair.cluster.connection import parse_cluster
from valuerepair.cluster.evaluators import open_on_cluster
from valuerepair.engines.spec import find_engine
from valuerepair.errors import ValueRepairError
from valuerepair.mining.judges import Opened, open_run
from valuerepair.mining.mine import MineOptions, mine
from valuerepair.nets.devices import usable_cores
from valuerepair.nets.net import open_net
from valuerepair.oracles.open import open_judge
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

NODES = 100_000  # a tenth of the default: what is done beside a search weighs ten times as much
NODES_A_SECOND = 500_000  # of one Stockfish on one core, roughly: sets how many positions fill the time
SAMPLE = SampleOptions(per_game=1, min_ply=16, max_ply=45)
CLUSTER_WORKERS = 2
CLUSTER_NODES = 20_000  # a fiftieth of the default: what Dask costs a position weighs fifty times as much


def judge_alone(data: BenchData) -> Comparison:
    """Nodes/s of the whole judge path (queue, history, hash cleared, parsing, checking) over those of bare pipes."""
    # A repeat takes a tenth of the time: five on either side, and the first of ours, which is not measured.
    with (
        ByHand(data, seconds=data.seconds / 10, at_least=4) as by_hand,
        open_judge(by_hand.deep, net_path=None, workers=by_hand.workers) as judge,
    ):

        def ours() -> float:
            results = [f.result() for f in [judge.submit(p) for p in by_hand.positions]]
            return sum(r.nodes for r in results if isinstance(r, DeepResult))

        return by_hand.compare("Stockfish", ours)


def whole_run(data: BenchData) -> Comparison:
    """Nodes/s from opening the store to the summary: reading, sampling, the net and the store beside the engines.

    Net and engines are started before the clock; a run of hours starts them once.
    """
    with (
        ByHand(data, seconds=data.seconds / 5, at_least=16) as by_hand,
        open_net(data.net) as net,
        open_judge(by_hand.deep, net_path=None, workers=by_hand.workers) as judge,
        tempfile.TemporaryDirectory(prefix="vr-bench-") as folder,
    ):
        # The first positions that this draws are those of `by_hand`.
        options = MineOptions(sample=SAMPLE, limit=len(by_hand.positions), screen=None)
        ours = _mining(data.archive, options, Opened(net, judge), folder)
        return by_hand.compare("vr mine", ours)


def two_workers(data: BenchData) -> Comparison:
    """A whole run on a cluster of two workers on this machine against one with as many engines without Dask.

    Nodes/s as of `whole_run`, with the same positions. Net, engines and workers run before.
    """
    count = max(64, round(data.seconds * CLUSTER_WORKERS * NODES_A_SECOND / CLUSTER_NODES / 2))
    options = MineOptions(sample=SampleOptions(per_game=None, positions=count))
    what = f"stockfish:nodes={CLUSTER_NODES}", data.net
    cluster: AbstractContextManager[Opened] = open_on_cluster(
        parse_cluster(f"local:{CLUSTER_WORKERS}"), *what, threads=1, device="cpu"
    )
    local = open_run([data.archive], *what, CLUSTER_WORKERS, device="cpu", threads=CLUSTER_WORKERS)
    with tempfile.TemporaryDirectory(prefix="vr-bench-") as folder, cluster as there, local as here:
        return compare(
            f"vr mine --cluster local:{CLUSTER_WORKERS}, {count} positions of {CLUSTER_NODES:,} nodes",
            "nodes",
            f"vr mine with {CLUSTER_WORKERS} engines",
            _mining(data.archive, options, there, folder),
            _mining(data.archive, options, here, folder),
            target=0.9,
        )


def _mining(archive: str, options: MineOptions, opened: Opened, folder: str) -> Work:
    """Whole runs, each into a new store; they give the nodes."""

    def run() -> float:
        name = os.path.join(folder, f"{len(os.listdir(folder))}.db")
        with Store.open(name, create=True) as store:
            summary = mine([archive], options, store, *opened)
        if summary.state == "interrupted":  # a signal, which ends the run and not yet the benchmark
            raise KeyboardInterrupt
        return float(summary.nodes)

    return run


class ByHand:
    """One bare Stockfish a core, and positions of the archive for some `seconds`, but `at_least` so many a process.

    A context manager that ends the processes. `deep` is what `open_judge` needs to search alike.
    """

    deep = f"stockfish:nodes={NODES}"

    def __init__(self, data: BenchData, *, seconds: float, at_least: int) -> None:
        path = find_engine("stockfish")
        if path is None:
            raise ValueRepairError("no Stockfish on this machine (apt-get install stockfish)")
        self.workers = usable_cores()
        a_process = max(at_least, round(seconds * NODES_A_SECOND / NODES))
        count = a_process * self.workers
        found = sampled(data.archive, count, SAMPLE)
        self.positions = [found[i % len(found)] for i in range(count)]
        self._pipes = [_Pipe(path) for _ in range(self.workers)]

    def search(self) -> float:
        """All positions through the pipes, one thread each, taken from one list; returns the nodes."""
        left = [p.uci for p in self.positions][::-1]
        nodes: list[int] = []

        def feed(pipe: _Pipe) -> None:
            while left:
                try:
                    position = left.pop()
                except IndexError:
                    return
                nodes.append(pipe.search(position))

        threads = [threading.Thread(target=feed, args=(pipe,)) for pipe in self._pipes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return float(sum(nodes))

    def compare(self, what: str, ours: Work) -> Comparison:
        """`ours`, which returns the nodes of the same positions, against `search`."""
        name = f"{what}, {self.workers} at once, {NODES:,} nodes a position"
        return compare(name, "nodes", "as many processes fed by hand", ours, self.search, target=0.95)

    def __enter__(self) -> ByHand:
        return self

    def __exit__(self, *error: object) -> None:
        for pipe in self._pipes:
            pipe.quit()


class _Pipe:
    """Stockfish as one writes it in ten lines: blocking pipes, no supervision, nothing read but the node count."""

    def __init__(self, path: str) -> None:
        # In a session of its own, as ours: Linux shares a busy machine's cores out by session (autogroup).
        self._process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, start_new_session=True
        )
        self._write("setoption name Hash value 16\nsetoption name Threads value 1\n")

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def search(self, position: str) -> int:
        """Searches with an empty hash, as the judge does; returns the nodes."""
        self._write(f"ucinewgame\n{position}\ngo nodes {NODES}\n")
        nodes = 0
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if " nodes " in line:
                nodes = int(line.split(" nodes ", 1)[1].split(" ", 1)[0])
            elif line.startswith("bestmove"):
                break
        return nodes

    def quit(self) -> None:
        self._write("quit\n")
        self._process.wait()
