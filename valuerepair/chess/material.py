"""The men on the board: material signatures and pawn skeletons. FENs are taken as valid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import chess.syzygy

ORDER = "KQRBNP"  # of Syzygy's names

_NO_PIECES = str.maketrans("KQRBNkqrbn", "1111111111")
_normalized = lru_cache(65_536)(chess.syzygy.normalize_tablename)


def material_signature(fen: str) -> str:
    """The men of both sides, ``KRPPvKRP``: named as Syzygy names its tables, without colours and side to move.

    Men stand in the order K, Q, R, B, N, P. First comes the side with more men; with equally many, the one whose first
    different man comes sooner in that order: KRRvKQ, KQvKR, KBvKN.
    """
    placement = fen.split(" ", 1)[0]
    white, black = ("".join(man * placement.count(man) for man in men) for men in (ORDER, ORDER.lower()))
    return _normalized(f"{white}v{black.upper()}")


def pawn_skeleton(fen: str) -> str:
    """Where the pawns of both sides stand, as a FEN's placement without any other men: ``8/pp3ppp/8/8/…``.

    Colours count: a skeleton and the same one with colours exchanged are different.
    """
    placement = fen.split(" ", 1)[0].translate(_NO_PIECES)
    return re.sub(r"\d+", lambda blanks: str(sum(map(int, blanks[0]))), placement)


def near_keys(fens: Sequence[str]) -> list[str]:
    """Material and pawn skeleton of each position; two positions with the same text are near-duplicates.

    The squares of the other pieces, castling rights and clocks do not matter.
    """
    return [f"{material_signature(fen)} {pawn_skeleton(fen)}" for fen in fens]
