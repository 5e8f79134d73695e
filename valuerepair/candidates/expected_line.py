"""What happens in the line that a deep search expects: does it repeat, who keeps the material, who gives check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.board import Boards, in_check, keys, white_to_move
from valuerepair.candidates.material import balances_of
from valuerepair.candidates.replaying import plies

_AT_ONCE = 20_000  # lines: some hundred keys of each are held


class ExpectedLines(NamedTuple):
    """Facts of n expected lines, up to the first move that is not legal.

    `plies` int64[n] are the legal moves in the line. `repeats`: a position of the line was there before, in the line or
    in the game. `lead` int64[n] is the least advantage in pawns (`material.balances`) that the side which is ahead at
    the beginning has anywhere in the line, 0 where none is ahead.
    `checks` int64[n, 2] are the moves that give check, of the side to move at the beginning and of the other.
    """

    plies: NDArray[np.int64]
    repeats: NDArray[np.bool_]
    lead: NDArray[np.int64]
    checks: NDArray[np.int64]

    @property
    def moves(self) -> NDArray[np.int64]:
        """[n, 2] moves of the side to move at the beginning and of the other."""
        return np.stack([(self.plies + 1) // 2, self.plies // 2], 1)


def expected_lines(
    start_fens: Sequence[str], moves: Sequence[Sequence[str]], lines: Sequence[Sequence[str]]
) -> ExpectedLines:
    """Follows `lines` [n] (UCI) from the positions that `moves` [n], which are legal, lead to from `start_fens` [n].

    Boards are the same if placement, side to move, castling rights and legal en passant are, as in the rule of the
    third repetition. Raises ValueError for a bad FEN.
    """
    if len(start_fens) > _AT_ONCE:
        parts = [slice(begin, begin + _AT_ONCE) for begin in range(0, len(start_fens), _AT_ONCE)]
        found = [expected_lines(start_fens[part], moves[part], lines[part]) for part in parts]
        return ExpectedLines(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
    n = len(start_fens)
    begins = np.array([len(history) for history in moves], np.int64)
    whole = np.zeros(n, np.int64)
    facts = ExpectedLines(whole.copy(), np.zeros(n, np.bool_), whole.copy(), np.zeros((n, 2), np.int64))
    ahead = whole.copy()
    met: list[NDArray[np.uint64]] = []  # by ply, the key of each line's board
    games = [[*history, *line] for history, line in zip(moves, lines, strict=True)]
    for depth, (rows, boards) in enumerate(plies(start_fens, games, legal=begins)):
        reached = keys(boards)
        there = np.flatnonzero(depth > begins[rows])
        for earlier in met:
            facts.repeats[rows[there[earlier[rows[there]] == reached[there]]]] = True
        met.append(np.zeros(n, np.uint64))
        met[depth][rows] = reached
        there = np.flatnonzero(depth >= begins[rows])
        if len(there):
            _follow(facts, ahead, rows[there], boards[there], depth - begins[rows[there]])
    return facts


def _follow(
    facts: ExpectedLines, ahead: NDArray[np.int64], rows: NDArray[np.int64], boards: Boards, into: NDArray[np.int64]
) -> None:
    """Takes in the boards of `rows`, which are `into` plies into their lines."""
    facts.plies[rows] = into
    first = into == 0
    whites = np.where(white_to_move(boards), 1, -1) * balances_of(boards)
    ahead[rows[first]] = np.sign(whites[first])
    leads = whites * ahead[rows]
    facts.lead[rows] = np.where(first, leads, np.minimum(facts.lead[rows], leads))
    given = np.flatnonzero(in_check(boards) & ~first)
    facts.checks[rows[given], (into[given] - 1) % 2] += 1
