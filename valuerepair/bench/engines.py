"""Stockfish under the oracle against Stockfish fed by hand: the same positions, options and number of processes."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from valuerepair.bench.ratio import Comparison, compare
from valuerepair.deep import DeepResult, open_oracle
from valuerepair.engines import find_engine, usable_cores
from valuerepair.errors import ValueRepairError
from valuerepair.positions import Position

if TYPE_CHECKING:
    from valuerepair.bench.ratio import BenchData

NODES = 100_000  # a tenth of the default: what the oracle adds to a search weighs ten times as much
NODES_A_SECOND = 500_000  # of one Stockfish on one core, roughly: sets how many positions fill the time
TARGET = 0.95


def stockfish_nodes(data: BenchData) -> Comparison:
    """Nodes/s of the whole oracle path (queue, history, hash cleared, parsing, checking) over those of bare pipes."""
    path = find_engine("stockfish")
    if path is None:
        raise ValueRepairError("bench: no Stockfish on this machine (apt-get install stockfish)")
    workers = usable_cores()
    # A repeat takes a tenth of the time: five on either side, and the first of ours, which is not measured.
    count = max(4 * workers, round(data.seconds / 10 * workers * NODES_A_SECOND / NODES))
    positions = archive_positions(data.archive, count)
    with open_oracle(f"stockfish:nodes={NODES}", net_path=None, workers=workers) as oracle:

        def ours() -> float:
            results = [f.result() for f in [oracle.submit(p) for p in positions]]
            return sum(r.nodes for r in results if isinstance(r, DeepResult))

        pipes = [_Pipe(path) for _ in range(workers)]
        try:
            return compare(
                f"Stockfish, {workers} at once, {NODES:,} nodes a position",
                "nodes",
                "as many processes fed by hand",
                ours,
                lambda: feed_by_hand(pipes, positions),
                target=TARGET,
            )
        finally:
            for pipe in pipes:
                pipe.quit()


def archive_positions(archive: str, count: int) -> list[Position]:
    """`count` positions with history from the start of an archive, one a game at ply 16 to 45."""
    from valuerepair.archives import ReadReport, SampleOptions, sample

    positions: list[Position] = []
    options = SampleOptions(per_game=1, min_ply=16, max_ply=45, threads=1)
    for batch in sample([archive], options, ReadReport()):
        positions.extend(batch)
        if len(positions) >= count:
            return positions[:count]
    if not positions:
        raise ValueRepairError(f"bench: {archive}: no positions in it")
    return [positions[i % len(positions)] for i in range(count)]


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
        """Searches with an empty hash, as the oracle does; returns the nodes."""
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


def feed_by_hand(pipes: Sequence[_Pipe], positions: Sequence[Position]) -> float:
    """All positions through the pipes, one thread each, taken from one list; returns the nodes."""
    left = [p.uci for p in positions][::-1]
    nodes: list[int] = []

    def feed(pipe: _Pipe) -> None:
        while left:
            try:
                position = left.pop()
            except IndexError:
                return
            nodes.append(pipe.search(position))

    threads = [threading.Thread(target=feed, args=(pipe,)) for pipe in pipes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return float(sum(nodes))


BENCHES: dict[str, Callable[[BenchData], Comparison]] = {"engines": stockfish_nodes}
