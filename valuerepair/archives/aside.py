"""Positions one legal move beside a game: what a search looks at, and nobody played."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import mix, salt
from valuerepair.chess.board import fens, keys, legal_moves, parse_fens
from valuerepair.chess.origins import Origins
from valuerepair.chess.positions import PositionBatch, cuts_of
from valuerepair.chess.reached import reached


def aside(batch: PositionBatch, seed: int) -> tuple[PositionBatch, NDArray[np.int64]]:
    """Each position after a legal move drawn by its key and the seed, and which rows these are, int64[m].

    Rows without such a position are left out: the game is over before the move, or after it. The move belongs to the
    history, origins name the game that was left, and nothing played or recorded there is kept.
    """
    moves, offsets = legal_moves(parse_fens(batch.fen))
    counts = np.diff(offsets)
    rows = np.flatnonzero(counts)
    drawn = mix(batch.key[rows] ^ salt(seed, "aside")) % counts[rows].astype(np.uint64)
    added = moves[offsets[rows] + drawn.astype(np.int64)]
    lines = [
        np.append(batch.moves[batch.offsets[i] : batch.offsets[i + 1]], move)
        for i, move in zip(rows.tolist(), added, strict=True)
    ]
    boards, over = reached([batch.start_fen[i] for i in rows.tolist()], lines)
    rows, boards, lines = rows[~over], boards[~over], [lines[i] for i in np.flatnonzero(~over).tolist()]
    there = batch.take(rows)
    return replace(
        there,
        fen=fens(boards),
        moves=np.concatenate(lines) if lines else np.empty(0, np.uint16),
        offsets=cuts_of([len(line) for line in lines]),
        ply=there.ply + np.int32(1),
        key=keys(boards),
        origin=Origins(there.origins.game, [None] * len(rows)),
    ), rows
