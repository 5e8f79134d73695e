"""The leaves of one tree spread over the cores, where each core runs batches of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from valuerepair.mcts.evaluator import Evaluations, Evaluator, Leaves

# Leaves of one tree a core and batch: with four maia-1900 gives 1,776 evaluations a core-second, with one 1,336,
# with any more at most 1,912; and the more leaves at once, the less each of them knows of the others.
LEAVES_A_CORE = 4
MOST_LEAVES = 32
LEAVES_ON_GPU = 64


def good_minibatch(streams: int, on_cpu: bool) -> int:
    """How many leaves of a single tree a batch should have, for speed; 1 is the sequential search."""
    return min(MOST_LEAVES, LEAVES_A_CORE * streams) if on_cpu else LEAVES_ON_GPU


class SplitEvaluator:
    """An `Evaluator` that cuts batches into as many parts as another one has streams, and has all work on them."""

    def __init__(self, evaluator: Evaluator, streams: int) -> None:
        self._evaluator, self._streams = evaluator, streams
        self._pool = ThreadPoolExecutor(max(1, streams - 1), thread_name_prefix="leaves")

    def __call__(self, leaves: Leaves) -> Evaluations:
        """Evaluates the leaves; every part is evaluated as a batch of its own."""
        n = len(leaves.masks)
        parts = min(self._streams, n)
        if parts < 2:
            return self._evaluator(leaves)
        cut = [_rows(leaves, n * i // parts, n * (i + 1) // parts) for i in range(parts)]
        others = [self._pool.submit(self._evaluator, part) for part in cut[1:]]
        answers = [self._evaluator(cut[0]), *(other.result() for other in others)]
        return Evaluations(*(np.concatenate(column) for column in zip(*answers, strict=True)))

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()


def _rows(leaves: Leaves, begin: int, end: int) -> Leaves:
    first, last = leaves.offsets[begin], leaves.offsets[end]
    return Leaves(
        leaves.masks[begin:end],
        leaves.rule50[begin:end],
        leaves.indices[first:last],
        leaves.offsets[begin : end + 1] - first,
    )
