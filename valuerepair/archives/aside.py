"""Positions one legal move beside a game: what a search looks at, and hardly anybody played."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import mix, salt
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.reached import followed


def aside(batch: PositionBatch, seed: int) -> tuple[PositionBatch, NDArray[np.int64]]:
    """Each position after a legal move drawn by its key and the seed, and which rows these are, int64[m]; see
    `followed`. Rows where the game is over before the move are left out, too.
    """
    moves, offsets = legal_moves(parse_fens(batch.fen))
    counts = np.diff(offsets)
    open_ = np.flatnonzero(counts)
    drawn = mix(batch.key[open_] ^ salt(seed, "aside")) % counts[open_].astype(np.uint64)
    added = moves[offsets[open_] + drawn.astype(np.int64)]
    beside, rows = followed(batch.take(open_), list(added[:, None]))
    return beside, open_[rows]
