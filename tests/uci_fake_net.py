"""A UCI engine of the real server and search over a net that only counts material.

``python -m tests.uci_fake_net`` speaks UCI; `MaterialNet` is the net, `open_material_net` opens it for a server.
"""

from __future__ import annotations

import logging
import sys

import numpy as np

from valuerepair.errors import ValueRepairError
from valuerepair.mcts.evaluator import Evaluations, LeafEvaluator, Leaves
from valuerepair.mcts.uci import EngineSettings, OpenedNet, UciServer

WORTH = np.array([1, 3, 3, 5, 9, 0, -1, -3, -3, -5, -9, 0], np.float32)


class MaterialNet(LeafEvaluator):
    """Q grows with the material of the side to move; some moves have a larger prior than others, by their index."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, leaves: Leaves) -> Evaluations:
        self.calls += 1
        bits = np.unpackbits(np.ascontiguousarray(leaves.masks[:, :12]).view(np.uint8), axis=1)
        men = bits.reshape(len(leaves.masks), 12, 64).sum(2, dtype=np.float32)
        q = np.tanh(men @ WORTH / 10).astype(np.float32)
        logits = ((leaves.indices.astype(np.uint32) * np.uint32(2654435761)) >> np.uint32(30)).astype(np.float32)
        return Evaluations(q, (1 - np.abs(q)) / 2, np.zeros_like(q), logits)


def open_material_net(settings: EngineSettings) -> OpenedNet:
    """For `UciServer`; a net named ``missing`` cannot be opened."""
    if settings.weights == "missing":
        raise ValueRepairError("missing: no such net file")
    logging.getLogger("valuerepair.tests").info(f"material counter {settings.weights}".strip())
    return OpenedNet(MaterialNet(), True, lambda: None)


def main() -> None:
    UciServer(lambda line: print(line, flush=True), open_net=open_material_net).run(sys.stdin)


if __name__ == "__main__":
    main()
