"""The neighbourhood of a misjudged position: the positions one step away, and their values where a search gave some.

There are four kinds of step. The *line*: the positions after the moves that the deep search expects; it also gives
their values. *Parents*: one, two and four plies earlier in the game. *Children*: after the moves that the net's policy
prefers. The *game*: other plies of it, before and after. Nothing here reads a store, a net or an engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Moves
from valuerepair.chess.board import fens, keys
from valuerepair.chess.origins import Origins
from valuerepair.chess.positions import PositionBatch, decode_move, encode_move, joined
from valuerepair.chess.reached import boards_after
from valuerepair.chess.rows import Boards
from valuerepair.store.reached import ExpansionSource
from valuerepair.store.rows import CHILD, GAME, LINE, PARENT, DeepResult

STEPS = (LINE, PARENT, CHILD, GAME)
LONGEST_LINE = 12  # plies
PARENTS = (1, 2, 4)  # plies before the source
CHILDREN = 3  # moves of the policy
# Plies before and after the source; before it, `PARENTS` are left out. Distant ones have gaps, because successive
# positions have nearly the same values.
GAME_PLIES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)


class Neighbours(NamedTuple):
    """n neighbours as columns [n]: the position, the index of its `source`, its `step` and `distance`.

    `distance` is in plies; for children it is the rank of the move in the net's policy, from 1. `later`: the position
    comes after the source in the game. `same_side`: it has the source's side to move. `deep` is the inferred value, for
    the side to move in the neighbour, of positions of the line; None for others.
    """

    batch: PositionBatch
    source: NDArray[np.int64]
    step: list[str]
    distance: NDArray[np.int64]
    later: NDArray[np.bool_]
    same_side: NDArray[np.bool_]
    deep: list[DeepResult | None]


def inferred(deep: DeepResult, plies: int) -> DeepResult | None:
    """The value that a search gives the position this many plies down its line, for the side to move there.

    None beyond the end of the line, and if no depth remains. The sign changes with each ply. Moves to mate count the
    winner's moves, so each of these reduces them by one.
    """
    depth = deep.depth - plies
    if depth < 1 or plies > len(deep.pv):
        return None
    sign = -1 if plies % 2 else 1
    mate = None
    if deep.mate is not None:
        plies_to_mate = (2 * deep.mate - 1 if deep.mate > 0 else -2 * deep.mate) - plies
        if plies_to_mate <= 0:
            return None
        # In an odd number of plies the side to move here mates, in an even number it is mated.
        mate = (plies_to_mate + 1) // 2 if plies_to_mate % 2 else -plies_to_mate // 2
    wdl = deep.wdl if deep.wdl is None or sign > 0 else (deep.wdl[2], deep.wdl[1], deep.wdl[0])
    remaining_line = deep.pv[plies:]
    return DeepResult(
        cp=None if deep.cp is None else sign * deep.cp,
        mate=mate,
        wdl=wdl,
        q=None if deep.q is None else sign * deep.q,
        depth=depth,
        seldepth=max(deep.seldepth - plies, depth),
        best_move=remaining_line[0] if remaining_line else None,
        pv=remaining_line,
    )


class _Row(NamedTuple):
    """A neighbour before its moves are played: the first `common` moves of its source, then `added`.

    `source` is the index of the source, `played` the move that was played in the neighbour. The others are as in
    `Neighbours`.
    """

    source: int
    step: str
    distance: int
    common: int
    added: Moves
    played: int | None = None
    later: bool = False
    deep: DeepResult | None = None


_NO_MOVES = np.empty(0, np.uint16)


def neighbours(sources: Sequence[ExpansionSource], policy: Sequence[Moves], steps: Sequence[str]) -> Neighbours:
    """All neighbours of `sources` by `steps`: for each source its line, parents, children and game, nearest first.

    `policy` has the moves that the net prefers in each source, the best first. A position that is reached several times
    is returned once, as it was first reached. The sources themselves, and positions where the game is over, are not
    returned.
    """
    rows = [row for i, source in enumerate(sources) for row in _rows(i, source, policy[i], steps)]
    moves = [np.concatenate([sources[row.source].moves[: row.common], row.added]) for row in rows]
    boards, over = boards_after([sources[row.source].start_fen for row in rows], moves)
    first_rows = _first_rows(rows, over, keys(boards), set(batch_of(sources).key.tolist()))
    boards, moves, rows = boards[first_rows], [moves[i] for i in first_rows], [rows[i] for i in first_rows]
    row_sources = [sources[row.source] for row in rows]
    plies = [len(line) - len(source.moves) for line, source in zip(moves, row_sources, strict=True)]
    played = [None if row.played is None else decode_move(row.played) for row in rows]
    return Neighbours(
        _batch(row_sources, boards, moves, plies, played),
        np.array([row.source for row in rows], np.int64),
        [row.step for row in rows],
        np.array([row.distance for row in rows], np.int64),
        np.array([row.later for row in rows], np.bool_),
        np.array(plies, np.int64) % 2 == 0,
        [row.deep for row in rows],
    )


def _rows(i: int, source: ExpansionSource, policy: Moves, steps: Sequence[str]) -> Iterator[_Row]:
    """The neighbours of source `i`, including duplicates and positions where the game is over."""
    length = len(source.moves)
    line = _line(source)
    if LINE in steps and source.searched:
        for plies in range(1, len(line) + 1):
            if (deep := inferred(source.deep, plies)) is None:
                break
            yield _Row(i, LINE, plies, length, line[:plies], deep=deep)
    if PARENT in steps and source.in_game:
        yield from (_earlier(i, source, PARENT, plies) for plies in PARENTS if plies < length)
    if CHILD in steps:
        # The search's own move leads to the first position of the line.
        preferred = [move for move in policy.tolist() if move not in line[:1]][:CHILDREN]
        for rank, move in enumerate(preferred, 1):
            yield _Row(i, CHILD, rank, length, np.array([move], np.uint16))
    if GAME in steps and source.in_game:
        for plies in GAME_PLIES:
            if plies < length and plies not in PARENTS:
                yield _earlier(i, source, GAME, plies)
            if plies <= len(source.following):
                played = int(source.following[plies]) if plies < len(source.following) else None
                yield _Row(i, GAME, plies, length, source.following[:plies], played, later=True)


def _earlier(i: int, source: ExpansionSource, step: str, plies: int) -> _Row:
    """The position `plies` before the source in its game."""
    common = len(source.moves) - plies
    # If no move of the game follows the source, its last move may have been played beside it (`vr mine --off-game`).
    is_of_game = plies > 1 or len(source.following)
    return _Row(i, step, plies, common, _NO_MOVES, int(source.moves[common]) if is_of_game else None)


def _line(source: ExpansionSource) -> Moves:
    """The moves of the line, up to the first text that is not UCI: recorded lines come from other programs."""
    moves = []
    for uci in source.deep.pv[:LONGEST_LINE]:
        try:
            moves.append(encode_move(uci))
        except ValueError:
            break
    return np.array(moves, np.uint16)


def batch_of(sources: Sequence[ExpansionSource]) -> PositionBatch:
    """The sources themselves as positions."""
    moves = [source.moves for source in sources]
    boards, _ = boards_after([source.start_fen for source in sources], moves)
    return _batch(sources, boards, moves, [0] * len(sources), [None] * len(sources))


def _batch(
    sources: Sequence[ExpansionSource],
    boards: Boards,
    moves: Sequence[Moves],
    plies: Sequence[int],
    played: Sequence[str | None],
) -> PositionBatch:
    """The positions [n] on these boards: `plies` [n] after their `sources`, below 0 before them; `played` in them."""
    return PositionBatch(
        fens(boards),
        [source.start_fen for source in sources],
        *joined(moves),
        np.array([source.ply for source in sources], np.int32) + np.array(plies, np.int32),
        keys(boards),
        np.array([source.history_known for source in sources], np.bool_),
        Origins([source.game for source in sources], played),
    )


def _first_rows(
    rows: Sequence[_Row], over: NDArray[np.bool_], board_keys: NDArray[np.uint64], met: set[int]
) -> list[int]:
    """The indices of the rows whose keys are not in `met` and not those of earlier rows; adds their keys to `met`.

    Leaves out positions where the game is over, and what follows them in a line.
    """
    first, ended_source = [], -1
    for i, (row, is_over, key) in enumerate(zip(rows, over.tolist(), board_keys.tolist(), strict=True)):
        if row.step == LINE and is_over:
            ended_source = row.source
        is_beyond = row.step == LINE and row.source == ended_source
        if not (is_over or is_beyond or key in met):
            met.add(key)
            first.append(i)
    return first
