"""A net as a search's evaluator: bitboards to planes, one run of the session, the logits of the legal moves.

A thread that searches runs its own batches, as the threads of `Net` do: on the CPU through a session of one thread,
on a GPU as one of the streams that keep it fed.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from valuerepair.board import owned
from valuerepair.board.jit import kernel
from valuerepair.mcts.evaluator import Evaluations, Leaves
from valuerepair.nets.heads import PLANES_SHAPE
from valuerepair.nets.net import Net
from valuerepair.nets.planes import unpack_masks
from valuerepair.nets.session import RawOutputs

Floats = NDArray[np.float32]


@kernel
def gather_logits(
    policy: Floats, first: int, indices: NDArray[np.uint16], offsets: NDArray[np.int64], logits: Floats
) -> None:
    """Writes the logits of the legal moves of leaves first, first + 1, ..., whose policy outputs are policy[0, 1, ...].

    `indices` and `logits` are those of all leaves, row i being ``offsets[i]:offsets[i+1]``.
    """
    for row in range(len(policy)):
        for i in range(offsets[first + row], offsets[first + row + 1]):
            logits[i] = policy[row, indices[i]]


class NetEvaluator:
    """An `Evaluator` over an open net. It may be called from several threads at once; `streams` is how many pay.

    `input_format` is lc0's id of the planes that the leaves must be in. The net must stay open as long.
    """

    def __init__(self, net: Net) -> None:
        self.input_format = net.identity.input_format
        self.streams = net.session.streams
        self._session = net.session
        self._room = threading.local()

    def __call__(self, leaves: Leaves) -> Evaluations:
        """Evaluates the leaves; more than the session's batch are run in batches of that size.

        The answer is the same as of `Net.run` on the same rows. The arrays are new, C-contiguous and the caller's.
        """
        masks, rule50 = owned(leaves.masks, np.uint64), owned(leaves.rule50, np.float32)
        indices, offsets = owned(leaves.indices, np.uint16), owned(leaves.offsets, np.int64)
        n, size = len(masks), self._session.batch_size
        q, d, m = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.float32)
        answer = Evaluations(q, d, m, np.empty(len(indices), np.float32))
        for first in range(0, n, size):
            some = slice(first, min(first + size, n))
            raw = self._session.run(self._planes(masks[some], rule50[some]))
            write_values(raw, answer, some)
            gather_logits(owned(raw.policy, np.float32), first, indices, offsets, answer.logits)
        return answer

    def _planes(self, masks: NDArray[np.uint64], rule50: Floats) -> Floats:
        """Planes in memory of this thread's own, which is used again for its next batch."""
        n = len(masks)
        room: Floats | None = getattr(self._room, "planes", None)
        if room is None or len(room) < n:
            room = self._room.planes = np.empty((n, *PLANES_SHAPE), np.float32)
        unpack_masks(masks, rule50, room)
        return room[:n]


def write_values(raw: RawOutputs, answer: Evaluations, rows: slice) -> None:
    """Q = W - L (lc0 src/neural/backend.h) or the scalar head, D and the plies left, into some rows of the answer."""
    if raw.wdl is not None:
        np.subtract(raw.wdl[:, 0], raw.wdl[:, 2], out=answer.q[rows])
        answer.d[rows] = raw.wdl[:, 1]
    elif raw.value is not None:
        answer.q[rows] = raw.value
    if raw.mlh is not None:
        answer.m[rows] = raw.mlh
