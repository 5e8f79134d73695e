"""A game that was played, move by move: what PGN, the store, reports and training records are made of."""

from __future__ import annotations

from dataclasses import dataclass

from valuerepair.mcts.result import SearchResult

# How a game ended. The first five are the rules of chess, the next three adjudications; what follows is a loss for the
# side to move, save the last two, which leave a game undecided.
CHECKMATE, STALEMATE, MATERIAL, REPETITION, FIFTY_MOVES = "checkmate", "stalemate", "material", "repetition", "50 moves"
TABLEBASE, DRAW_AGREED, WIN_AGREED = "tablebase", "adjudicated draw", "adjudicated win"
RESIGNED, ILLEGAL_MOVE, OUT_OF_TIME, CRASHED = "resigned", "illegal move", "out of time", "crashed"
TOO_LONG, STOPPED = "too long", "stopped"
RULES = (CHECKMATE, STALEMATE, MATERIAL, REPETITION, FIFTY_MOVES)
ADJUDICATIONS = (TABLEBASE, DRAW_AGREED, WIN_AGREED)
LOSSES = (RESIGNED, ILLEGAL_MOVE, OUT_OF_TIME, CRASHED)
UNDECIDED = (TOO_LONG, STOPPED)


@dataclass(frozen=True, slots=True)
class Thought:
    """What a player made of a position: its move (UCI, castling e1g1), and why.

    `q` and `wdl` (per mille) are the player's value of the position for the side to move, None where it gives none;
    `cp` and `mate` as in `DeepResult`. `nodes` are those of this search, `seconds` what it took.
    `search` is the whole search of the project's own MCTS, None of other engines.
    """

    move: str
    q: float | None = None
    wdl: tuple[int, int, int] | None = None
    cp: int | None = None
    mate: int | None = None
    depth: int = 0
    nodes: int = 0
    seconds: float = 0.0
    pv: tuple[str, ...] = ()
    search: SearchResult | None = None


@dataclass(frozen=True, slots=True)
class GameRecord:
    """A game: it begins at `start_fen` with the moves of the book, then each of `thoughts` is a move.

    `number` counts the games of a run from 0; `opening` is the 0-based line of the book. `white` and `black` name the
    players. `result` is 1-0, 0-1, 1/2-1/2 or * (undecided), `ending` one of the words above, `detail` what there is to
    say beyond it. `would_resign` is the ply of the first resignation that was not taken, with whose it was, for the
    rate of wrong ones; None where there was none.
    """

    number: int
    opening: int
    start_fen: str
    book: tuple[str, ...]
    thoughts: tuple[Thought, ...]
    white: str
    black: str
    result: str
    ending: str
    detail: str = ""
    would_resign: tuple[int, str] | None = None

    @property
    def moves(self) -> tuple[str, ...]:
        """All moves, UCI: the book's and those played."""
        return self.book + tuple(thought.move for thought in self.thoughts)

    @property
    def white_begins(self) -> bool:
        """Whether White is to move at `start_fen`."""
        return self.start_fen.split(" ", 2)[1] == "w"

    def white_played(self, i: int) -> bool:
        """Whether `thoughts[i]` is White's move."""
        return self.white_begins == ((len(self.book) + i) % 2 == 0)

    @property
    def z(self) -> float | None:
        """The result for White: 1, 0, -1; None for an undecided game."""
        return {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}.get(self.result)
