"""A game: its board and its moves, who can play it, and its record."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from valuerepair.chess import rows
from valuerepair.chess.board import fens, in_check, insufficient_material, keys, legal_moves, parse_fens, piece_counts
from valuerepair.chess.make import black_to_move, clock, make, mark_repetition
from valuerepair.chess.positions import STARTPOS_FEN, Position, encode_move, ply_of
from valuerepair.chess.rows import FLIP, RIGHTS, ROW, SIXTEEN_BITS, STATE, Boards
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.result import SearchResult
from valuerepair.play.openings import Opening

# Endings of a game: by the rules of chess, by adjudication, by a loss of the side to move, or undecided.
CHECKMATE, STALEMATE, MATERIAL, REPETITION, FIFTY_MOVES = "checkmate", "stalemate", "material", "repetition", "50 moves"
TABLEBASE, DRAW_AGREED, WIN_AGREED = "tablebase", "adjudicated draw", "adjudicated win"
RESIGNED, ILLEGAL_MOVE, OUT_OF_TIME, CRASHED = "resigned", "illegal move", "out of time", "crashed"
TOO_LONG, STOPPED = "too long", "stopped"
RULES = (CHECKMATE, STALEMATE, MATERIAL, REPETITION, FIFTY_MOVES)
ADJUDICATIONS = (TABLEBASE, DRAW_AGREED, WIN_AGREED)
LOSSES = (RESIGNED, ILLEGAL_MOVE, OUT_OF_TIME, CRASHED)
Z = {"1-0": 1.0, "1/2-1/2": 0.0, "0-1": -1.0}  # results of decided games, for White
FIFTY_MOVES_PLIES = 100
_ROOM = 128


@dataclass(frozen=True, slots=True)
class Thought:
    """A player's answer to a position: its move (UCI, castling e1g1) and values.

    `q` and `wdl` (per mille) are the player's value of the position for the side to move, None without a value; `cp`
    and `mate` are as in `DeepResult`. `nodes` and `seconds` are the cost of this search. `search` is the complete
    result of the project's own MCTS, None for other engines.
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
    """A game: it begins at `start_fen` with the moves of the book; then each of `thoughts` is a move.

    `number` counts the games of a run from 0; `opening` is the 0-based line of the book. `white` and `black` name the
    players. `result` is 1-0, 0-1, 1/2-1/2 or * (undecided), `ending` one of the words above, `detail` adds to it.
    `would_resign` is the ply and the colour of the first resignation that was due and not taken, None without one; the
    rate of wrong resignations needs it.
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
    def z(self) -> float | None:
        """The result for White: 1, 0, -1; None for an undecided game."""
        return Z.get(self.result)


class Fault(Exception):
    """A player lost a game by its own fault: `ending` is one of `LOSSES`, the message has details."""

    def __init__(self, ending: str, detail: str) -> None:
        super().__init__(detail)
        self.ending = ending


class Player(Protocol):
    """Plays one side, or both, of many games. Its own threads do the work; calls come from one thread."""

    @property
    def name(self) -> str:
        """For PGN headers and tables."""
        ...

    def think(self, game: int, position: Position, seed: int) -> Future[Thought]:
        """Queues the search of a move. `game` is the game's number, `seed` its seed; a game has one search at a time.

        `position` has the game's whole history and a legal move. The future raises Fault if the player loses the game
        by this move (crash, time, illegal move), and ValueRepairError if no more games can be played.
        """
        ...

    def forget(self, game: int) -> None:
        """Frees the tree or the engine of a game that is over."""
        ...

    def close(self, *, cancel: bool = False) -> None:
        """Ends threads and engines; with `cancel` abandons the searches in flight."""
        ...


class Game:
    """The position after the moves so far, by the compiled rules; repetitions count within the known history.

    Games end as in lc0 (chess/position.cc, PositionHistory::ComputeGameResult): by checkmate, by stalemate, when
    neither side can mate, at the third occurrence of a position, after 100 plies without capture or pawn move. As in
    lc0, the e.p. flag (a pawn could capture, pinned or not) distinguishes positions.
    """

    def __init__(self, opening: Opening) -> None:
        """Raises ValueRepairError for an opening with an illegal move."""
        self.opening = opening
        self.moves: list[str] = []
        self._rows: Boards = np.zeros((_ROOM, ROW), np.uint64)
        self._rows[:1] = parse_fens([opening.start_fen])
        self._legal = self._legal_moves()
        for move in opening.moves:
            if not self.push(move):
                raise ValueRepairError(f"opening {opening.number + 1}: {move} is illegal in {self.fen}")

    @property
    def white_to_move(self) -> bool:
        return not black_to_move(self._rows, len(self.moves))

    @property
    def fen(self) -> str:
        """Six fields, the e.p. square only where a capture is legal."""
        return fens(self._last)[0]

    @property
    def men(self) -> int:
        return int(piece_counts(self._last)[0])

    @property
    def fits_tablebase(self) -> bool:
        """Whether a tablebase knows the value: right after a capture or a pawn move, without castling rights."""
        ply = len(self.moves)
        return clock(self._rows, ply) == 0 and not self._rows[ply, STATE] & RIGHTS

    def push(self, uci: str) -> bool:
        """Plays a move (UCI, castling e1g1); False, without any change, if it is not legal."""
        try:
            move = encode_move(uci)
        except ValueError:
            return False
        if move not in self._legal:
            return False
        ply = len(self.moves)
        if ply + 2 > len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        make(self._rows, ply, ply + 1, move ^ FLIP * black_to_move(self._rows, ply))
        mark_repetition(self._rows, 0, ply + 1)
        self.moves.append(uci)
        self._legal = self._legal_moves()
        return True

    def ending(self) -> tuple[str, str] | None:
        """(result, ending) if the rules end the game at this position, else None."""
        ply = len(self.moves)
        if not self._legal:
            if not in_check(self._last)[0]:
                return "1/2-1/2", STALEMATE
            return "0-1" if self.white_to_move else "1-0", CHECKMATE
        if insufficient_material(self._last)[0]:
            return "1/2-1/2", MATERIAL
        if int(self._rows[ply, rows.REPETITION] & SIXTEEN_BITS) >= 2:
            return "1/2-1/2", REPETITION
        if clock(self._rows, ply) >= FIFTY_MOVES_PLIES:
            return "1/2-1/2", FIFTY_MOVES
        return None

    def position(self) -> Position:
        """The position with its whole history."""
        fen, number = self.fen, len(self.moves)
        return Position(
            fen=fen,
            start_fen=self.opening.start_fen,
            moves=tuple(self.moves),
            ply=ply_of(fen),
            key=int(keys(self._last)[0]),
            history_known=number > 0 or self.opening.start_fen == STARTPOS_FEN,
        )

    @property
    def _last(self) -> Boards:
        return self._rows[len(self.moves) : len(self.moves) + 1]

    def _legal_moves(self) -> frozenset[int]:
        return frozenset(legal_moves(self._last)[0].tolist())
