"""The training record's layout and its policy's order, against what lc0 writes down in its sources."""

from __future__ import annotations

import chess
import numpy as np

from valuerepair.chess import v6
from valuerepair.chess.positions import decode_move
from valuerepair.nets.policy import PLAIN_INDEX, PROMOTION_INDEX


def test_offsets_are_those_of_the_packed_struct() -> None:
    fields = v6.RECORD.fields
    assert fields is not None
    offsets = {name: fields[name][1] for name in fields}
    assert v6.RECORD.itemsize == 8356
    assert offsets["version"] == 0
    assert offsets["probabilities"] == 8
    assert offsets["planes"] == 7440
    assert offsets["castling_us_ooo"] == 8272
    assert offsets["side_to_move_or_enpassant"] == 8276
    assert offsets["invariance_info"] == 8278
    assert offsets["root_q"] == 8280
    assert offsets["plies_left"] == 8304
    assert offsets["orig_q"] == 8328
    assert offsets["visits"] == 8340
    assert offsets["best_idx"] == 8346
    assert offsets["policy_kld"] == 8348
    assert v6.FACTS.itemsize == 8356 - 8272
    assert v6.FACTS.fields is not None
    assert all(v6.FACTS.fields[name][1] == offsets[name] - 8272 for name in v6.FACTS.names or ())


def test_policy_moves_in_the_order_of_lc0() -> None:
    moves = [decode_move(int(m)) for m in v6.POLICY_MOVES]
    assert len(set(moves)) == 1858
    samples = {
        "e2e4": 322,
        "d2d4": 293,
        "g1f3": 159,
        "e1h1": 103,
        "e1a1": 97,
        "e7e8": 1515,
        "e7e8q": 1828,
        "e7e8b": 1830,
    }
    assert {name: moves.index(name) for name in samples} == samples


def test_policy_moves_are_the_inverse_of_the_nets_table() -> None:
    for index, move in enumerate(v6.POLICY_MOVES.tolist()):
        origin, goal, promotion = move & 63, move >> 6 & 63, move >> 12
        table = PROMOTION_INDEX[origin & 7, goal & 7, promotion] if promotion else PLAIN_INDEX[origin, goal]
        assert table == index


def test_planes_are_read_file_by_file() -> None:
    """The first record's own pawns at the start of a game: byte 1 (rank 2) full, bits from file a."""
    record = np.zeros(1, v6.RECORD)
    record["planes"][0, 0] = 0xFF00
    bits = np.unpackbits(record["planes"].view(np.uint8).reshape(1, 104, 8), axis=2)
    assert [chess.square_name(s) for s in np.flatnonzero(bits[0, 0].ravel()).tolist()] == [f"{f}2" for f in "abcdefgh"]
