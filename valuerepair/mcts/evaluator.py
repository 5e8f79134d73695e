"""The evaluator of a search: positions go in as compact planes; values and logits of the legal moves come out."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats32
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import cuts_of
from valuerepair.errors import ValueRepairError
from valuerepair.nets.compact import CompactSession
from valuerepair.nets.net import Net
from valuerepair.nets.planes import CLASSICAL, FILL_FEN_ONLY, PLANES, PLANES_SHAPE, unpack_masks, write_masks
from valuerepair.nets.policy import policy_indices
from valuerepair.nets.providers import first_line
from valuerepair.nets.session import RawOutputs

log = logging.getLogger(__name__)


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


# The largest difference allowed between a net's outputs with bitboards and without, relative where they exceed 1. Half
# and single precision differ by up to 0.012.
MAX_DIFFERENCE = 0.05


class NetEvaluator(LeafEvaluator):
    """Evaluates by a net, which must stay open. Several threads may call it at once; more than `streams` gain nothing.

    `compact` says whether the net takes bitboards and legal moves (`valuerepair.nets.compact`); by default it does on a
    GPU, if the net's file allows it and both ways agree on a position. On the CPU unpacking here is faster.
    """

    def __init__(self, net: Net, *, compact: bool | None = None) -> None:
        self.input_format = net.identity.input_format
        self.moves_left = net.session.tensors.mlh is not None
        self.streams = net.session.streams
        self._session = net.session
        self._buffers = threading.local()
        self._compact: CompactSession | None = None
        if not net.session.on_cpu if compact is None else compact:
            try:
                self._compact = self._checked(CompactSession(net.session))
            except ValueRepairError as error:
                if compact:
                    raise
                log.info(f"planes go to the net unpacked, which is slower: {error}")

    @property
    def compact(self) -> bool:
        """True when the net takes bitboards."""
        return self._compact is not None

    def __call__(self, leaves: Leaves) -> Evaluations:
        """Evaluates the leaves; more than the session's batch are run in batches of that size."""
        n, size = len(leaves.masks), self._session.batch_size
        q, d, m = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.float32)
        answer = Evaluations(q, d, m, np.empty(len(leaves.indices), np.float32))
        for first in range(0, n, size):
            rows = slice(first, min(first + size, n))
            if self._compact is None:
                self._run_planes(leaves, rows, answer)
            else:
                run_masks(self._compact, leaves, rows, answer)
        return answer

    def _run_planes(self, leaves: Leaves, rows: slice, answer: Evaluations) -> None:
        raw = self._session.run(self._planes(leaves.masks[rows], leaves.rule50[rows]))
        write_values(raw, answer, rows)
        counts, moves = _moves_of(leaves, rows)
        answer.logits[moves] = raw.policy[np.repeat(np.arange(len(counts)), counts), leaves.indices[moves]]

    def _checked(self, session: CompactSession) -> CompactSession:
        """The session, if it answers as the net does. Raises ValueRepairError."""
        leaves, onnx = example(self.input_format), self._session.onnx
        plain = self(leaves)
        answer = Evaluations(*(np.zeros_like(part) for part in plain))
        try:
            run_masks(session, leaves, slice(0, len(leaves.masks)), answer)
        except Exception as error:  # ONNX Runtime raises any of a dozen classes for this
            raise ValueRepairError(f"{onnx}: cannot be run with bitboards: {first_line(error)}") from None
        parts = [np.abs(a - b) / np.maximum(np.abs(a), 1) for a, b in zip(plain, answer, strict=True)]
        difference = float(np.concatenate(parts).max())
        if not difference <= MAX_DIFFERENCE:  # NaN fails, too
            raise ValueRepairError(f"{onnx}: its outputs differ with bitboards (by {difference:.2g})")
        return session

    def _planes(self, masks: NDArray[np.uint64], rule50: Floats32) -> Floats32:
        """Unpacks planes into a buffer that belongs to this thread, which reuses it for its next batch."""
        n = len(masks)
        buffer: Floats32 | None = getattr(self._buffers, "planes", None)
        if buffer is None or len(buffer) < n:
            buffer = self._buffers.planes = np.empty((n, *PLANES_SHAPE), np.float32)
        unpack_masks(masks, rule50, buffer)
        return buffer[:n]


def run_masks(session: CompactSession, leaves: Leaves, rows: slice, answer: Evaluations) -> None:
    """Runs some rows through a session that takes bitboards, and writes its outputs into the answer."""
    counts, moves = _moves_of(leaves, rows)
    valid = np.arange(session.width(int(counts.max()))) < counts[:, None]
    padded = np.zeros(valid.shape, np.int32)
    padded[valid] = leaves.indices[moves]
    raw = session.run(leaves.masks[rows], leaves.rule50[rows], padded)
    write_values(raw, answer, rows)
    answer.logits[moves] = raw.policy[valid]


def _moves_of(leaves: Leaves, rows: slice) -> tuple[NDArray[np.int64], slice]:
    """How many legal moves some rows have, and where in `Leaves.indices` they are."""
    offsets = leaves.offsets[rows.start : rows.stop + 1]
    return np.diff(offsets), slice(offsets[0], offsets[-1])


def example(input_format: int) -> Leaves:
    """One position with its legal moves: the sides differ, there are castling rights, the half-move clock is 34."""
    boards = parse_fens(["r3k2r/pp1n1ppp/2p1bn2/q2pp3/1b1PP3/2NB1N2/PPPQ1PPP/R3K2R b Kq - 34 28"])
    masks, rule50 = np.empty((1, PLANES), np.uint64), np.empty(1, np.float32)
    rule50[0] = write_masks(boards, 0, 0, False, FILL_FEN_ONLY, input_format, masks, 0)
    moves, offsets = legal_moves(boards)
    return Leaves(masks, rule50, policy_indices(boards, moves, offsets, input_format).astype(np.uint16), offsets)


def write_values(raw: RawOutputs, answer: Evaluations, rows: slice) -> None:
    """Writes Q, D and the plies left into rows of the answer."""
    answer.q[rows] = raw.q
    if raw.wdl is not None:
        answer.d[rows] = raw.wdl[:, 1]
    if raw.mlh is not None:
        answer.m[rows] = raw.mlh


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
