"""Policy indices and priors against lc0's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import lc0_oracle
from valuerepair.chess import board
from valuerepair.chess.positions import STARTPOS_FEN, Position, PositionBatch, decode_move, decode_moves, encode_move
from valuerepair.nets import planes, policy


def logits_of(count: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 3, (count, policy.POLICY_SIZE)).astype(np.float32)


def test_legal_moves_and_indices_equal_lc0s(lc0_maia: Any) -> None:
    """`lc0_maia` is only asked for because the binding must be there."""
    positions = lc0_oracle.varied()
    boards = board.parse_fens([p.fen for p in positions])
    moves, offsets = board.legal_moves(boards)
    indices = policy.policy_indices(boards, moves, offsets)
    seen = set()
    for i, position in enumerate(positions):
        state = lc0_oracle.game_state(position)
        theirs = dict(zip(state.moves(), state.policy_indices(), strict=True))
        rows = slice(offsets[i], offsets[i + 1])
        ours = dict(zip(decode_moves(moves[rows]), indices[rows].tolist(), strict=True))
        assert ours == theirs, position.uci
        seen |= {m for m in ours if len(m) == 5}
    assert {"q", "r", "b", "n"} <= {m[4] for m in seen}


def test_every_index_is_one_move() -> None:
    used = np.concatenate(
        [policy.PLAIN_INDEX[policy.PLAIN_INDEX >= 0], policy.PROMOTION_INDEX[policy.PROMOTION_INDEX >= 0]]
    )
    assert sorted(used.tolist()) == list(range(1858))


PAWNLESS = (
    "8/8/8/2k5/8/1QK5/8/8 w - - 0 1",
    "8/8/8/2k5/8/1QK5/8/8 b - - 0 1",
    "8/5K2/8/8/2r5/8/6k1/3Q4 w - - 0 1",
    "3k4/8/8/8/8/2K5/8/R7 b - - 0 1",
    "8/1K6/8/8/4n3/8/6k1/3RB3 w - - 0 1",
    "8/8/8/2k5/8/7K/8/QN6 w - - 0 1",
    "8/8/7K/8/2k5/8/8/Q3B3 w - - 0 1",
    "8/8/3k4/8/4K3/8/8/Q5q1 w - - 0 1",
    "6k1/5ppp/8/8/8/8/1PP5/1K1R4 w - - 0 1",
    "r3k3/8/8/8/8/8/8/4K2R w Kq - 0 1",
)


def test_priors_of_canonical_nets_are_printed_by_lc0(lc0_maia: Any, shared_data: Path, tmp_path: Path) -> None:
    net = lc0_oracle.net_of_format(shared_data / "nets" / "maia-1900.pb.gz", 3, tmp_path)
    backend = lc0_oracle.backend(net)
    positions = [Position(fen, fen) for fen in PAWNLESS]
    boards = board.parse_fens(list(PAWNLESS))
    assert {int(planes.canonical_transform(boards, r)) for r in range(len(boards))} >= {0, 1, 4, 5, 6}
    batch = PositionBatch.from_positions(positions)
    encoded = planes.encode(batch, input_format=3)
    inputs = [lc0_oracle.as_input(p, backend, e) for p, e in zip(positions, encoded, strict=True)]
    logits = np.array([backend.evaluate(i)[0].p_raw(*range(1858)) for i in inputs], np.float32)
    moves, offsets, priors = policy.legal_priors(batch, logits, input_format=3)
    answers = lc0_oracle.root_lines(lc0_oracle.binary(), net, positions)
    for i, (theirs, _) in enumerate(answers):
        ours = dict(
            zip(decode_moves(moves[offsets[i] : offsets[i + 1]]), priors[offsets[i] : offsets[i + 1]], strict=True)
        )
        plain = {"e1g1": "e1h1", "e8c8": "e8a8"} if "K" in PAWNLESS[i].split()[2] else {}
        assert {plain.get(m, m): p for m, p in ours.items()} == pytest.approx(theirs, rel=5e-3, abs=1e-4), PAWNLESS[i]


def test_huge_logits_do_not_overflow() -> None:
    logits = np.zeros((1, 1858), np.float32)
    logits[0, 322] = 3e4
    moves, _, priors = policy.legal_priors(PositionBatch.from_positions([Position(STARTPOS_FEN)]), logits)
    assert decode_move(int(moves[priors.argmax()])) == "e2e4"
    assert sorted(priors.tolist()) == [0.0] * 19 + [1.0]


def test_positions_without_moves_have_no_priors() -> None:
    batch = PositionBatch.from_positions([Position("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"), Position(STARTPOS_FEN)])
    moves, offsets, priors = policy.legal_priors(batch, logits_of(2))
    assert offsets.tolist() == [0, 0, 20]
    assert priors.sum() == pytest.approx(1)
    assert encode_move("e2e4") in moves


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"logits": np.zeros((2, 1858), np.float32)}, r"logits must be \[1, 1858\], not \[2, 1858\]"),
        ({"logits": logits_of(1), "input_format": 9}, "unknown input format 9"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        policy.legal_priors(PositionBatch.from_positions([Position(STARTPOS_FEN)]), **arguments)
