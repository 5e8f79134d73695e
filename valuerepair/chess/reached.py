"""What is reached by moves: boards, whether the game is over there, and the positions where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

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
from valuerepair.chess.positions import Moves, PositionBatch, cuts_of
from valuerepair.chess.rows import Boards


def followed(batch: PositionBatch, added: Sequence[Moves]) -> tuple[PositionBatch, NDArray[np.int64]]:
    """Each position after the moves that are `added` [n], and which rows these are, int64[m]: without those where the
    game is over then.

    The moves belong to the history. Origins name the game that was left; nothing played or recorded there is kept.
    """
    lines = [
        np.concatenate([batch.moves[begin:end], more])
        for begin, end, more in zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), added, strict=True)
    ]
    boards, over = reached(batch.start_fen, lines)
    rows = np.flatnonzero(~over)
    there, lines, plies = batch.take(rows), [lines[i] for i in rows.tolist()], np.array([len(more) for more in added])
    return replace(
        there,
        fen=fens(boards[rows]),
        moves=np.concatenate(lines) if lines else np.empty(0, np.uint16),
        offsets=cuts_of([len(line) for line in lines]),
        ply=there.ply + plies[rows].astype(np.int32),
        key=keys(boards[rows]),
        origin=Origins(there.origins.game, [None] * len(rows)),
    ), rows


def reached(starts: Sequence[str], moves: Sequence[Moves]) -> tuple[Boards, NDArray[np.bool_]]:
    """[n] the boards after `moves`, and whether the game is over there, or the moves are not all legal."""
    offsets = np.cumsum([0, *map(len, moves)], dtype=np.int64)
    flat = np.concatenate(moves) if len(moves) else np.empty(0, np.uint16)
    begin = parse_fens(list(starts))
    boards, lost = _play(begin, flat, offsets)
    over = lost | ~has_legal_move(boards) | insufficient_material(boards)
    clocks = halfmove_clocks(boards)
    over |= clocks >= 100
    often = np.flatnonzero(~over & (clocks >= 8))  # a third occurrence is eight plies after the first
    over[often[_third(begin[often], [moves[i] for i in often.tolist()], clocks[often], keys(boards)[often])]] = True
    return boards, over


def _play(begin: Boards, moves: Moves, offsets: NDArray[np.int64]) -> tuple[Boards, NDArray[np.bool_]]:
    """`replay`, and which rows have illegal moves; nothing is played of these."""
    lost = np.zeros(len(begin), np.bool_)
    try:
        return replay(begin, moves, offsets), lost
    except ValueError:  # one by one: it is rare, and only recorded lines can do it
        boards = np.array(begin)
        for i in range(len(begin)):
            mine = moves[offsets[i] : offsets[i + 1]]
            try:
                boards[i : i + 1] = replay(begin[i : i + 1], mine, np.array([0, len(mine)], np.int64))
            except ValueError:
                lost[i] = True
        return boards, lost


def _third(
    begin: Boards, moves: Sequence[Moves], clocks: NDArray[np.int64], reached: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """[n] whether a position occurred twice before, since the last move that cannot be taken back."""
    before = [
        (i, moves[i][: len(moves[i]) - back])
        for i, clock in enumerate(clocks.tolist())
        for back in range(4, min(clock, len(moves[i])) + 1, 2)
    ]
    if not before:
        return np.zeros(len(moves), np.bool_)
    row = np.array([i for i, _ in before], np.int64)
    offsets = np.cumsum([0, *(len(each) for _, each in before)], dtype=np.int64)
    boards = replay(begin[row], np.concatenate([each for _, each in before]), offsets)
    same = keys(boards) == reached[row]
    times: NDArray[np.int64] = np.bincount(row[same], minlength=len(moves))
    return times >= 2
