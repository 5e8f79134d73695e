"""The evaluator of a search: positions go in as compact planes; values and logits of the legal moves come out."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats32
from valuerepair.chess.positions import cuts_of
from valuerepair.nets.net import Net
from valuerepair.nets.planes import CLASSICAL, PLANES_SHAPE, unpack_masks


class Leaves(NamedTuple):
    """n positions to evaluate, n >= 1, as the net sees them: from the side to move.

    | field   | type           |                                                                        |
    |---------|----------------|------------------------------------------------------------------------|
    | masks   | uint64[n, 112] | lc0's input planes, bit 8 * rank + file; all ones where a plane is one |
    | rule50  | float32[n]     | the factor of plane 109 (divided by 100 if the format says so)          |
    | indices | uint16[k]      | indices into the net's 1858 policy outputs, one per legal move         |
    | offsets | int64[n + 1]   | those of row i are ``indices[offsets[i]:offsets[i+1]]``                |
    """

    masks: NDArray[np.uint64]
    rule50: NDArray[np.float32]
    indices: NDArray[np.uint16]
    offsets: NDArray[np.int64]

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Leaves:
        """The leaves with these indices, at least one."""
        cuts = self.offsets
        indices = np.concatenate([self.indices[cuts[row] : cuts[row + 1]] for row in rows])
        return Leaves(self.masks[rows], self.rule50[rows], indices, cuts_of(np.diff(cuts)[rows]))


class Evaluations(NamedTuple):
    """What the net says of n leaves, from the side to move.

    `q` float32[n] in [-1, 1] (W - L), `d` float32[n] the probability of a draw (0 for scalar value heads), `m`
    float32[n] plies left (0 without such a head), `logits` float32[k] of the legal moves, in the order of
    `Leaves.indices`.
    """

    q: NDArray[np.float32]
    d: NDArray[np.float32]
    m: NDArray[np.float32]
    logits: NDArray[np.float32]


class LeafEvaluator(ABC):
    """Evaluates the leaves of a search.

    `input_format` is lc0's id of the planes that the leaves must be in; `moves_left` says whether it predicts the
    number of plies left.
    """

    input_format = CLASSICAL
    moves_left = False

    @abstractmethod
    def __call__(self, leaves: Leaves) -> Evaluations:
        """The evaluations of all leaves, in their order. The arrays are new, C-contiguous and the caller's."""


class NetEvaluator(LeafEvaluator):
    """Evaluates by a net, which must stay open. Several threads may call it; more than `streams` gain nothing."""

    def __init__(self, net: Net) -> None:
        self.input_format = net.identity.input_format
        self.moves_left = net.has_moves_left
        self.streams = net.session.streams
        self._session = net.session
        self._buffers = threading.local()

    def __call__(self, leaves: Leaves) -> Evaluations:
        """Evaluates the leaves; more than the session's batch are run in batches of that size."""
        n, size = len(leaves.masks), self._session.batch_size
        q, d, m = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.float32)
        answer = Evaluations(q, d, m, np.empty(len(leaves.indices), np.float32))
        for first in range(0, n, size):
            rows = slice(first, min(first + size, n))
            raw = self._session.run(self._planes(leaves.masks[rows], leaves.rule50[rows]))
            q[rows] = raw.q
            if raw.wdl is not None:
                d[rows] = raw.wdl[:, 1]
            if raw.mlh is not None:
                m[rows] = raw.mlh
            cuts = leaves.offsets[rows.start : rows.stop + 1]
            counts, moves = np.diff(cuts), slice(cuts[0], cuts[-1])
            answer.logits[moves] = raw.policy[np.repeat(np.arange(len(counts)), counts), leaves.indices[moves]]
        return answer

    def _planes(self, masks: NDArray[np.uint64], rule50: Floats32) -> Floats32:
        """Unpacks planes into a buffer that belongs to this thread, which reuses it for its next batch."""
        n = len(masks)
        buffer: Floats32 | None = getattr(self._buffers, "planes", None)
        if buffer is None or len(buffer) < n:
            buffer = self._buffers.planes = np.empty((n, *PLANES_SHAPE), np.float32)
        unpack_masks(masks, rule50, buffer)
        return buffer[:n]


# Leaves of one tree per core and batch. A core evaluates 1,336 leaves a second with 1 (maia-1900), 1,776 with 4 and at
# most 1,912 with more; but the more leaves are chosen at once, the less each choice knows of the others.
LEAVES_A_CORE = 4
MOST_LEAVES = 32
LEAVES_ON_GPU = 64


def good_minibatch(streams: int, on_cpu: bool) -> int:
    """How many leaves of a single tree a batch should have, for speed; 1 is the sequential search."""
    return min(MOST_LEAVES, LEAVES_A_CORE * streams) if on_cpu else LEAVES_ON_GPU


class SplitEvaluator(LeafEvaluator):
    """Cuts batches into one part per stream of another evaluator, and evaluates them in parallel."""

    def __init__(self, evaluator: LeafEvaluator, streams: int) -> None:
        self.input_format, self.moves_left = evaluator.input_format, evaluator.moves_left
        self._evaluator, self._streams = evaluator, streams
        self._pool = ThreadPoolExecutor(max(1, streams - 1), thread_name_prefix="leaves")

    def __call__(self, leaves: Leaves) -> Evaluations:
        """Evaluates the leaves in batches, one for each part."""
        n = len(leaves.masks)
        parts = min(self._streams, n)
        if parts < 2:
            return self._evaluator(leaves)
        first, *others = np.split(np.arange(n), [n * i // parts for i in range(1, parts)])
        futures = [self._pool.submit(self._evaluator, leaves.take(rows)) for rows in others]
        answers = [self._evaluator(leaves.take(first)), *(future.result() for future in futures)]
        return Evaluations(*(np.concatenate(column) for column in zip(*answers, strict=True)))

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()
