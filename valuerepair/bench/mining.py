"""A whole run of mining against its Stockfish processes alone, fed by hand with the same positions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

# The rival is the same as for the oracle alone; it is described there.
from valuerepair.bench.engines import NODES, NODES_A_SECOND, _Pipe, archive_positions, feed_by_hand
from valuerepair.bench.ratio import BenchData, Comparison, compare
from valuerepair.engines import find_engine, usable_cores
from valuerepair.errors import ValueRepairError

TARGET = 0.95


def whole_run(data: BenchData) -> Comparison:
    """Nodes/s from opening the store to the summary: reading, sampling, the net and the store beside the engines.

    Net and engines are started before the clock; a run of hours starts them once.
    """
    from valuerepair.archives import SampleOptions
    from valuerepair.deep import open_oracle
    from valuerepair.mining import MineOptions, mine
    from valuerepair.nets import open_net
    from valuerepair.store import Store

    path = find_engine("stockfish")
    if path is None:
        raise ValueRepairError("bench: no Stockfish on this machine (apt-get install stockfish)")
    workers = usable_cores()
    count = max(16 * workers, round(data.seconds / 5 * workers * NODES_A_SECOND / NODES))
    positions = archive_positions(data.archive, count)
    # The first positions that this draws are those of `archive_positions`.
    options = MineOptions(sample=SampleOptions(per_game=1, min_ply=16, max_ply=45), limit=count)
    with (
        open_net(data.net) as net,
        open_oracle(f"stockfish:nodes={NODES}", net_path=None, workers=workers) as oracle,
        tempfile.TemporaryDirectory(prefix="vr-bench-") as folder,
    ):
        net.tune()

        def ours() -> float:
            name = os.path.join(folder, f"{len(os.listdir(folder))}.db")
            with Store.open(name, create=True) as store:
                return float(mine([data.archive], options, store, net, oracle).nodes)

        pipes = [_Pipe(path) for _ in range(workers)]
        try:
            return compare(
                f"vr mine, {workers} at once, {NODES:,} nodes a position",
                "nodes",
                "as many processes fed by hand",
                ours,
                lambda: feed_by_hand(pipes, positions),
                target=TARGET,
            )
        finally:
            for pipe in pipes:
                pipe.quit()


BENCHES: dict[str, Callable[[BenchData], Comparison]] = {"whole-run": whole_run}
