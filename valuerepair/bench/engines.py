"""Stockfish under the oracle against Stockfish fed by hand."""

from __future__ import annotations

from collections.abc import Callable

from valuerepair.bench.by_hand import ByHand
from valuerepair.bench.ratio import BenchData, Comparison
from valuerepair.deep import DeepResult, open_oracle


def stockfish_nodes(data: BenchData) -> Comparison:
    """Nodes/s of the whole oracle path (queue, history, hash cleared, parsing, checking) over those of bare pipes."""
    # A repeat takes a tenth of the time: five on either side, and the first of ours, which is not measured.
    with (
        ByHand(data, seconds=data.seconds / 10, at_least=4) as by_hand,
        open_oracle(by_hand.deep, net_path=None, workers=by_hand.workers) as oracle,
    ):

        def ours() -> float:
            results = [f.result() for f in [oracle.submit(p) for p in by_hand.positions]]
            return sum(r.nodes for r in results if isinstance(r, DeepResult))

        return by_hand.compare("Stockfish", ours)


BENCHES: dict[str, Callable[[BenchData], Comparison]] = {"engines": stockfish_nodes}
