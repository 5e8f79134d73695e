"""Boards as numba kernels: parsing, legal moves, making moves, check, keys, FEN.

A batch of n boards is one array uint64[n, ROW], whose layout is described in `rows`. Moves are the 16-bit moves of
`valuerepair.chess.positions` in absolute squares. The rules are standard chess, as in python-chess.
Every function releases the GIL while it computes and may be called from several threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import chess
import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuerepair.arrays import Bytes, Moves
from valuerepair.chess.bits import ONE, ZERO, bit_count
from valuerepair.chess.fen import FEN_ROOM, REASONS, complete, read_fen, write_fen
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move, drop, key_of, make, set_ep
from valuerepair.chess.make import insufficient_material as is_dead
from valuerepair.chess.movegen import MAX_MOVES, checkers, count_legal, is_legal, legal
from valuerepair.chess.positions import PROMOTIONS, cuts_of, decode_move
from valuerepair.chess.rows import (
    BLACK_SHIFT,
    CLOCK_SHIFT,
    FLIP,
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
)

Scalar = TypeVar("Scalar", bound=np.generic)
Offsets = NDArray[np.int64]


def owned(array: ArrayLike, dtype: type[Scalar]) -> NDArray[Scalar]:
    """The array, C-contiguous and writable, as kernels are compiled for it: another layout would compile them again."""
    return np.require(array, dtype, ["C", "W"])


def parse_fens(fens: Sequence[str]) -> Boards:
    """FENs of four to six fields as boards; a missing half-move clock is 0, a missing move number 1.

    As in lc0, an en-passant square is kept whenever the double-pushed pawn is there, even if no pawn can capture it;
    castling rights without king and rook at home are dropped. Raises ValueError ``row i: reason``.
    """
    text = "".join(fens).encode("ascii", "replace")
    offsets = cuts_of([len(fen) for fen in fens])
    rows = np.empty((len(fens), ROW), np.uint64)
    bad, reason = read_fens(np.frombuffer(bytearray(text) or bytearray(1), np.uint8), offsets, rows)
    if bad >= 0:
        raise ValueError(f"row {bad}: {REASONS[reason]}: {fens[bad]!r}")
    return rows


def from_reader(
    boards: NDArray[np.uint8],
    castling: NDArray[np.bool_],
    ep_file: NDArray[np.int8],
    halfmove: NDArray[np.uint8] | NDArray[np.uint16],
    turn: NDArray[np.bool_],
    fullmove: NDArray[np.int32],
) -> Boards:
    """Boards from the arrays of the Rust PGN reader.

    `boards` uint8[n, 64] from a1: 0 empty, 1-6 white P N B R Q K, 7-12 black; `castling` bool[n, 4] in the order
    KQkq; `ep_file` 0-7 or -1; `halfmove` the clock; `turn` True for White; `fullmove` the FEN's move number.
    Raises ValueError ``row i: reason`` for boards without one king a side.
    """
    rows = np.empty((len(boards), ROW), np.uint64)
    bad, reason = read_arrays(
        owned(boards, np.uint8),
        owned(castling, np.bool_),
        owned(ep_file, np.int8),
        owned(halfmove, np.uint16),
        owned(turn, np.bool_),
        owned(fullmove, np.int32),
        rows,
    )
    if bad >= 0:
        raise ValueError(f"row {bad}: {REASONS[reason]}")
    return rows


def keys(boards: Boards) -> NDArray[np.uint64]:
    """uint64[n]: Polyglot's Zobrist key, but with the en-passant file only where a capture there is legal."""
    out = np.empty(len(boards), np.uint64)
    all_keys(owned(boards, np.uint64), out)
    return out


def in_check(boards: Boards) -> NDArray[np.bool_]:
    """bool[n]: whether the side to move is in check."""
    out = np.empty(len(boards), np.bool_)
    all_checks(owned(boards, np.uint64), out)
    return out


def piece_counts(boards: Boards) -> NDArray[np.int32]:
    """int32[n]: men of both sides, kings and pawns included."""
    return bit_count(boards[:, US] | boards[:, THEM]).astype(np.int32)


def bitboards(boards: Boards) -> NDArray[np.uint64]:
    """uint64[2, 6, n]: the squares of the men, as the side to move sees them: its own, then the other's, each in the
    order P, N, B, R, Q, K."""
    columns = np.ascontiguousarray(boards.T)
    slanted, straight = columns[SLANTED], columns[STRAIGHT]
    queens = slanted & straight
    kinds = (columns[PAWNS], columns[KNIGHTS], slanted & ~queens, straight & ~queens, queens, columns[KINGS])
    return np.stack([np.stack([columns[side] & kind for kind in kinds]) for side in (US, THEM)])


def men(boards: Boards) -> NDArray[np.int64]:
    """int64[n, 2, 6] men: the side to move's first, then the other's, in the order K, Q, R, B, N, P."""
    return np.asarray(bit_count(bitboards(boards)[:, ::-1]).astype(np.int64).transpose(2, 0, 1))


def white_to_move(boards: Boards) -> NDArray[np.bool_]:
    """bool[n]: whether White is to move."""
    return np.asarray(boards[:, STATE] >> BLACK_SHIFT & np.uint64(1) == 0)


def halfmove_clocks(boards: Boards) -> NDArray[np.int64]:
    """int64[n]: half-moves since the last capture or pawn move."""
    return np.asarray(boards[:, STATE] >> CLOCK_SHIFT & SIXTEEN_BITS, np.int64)


def has_legal_move(boards: Boards) -> NDArray[np.bool_]:
    """bool[n]: False for checkmate and stalemate."""
    return _move_counts(boards)[1:] > 0


def insufficient_material(boards: Boards) -> NDArray[np.bool_]:
    """bool[n]: whether neither side can mate (bare kings, one minor piece, or bishops on squares of one colour)."""
    out = np.empty(len(boards), np.bool_)
    all_dead(owned(boards, np.uint64), out)
    return out


def legal_moves(boards: Boards) -> tuple[Moves, NDArray[np.int64]]:
    """The legal moves of all boards: flat uint16 moves, and int64[n + 1] offsets into them."""
    offsets = np.cumsum(_move_counts(boards))
    moves = np.empty(offsets[-1], np.uint16)
    list_moves(owned(boards, np.uint64), offsets, moves, True)
    return moves, offsets


def fens(boards: Boards) -> list[str]:
    """Six-field FENs; the en-passant square only where a capture there is legal, as python-chess's ``board.fen()``."""
    text = np.empty(max(len(boards), 1) * FEN_ROOM, np.uint8)
    end = write_fens(owned(boards, np.uint64), text)
    return text[:end].tobytes().decode("ascii").split("\n")[:-1]


def replay(start: Boards, moves: Moves, offsets: NDArray[np.int64]) -> Boards:
    """The boards after playing moves[offsets[i]:offsets[i+1]] from start[i].

    Raises ValueError ``row i, move j (e2e5): not legal`` (j from 0).
    """
    rows = np.array(start, np.uint64, order="C")
    played, cuts = owned(moves, np.uint16), owned(offsets, np.int64)
    row, index = play(rows, played, cuts)
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
    return int(count_leaves(stack, 0, depth, np.empty(MAX_MOVES * (depth + 1), np.uint16)))


def status_error(fen: str) -> str | None:
    """Why a FEN is not a legal position of standard chess, in words for a user; None if it is.

    By python-chess's ``Board.status()``.
    """
    try:
        board = chess.Board(fen)
    except ValueError as error:
        return str(error)
    status = board.status()
    if status == chess.STATUS_VALID:
        return None
    names = [flag.name or "" for flag in chess.Status if status & flag]
    reason = "not a legal position: " + ", ".join(name.lower().replace("_", " ") for name in names)
    castling = bool(status & chess.STATUS_BAD_CASTLING_RIGHTS)
    return f"{reason} (king or rook is not at home; Chess960 is not supported)" if castling else reason


def _move_counts(boards: Boards) -> NDArray[np.int64]:
    """int64[n + 1]: 0, then the number of legal moves of each board."""
    counts = np.zeros(len(boards) + 1, np.int64)
    list_moves(owned(boards, np.uint64), counts, np.empty(0, np.uint16), False)
    return counts


# -- kernels over whole arrays of boards ------------------------------------------------------------------------------


@kernel
def read_fens(text: Bytes, offsets: Offsets, rows: Boards) -> tuple[int, int]:
    """Fills the rows from text[offsets[i]:offsets[i+1]]; returns the first bad row and its reason, or (-1, 0)."""
    for i in range(len(offsets) - 1):
        wrong = read_fen(text, offsets[i], offsets[i + 1], rows, i)
        if wrong:
            return i, wrong
    return -1, 0


@kernel
def write_fens(rows: Boards, text: Bytes) -> int:
    """Writes the FENs, each with a newline; returns the end."""
    at = 0
    for r in range(len(rows)):
        at = write_fen(text, at, rows, r)
    return at


@kernel
def read_arrays(
    boards: Bytes,
    castling: NDArray[np.bool_],
    ep_files: NDArray[np.int8],
    clocks: NDArray[np.uint16],
    white_to_move: NDArray[np.bool_],
    numbers: NDArray[np.int32],
    rows: Boards,
) -> tuple[int, int]:
    """Fills the rows from a PGN reader's arrays; returns the same as `read_fens`."""
    for r in range(len(rows)):
        for column in range(ROW):
            rows[r, column] = ZERO
        for square in range(64):
            man = np.int64(boards[r, square]) - 1
            if man >= 0:
                drop(rows, r, ONE << np.uint64(square), man % 6, US if man < 6 else THEM)
        rights = 0
        for bit in range(4):
            if castling[r, bit]:
                rights |= 1 << bit
        black = 0 if white_to_move[r] else 1
        number = min(max(np.int64(numbers[r]), 0), 0xFFFF)
        wrong = complete(rows, r, black, rights, 0, np.int64(clocks[r]), number)
        if wrong:
            return r, wrong
        set_ep(rows, r, np.int64(ep_files[r]))
    return -1, 0


@kernel
def all_keys(rows: Boards, out: NDArray[np.uint64]) -> None:
    for r in range(len(rows)):
        out[r] = key_of(rows, r)


@kernel
def all_checks(rows: Boards, out: NDArray[np.bool_]) -> None:
    for r in range(len(rows)):
        out[r] = checkers(rows, r) != ZERO


@kernel
def all_dead(rows: Boards, out: NDArray[np.bool_]) -> None:
    for r in range(len(rows)):
        out[r] = is_dead(rows, r)


@allocating_kernel
def list_moves(rows: Boards, offsets: Offsets, out: Moves, write: bool) -> None:
    """Writes the number of legal moves of row r to offsets[r + 1], or, with `write`, the moves to out[offsets[r]:]."""
    buffer = np.empty(MAX_MOVES, np.uint16)
    for r in range(len(rows)):
        if not write:
            offsets[r + 1] = count_legal(rows, r)
            continue
        count = legal(rows, r, buffer, 0)
        turn = FLIP * black_to_move(rows, r)
        for i in range(count):
            out[offsets[r] + i] = np.int64(buffer[i]) ^ turn


@allocating_kernel
def play(rows: Boards, moves: Moves, offsets: Offsets) -> tuple[int, int]:
    """Plays moves[offsets[r]:offsets[r+1]] on each row up to the first illegal move; returns its row and index there,
    or (-1, 0)."""
    buffer = np.empty(MAX_MOVES, np.uint16)
    for r in range(len(rows)):
        for i in range(offsets[r], offsets[r + 1]):
            move = np.int64(moves[i]) ^ FLIP * black_to_move(rows, r)
            if not is_legal(rows, r, move, buffer):
                return r, i - offsets[r]
            make(rows, r, r, move)
    return -1, 0


@kernel
def count_leaves(rows: Boards, r: int, depth: int, moves: Moves) -> int:
    """Perft: the number of move sequences of `depth` >= 1 plies from row r; `rows` from r on and `moves` are its stack.

    Moves of the last ply are counted, not made; at depth 2 without a recursive call, which passes arrays slowly.
    """
    if depth == 1:
        return count_legal(rows, r)
    top = MAX_MOVES * r
    end = legal(rows, r, moves, top)
    leaves = 0
    for i in range(top, end):
        make(rows, r, r + 1, np.int64(moves[i]))
        if depth == 2:
            leaves += count_legal(rows, r + 1)
        else:
            leaves += count_leaves(rows, r + 1, depth - 1, moves)
    return leaves
