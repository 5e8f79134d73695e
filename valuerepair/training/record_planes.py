"""Of training records what comes from the board: planes, castling, en passant, policy indices; as kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.board.bits import ONE
from valuerepair.board.jit import kernel
from valuerepair.board.make import black_to_move, clock
from valuerepair.board.rows import FLIP, RIGHTS, STATE, Boards, Moves
from valuerepair.nets.planes import (
    AUXILIARY,
    CANONICAL,
    CLASSICAL,
    Masks,
    canonical_transform,
    files_flipped,
    write_masks,
)
from valuerepair.nets.policy import policy_index

Index = NDArray[np.int64]
Floats = NDArray[np.float32]

# Columns of what `write_boards` says of a record: the bytes behind its planes, and whose move it is.
US_OOO, US_OO, THEM_OOO, THEM_OO, STM_OR_EP, RULE50, TRANSFORM, BLACK = range(8)
FACTS = 8
SMALLEST = 1.1754943508222875e-38  # of the normal float32, which lc0 adds so that 0 says "not known"


@kernel
def write_boards(
    rows: Boards,
    initial: bool,
    fill: int,
    form: int,
    at: Index,
    scratch: Masks,
    planes: Masks,
    facts: NDArray[np.uint8],
) -> None:
    """Writes planes[i] (uint64[104], as in the record) and facts[i] of row at[i] of a game with repetitions marked.

    The game's first row is 0; `initial` says that it is the standard starting position. `scratch` is uint64[1, 112].
    """
    for i in range(len(at)):
        r = at[i]
        write_masks(rows, 0, r, initial, fill, form, scratch, 0)
        for k in range(AUXILIARY):
            planes[i, k] = files_flipped(scratch[0, k])
        state, black = rows[r, STATE] & RIGHTS, black_to_move(rows, r)
        for bit in range(4):  # KQkq from the mover
            right = np.int64(state >> np.uint64(bit) & ONE)
            rook = 1 if form == CLASSICAL or bit & 1 else 128  # the file it stands on
            facts[i, (US_OO, US_OOO, THEM_OO, THEM_OOO)[bit]] = right * rook
        facts[i, STM_OR_EP], facts[i, TRANSFORM] = black, 0
        if form >= CANONICAL:
            facts[i, STM_OR_EP] = scratch[0, AUXILIARY + 4] >> np.uint64(56)
            facts[i, TRANSFORM] = canonical_transform(rows, r)
        facts[i, RULE50], facts[i, BLACK] = min(clock(rows, r), 255), black


@kernel
def write_policies(
    rows: Boards,
    form: int,
    at: Index,
    cuts: Index,
    moves: Moves,
    visits: Index,
    priors: Floats,
    temperature: float,
    indices: NDArray[np.uint16],
    policies: Floats,
    divergence: Floats,
) -> None:
    """Writes policies[i, 1858] of row at[i], whose legal moves (absolute squares) are moves[cuts[i]:cuts[i+1]].

    The policy is the share of visits, -1 for what is illegal; without any visit the first move has all. `indices` are
    the moves' places in it. `divergence` is KL(visits || net's policy at temperature 1) in nats, by lc0's formula: the
    priors' softmax temperature is undone; 0 where a prior is not known (NaN).
    """
    for i in range(len(at)):
        begin, end = cuts[i], cuts[i + 1]
        transform = canonical_transform(rows, at[i]) if form >= CANONICAL else 0
        turn = FLIP * black_to_move(rows, at[i])
        policies[i, :] = np.float32(-1)
        total, mass, sum_of_logs = np.int64(0), 0.0, 0.0
        for j in range(begin, end):
            total += visits[j]
        for j in range(begin, end):
            share = np.float32(visits[j]) / np.float32(total) if total else np.float32(j == begin)
            indices[j] = policy_index(rows, at[i], np.int64(moves[j]) ^ turn, transform)
            policies[i, indices[j]] = share
            prior = np.float64(priors[j]) ** temperature
            mass += prior
            if share > 0:
                sum_of_logs += share * np.log(share / max(prior, SMALLEST))
        kld = max(sum_of_logs + np.log(mass), 0.0) + SMALLEST
        divergence[i] = np.float32(kld) if kld == kld else np.float32(0)
