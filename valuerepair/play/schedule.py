"""Which games a match has: openings in their order, each with both colours."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import chess
import numpy as np

from valuerepair.chess.board import keys, legal_moves, parse_fens
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.openings import Opening
from valuerepair.play.runner import Pairing

SEQUENTIAL, SHUFFLED, ODDS = "sequential", "shuffled", "odds"
_BUILT_IN_PLIES = range(6, 11)
_BUILT_IN_SHUFFLE = 1  # so that the first lines are not all of one kind


@cache
def built_in_openings() -> tuple[Opening, ...]:
    """For matches without a book: of each ECO code the shortest named line of 6 to 10 plies with even material.

    That is neither check nor the end of the game. In an order that is always the same, and mixes the codes.
    """
    from valuerepair.judge.openings import named_positions

    shortest: dict[str, tuple[str, tuple[str, ...], str]] = {}
    for eco, name, moves in named_positions():
        if len(moves) in _BUILT_IN_PLIES and (eco not in shortest or len(moves) < len(shortest[eco][1])):
            board = chess.Board()
            for move in moves:
                board.push_uci(move)
            if _is_even(board):
                shortest[eco] = name, moves, board.fen()
    order = sorted(shortest)
    random.Random(_BUILT_IN_SHUFFLE).shuffle(order)
    lines = [shortest[eco] for eco in order]
    found = keys(parse_fens([fen for _, _, fen in lines])).tolist()
    return tuple(
        Opening(i, STARTPOS_FEN, moves, fen, found[i], {"ECO": order[i], "Opening": name})
        for i, (name, moves, fen) in enumerate(lines)
    )


def _is_even(board: chess.Board) -> bool:
    counts = (len(board.pieces(kind, True)) - len(board.pieces(kind, False)) for kind in chess.PIECE_TYPES)
    return not any(counts) and not board.is_check()


def check_playable(openings: Sequence[Opening], book: str) -> None:
    """Raises ValueRepairError, naming the first, for lines of a book at whose end no move is left."""
    counts = np.diff(legal_moves(parse_fens([opening.fen for opening in openings]))[1])
    if not counts.all():
        line = openings[int(counts.argmin())]
        raise ValueRepairError(f"{book}: line {line.number + 1} ends with mate or stalemate ({line.fen}); take it out")


def book_digest(openings: Sequence[Opening]) -> str:
    """What tells two books apart: SHA-256 of their lines, 12 hex digits."""
    text = "\n".join(f"{opening.start_fen} {' '.join(opening.moves)}" for opening in openings)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Schedule:
    """`games` games of player 0 against player 1: games 2k and 2k + 1 have one opening, player 0 is White first.

    Openings come in the book's order or `shuffled` by the seed, anew for each time through the book. In the order
    `odds` each is played once, player 0 with the side that has less material: of a pair there is only that game. Raises
    UsageError for an odd number of games or none, and for openings of even material where they are to give odds.
    """

    openings: Sequence[Opening]
    games: int
    order: str = SEQUENTIAL
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order == ODDS:
            if self.games < 1:
                raise UsageError(f"--games {self.games}: must be at least 1")
            for opening in self.openings:
                if white_material(opening.fen) == 0:
                    raise UsageError(f"line {opening.number + 1} gives no odds: {opening.fen}")
        elif self.games < 2 or self.games % 2:
            raise UsageError(f"--games {self.games}: must be even and at least 2, as each opening has both colours")

    @property
    def passes(self) -> float:
        """How often the book is gone through."""
        return self.games / (1 if self.order == ODDS else 2) / len(self.openings)

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of its games."""
        if self.order != ODDS:
            return range(self.games)
        return [2 * pair + (white_material(self.opening(pair).fen) > 0) for pair in range(self.games)]

    def pairings(self, done: Container[int] = ()) -> Iterator[Pairing]:
        """The games, but those whose numbers are `done`."""
        for number in self.numbers:
            if number not in done:
                yield Pairing(number, self.opening(number // 2), number % 2, 1 - number % 2)

    def opening(self, pair: int) -> Opening:
        """The opening of a pair of games."""
        which, at = divmod(pair, len(self.openings))
        return self.openings[_order(len(self.openings), which, self.seed)[at] if self.order == SHUFFLED else at]


def white_material(fen: str) -> int:
    """White's material less Black's, in pawns (1, 3, 3, 5, 9)."""
    worth = {"p": 1, "n": 3, "b": 3, "r": 5, "q": 9}
    board = fen.split(" ", 1)[0]
    return sum(worth.get(each.lower(), 0) * (1 if each.isupper() else -1) for each in board)


@cache
def _order(count: int, which: int, seed: int) -> list[int]:
    order = list(range(count))
    random.Random(f"{seed} {which}").shuffle(order)
    return order
