"""The men on the board: material signatures, pawn skeletons, counts and the balance of material.

All of it is read off a FEN's first two fields; FENs are taken as valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess import board
from valuerepair.chess.positions import boards
from valuerepair.chess.rows import Boards

# The order of Syzygy's names, and the usual values in pawns (kings are never exchanged).
ORDER = "KQRBNP"
VALUES = np.array([0, 9, 5, 3, 3, 1], np.int64)

# The men of both sides as one number; a side has at most nine queens, or ten of another kind.
_BASE = 32
_DIGITS = _BASE ** np.arange(2 * len(ORDER), dtype=np.int64)

_NO_PIECES = str.maketrans("KQRBNkqrbn", "1111111111")


def material_signature(fen: str) -> str:
    """The men of both sides, ``KRPPvKRP``: named as Syzygy names its tables, so neither colour nor mover shows.

    Men stand in the order K, Q, R, B, N, P. First comes the side with more men; with equally many, the one whose first
    different man comes sooner in that order: KRRvKQ, KQvKR, KBvKN.
    """
    return _ordered(*men_of_sides(fen))


def men_of_sides(fen: str) -> tuple[str, str]:
    """White's and Black's men in the order K, Q, R, B, N, P: ``("KRPP", "KRP")``."""
    placement = fen.split(" ", 1)[0]
    white = "".join(man * placement.count(man) for man in ORDER)
    black = "".join(man * placement.count(man.lower()) for man in ORDER)
    return white, black


def pawn_skeleton(fen: str) -> str:
    """Where the pawns of both sides stand, as a FEN's placement without any other men: ``8/pp3ppp/8/8/…``.

    White is White here, as on the board: a skeleton and the same one with colours exchanged are two.
    """
    placement = fen.split(" ", 1)[0].translate(_NO_PIECES)
    return "/".join(_merge_blanks(rank) for rank in placement.split("/"))


def signatures(fens: Sequence[str]) -> list[str]:
    """`material_signature` of each."""
    return _named(_counts(fens))


def signatures_of(placed: Boards) -> list[str]:
    """`material_signature` of boards."""
    return _named(board.men(placed))


def skeletons(fens: Sequence[str]) -> list[str]:
    """`pawn_skeleton` of each."""
    return [pawn_skeleton(fen) for fen in fens]


def men(fens: Sequence[str]) -> NDArray[np.int64]:
    """[n, 2, 6] numbers of men: the side to move's first, then the other's, in the order K, Q, R, B, N, P."""
    placed = boards(fens)
    white = np.stack([(placed == ord(man)).sum((1, 2)) for man in ORDER], 1)
    black = np.stack([(placed == ord(man.lower())).sum((1, 2)) for man in ORDER], 1)
    whites_turn = np.array([fen.split(" ", 2)[1] == "w" for fen in fens], np.bool_)[:, None]
    return np.stack([np.where(whites_turn, white, black), np.where(whites_turn, black, white)], 1).astype(np.int64)


def balances(fens: Sequence[str]) -> NDArray[np.int64]:
    """[n] material of the side to move less the other's, in pawns: queen 9, rook 5, bishop and knight 3, pawn 1."""
    counted = men(fens) @ VALUES
    return np.asarray(counted[:, 0] - counted[:, 1])


def balances_of(placed: Boards) -> NDArray[np.int64]:
    """`balances` of boards."""
    counted = board.men(placed) @ VALUES
    return np.asarray(counted[:, 0] - counted[:, 1])


def _counts(fens: Sequence[str]) -> NDArray[np.int64]:
    """[n, 2, 6] numbers of White's and Black's men in the order K, Q, R, B, N, P."""
    placements = [fen.split(" ", 1)[0] for fen in fens]
    letters = np.frombuffer("".join(placements).encode("latin-1", "replace"), np.uint8)
    owners = np.repeat(np.arange(len(fens)), [len(placement) for placement in placements])
    men = (*ORDER, *ORDER.lower())
    counted = [np.bincount(owners[letters == ord(man)], minlength=len(fens)) for man in men]
    return np.stack(counted, 1).reshape(-1, 2, len(ORDER)).astype(np.int64)


def _named(counted: NDArray[np.int64]) -> list[str]:
    """The signatures of the men of two sides [n, 2, 6]; there are far fewer different ones than positions."""
    kinds, which = np.unique(counted.reshape(-1, len(_DIGITS)) @ _DIGITS, return_inverse=True)
    names = np.empty(len(kinds), object)
    for i, kind in enumerate((kinds[:, None] // _DIGITS % _BASE).tolist()):
        one, other = ("".join(man * kind[side + k] for k, man in enumerate(ORDER)) for side in (0, len(ORDER)))
        names[i] = _ordered(one, other)
    found: list[str] = names[which].tolist()
    return found


@lru_cache(65_536)
def _ordered(one: str, other: str) -> str:
    ranks = [[ORDER.index(man) for man in side] for side in (one, other)]
    first = len(one) > len(other) or (len(one) == len(other) and ranks[0] <= ranks[1])
    return f"{one}v{other}" if first else f"{other}v{one}"


@lru_cache(65_536)
def _merge_blanks(rank: str) -> str:
    """``1P11p3`` as ``1P2p3``."""
    text, blanks = "", 0
    for cell in rank:
        if cell.isdigit():
            blanks += int(cell)
        else:
            text, blanks = text + (str(blanks) if blanks else "") + cell, 0
    return text + (str(blanks) if blanks else "")


def near_keys(fens: Sequence[str]) -> list[str]:
    """Material and pawn skeleton of each position; two positions with the same text are near-duplicates.

    Where the other pieces stand, castling rights and clocks do not matter.
    """
    return [f"{material} {pawns}" for material, pawns in zip(signatures(fens), skeletons(fens), strict=True)]
