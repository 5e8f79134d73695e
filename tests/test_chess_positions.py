"""Laws of the position record: moves survive their encoding, batches survive cutting and joining."""

from __future__ import annotations

import chess
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from valuerepair.chess.origins import Origin
from valuerepair.chess.positions import Position, PositionBatch, decode_move, encode_move

squares = st.integers(0, 63)
promotions = st.sampled_from([None, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN])


@given(squares, squares, promotions)
def test_move_encoding_agrees_with_python_chess(origin: int, target: int, promotion: int | None) -> None:
    # UCI writes equal squares as the null move, which no game contains.
    if origin == target:
        return
    uci = chess.Move(origin, target, promotion).uci()
    number = encode_move(uci)
    assert decode_move(number) == uci
    assert (number & 63, number >> 6 & 63, number >> 12) == (origin, target, (promotion or 1) - 1)


def _position(i: int, moves: tuple[str, ...]) -> Position:
    return Position(f"fen {i}", "start", moves, i, i * 7, i % 2 == 0, Origin("a.pgn", i, i * 100))


histories = st.lists(st.lists(st.sampled_from(["e2e4", "e7e5", "a7a8q", "e1g1"]), max_size=5).map(tuple), max_size=8)


@given(histories, st.data())
def test_batches_keep_their_rows(moves: list[tuple[str, ...]], data: st.DataObject) -> None:
    positions = [_position(i, m) for i, m in enumerate(moves)]
    batch = PositionBatch.from_positions(positions)
    assert list(batch) == positions
    cut = data.draw(st.integers(0, len(positions)))
    halves = [PositionBatch.from_positions(positions[:cut]), PositionBatch.from_positions(positions[cut:])]
    assert list(PositionBatch.concat(halves)) == positions
    order = data.draw(st.permutations(range(len(positions))))
    assert list(batch.take(np.array(order, np.int64))) == [positions[i] for i in order]
