"""The men on the board: material signatures and near-duplicates. FENs are taken as valid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import chess.syzygy
import numpy as np

from valuerepair.chess import board

ORDER = "KQRBNP"  # of Syzygy's names

_normalized = lru_cache(65_536)(chess.syzygy.normalize_tablename)


def material_signature(fen: str) -> str:
    """The men of both sides, ``KRPPvKRP``: named as Syzygy names its tables, without colours and side to move.

    Men stand in the order K, Q, R, B, N, P. First comes the side with more men; with equally many, the one whose first
    different man comes sooner in that order: KRRvKQ, KQvKR, KBvKN.
    """
    placement = fen.split(" ", 1)[0]
    white, black = ("".join(man * placement.count(man) for man in men) for men in (ORDER, ORDER.lower()))
    return _normalized(f"{white}v{black.upper()}")


def near_keys(fens: Sequence[str]) -> list[bytes]:
    """The men of each position, without regard to colour, and where the pawns of each side stand, as bytes.

    Two positions with the same bytes are near-duplicates: the squares of the other pieces, the side to move, castling
    rights and clocks do not matter.
    """
    rows = board.parse_fens(fens)
    counts = np.sort(board.men(rows) @ (1 << np.arange(0, 48, 8)), 1)  # of a side, a byte for each kind
    ours, theirs = board.bitboards(rows)[:, 0]
    # Black to move sees the board upside down, and itself first.
    pawns = np.where(board.white_to_move(rows), [ours, theirs], [theirs.byteswap(), ours.byteswap()])
    found: list[bytes] = np.column_stack([counts.view(np.uint64), *pawns]).view("S32")[:, 0].tolist()
    return found
