"""Stockfish fed by hand: what our engines are measured against, with the same positions, options and processes."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence

from valuerepair.archives import ReadReport, SampleOptions, sample
from valuerepair.bench.ratio import BenchData, Comparison, Work, compare
from valuerepair.engines import find_engine, usable_cores
from valuerepair.errors import ValueRepairError
from valuerepair.positions import Position

NODES = 100_000  # a tenth of the default: what is done beside a search weighs ten times as much
NODES_A_SECOND = 500_000  # of one Stockfish on one core, roughly: sets how many positions fill the time
TARGET = 0.95
SAMPLE = SampleOptions(per_game=1, min_ply=16, max_ply=45)


class ByHand:
    """One bare Stockfish a core, and positions of the archive for some `seconds`, but `at_least` so many a process.

    A context manager that ends the processes. `deep` is what `open_oracle` needs to search alike.
    """

    deep = f"stockfish:nodes={NODES}"

    def __init__(self, data: BenchData, *, seconds: float, at_least: int) -> None:
        path = find_engine("stockfish")
        if path is None:
            raise ValueRepairError("bench: no Stockfish on this machine (apt-get install stockfish)")
        self.workers = usable_cores()
        a_process = max(at_least, round(seconds * NODES_A_SECOND / NODES))
        self.positions = archive_positions(data.archive, a_process * self.workers)
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
        return compare(name, "nodes", "as many processes fed by hand", ours, self.search, target=TARGET)

    def __enter__(self) -> ByHand:
        return self

    def __exit__(self, *error: object) -> None:
        for pipe in self._pipes:
            pipe.quit()


def archive_positions(archive: str, count: int) -> Sequence[Position]:
    """`count` positions with history from the start of an archive, one a game at ply 16 to 45."""
    positions: list[Position] = []
    for batch in sample([archive], SAMPLE, ReadReport()):
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
