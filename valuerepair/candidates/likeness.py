"""How unlike two positions are: in material, pawn structure and king placement.

Both are seen from the side to move, the ranks upside down for Black, so a position and the same one with colours
exchanged are one. Without castling rights they may also be mirrored from left to right, whichever way is nearer.

| part     | what                                                                                            |
|----------|-------------------------------------------------------------------------------------------------|
| material | for each side and kind, the difference in number, times 1, 3, 3, 5, 9 (pawn, N, B, R, queen)     |
| pawns    | half the squares of either side with a pawn in one position only, and half, over each side's     |
|          | files, the difference in number: a pawn one step up its file costs 1, one on another file 2      |
| kings    | half the king moves between the squares of the own kings, and half those between the other's     |

The distance is the sum. Each part is a sum of metrics, so without mirroring the distance is one on what it looks at.
Other pieces' squares count only among positions at the same distance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.board import parse_fens
from valuerepair.board.rows import KINGS, KNIGHTS, PAWNS, RIGHTS, SLANTED, STATE, STRAIGHT, THEM, US, Boards

Bits = NDArray[np.uint64]
Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Pawn, knight, bishop, rook, queen: the usual values in pawns.
VALUES = (1, 3, 3, 5, 9)
PAWN_WEIGHT = 0.5
KING_WEIGHT = 0.5

_FILES = [np.uint64(0x0101010101010101 << file) for file in range(8)]
_RANKS_UP = np.uint64(56)
_KINDS = 5  # without the king


@dataclass(frozen=True, slots=True)
class Shapes:
    """n positions as their side to move sees them.

    `men` uint64[2, 6, n] are bitboards of pawns, knights, bishops, rooks, queens and king, the mover's first; `kings`
    int64[2, 2, n] file and rank of both kings; `rights` bool[n] whether anybody may still castle.
    """

    men: Bits
    kings: Numbers
    rights: NDArray[np.bool_]

    def mirrored(self) -> Shapes:
        """The same positions with the files from h to a."""
        kings = np.stack([7 - self.kings[:, 0], self.kings[:, 1]], 1)
        return Shapes(_flip_files(self.men), kings, self.rights)


@dataclass(frozen=True, slots=True)
class Distances:
    """How far n positions are from one: the parts and their sum [n], `mirrored` where the mirror image is the nearer.

    `pieces` are the squares with another knight, bishop, rook or queen on them, which only decide between equals.
    """

    total: Floats
    material: Floats
    pawns: Floats
    kings: Floats
    mirrored: NDArray[np.bool_]
    pieces: Floats


def shapes(fens: Sequence[str]) -> Shapes:
    """The shapes of FENs; raises ValueError ``row i: reason`` for what is no position."""
    return shapes_of(parse_fens(fens))


def shapes_of(boards: Boards) -> Shapes:
    """The shapes of boards [n, ROW], which lie in memory as their side to move sees them already."""
    men = _men(boards)
    square = bit_count(men[:, 5] - np.uint64(1)).astype(np.int64)  # the bits below the king's
    return Shapes(men, np.stack([square & 7, square >> 3], 1), (boards[:, STATE] & RIGHTS) != 0)


def _men(boards: Boards) -> Bits:
    columns = np.ascontiguousarray(boards.T)
    slanted, straight = columns[SLANTED], columns[STRAIGHT]
    queens = slanted & straight
    kinds = (columns[PAWNS], columns[KNIGHTS], slanted & ~queens, straight & ~queens, queens, columns[KINGS])
    return np.stack([np.stack([columns[side] & kind for kind in kinds]) for side in (US, THEM)])


def material_distances(query: Shapes, boards: Boards) -> Floats:
    """The material part alone, of boards [n, ROW]: no position is nearer than that."""
    return _material(query.men, _men(boards))


def distances(query: Shapes, others: Shapes, mirror: bool = True) -> Distances:
    """The distances of `others` [n] from the one position of `query`.

    With `mirror` the nearer of a position and its mirror image counts, where neither it nor the query has castling
    rights.
    """
    plain = _parts(query, others)
    if not mirror or query.rights[0] or others.rights.all():
        return plain
    image = _parts(query.mirrored(), others)
    nearer = (image.total < plain.total) | ((image.total == plain.total) & (image.pieces < plain.pieces))
    nearer &= ~others.rights
    total, pawns, kings, pieces = (
        np.where(nearer, getattr(image, name), getattr(plain, name)) for name in ("total", "pawns", "kings", "pieces")
    )
    return Distances(total, plain.material, pawns, kings, nearer, pieces)


def _parts(query: Shapes, others: Shapes) -> Distances:
    material = _material(query.men, others.men)
    unlike = [[bit_count(others.men[s, k] ^ query.men[s, k]) for k in range(_KINDS)] for s in (0, 1)]
    pawns = PAWN_WEIGHT * (_sum([unlike[s][0] for s in (0, 1)]) + _by_file(query.men, others.men))
    kings = KING_WEIGHT * np.abs(others.kings - query.kings).max(1).sum(0)
    pieces = _sum([unlike[s][k] for s in (0, 1) for k in range(1, _KINDS)])
    total = material + pawns + kings
    return Distances(total, material, pawns, kings, np.zeros(len(total), np.bool_), pieces)


def _material(query: Bits, others: Bits) -> Floats:
    parts = [
        VALUES[kind] * np.abs(bit_count(others[side, kind]).astype(np.int16) - int(bit_count(query[side, kind])[0]))
        for side in (0, 1)
        for kind in range(_KINDS)
    ]
    return _sum(parts)


def _by_file(query: Bits, others: Bits) -> Floats:
    """The pawns that are more or fewer on each file of each side."""
    parts = []
    for side in (0, 1):
        for file in _FILES:
            there = bit_count(others[side, 0] & file).astype(np.int16)
            parts.append(np.abs(there - int(bit_count(query[side, 0] & file)[0])))
    return _sum(parts)


def _sum(parts: Sequence[NDArray[np.integer[Any]]]) -> Floats:
    total = np.zeros(len(parts[0]), np.float64)
    for part in parts:
        total += part
    return total


def count_bits(words: Bits) -> NDArray[np.uint8]:
    """The number of bits set in each word."""
    x = words - ((words >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.asarray((x * _FILES[0]) >> _RANKS_UP, np.uint8)


# One instruction a word where numpy is new enough (2.0).
bit_count: Callable[[Bits], NDArray[np.uint8]] = getattr(np, "bitwise_count", count_bits)


def _flip_files(words: Bits) -> Bits:
    """The bits of each byte in the other order."""
    x = words
    for shift, low in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        step, mask = np.uint64(shift), np.uint64(low)
        x = ((x >> step) & mask) | ((x & mask) << step)
    return x
