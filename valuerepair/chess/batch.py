"""The kernels that run over whole arrays of boards; `valuerepair.chess.board` gives them checked inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.bits import ONE, ZERO, popcount
from valuerepair.chess.fen import Bytes, complete, read_fen, write_fen
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move, drop, insufficient_material, key_of, make, set_ep
from valuerepair.chess.movegen import MAX_MOVES, checkers, count_legal, legal
from valuerepair.chess.rows import FLIP, ROW, THEM, US, Boards, Moves

Offsets = NDArray[np.int64]


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
    """Fills the rows from a PGN reader's arrays; returns as `read_fens`."""
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
def all_counts(rows: Boards, out: NDArray[np.int32]) -> None:
    for r in range(len(rows)):
        out[r] = popcount(rows[r, US] | rows[r, THEM])


@kernel
def all_dead(rows: Boards, out: NDArray[np.bool_]) -> None:
    for r in range(len(rows)):
        out[r] = insufficient_material(rows, r)


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
    """Plays moves[offsets[r]:offsets[r+1]] on each row; stops at an illegal one: its row and index, else (-1, 0)."""
    buffer = np.empty(MAX_MOVES, np.uint16)
    for r in range(len(rows)):
        for i in range(offsets[r], offsets[r + 1]):
            move = np.int64(moves[i]) ^ FLIP * black_to_move(rows, r)
            known = False
            for j in range(legal(rows, r, buffer, 0)):
                known |= np.int64(buffer[j]) == move
            if not known:
                return r, i - offsets[r]
            make(rows, r, r, move)
    return -1, 0


@kernel
def count_leaves(rows: Boards, r: int, depth: int, moves: Moves) -> int:
    """Perft: the number of move sequences of `depth` >= 1 plies from row r; rows r.. and moves are its stack.

    Moves of the last ply are counted, not made. Those before are made in a loop: a recursion passes arrays slowly.
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
