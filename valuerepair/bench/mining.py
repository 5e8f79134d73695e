"""A whole run of mining against its Stockfish processes alone, fed by hand with the same positions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

from valuerepair.bench.by_hand import SAMPLE, ByHand
from valuerepair.bench.ratio import BenchData, Comparison
from valuerepair.deep import open_oracle
from valuerepair.mining import MineOptions, mine
from valuerepair.nets import open_net
from valuerepair.store import Store


def whole_run(data: BenchData) -> Comparison:
    """Nodes/s from opening the store to the summary: reading, sampling, the net and the store beside the engines.

    Net and engines are started before the clock; a run of hours starts them once.
    """
    with (
        ByHand(data, seconds=data.seconds / 5, at_least=16) as by_hand,
        open_net(data.net) as net,
        open_oracle(by_hand.deep, net_path=None, workers=by_hand.workers) as oracle,
        tempfile.TemporaryDirectory(prefix="vr-bench-") as folder,
    ):
        net.tune()
        # The first positions that this draws are those of `by_hand`.
        options = MineOptions(sample=SAMPLE, limit=len(by_hand.positions))

        def ours() -> float:
            name = os.path.join(folder, f"{len(os.listdir(folder))}.db")
            with Store.open(name, create=True) as store:
                return float(mine([data.archive], options, store, net, oracle).nodes)

        return by_hand.compare("vr mine", ours)


BENCHES: dict[str, Callable[[BenchData], Comparison]] = {"whole-run": whole_run}
