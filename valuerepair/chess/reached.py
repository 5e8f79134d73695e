"""Boards and positions reached by moves, and whether the game is over there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Moves
from valuerepair.chess.board import (
    fens,
    halfmove_clocks,
    has_legal_move,
    insufficient_material,
    keys,
    parse_fens,
    replay,
)
from valuerepair.chess.origins import Origins
from valuerepair.chess.positions import PositionBatch, joined
from valuerepair.chess.rows import Boards


def positions_after(batch: PositionBatch, added: Sequence[Moves]) -> tuple[PositionBatch, NDArray[np.int64]]:
    """Each position after the moves `added` [n], unless the game is over then; and its row in `batch`, int64[m].

    The moves become part of the history. The origins name the game that the position was reached from, but have no
    played move and no evaluation.
    """
    lines = [
        np.concatenate([batch.moves[begin:end], further])
        for begin, end, further in zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), added, strict=True)
    ]
    boards, over = boards_after(batch.start_fen, lines)
    rows = np.flatnonzero(~over)
    unfinished = batch.take(rows)
    moves, offsets = joined([lines[i] for i in rows.tolist()])
    return replace(
        unfinished,
        fen=fens(boards[rows]),
        moves=moves,
        offsets=offsets,
        ply=unfinished.ply + np.array([len(further) for further in added], np.int32)[rows],
        key=keys(boards[rows]),
        origin=Origins(unfinished.origin.game, [None] * len(rows)),
    ), rows


def boards_after(starts: Sequence[str], moves: Sequence[Moves]) -> tuple[Boards, NDArray[np.bool_]]:
    """The boards after `moves` from `starts`, n of each; and bool[n]: the game is over there, or a move is illegal."""
    begin = parse_fens(starts)
    boards, is_illegal = _play(begin, *joined(moves))
    clocks = halfmove_clocks(boards)
    over = is_illegal | ~has_legal_move(boards) | insufficient_material(boards) | (clocks >= 100)
    rows = np.flatnonzero(~over & (clocks >= 8))  # a third occurrence is at least eight plies after the first
    lines = [moves[i] for i in rows.tolist()]
    over[rows] = _third_occurrence(begin[rows], lines, clocks[rows], keys(boards)[rows])
    return boards, over


def _play(begin: Boards, moves: Moves, offsets: NDArray[np.int64]) -> tuple[Boards, NDArray[np.bool_]]:
    """`replay`, and [n] whether a row has an illegal move; such rows stay at `begin`."""
    is_illegal = np.zeros(len(begin), np.bool_)
    try:
        return replay(begin, moves, offsets), is_illegal
    except ValueError:  # rare, and only in recorded lines: play the rows one by one
        boards = np.array(begin)
        for i in range(len(begin)):
            line = moves[offsets[i] : offsets[i + 1]]
            try:
                boards[i : i + 1] = replay(begin[i : i + 1], line, np.array([0, len(line)], np.int64))
            except ValueError:
                is_illegal[i] = True
        return boards, is_illegal


def _third_occurrence(
    begin: Boards, moves: Sequence[Moves], clocks: NDArray[np.int64], final_keys: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """[n] whether a position occurred twice before, since the last capture or pawn move."""
    earlier = [
        (i, moves[i][: len(moves[i]) - back])
        for i, clock in enumerate(clocks.tolist())
        for back in range(4, min(clock, len(moves[i])) + 1, 2)
    ]
    if not earlier:
        return np.zeros(len(moves), np.bool_)
    row = np.array([i for i, _ in earlier], np.int64)
    boards = replay(begin[row], *joined([line for _, line in earlier]))
    is_same = keys(boards) == final_keys[row]
    times: NDArray[np.int64] = np.bincount(row[is_same], minlength=len(moves))
    return times >= 2
