"""Boards as numba kernels: parsing, legal moves, making moves, check, keys, FEN.

A batch of n boards is one array uint64[n, ROW]; its layout is private to this package (`rows`). Moves are the 16-bit
moves of `valuerepair.chess.positions` in absolute squares. Rules are those of standard chess; python-chess is their
oracle.
Every function releases the GIL while it computes and may be called from several threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuerepair.chess import batch as _batch
from valuerepair.chess import fen as _fen
from valuerepair.chess.movegen import MAX_MOVES
from valuerepair.chess.positions import PROMOTIONS, decode_move
from valuerepair.chess.rows import (
    BLACK_SHIFT,
    CLOCK_SHIFT,
    KINGS,
    KNIGHTS,
    PAWNS,
    ROW,
    SIXTEEN_BITS,
    SLANTED,
    STATE,
    STRAIGHT,
    THEM,
    US,
    Boards,
    Moves,
)

__all__ = [
    "ROW",
    "Boards",
    "Moves",
    "fens",
    "from_reader",
    "halfmove_clocks",
    "has_legal_move",
    "in_check",
    "insufficient_material",
    "keys",
    "legal_moves",
    "men",
    "parse_fens",
    "perft",
    "piece_counts",
    "replay",
    "status_error",
    "white_to_move",
]

Scalar = TypeVar("Scalar", bound=np.generic)
_BITS = np.array([number.bit_count() for number in range(256)], np.uint8)  # of each byte


def owned(array: ArrayLike, dtype: type[Scalar]) -> NDArray[Scalar]:
    """The array in the one memory layout the kernels are compiled for (a read-only one would compile them again)."""
    return np.require(array, dtype, ["C", "W"])


def parse_fens(fens: Sequence[str]) -> Boards:
    """FENs of four to six fields as boards; a missing half-move clock is 0, a missing move number 1.

    As in lc0, an en-passant square is kept whenever the double-pushed pawn stands there, even if none can capture it;
    castling rights without king and rook at home are dropped. Raises ValueError ``row i: reason``.
    """
    text = "".join(fens).encode("ascii", "replace")
    offsets = np.zeros(len(fens) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, fens), np.int64, len(fens)), out=offsets[1:])
    rows = np.empty((len(fens), ROW), np.uint64)
    bad, reason = _batch.read_fens(np.frombuffer(bytearray(text) or bytearray(1), np.uint8), offsets, rows)
    if bad >= 0:
        raise ValueError(f"row {bad}: {_fen.REASONS[reason]}: {fens[bad]!r}")
    return rows


def from_reader(
    boards: NDArray[np.uint8],
    castling: NDArray[np.bool_],
    ep_file: NDArray[np.int8],
    halfmove: NDArray[np.uint8],
    turn: NDArray[np.bool_],
    fullmove: NDArray[np.int32],
) -> Boards:
    """Boards from the arrays of the Rust PGN reader.

    `boards` uint8[n, 64] from a1: 0 empty, 1-6 white P N B R Q K, 7-12 black; `castling` bool[n, 4] in the order
    KQkq; `ep_file` 0-7 or -1; `halfmove` the clock; `turn` True for White; `fullmove` the FEN's move number.
    Raises ValueError ``row i: reason`` for boards without one king a side.
    """
    rows = np.empty((len(boards), ROW), np.uint64)
    bad, reason = _batch.read_arrays(
        owned(boards, np.uint8),
        owned(castling, np.bool_),
        owned(ep_file, np.int8),
        owned(halfmove, np.uint16),
        owned(turn, np.bool_),
        owned(fullmove, np.int32),
        rows,
    )
    if bad >= 0:
        raise ValueError(f"row {bad}: {_fen.REASONS[reason]}")
    return rows


def keys(boards: Boards) -> NDArray[np.uint64]:
    """uint64[n]: Polyglot's Zobrist key, but with the en-passant file only where a capture there is legal."""
    out = np.empty(len(boards), np.uint64)
    _batch.all_keys(owned(boards, np.uint64), out)
    return out


def in_check(boards: Boards) -> NDArray[np.bool_]:
    """bool[n]: the side to move is in check."""
    out = np.empty(len(boards), np.bool_)
    _batch.all_checks(owned(boards, np.uint64), out)
    return out


def piece_counts(boards: Boards) -> NDArray[np.int32]:
    """int32[n]: men of both sides, kings and pawns included."""
    out = np.empty(len(boards), np.int32)
    _batch.all_counts(owned(boards, np.uint64), out)
    return out


def men(boards: Boards) -> NDArray[np.int64]:
    """int64[n, 2, 6] men: the side to move's first, then the other's, in the order K, Q, R, B, N, P."""
    slanted, straight = boards[:, SLANTED], boards[:, STRAIGHT]
    of_kinds = (
        boards[:, KINGS],
        slanted & straight,
        straight & ~slanted,
        slanted & ~straight,
        boards[:, KNIGHTS],
        boards[:, PAWNS],
    )
    sides = boards[:, [US, THEM]]
    placed = np.ascontiguousarray(sides[:, :, None] & np.stack(of_kinds, 1)[:, None, :])
    return np.asarray(_BITS[placed.view(np.uint8).reshape(len(boards), 2, 6, 8)].sum(3, dtype=np.int64))


def white_to_move(boards: Boards) -> NDArray[np.bool_]:
    """bool[n]: it is White's move."""
    return np.asarray(boards[:, STATE] >> BLACK_SHIFT & np.uint64(1) == 0)


def halfmove_clocks(boards: Boards) -> NDArray[np.int64]:
    """int64[n]: half-moves since the last capture or pawn move."""
    return np.asarray(boards[:, STATE] >> CLOCK_SHIFT & SIXTEEN_BITS, np.int64)


def has_legal_move(boards: Boards) -> NDArray[np.bool_]:
    """bool[n]: False for checkmate and stalemate."""
    return _move_counts(boards)[1:] > 0


def insufficient_material(boards: Boards) -> NDArray[np.bool_]:
    """bool[n]: neither side can ever mate (bare kings, one minor piece, or bishops on squares of one colour)."""
    out = np.empty(len(boards), np.bool_)
    _batch.all_dead(owned(boards, np.uint64), out)
    return out


def legal_moves(boards: Boards) -> tuple[Moves, NDArray[np.int64]]:
    """The legal moves of all boards: flat uint16 moves, and int64[n + 1] offsets into them."""
    offsets = np.cumsum(_move_counts(boards))
    moves = np.empty(offsets[-1], np.uint16)
    _batch.list_moves(owned(boards, np.uint64), offsets, moves, True)
    return moves, offsets


def fens(boards: Boards) -> list[str]:
    """Six-field FENs; the en-passant square only where a capture there is legal, as python-chess's ``board.fen()``."""
    text = np.empty(max(len(boards), 1) * _fen.FEN_ROOM, np.uint8)
    end = _batch.write_fens(owned(boards, np.uint64), text)
    return text[:end].tobytes().decode("ascii").split("\n")[:-1]


def replay(start: Boards, moves: Moves, offsets: NDArray[np.int64]) -> Boards:
    """The boards after playing moves[offsets[i]:offsets[i+1]] from start[i].

    Raises ValueError ``row i, move j (e2e5): not legal`` (j from 0).
    """
    rows = np.array(start, np.uint64, order="C")
    played, cuts = owned(moves, np.uint16), owned(offsets, np.int64)
    row, index = _batch.play(rows, played, cuts)
    if row >= 0:
        move = int(moves[offsets[row] + index])
        text = decode_move(move) if move >> 12 < len(PROMOTIONS) else f"{move:#06x}"
        raise ValueError(f"row {row}, move {index} ({text}): not legal")
    return rows


def perft(board: Boards, depth: int) -> int:
    """The number of legal move sequences of `depth` >= 0 plies from the first board."""
    if depth == 0:
        return 1
    stack = np.empty((depth + 1, ROW), np.uint64)
    stack[0] = board[0]
    return int(_batch.count_leaves(stack, 0, depth, np.empty(MAX_MOVES * (depth + 1), np.uint16)))


def status_error(fen: str) -> str | None:
    """Why a FEN is no legal position of standard chess, in words for a user; None when it is one.

    By python-chess's ``Board.status()``.
    """
    import chess

    try:
        board = chess.Board(fen)
    except ValueError as error:
        return str(error)
    status = board.status()
    if status == chess.STATUS_VALID:
        return None
    names = [flag.name or "" for flag in chess.Status if status & flag]
    return "not a legal position: " + ", ".join(name.lower().replace("_", " ") for name in names)


def _move_counts(boards: Boards) -> NDArray[np.int64]:
    """int64[n + 1]: 0, then the number of legal moves of each board."""
    counts = np.zeros(len(boards) + 1, np.int64)
    _batch.list_moves(owned(boards, np.uint64), counts, np.empty(0, np.uint16), False)
    return counts
