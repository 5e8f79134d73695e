"""The net as a search's evaluator against the net itself."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import lc0_oracle
from tests.uci_fake_net import MaterialNet
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.mcts.evaluator import Evaluations, Leaves, NetEvaluator, SplitEvaluator
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.planes import encode
from valuerepair.nets.policy import policy_indices
from valuerepair.nets.session import RawOutputs

BATCH = 24
MATED = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
STALEMATED = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"


@pytest.fixture(scope="module", params=["maia-1900", "meangirl-8"])  # WDL; scalar head
def net(request: pytest.FixtureRequest, shared_data: Path) -> Iterator[Net]:
    path = shared_data / "nets" / f"{request.param}.pb.gz"
    with open_net(str(path), device="cpu", threads=2) as opened:
        opened.session.batch_size = BATCH
        yield opened


@pytest.fixture(scope="module")
def batch(shared_data: Path) -> PositionBatch:
    """Positions of real games and made ones, with their history; castling, repetitions, promotions, no moves at all."""
    return real_positions(shared_data)


def real_positions(shared_data: Path) -> PositionBatch:
    positions = lc0_oracle.archive_positions(shared_data / "pgn" / "lichess-blitz.pgn", 10, 3)
    over = [Position(fen, fen, history_known=False) for fen in (MATED, STALEMATED)]
    return PositionBatch.from_positions([*positions, *over, *lc0_oracle.varied()])


def leaves_of(batch: PositionBatch, input_format: int = 1) -> Leaves:
    """The positions as a search gives them, packed by NumPy from their planes."""
    planes = encode(batch, input_format=input_format)
    bits = (planes != 0).reshape(len(batch), 112, 64)
    bits[:, 109] = True
    masks = np.packbits(bits, axis=2, bitorder="little").view(np.uint64)[:, :, 0]
    boards = parse_fens(batch.fen)
    moves, offsets = legal_moves(boards)
    indices = policy_indices(boards, moves, offsets, input_format).astype(np.uint16)
    return Leaves(masks, planes[:, 109, 0, 0].copy(), indices, offsets)


def first_rows(leaves: Leaves, n: int) -> Leaves:
    return Leaves(
        leaves.masks[:n], leaves.rule50[:n], leaves.indices[: leaves.offsets[n]], leaves.offsets[: n + 1].copy()
    )


def assert_same(one: Evaluations, other: Evaluations) -> None:
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a, b)


def q_of(raw: RawOutputs) -> Any:
    return raw.wdl[:, 0] - raw.wdl[:, 2] if raw.wdl is not None else raw.value


def test_it_is_the_net_bit_for_bit(net: Net, batch: PositionBatch) -> None:
    leaves = leaves_of(batch)
    answer = NetEvaluator(net)(leaves)
    assert len(batch) > 3 * BATCH
    planes = encode(batch)
    for i in range(0, len(batch), BATCH):  # the same batches
        rows = slice(i, min(i + BATCH, len(batch)))
        raw = net.session.run(planes[rows])
        assert np.array_equal(answer.q[rows], q_of(raw))
        assert np.array_equal(answer.d[rows], raw.wdl[:, 1] if raw.wdl is not None else np.zeros(len(raw.policy)))
        for row in range(rows.start, rows.stop):
            legal = slice(leaves.offsets[row], leaves.offsets[row + 1])
            assert np.array_equal(answer.logits[legal], raw.policy[row - i, leaves.indices[legal]])
    assert not answer.m.any()  # neither net has that head
    few = NetEvaluator(net)(first_rows(leaves, BATCH // 2))
    assert np.array_equal(few.q, q_of(net.session.run(planes[: BATCH // 2])))


def test_threads_at_once_get_their_own_answers(net: Net, batch: PositionBatch) -> None:
    evaluator, leaves = NetEvaluator(net), leaves_of(batch)
    parts = [first_rows(leaves, n) for n in (1, 5, BATCH, 2 * BATCH + 1)] * 6
    expected = [evaluator(part) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        for one, other in zip(pool.map(evaluator, parts), expected, strict=True):
            assert_same(one, other)


def test_the_arrays_are_the_callers(net: Net, batch: PositionBatch) -> None:
    evaluator, leaves = NetEvaluator(net), leaves_of(batch)
    kept = evaluator(first_rows(leaves, 7))
    before = [array.copy() for array in kept]
    evaluator(leaves)
    assert_same(kept, Evaluations(*before))
    for array in kept:
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.owndata
    assert [len(a) for a in evaluator(first_rows(leaves, 0))] == [0, 0, 0, 0]


@pytest.mark.parametrize("streams", [1, 2, 3, 8])
def test_leaves_spread_over_cores_get_the_same_values(streams: int) -> None:
    dice = np.random.default_rng(1)
    whole, sizes = MaterialNet(), []

    class Recording(MaterialNet):
        def __call__(self, leaves: Leaves) -> Evaluations:
            sizes.append(len(leaves.masks))
            return super().__call__(leaves)

    split = SplitEvaluator(Recording(), streams)
    for n in (1, 2, 5, 16):
        counts = dice.integers(1, 40, n)
        leaves = Leaves(
            dice.integers(0, 2**63, (n, 112), np.uint64),
            np.zeros(n, np.float32),
            dice.integers(0, 1858, counts.sum(), np.uint16),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        )
        sizes.clear()
        for ours, theirs in zip(split(leaves), whole(leaves), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert sum(sizes) == n
        assert len(sizes) == min(n, streams)
        assert max(sizes) - min(sizes) <= 1
    split.close()
