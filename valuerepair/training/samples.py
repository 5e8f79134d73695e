"""Training positions as columns, about a kilobyte each: bit planes, legal moves, targets, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import scrambled
from valuerepair.arrays import Floats32, Moves
from valuerepair.chess import v6
from valuerepair.chess.bits import ALL
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import PositionBatch, cuts_of
from valuerepair.chess.rows import Index
from valuerepair.nets.planes import (
    ARMAGEDDON,
    AUXILIARY,
    CASTLING_PLANE,
    CLASSICAL,
    CLOCK_PLANE,
    HECTOPLIES,
    PLANES,
    encode,
)
from valuerepair.nets.policy import policy_indices

MOST_MOVES = 224  # columns of a batch; a position has at most 218 legal moves
_MIRRORED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)), bitorder="little")


class Batch(NamedTuple):
    """Positions as a training step takes them; `learner.planes_of` makes the net's input from `bits` and `rule50`.

    bits uint32[n, 112, 2]; rule50 float32[n]; moves int32[n, 224], the legal moves as indices into the 1858 policy
    outputs; shares float32[n, 224], their shares of the visits: 0 where unknown, -1 after the last legal move; wdl
    float32[n, 3], the value target; moves_left float32[n], NaN where unknown; weight float32[n] of the position;
    value_weight float32[n], a further factor of its value loss; judged int32[n], the column of the judge's best move in
    `moves`, -1 where unknown.
    """

    bits: NDArray[np.uint32]
    rule50: Floats32
    moves: NDArray[np.int32]
    shares: Floats32
    wdl: Floats32
    moves_left: Floats32
    weight: Floats32
    value_weight: Floats32
    judged: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Samples:
    """n positions with the targets of a net's outputs, all from the side to move.

    | column       | type             |                                                                            |
    |--------------|------------------|----------------------------------------------------------------------------|
    | masks        | uint64[n, 112]   | input planes as bitboards; the half-move clock's plane is ones             |
    | rule50       | float32[n]       | the factor of the half-move clock's plane                                  |
    | wdl          | float32[n, 3]    | win, draw, loss: the target of the value head                              |
    | deep_q       | float32[n]       | Q of the search that the net is judged by, NaN: not known                  |
    | moves_left   | float32[n]       | plies, NaN: not known                                                      |
    | weight       | float32[n]       | of the position in the loss                                                |
    | value_weight | float32[n]       | a further factor of its value loss                                         |
    | judged       | int32[n]         | index of the judge's best among the row's legal moves, -1: not known       |
    | cuts         | int64[n + 1]     | row i's legal moves are ``moves[cuts[i]:cuts[i + 1]]``                     |
    | moves        | uint16[cuts[n]]  | indices into the 1858 policy outputs                                       |
    | shares       | float32[cuts[n]] | of visits; 0 without a search                                              |
    """

    masks: NDArray[np.uint64]
    rule50: Floats32
    wdl: Floats32
    deep_q: Floats32
    moves_left: Floats32
    weight: Floats32
    value_weight: Floats32
    judged: NDArray[np.int32]
    cuts: Index
    moves: NDArray[np.uint16]
    shares: Floats32

    def __len__(self) -> int:
        return len(self.masks)

    def take(self, rows: Index) -> Samples:
        """The given rows in the given order."""
        lengths = np.diff(self.cuts)[rows]
        cuts = cuts_of(lengths)
        flat = np.arange(cuts[-1]) + np.repeat(self.cuts[rows] - cuts[:-1], lengths)
        ragged = {"cuts": cuts, "moves": self.moves[flat], "shares": self.shares[flat]}
        return Samples(**{f.name: getattr(self, f.name)[rows] for f in fields(Samples)[:-3]}, **ragged)

    @staticmethod
    def concat(parts: Sequence[Samples]) -> Samples:
        """The rows of all parts, in order; at least one part."""
        if len(parts) == 1:
            return parts[0]
        cuts = cuts_of(np.concatenate([np.diff(part.cuts) for part in parts]))
        joined = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Samples)}
        return Samples(**{**joined, "cuts": cuts})

    def batch(self, rows: int | None = None) -> Batch:
        """A batch for a training step; with `rows`, it is padded to that number with rows of weight 0."""
        n = rows or len(self)
        moves, shares = np.zeros((n, MOST_MOVES), np.int32), np.full((n, MOST_MOVES), -1, np.float32)
        row, column = np.repeat(np.arange(len(self)), np.diff(self.cuts)), indices_within(self.cuts)
        moves[row, column], shares[row, column] = self.moves, self.shares
        bits = _padded(self.masks, n).view(np.uint32).reshape(n, PLANES, 2)
        unchanged = ("rule50", "wdl", "moves_left", "weight", "value_weight", "judged")
        columns = {name: _padded(getattr(self, name), n) for name in unchanged}
        return Batch(bits=bits, moves=moves, shares=shares, **columns)


def indices_within(cuts: Index) -> Index:
    """int64[cuts[-1]] the index of each element within its piece; piece i is the elements cuts[i] to cuts[i + 1]."""
    return np.asarray(np.arange(cuts[-1]) - np.repeat(cuts[:-1], np.diff(cuts)))


def _padded(column: NDArray[Any], n: int) -> NDArray[Any]:
    if len(column) == n:
        return np.ascontiguousarray(column)
    padded = np.zeros((n, *column.shape[1:]), column.dtype)
    padded[: len(column)] = column
    return padded


# -- of training records ----------------------------------------------------------------------------------------------


def of_records(records: NDArray[np.void], q_ratio: float) -> Samples:
    """The records of one game, v6.RECORD[n], as samples.

    The value target is the game's result, mixed with the share `q_ratio` of the value of the search's best move.
    `deep_q` is the Q of that move; NaN for a position that was not searched: its record has the game's result there.
    Records that lc0's rescorer deleted have weight 0.
    """
    n = len(records)
    is_deleted = records["invariance_info"] & v6.DELETED != 0
    was_searched = v6.were_searched(records, np.arange(n) == n - 1) & ~is_deleted
    row, moves = np.nonzero(records["probabilities"] >= 0)
    result, best = (wdl_of(records[f"{name}_q"], records[f"{name}_d"]) for name in ("result", "best"))
    input_format = int(records["input_format"][0])
    rule50 = records["rule50_count"].astype(np.float32) / np.float32(100 if input_format >= HECTOPLIES else 1)
    return Samples(
        _masks_of_records(records, input_format),
        rule50,
        # With a q_ratio of 0 the search's value may be NaN.
        np.where(q_ratio > 0, np.float32(q_ratio) * best, 0) + np.float32(1 - q_ratio) * result,
        np.where(was_searched, records["best_q"], np.nan).astype(np.float32),
        records["plies_left"].astype(np.float32),
        np.where(is_deleted, 0, 1).astype(np.float32),
        np.ones(n, np.float32),
        np.full(n, -1, np.int32),
        np.searchsorted(row, np.arange(n + 1)).astype(np.int64),
        moves.astype(np.uint16),
        records["probabilities"][row, moves].astype(np.float32),
    )


def wdl_of(q: NDArray[np.floating], draw: NDArray[np.floating]) -> Floats32:
    """[n, 3] win, draw and loss from Q and the probability of a draw, which is limited to 1 - |Q|."""
    q32, d = np.clip(np.asarray(q, np.float32), -1, 1), np.asarray(draw, np.float32)
    d = np.clip(d, 0, 1 - np.abs(q32))
    return np.stack([(1 - d + q32) / 2, d, (1 - d - q32) / 2], 1).astype(np.float32)


def sampled_results(wdl: Floats32, chance: NDArray[np.float64]) -> Floats32:
    """[n] 1, 0 or -1 with the probabilities of win, draw and loss [n, 3]; `chance` [n] lies in [0, 1).

    lc0's rescorer accepts only these results (src/trainingdata/rescorer.cc, ResultForData).
    """
    win, draw, _ = wdl.T
    return np.where(chance < win, 1, np.where(chance < win + draw, 0, -1)).astype(np.float32)


def chances(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """[n] pseudo-random numbers in [0, 1), each determined by its 64-bit key."""
    return np.asarray((scrambled(keys) >> np.uint64(11)) * 2.0**-53)


def _masks_of_records(records: NDArray[np.void], input_format: int) -> NDArray[np.uint64]:
    """uint64[n, 112] the input planes of records; undoes `records.write_boards`.

    Records have the history planes with the bits of each byte reversed; the auxiliary planes follow from other fields.
    """
    n = len(records)
    masks = np.zeros((n, PLANES), np.uint64)
    history = np.ascontiguousarray(records["planes"])
    masks[:, :AUXILIARY] = _MIRRORED[history.view(np.uint8)].view("<u8").reshape(n, AUXILIARY)
    us_long, us, them_long, them = (
        records[f"castling_{name}"].astype(np.uint64) for name in ("us_ooo", "us_oo", "them_ooo", "them_oo")
    )
    side_or_ep, info = records["side_to_move_or_enpassant"].astype(np.uint64), records["invariance_info"]
    ones, zeros, top = np.uint64(ALL), np.uint64(0), np.uint64(56)
    if input_format == CLASSICAL:
        for plane, right in enumerate((us_long, us, them_long, them), AUXILIARY):
            masks[:, plane] = np.where(right > 0, ones, zeros)
    else:  # the files of the rooks
        masks[:, AUXILIARY], masks[:, AUXILIARY + 1] = us_long | them_long << top, us | them << top
    has_side = input_format in (CLASSICAL, CASTLING_PLANE)  # later formats have the en-passant file in its place
    masks[:, AUXILIARY + 4] = np.where(side_or_ep > 0, ones, zeros) if has_side else side_or_ep << top
    masks[:, CLOCK_PLANE] = masks[:, CLOCK_PLANE + 2] = ones
    if input_format >= ARMAGEDDON:
        masks[:, CLOCK_PLANE + 1] = np.where(info & v6.BLACK_TO_MOVE, ones, zeros)
    return masks


# -- of positions -----------------------------------------------------------------------------------------------------


def of_positions(
    batch: PositionBatch,
    deep_q: NDArray[np.float64],
    wdl: Floats32,
    input_format: int,
    best: Moves | None = None,
) -> Samples:
    """Positions as samples, with planes of `input_format` and no moves left, all from the side to move.

    `wdl` [n, 3] is the value target, `deep_q` [n] the judge's Q, `best` uint16[n] the judge's best moves, as in
    `chess.positions`; an illegal move, such as 0, means unknown.
    """
    planes = encode(batch, input_format)
    bits = np.packbits(planes.reshape(len(batch), PLANES, 64) != 0, axis=2, bitorder="little")
    masks = bits.view("<u8").reshape(len(batch), PLANES)
    rule50 = planes[:, CLOCK_PLANE, 0, 0].copy()
    masks[:, CLOCK_PLANE] = ALL
    boards = parse_fens(batch.fen)
    moves, cuts = legal_moves(boards)
    indices = policy_indices(boards, moves, cuts, input_format)
    return Samples(
        masks,
        rule50,
        wdl,
        deep_q.astype(np.float32),
        np.full(len(batch), np.nan, np.float32),
        np.ones(len(batch), np.float32),
        np.ones(len(batch), np.float32),
        _move_columns(moves, cuts, best),
        cuts,
        indices.astype(np.uint16),
        np.zeros(len(indices), np.float32),
    )


def _move_columns(moves: Moves, cuts: Index, best: Moves | None) -> NDArray[np.int32]:
    """int32[n] the index of each row's `best` [n] among its legal moves, -1 if it is not legal."""
    columns = np.full(len(cuts) - 1, -1, np.int32)
    if best is not None:
        row = np.repeat(np.arange(len(columns)), np.diff(cuts))
        matches = np.flatnonzero(moves == best[row])
        columns[row[matches]] = matches - cuts[row[matches]]
    return columns
