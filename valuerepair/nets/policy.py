"""lc0's 1858 policy outputs: the move of each, and the priors of a position's legal moves.

Indices are seen from the side to move. First come all queen and knight moves on an empty board by from- and
to-square (1792), then 66 promotions to queen, rook and bishop; a promotion to a knight is the plain move, castling
is king takes own rook (lc0 src/neural/encoder.cc, kMoveStrs and MoveToNNIndex).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Moves
from valuerepair.chess.bits import KING, ONE
from valuerepair.chess.board import legal_moves, owned, parse_fens
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move
from valuerepair.chess.movegen import MAX_MOVES
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.rows import FLIP, KINGS, Boards
from valuerepair.chess.v6 import POLICY_MOVES
from valuerepair.nets.planes import (
    CANONICAL,
    CLASSICAL,
    FLIP_FILES,
    INPUT_FORMATS,
    MIRROR_RANKS,
    TRANSPOSE,
    canonical_transform,
)

POLICY_SIZE = 1858
BEST_MOVES = 8  # that a store keeps of each position
Logits = NDArray[np.float32]  # [n, POLICY_SIZE]


# [64 from, 64 to]: index of the plain move, -1 where neither queen nor knight goes.
PLAIN_INDEX = np.full((64, 64), -1, np.int64)
# [8 from file, 8 to file, 5]: index of the promotion (2 bishop, 3 rook, 4 queen), -1 for impossible ones.
PROMOTION_INDEX = np.full((8, 8, 5), -1, np.int64)
for _index, _move in enumerate(POLICY_MOVES.tolist()):
    if _promotion := _move >> 12:
        PROMOTION_INDEX[_move & 7, _move >> 6 & 7, _promotion] = _index
    else:
        PLAIN_INDEX[_move & 63, _move >> 6 & 63] = _index


@kernel
def policy_index(rows: Boards, r: int, move: int, transform: int) -> int:
    """The index of a legal mover-relative move of row r.

    For canonical nets both squares are moved as lc0 does: ranks and files are reversed, never exchanged, even when
    the planes are transposed.
    """
    origin, goal, promotion = move & 63, move >> 6 & 63, move >> 12
    if rows[r, KINGS] >> np.uint64(origin) & ONE and not KING[origin] >> np.uint64(goal) & ONE:
        goal = 7 if goal > origin else 0  # castling: king takes rook
    turn = 0
    if transform & (MIRROR_RANKS | TRANSPOSE):
        turn = 56
    if transform & (FLIP_FILES | TRANSPOSE):
        turn |= 7
    index: int = PLAIN_INDEX[origin ^ turn, goal ^ turn]
    if promotion >= 2:
        files = turn & 7
        index = PROMOTION_INDEX[(origin & 7) ^ files, (goal & 7) ^ files, promotion]
    return index


@kernel
def write_indices(
    rows: Boards, form: int, offsets: NDArray[np.int64], moves: Moves, indices: NDArray[np.int64]
) -> None:
    """Writes the policy index of each legal move of each row; moves in absolute squares."""
    for r in range(len(rows)):
        turn = FLIP * black_to_move(rows, r)
        transform = canonical_transform(rows, r) if form >= CANONICAL else 0
        for i in range(offsets[r], offsets[r + 1]):
            indices[i] = policy_index(rows, r, np.int64(moves[i]) ^ turn, transform)


@allocating_kernel
def softmax_rows(
    logits: Logits, indices: NDArray[np.int64], offsets: NDArray[np.int64], priors: NDArray[np.float32]
) -> None:
    """Writes the softmax of the legal moves' logits of each row to `priors`; the moves of row r begin at offsets[r]."""
    exponents = np.empty(MAX_MOVES, np.float64)
    for r in range(len(logits)):
        begin, count = offsets[r], offsets[r + 1] - offsets[r]
        if count == 0:
            continue
        highest, total = np.float64(logits[r, indices[begin]]), 0.0
        for i in range(1, count):
            highest = max(highest, np.float64(logits[r, indices[begin + i]]))
        for i in range(count):
            exponents[i] = np.exp(np.float64(logits[r, indices[begin + i]]) - highest)
            total += exponents[i]
        for i in range(count):
            priors[begin + i] = exponents[i] / total


@kernel
def write_best(
    moves: Moves,
    offsets: NDArray[np.int64],
    priors: NDArray[np.float32],
    best: NDArray[np.uint16],
    highest: NDArray[np.float32],
) -> None:
    """Writes the moves of the highest priors of each row, the best first; equal ones in the order of `moves`."""
    most = best.shape[1]
    for r in range(len(best)):
        count, least = 0, np.float32(-1.0)  # of a full row: the lowest prior in it
        for i in range(offsets[r], offsets[r + 1]):
            p = priors[i]
            if p <= least:
                continue
            count = min(count + 1, most)
            place = count - 1
            while place > 0 and highest[r, place - 1] < p:
                best[r, place], highest[r, place] = best[r, place - 1], highest[r, place - 1]
                place -= 1
            best[r, place], highest[r, place] = moves[i], p
            if count == most:
                least = highest[r, most - 1]


def policy_indices(
    boards: Boards, moves: Moves, offsets: NDArray[np.int64], input_format: int = CLASSICAL
) -> NDArray[np.int64]:
    """int64: the indices of legal moves in the 1858 outputs; moves as from `valuerepair.chess.board.legal_moves`.

    Raises ValueError for an unknown format.
    """
    if input_format not in INPUT_FORMATS:
        raise ValueError(f"unknown input format {input_format}; known: {', '.join(map(str, INPUT_FORMATS))}")
    indices = np.empty(len(moves), np.int64)
    rows, cuts = owned(boards, np.uint64), owned(offsets, np.int64)
    write_indices(rows, input_format, cuts, owned(moves, np.uint16), indices)
    return indices


def legal_priors(
    batch: PositionBatch, logits: Logits, input_format: int = CLASSICAL
) -> tuple[Moves, NDArray[np.int64], NDArray[np.float32]]:
    """The legal moves of each position and the softmax of their logits, by the exact exponential.

    `logits` float32[n, 1858] as the net gives them. Returns flat moves (uint16, absolute squares), int64[n + 1] offsets
    into them and their priors (float32). Raises ValueError for another shape, an unknown format or a bad FEN.
    """
    if logits.shape != (len(batch), POLICY_SIZE):
        raise ValueError(f"logits must be [{len(batch)}, {POLICY_SIZE}], not {list(logits.shape)}")
    rows = parse_fens(batch.fen)
    moves, offsets = legal_moves(rows)
    indices = policy_indices(rows, moves, offsets, input_format)
    priors = np.empty(len(moves), np.float32)
    softmax_rows(owned(logits, np.float32), indices, offsets, priors)
    return moves, offsets, priors


def no_moves(n: int) -> tuple[Moves, NDArray[np.float32]]:
    """The best moves and priors of n positions without a known one: zeros and NaN, [n, `BEST_MOVES`]."""
    return np.zeros((n, BEST_MOVES), np.uint16), np.full((n, BEST_MOVES), np.nan, np.float32)


def best_moves(
    moves: Moves, offsets: NDArray[np.int64], priors: NDArray[np.float32]
) -> tuple[Moves, NDArray[np.float32]]:
    """The `BEST_MOVES` legal moves of the highest priors of each position, the best first, and these priors.

    Takes what `legal_priors` returns. Where there are fewer moves: 0 and NaN.
    """
    best, highest = no_moves(len(offsets) - 1)
    write_best(owned(moves, np.uint16), owned(offsets, np.int64), owned(priors, np.float32), best, highest)
    return best, highest
