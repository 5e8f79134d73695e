"""The position record, its columnar batch, and how moves are written in it.

A position keeps the start of its known history (``start_fen``) and every move from there, so that the net sees
the real previous boards, repetitions count, and a book can replay the game. In a batch these fields are columns:
the moves of all rows are in one flat ``uint16`` array, cut by ``offsets``.

Moves are ``from + 64 * to + 4096 * promotion`` with squares a1 = 0 .. h8 = 63 and promotion 0 = none, 1 = knight,
2 = bishop, 3 = rook, 4 = queen. Castling is the king's own move (e1g1), never king-takes-rook.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Moves
from valuerepair.chess.origins import Origin, Origins, take_rows

STARTPOS_FEN = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
PROMOTIONS = ("", "n", "b", "r", "q")
_FILES = "abcdefgh"
_SQUARES = tuple(f + r for r in "12345678" for f in _FILES)


@cache  # at most some 20,000 texts: others raise, and are not cached
def encode_move(uci: str) -> int:
    """One UCI move (``e2e4``, ``a7a8q``, castling ``e1g1``) as its 16-bit number.

    Raises ValueError when the text is not a UCI move.
    """
    try:
        origin = _FILES.index(uci[0]) + 8 * (int(uci[1]) - 1)
        target = _FILES.index(uci[2]) + 8 * (int(uci[3]) - 1)
        promotion = PROMOTIONS.index(uci[4:])
    except (IndexError, ValueError):
        raise ValueError(f"not a UCI move: {uci!r}") from None
    if not (0 <= origin < 64 and 0 <= target < 64):
        raise ValueError(f"not a UCI move: {uci!r}")
    return origin + 64 * target + 4096 * promotion


@cache  # at most one for each text of `encode_move`
def decode_move(move: int) -> str:
    """The UCI text of a 16-bit move; the inverse of `encode_move`."""
    return _SQUARES[move & 63] + _SQUARES[move >> 6 & 63] + PROMOTIONS[move >> 12]


def encode_moves(uci: Sequence[str]) -> Moves:
    """UCI moves as a uint16 array."""
    return np.fromiter(map(encode_move, uci), np.uint16, len(uci))


def encode_lines(lines: Sequence[Sequence[str]]) -> tuple[Moves, NDArray[np.int64]]:
    """n lines of UCI moves as one array, and the start of each in it, int64[n + 1]."""
    cuts = cuts_of([len(line) for line in lines])
    return np.fromiter(map(encode_move, chain.from_iterable(lines)), np.uint16, int(cuts[-1])), cuts


def decode_moves(moves: Moves) -> tuple[str, ...]:
    """A uint16 move array as UCI texts."""
    return tuple(map(decode_move, moves.tolist()))


def cuts_of(lengths: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[n + 1]: the start of each of n consecutive pieces of these lengths, and the end of the last one."""
    cuts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=cuts[1:])
    return cuts


def joined(lines: Sequence[Moves]) -> tuple[Moves, NDArray[np.int64]]:
    """n lines of moves as one array, and the start of each in it, int64[n + 1]."""
    return np.concatenate([np.empty(0, np.uint16), *lines]), cuts_of([len(line) for line in lines])


def cut_out(moves: Moves, begin: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[Moves, NDArray[np.int64]]:
    """The n pieces ``moves[begin[i]:end[i]]`` as one array, and the start of each in it, int64[n + 1]."""
    return joined([moves[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)])


@dataclass(frozen=True, slots=True)
class Position:
    """One position with its history.

    `fen` is the position itself, reached from `start_fen` by `moves` (UCI). `ply` counts half-moves since move 1,
    White to move, by the FEN's full-move number. `key` is the 64-bit key used for deduplication: placement, side to
    move, castling rights and legal en passant only. `history_known` is False for a bare FEN, whose earlier boards are
    unknown: planes are filled as in lc0.
    """

    fen: str
    start_fen: str = STARTPOS_FEN
    moves: tuple[str, ...] = ()
    ply: int = 0
    key: int = 0
    history_known: bool = True
    origin: Origin = field(default_factory=Origin)

    @property
    def white_to_move(self) -> bool:
        return self.fen.split(" ", 2)[1] == "w"

    @property
    def uci(self) -> str:
        """The UCI ``position`` command that sends this position with its history."""
        start = "startpos" if self.start_fen == STARTPOS_FEN else f"fen {self.start_fen}"
        return f"position {start} moves {' '.join(self.moves)}" if self.moves else f"position {start}"


@dataclass(frozen=True, slots=True)
class PositionBatch:
    """n positions as columns, which have the names and meanings of the fields of `Position`, with its `Origin`.

    | column        | type                                                          |
    |---------------|---------------------------------------------------------------|
    | fen           | list[str], n                                                  |
    | start_fen     | list[str], n                                                  |
    | moves         | uint16[offsets[n]], row i is ``moves[offsets[i]:offsets[i+1]]`` |
    | offsets       | int64[n + 1]                                                  |
    | ply           | int32[n]                                                      |
    | key           | uint64[n]                                                     |
    | history_known | bool[n]                                                       |
    | origin        | Origins, n                                                    |
    """

    fen: list[str]
    start_fen: list[str]
    moves: Moves
    offsets: NDArray[np.int64]
    ply: NDArray[np.int32]
    key: NDArray[np.uint64]
    history_known: NDArray[np.bool_]
    origin: Origins

    def __len__(self) -> int:
        return len(self.fen)

    def __getitem__(self, i: int) -> Position:
        return Position(
            self.fen[i],
            self.start_fen[i],
            decode_moves(self.moves[self.offsets[i] : self.offsets[i + 1]]),
            int(self.ply[i]),
            int(self.key[i]),
            bool(self.history_known[i]),
            self.origin[i],
        )

    def __iter__(self) -> Iterator[Position]:
        return (self[i] for i in range(len(self)))

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> PositionBatch:
        """The given rows, in the given order."""
        index = np.asarray(rows, np.int64)
        if len(index) == len(self) and (index == np.arange(len(self))).all():
            return self
        return PositionBatch(
            take_rows(self.fen, index),
            take_rows(self.start_fen, index),
            *cut_out(self.moves, self.offsets[index], self.offsets[index + 1]),
            self.ply[index],
            self.key[index],
            self.history_known[index],
            self.origin.take(index),
        )

    @staticmethod
    def from_positions(positions: Sequence[Position]) -> PositionBatch:
        """A batch of the given records."""
        return PositionBatch(
            [p.fen for p in positions],
            [p.start_fen for p in positions],
            *encode_lines([p.moves for p in positions]),
            np.array([p.ply for p in positions], np.int32),
            np.array([p.key for p in positions], np.uint64),
            np.array([p.history_known for p in positions], np.bool_),
            Origins.of([p.origin for p in positions]),
        )

    @staticmethod
    def concat(batches: Sequence[PositionBatch]) -> PositionBatch:
        """The rows of all batches, in order."""
        if len(batches) == 1:
            return batches[0]
        if not batches:
            return PositionBatch.from_positions(())
        columns: dict[str, Any] = {}
        for name in ("fen", "start_fen", "moves", "ply", "key", "history_known"):
            parts = [getattr(b, name) for b in batches]
            columns[name] = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else list(chain(*parts))
        offsets = cuts_of(np.concatenate([np.diff(b.offsets) for b in batches]))
        return PositionBatch(**columns, offsets=offsets, origin=Origins.concat([b.origin for b in batches]))


def ply_of(fen: str) -> int:
    """Half-moves since move 1, White to move, by a FEN's full-move number."""
    _, side, *_, number = fen.split()
    return 2 * (max(int(number), 1) - 1) + (side == "b")


PHASES = ("opening", "middlegame", "endgame")
# A character of a FEN's placement -> the squares that it stands for.
_IN_FULL = {"/": "", **{str(n): "." * n for n in range(1, 9)}}


def boards(fens: Sequence[str]) -> NDArray[np.uint8]:
    """[n, 8, 8] men as ASCII letters, ``.`` for empty, row 0 = rank 1, column 0 = file a."""
    text = "".join([fen.split(" ", 1)[0] for fen in fens])
    for symbol, squares in _IN_FULL.items():  # in all FENs at once
        text = text.replace(symbol, squares)
    return np.frombuffer(text.encode("ascii"), np.uint8).reshape(-1, 8, 8)[:, ::-1]


def piece_counts(men: NDArray[np.uint8]) -> NDArray[np.int64]:
    """[n] men on each of the [n, 8, 8] boards, including kings and pawns."""
    return np.asarray((men != ord(".")).sum((1, 2)))


def phases(men: NDArray[np.uint8]) -> NDArray[np.int64]:
    """[n] indices into `PHASES` for the [n, 8, 8] boards, by lichess's rule (scalachess, `Divider`) for one board."""
    white, black, kinds = (men >= ord("A")) & (men <= ord("Z")), men >= ord("a"), men | 32
    majors_and_minors = ((white | black) & (kinds != ord("k")) & (kinds != ord("p"))).sum((1, 2))
    sparse = (white[:, 0].sum(1) < 4) | (black[:, 7].sum(1) < 4)
    middle = (majors_and_minors <= 10) | sparse | (_mixedness(white, black) > 150)
    return np.where(majors_and_minors <= 6, 2, np.where(middle, 1, 0))


def _mixedness(white: NDArray[np.bool_], black: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[n] sums of `_region_score` over the 49 squares of 2 x 2."""
    men = 5 * white.view(np.uint8) + black.view(np.uint8)  # a digit for each side, which hold up to four men
    men = men[:, :-1] + men[:, 1:]
    men = men[:, :, :-1] + men[:, :, 1:]
    return np.asarray(_SCORES.take(men + 25 * np.arange(7, dtype=np.uint8)[:, None]).sum((1, 2)))


def _region_score(y: int, white: int, black: int) -> int:
    """Points of a 2 x 2 square whose lower rank is `y` (1 to 7), with `white` and `black` men."""
    if black == 0:
        alone = {1: 1 + (8 - y), 2: y if y > 2 else 0, 3: 2 + y if y > 1 else 0, 4: 2 + y if y > 1 else 0}
        return alone.get(white, 0)
    if white == 0:
        alone = {1: 1 + y, 2: 8 - y if y < 6 else 0, 3: 10 - y if y < 7 else 0, 4: 10 - y if y < 7 else 0}
        return alone.get(black, 0)
    both = {(1, 1): 5 + abs(3 - y), (2, 1): 4 + y, (3, 1): 5 + y, (1, 2): 10 - y, (2, 2): 7, (1, 3): 11 - y}
    return both.get((white, black), 0)


_SCORES = np.array([_region_score(y, w, b) for y in range(1, 8) for w in range(5) for b in range(5)], np.int16)
