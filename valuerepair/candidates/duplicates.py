"""Near-duplicates: positions with the same material and the same pawns, as neighbouring plies of a game have."""

from __future__ import annotations

from collections.abc import Sequence

from valuerepair.candidates.material import signatures, skeletons


def near_keys(fens: Sequence[str]) -> list[str]:
    """Material and pawn skeleton of each position; two positions with the same text are near-duplicates.

    Where the other pieces stand, castling rights and clocks do not matter.
    """
    return [f"{material} {pawns}" for material, pawns in zip(signatures(fens), skeletons(fens), strict=True)]
