"""Facts of a position that only its FEN is needed for: side, number of pieces, phase of the game.

The phase follows lichess's game divider (scalachess, ``Divider.scala``), applied to one board:

- endgame: at most 6 pieces other than kings and pawns;
- middlegame: at most 10 of them, or fewer than 4 men of a side left on its first rank, or a mixedness above 150;
- opening: the rest.

Mixedness adds up, over all 49 squares of 2 x 2, how closely white and black men stand together in each. Lichess looks
for the first board of a game where a phase begins and stays in it; here every board stands for itself, so that the
phase needs no history and a FEN has the same phase as the same board in a game.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PHASES = ("opening", "middlegame", "endgame")
_EXPANDED = {"/": "", **{str(n): "." * n for n in range(1, 9)}}


def boards(fens: Sequence[str]) -> NDArray[np.uint8]:
    """[n, 8, 8] men as ASCII letters, ``.`` for empty, row 0 = rank 1, column 0 = file a."""
    text = "".join([fen.split(" ", 1)[0] for fen in fens])
    for written, meant in _EXPANDED.items():  # in all at once
        text = text.replace(written, meant)
    return np.frombuffer(text.encode("ascii"), np.uint8).reshape(-1, 8, 8)[:, ::-1]


def piece_counts(men: NDArray[np.uint8]) -> NDArray[np.int64]:
    """[n] men on each of the [n, 8, 8] boards, kings and pawns among them."""
    return np.asarray((men != ord(".")).sum((1, 2)))


def phases(men: NDArray[np.uint8]) -> NDArray[np.int64]:
    """[n] indices into `PHASES` for the [n, 8, 8] boards."""
    white = (men >= ord("A")) & (men <= ord("Z"))
    black = men >= ord("a")
    pieces = (white | black) & ~np.isin(men, np.frombuffer(b"KkPp", np.uint8))
    majors_and_minors = pieces.sum((1, 2))
    sparse = (white[:, 0].sum(1) < 4) | (black[:, 7].sum(1) < 4)
    middle = (majors_and_minors <= 10) | sparse | (_mixedness(white, black) > 150)
    return np.where(majors_and_minors <= 6, 2, np.where(middle, 1, 0))


def _mixedness(white: NDArray[np.bool_], black: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[n] sums of `_region_score` over the 49 squares of 2 x 2."""
    w, b = (_men_in_regions(side) for side in (white, black))
    return np.asarray(_SCORES[np.arange(7)[None, :, None], w, b].sum((1, 2)))


def _men_in_regions(side: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[n, 7, 7] men of one side in each 2 x 2 square."""
    men = side.astype(np.int64)
    return np.asarray(men[:, :-1, :-1] + men[:, 1:, :-1] + men[:, :-1, 1:] + men[:, 1:, 1:])


def _region_score(y: int, white: int, black: int) -> int:
    """Points of a 2 x 2 square whose lower rank is `y` (1 to 7) with so many white and black men."""
    if black == 0:
        alone = {1: 1 + (8 - y), 2: y if y > 2 else 0, 3: 2 + y if y > 1 else 0, 4: 2 + y if y > 1 else 0}
        return alone.get(white, 0)
    if white == 0:
        alone = {1: 1 + y, 2: 8 - y if y < 6 else 0, 3: 10 - y if y < 7 else 0, 4: 10 - y if y < 7 else 0}
        return alone.get(black, 0)
    both = {(1, 1): 5 + abs(3 - y), (2, 1): 4 + y, (3, 1): 5 + y, (1, 2): 10 - y, (2, 2): 7, (1, 3): 11 - y}
    return both.get((white, black), 0)


_SCORES = np.array([[[_region_score(y, w, b) for b in range(5)] for w in range(5)] for y in range(1, 8)])
