"""The neighbourhood of a misjudged position: what is one step away, and what the search that found it says of that.

Four kinds of step. The *line*: the positions that the search expects, whose value it knows. *Parents*: one, two and
four plies earlier in the game. *Children*: after the moves that the net's policy prefers. The *game*: its other plies.
Nothing here reads a store, a net or an engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.board import fens, keys
from valuerepair.chess.origins import OriginGame, Origins
from valuerepair.chess.positions import Moves, PositionBatch, decode_move, encode_move, joined
from valuerepair.chess.reached import reached
from valuerepair.chess.rows import Boards
from valuerepair.errors import UsageError
from valuerepair.store.rows import DeepResult

LINE, PARENT, CHILD, GAME = "line", "parent", "child", "game"
# As `vr expand --by` has them; the singular is in the store.
STEPS = {"line": LINE, "parents": PARENT, "children": CHILD, "game": GAME}
LONGEST_LINE = 12
PARENTS = (1, 2, 4)
CHILDREN = 3
# Plies of the game that are no parents; of neighbouring ones one says much of the other.
GAME_PLIES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)


def parse_steps(text: str) -> tuple[str, ...]:
    """``--by``: the steps, as the store names them, in the order of `STEPS`. Raises UsageError."""
    given = [word.strip() for word in text.split(",")]
    if unknown := [word for word in given if word not in STEPS]:
        raise UsageError(f"--by {','.join(unknown)}: give some of {','.join(STEPS)}")
    return tuple(step for word, step in STEPS.items() if word in given)


@dataclass(frozen=True, slots=True)
class ExpansionSource:
    """A misjudged position that others are reached from.

    `moves` lead to it from `start_fen`, `following` is what was played from it on, as far as that is known. `deep` is
    its deep value and `deep_q` that as Q, from its side to move; `searched`: a whole search found it, it is not
    inferred from another's line. `in_game`: it was played; else its past is that of what it was reached from.
    """

    position_id: int
    root_id: int
    round: int
    start_fen: str
    moves: Moves
    following: Moves
    ply: int
    history_known: bool
    game: OriginGame
    deep: DeepResult
    deep_q: float
    searched: bool
    in_game: bool


class Neighbours(NamedTuple):
    """n neighbours, as columns: `batch` [n], and for each the row of its `source`, its `step` and `distance`.

    `distance` is in plies; of children it is the rank of the move in the net's policy. `later`: it comes after the
    source in the game. `same_side`: the side to move is that of the source. `deep` is the inferred value, None but on
    the line.
    """

    batch: PositionBatch
    source: NDArray[np.int64]
    step: list[str]
    distance: NDArray[np.int64]
    later: NDArray[np.bool_]
    same_side: NDArray[np.bool_]
    deep: list[DeepResult | None]

    def take(self, rows: NDArray[np.int64]) -> Neighbours:
        """The given rows, in the given order."""
        which = rows.tolist()
        return Neighbours(
            self.batch.take(rows),
            self.source[rows],
            [self.step[i] for i in which],
            self.distance[rows],
            self.later[rows],
            self.same_side[rows],
            [self.deep[i] for i in which],
        )


def inferred(deep: DeepResult, plies: int) -> DeepResult | None:
    """What a search says of the position this many plies down its line, from the side to move there.

    None where it says nothing: the line is over, or no depth is left. The sign turns with every ply; moves to mate, of
    the side that mates, count down with its own moves.
    """
    depth = deep.depth - plies
    if depth < 1 or plies > len(deep.pv):
        return None
    sign = -1 if plies % 2 else 1
    mate = None
    if deep.mate is not None:
        left = (2 * deep.mate - 1 if deep.mate > 0 else -2 * deep.mate) - plies
        if left <= 0:
            return None
        mate = (left + 1) // 2 if left % 2 else -left // 2
    wdl = deep.wdl if deep.wdl is None or sign > 0 else (deep.wdl[2], deep.wdl[1], deep.wdl[0])
    rest = deep.pv[plies:]
    return DeepResult(
        cp=None if deep.cp is None else sign * deep.cp,
        mate=mate,
        wdl=wdl,
        q=None if deep.q is None else sign * deep.q,
        depth=depth,
        seldepth=max(deep.seldepth - plies, depth),
        best_move=rest[0] if rest else None,
        pv=rest,
    )


class _Row(NamedTuple):
    """A neighbour before it is played out: the moves of its source that are kept, and those added."""

    source: int
    step: str
    distance: int
    kept: int
    added: Moves
    played: int | None
    later: bool = False


_NOTHING = np.empty(0, np.uint16)


def neighbours(sources: Sequence[ExpansionSource], policy: Sequence[Moves], steps: Sequence[str]) -> Neighbours:
    """All neighbours of `sources` by `steps`: for each source line, parents, children, game, each the nearest first.

    `policy` are the moves of each source that the net prefers, the best first. A position is there once, as it is
    reached first; the sources themselves, and positions where the game is over, are not.
    """
    rows = [row for i, source in enumerate(sources) for row in _rows(i, source, policy[i], steps)]
    moves = [np.concatenate([sources[row.source].moves[: row.kept], row.added]) for row in rows]
    boards, over = reached([sources[row.source].start_fen for row in rows], moves)
    first_rows = _first_ones(rows, over, keys(boards), set(batch_of(sources).key.tolist()))
    boards, moves, rows = boards[first_rows], [moves[i] for i in first_rows], [rows[i] for i in first_rows]
    row_sources = [sources[row.source] for row in rows]
    added = [len(row.added) + row.kept - len(source.moves) for row, source in zip(rows, row_sources, strict=True)]
    played = [None if row.played is None else decode_move(row.played) for row in rows]
    deep = [
        inferred(each.deep, row.distance) if row.step == LINE else None
        for row, each in zip(rows, row_sources, strict=True)
    ]
    return Neighbours(
        _batch(row_sources, boards, moves, added, played),
        np.array([row.source for row in rows], np.int64),
        [row.step for row in rows],
        np.array([row.distance for row in rows], np.int64),
        np.array([row.later for row in rows], np.bool_),
        np.array(added, np.int64) % 2 == 0,
        deep,
    )


def _rows(i: int, source: ExpansionSource, policy: Moves, steps: Sequence[str]) -> Iterator[_Row]:
    length = len(source.moves)
    line = _line(source)
    if LINE in steps and source.searched:
        for plies in range(1, len(line) + 1):
            if inferred(source.deep, plies) is None:
                break
            yield _Row(i, LINE, plies, length, line[:plies], None)
    if PARENT in steps and source.in_game:
        yield from (_earlier(i, source, PARENT, plies) for plies in PARENTS if plies < length)
    if CHILD in steps:
        # The search's own move is the first ply of the line.
        preferred = [move for move in policy.tolist() if move not in line[:1]][:CHILDREN]
        for rank, move in enumerate(preferred, 1):
            yield _Row(i, CHILD, rank, length, np.array([move], np.uint16), None)
    if GAME in steps and source.in_game:
        for plies in GAME_PLIES:
            if plies < length and plies not in PARENTS:
                yield _earlier(i, source, GAME, plies)
            if plies <= len(source.following):
                then = int(source.following[plies]) if plies < len(source.following) else None
                yield _Row(i, GAME, plies, length, source.following[:plies], then, later=True)


def _earlier(i: int, source: ExpansionSource, step: str, plies: int) -> _Row:
    kept = len(source.moves) - plies
    # The last move to a position that the game did not go on from need not be the game's (`vr mine --aside`).
    played = plies > 1 or len(source.following)
    return _Row(i, step, plies, kept, _NOTHING, int(source.moves[kept]) if played else None)


def _line(source: ExpansionSource) -> Moves:
    """The moves of the line, up to the first that is no move: recorded lines come from other programs."""
    moves = []
    for uci in source.deep.pv[:LONGEST_LINE]:
        try:
            moves.append(encode_move(uci))
        except ValueError:
            break
    return np.array(moves, np.uint16)


def batch_of(sources: Sequence[ExpansionSource]) -> PositionBatch:
    """The sources themselves."""
    moves = [source.moves for source in sources]
    boards, _ = reached([source.start_fen for source in sources], moves)
    return _batch(sources, boards, moves, [0] * len(sources), [None] * len(sources))


def _batch(
    sources: Sequence[ExpansionSource],
    boards: Boards,
    moves: Sequence[Moves],
    added: Sequence[int],
    played: Sequence[str | None],
) -> PositionBatch:
    """The positions [n] on these boards: `added` [n] plies after their `sources`, with the moves `played` in them."""
    return PositionBatch(
        fens(boards),
        [source.start_fen for source in sources],
        *joined(moves),
        np.array([source.ply for source in sources], np.int32) + np.array(added, np.int32),
        keys(boards),
        np.array([source.history_known for source in sources], np.bool_),
        Origins([source.game for source in sources], played),
    )


def _first_ones(
    rows: Sequence[_Row], over: NDArray[np.bool_], board_keys: NDArray[np.uint64], met: set[int]
) -> list[int]:
    """The rows of positions that are met for the first time, and not over; a line ends where the game does."""
    kept, ended = [], -1
    for i, (row, is_over, key) in enumerate(zip(rows, over.tolist(), board_keys.tolist(), strict=True)):
        if row.step == LINE and is_over:
            ended = row.source
        beyond = row.step == LINE and row.source == ended
        if not (is_over or beyond or key in met):
            met.add(key)
            kept.append(i)
    return kept
