"""The two families a position belongs to: of its opening, and of its material.

Families are whole kinds of positions: training against one can leave its siblings as they were, so a book's holdout
can keep whole families apart, and its diversity is counted in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from valuerepair.candidates.material import material_signature, signatures
from valuerepair.candidates.openings import family, first_moves, openings_of

if TYPE_CHECKING:
    import pandas as pd

_PIECES = "QRBN"


def opening_family(row: Mapping[Any, Any]) -> str:
    """The family of the opening (`candidates.openings`): by the row's `eco_header`, or else by its moves.

    `row` has `start_fen` and `moves` (UCI, joined by blanks) as `Store.frame` has them.
    """
    return _opening_families([row.get("eco_header")], [row["start_fen"]], [row["moves"]])[0]


def material_family(row: Mapping[Any, Any]) -> str:
    """Which kinds of pieces each side has, pawns and numbers aside: ``KRvKR`` for all rook endings, ``KvK`` for pawns.

    The side with the higher kinds comes first (queen, rook, bishop, knight), so neither colour nor move matters.
    """
    return family_of_signature(material_signature(row["fen"]))


@lru_cache(65_536)
def family_of_signature(signature: str) -> str:
    """`material_family` of all positions with this `material.material_signature`."""
    sides = [_kinds(side) for side in signature.split("v")]
    return "v".join("K" + "".join(p for p in _PIECES if p in side) for side in sorted(sides, key=_rank, reverse=True))


def add_families(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` with columns `opening_family` and `material_family`, as the functions of these names find them."""
    eco = rows["eco_header"].tolist() if "eco_header" in rows else [None] * len(rows)
    named: pd.DataFrame = rows.assign(
        opening_family=_opening_families(eco, rows["start_fen"].tolist(), rows["moves"].tolist()),
        material_family=[family_of_signature(men) for men in signatures(rows["fen"].tolist())],
    )
    return named


def _opening_families(eco: Sequence[Any], start_fens: Sequence[str], moves: Sequence[str]) -> list[str]:
    headers = [code if isinstance(code, str) else None for code in eco]
    return [family(opening.eco) for opening in openings_of(headers, start_fens, first_moves(moves))]


def _kinds(side: str) -> frozenset[str]:
    return frozenset(side) & frozenset(_PIECES)


def _rank(kinds: frozenset[str]) -> tuple[bool, ...]:
    return tuple(piece in kinds for piece in _PIECES)
