"""Training positions as columns, about a kilobyte each: bit planes, legal moves, targets, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import ply_priorities, scrambled
from valuerepair.chess import v6
from valuerepair.chess.bits import ALL
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import Moves, PositionBatch
from valuerepair.nets.planes import (
    ARMAGEDDON,
    AUXILIARY,
    CASTLING_PLANE,
    CLASSICAL,
    CLOCK_PLANE,
    HECTOPLIES,
    PLANES,
    HistoryFill,
    encode,
)
from valuerepair.nets.policy import policy_indices

Floats = NDArray[np.float32]
Index = NDArray[np.int64]

MOST_MOVES = 224  # of a batch's rows; no position of chess has more than 218
_MIRRORED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)), bitorder="little")


class Batch(NamedTuple):
    """Positions as a training step takes them; `planes_of` makes the net's input of the first two.

    bits uint32[n, 112, 2], rule50 float32[n]; moves int32[n, 224], places among the 1858 of the policy, and their
    shares of visits float32[n, 224]: -1 behind the last legal move, 0 where they are not known; wdl float32[n, 3], the
    value's target; moves_left float32[n], NaN where it is not known; weight float32[n], value_weight float32[n] by
    which the value's loss is multiplied beside it; judged int32[n], the column of the judge's best move in `moves`, -1
    where it is not known. key uint64[n] is that of the position, None within what JAX compiles.
    """

    bits: NDArray[np.uint32]
    rule50: Floats
    moves: NDArray[np.int32]
    shares: Floats
    wdl: Floats
    moves_left: Floats
    weight: Floats
    value_weight: Floats
    judged: NDArray[np.int32]
    key: NDArray[np.uint64] | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """n positions with what a net is to say of them, all from the side to move.

    | column       | type             |                                                                            |
    |--------------|------------------|----------------------------------------------------------------------------|
    | masks        | uint64[n, 112]   | input planes as bitboards; that of the half-move clock is ones             |
    | rule50       | float32[n]       | what the plane of the clock is multiplied by                               |
    | wdl          | float32[n, 3]    | win, draw, loss that the value head learns                                 |
    | deep_q       | float32[n]       | what a search thought of it, NaN: not known; the net is judged by it       |
    | moves_left   | float32[n]       | plies, NaN: not known                                                      |
    | weight       | float32[n]       | how much it counts                                                         |
    | value_weight | float32[n]       | what the value's loss is multiplied by beside that                         |
    | judged       | int32[n]         | which of the row's legal moves is the judge's best, -1: not known          |
    | key          | uint64[n]        | of the position, by its source: what is equal has equal planes             |
    | cuts         | int64[n + 1]     | row i's legal moves are ``moves[cuts[i]:cuts[i + 1]]``                     |
    | moves        | uint16[cuts[n]]  | places among the 1858 outputs                                              |
    | shares       | float32[cuts[n]] | of visits; 0 where there was no search                                     |
    """

    masks: NDArray[np.uint64]
    rule50: Floats
    wdl: Floats
    deep_q: Floats
    moves_left: Floats
    weight: Floats
    value_weight: Floats
    judged: NDArray[np.int32]
    key: NDArray[np.uint64]
    cuts: Index
    moves: NDArray[np.uint16]
    shares: Floats

    def __len__(self) -> int:
        return len(self.masks)

    def take(self, rows: Index) -> Samples:
        """The given rows in the given order."""
        lengths = np.diff(self.cuts)[rows]
        cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.arange(cuts[-1]) + np.repeat(self.cuts[rows] - cuts[:-1], lengths)
        ragged = {"cuts": cuts, "moves": self.moves[flat], "shares": self.shares[flat]}
        return Samples(**{f.name: getattr(self, f.name)[rows] for f in fields(Samples)[:-3]}, **ragged)

    @staticmethod
    def concat(parts: Sequence[Samples]) -> Samples:
        """The rows of all parts, in order; at least one part."""
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([np.diff(part.cuts) for part in parts])
        cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        joined = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Samples)}
        return Samples(**{**joined, "cuts": cuts})

    def batch(self, rows: int | None = None) -> Batch:
        """As a step takes them; with `rows` filled up to so many by rows that weigh nothing."""
        n, lengths = rows or len(self), np.diff(self.cuts)
        moves, shares = np.zeros((n, MOST_MOVES), np.int32), np.full((n, MOST_MOVES), -1, np.float32)
        at = np.repeat(np.arange(len(self)), lengths)
        place = np.arange(self.cuts[-1]) - np.repeat(self.cuts[:-1], lengths)
        moves[at, place], shares[at, place] = self.moves, self.shares
        columns = (self.rule50, self.wdl, self.moves_left, self.weight, self.value_weight)
        rule50, wdl, moves_left, weight, value_weight = (_filled(column, n) for column in columns)
        judged, key = _filled(self.judged, n), _filled(self.key, n)
        bits = _filled(self.masks, n).view(np.uint32).reshape(n, PLANES, 2)
        return Batch(bits, rule50, moves, shares, wdl, moves_left, weight, value_weight, judged, key)


def _filled(column: NDArray[Any], n: int) -> NDArray[Any]:
    if len(column) == n:
        return np.ascontiguousarray(column)
    found = np.zeros((n, *column.shape[1:]), column.dtype)
    found[: len(column)] = column
    return found


# -- of training records ----------------------------------------------------------------------------------------------


def of_records(
    records: NDArray[np.void], q_ratio: float, weight: NDArray[np.float64] | None = None, game: int = 0
) -> Samples:
    """Records of one game, v6.RECORD[n]; the value's target is the game's result, or as much as `q_ratio` says of it
    the value of the best move that the search found. `deep_q` is the latter's Q. `game` is a 64-bit key of it."""
    n = len(records)
    row, moves = np.nonzero(records["probabilities"] >= 0)
    result, best = (wdl_of(records[f"{name}_q"], records[f"{name}_d"]) for name in ("result", "best"))
    form = int(records["input_format"][0])
    rule50 = records["rule50_count"].astype(np.float32) / np.float32(100 if form >= HECTOPLIES else 1)
    return Samples(
        _masks_of_records(records, form),
        rule50,
        # Of a value that is not known nothing is taken, whatever it is.
        np.where(q_ratio > 0, np.float32(q_ratio) * best, 0) + np.float32(1 - q_ratio) * result,
        records["best_q"].astype(np.float32),
        records["plies_left"].astype(np.float32),
        np.ones(n, np.float32) if weight is None else weight.astype(np.float32),
        np.ones(n, np.float32),
        np.full(n, -1, np.int32),
        ply_priorities(np.full(n, game, np.uint64), np.arange(n)),
        np.searchsorted(row, np.arange(n + 1)).astype(np.int64),
        moves.astype(np.uint16),
        records["probabilities"][row, moves].astype(np.float32),
    )


def wdl_of(q: NDArray[np.floating], draw: NDArray[np.floating]) -> Floats:
    """[n, 3] win, draw and loss of Q and the probability of a draw, which is bounded by what Q leaves of it."""
    q32, d = np.clip(np.asarray(q, np.float32), -1, 1), np.asarray(draw, np.float32)
    d = np.clip(d, 0, 1 - np.abs(q32))
    return np.stack([(1 - d + q32) / 2, d, (1 - d - q32) / 2], 1).astype(np.float32)


def sampled_results(wdl: Floats, chance: NDArray[np.float64]) -> Floats:
    """[n] 1, 0 or -1 with the probabilities of win, draw and loss [n, 3]; `chance` [n] lies in [0, 1).

    lc0's rescorer takes no other results (src/trainingdata/rescorer.cc, ResultForData).
    """
    win, draw, _ = wdl.T
    return np.where(chance < win, 1, np.where(chance < win + draw, 0, -1)).astype(np.float32)


def chances(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """[n] numbers in [0, 1), each by its 64-bit key."""
    return np.asarray((scrambled(keys) >> np.uint64(11)) * 2.0**-53)


def _masks_of_records(records: NDArray[np.void], form: int) -> NDArray[np.uint64]:
    """The inverse of `records.write_boards`: bytes of the history planes are turned round, the others made of facts."""
    n = len(records)
    masks = np.zeros((n, PLANES), np.uint64)
    history = np.ascontiguousarray(records["planes"])
    masks[:, :AUXILIARY] = _MIRRORED[history.view(np.uint8)].view("<u8").reshape(n, AUXILIARY)
    us_long, us, them_long, them = (
        records[f"castling_{name}"].astype(np.uint64) for name in ("us_ooo", "us_oo", "them_ooo", "them_oo")
    )
    said, info = records["side_to_move_or_enpassant"].astype(np.uint64), records["invariance_info"]
    ones, none, top = np.uint64(ALL), np.uint64(0), np.uint64(56)
    if form == CLASSICAL:
        for plane, right in enumerate((us_long, us, them_long, them), AUXILIARY):
            masks[:, plane] = np.where(right > 0, ones, none)
    else:  # the files of the rooks
        masks[:, AUXILIARY], masks[:, AUXILIARY + 1] = us_long | them_long << top, us | them << top
    masks[:, AUXILIARY + 4] = np.where(said > 0, ones, none) if form in (CLASSICAL, CASTLING_PLANE) else said << top
    masks[:, CLOCK_PLANE] = masks[:, CLOCK_PLANE + 2] = ones
    if form >= ARMAGEDDON:
        masks[:, CLOCK_PLANE + 1] = np.where(info & v6.BLACK_TO_MOVE, ones, none)
    return masks


# -- of positions -----------------------------------------------------------------------------------------------------


def of_positions(
    batch: PositionBatch,
    deep_q: NDArray[np.float64],
    wdl: Floats,
    fill: HistoryFill,
    form: int,
    best: Moves | None = None,
) -> Samples:
    """Positions whose value is to be `wdl` [n, 3]; the search's Q, that the net is judged by, is `deep_q` [n], its move
    is `best` uint16[n] as in `chess.positions`; a move that is not legal, as 0, counts as not known."""
    planes = encode(batch, fill, form)
    bits = np.packbits(planes.reshape(len(batch), PLANES, 64) != 0, axis=2, bitorder="little")
    masks = bits.view("<u8").reshape(len(batch), PLANES)
    rule50 = planes[:, CLOCK_PLANE, 0, 0].copy()
    masks[:, CLOCK_PLANE] = ALL
    boards = parse_fens(batch.fen)
    moves, cuts = legal_moves(boards)
    indices = policy_indices(boards, moves, cuts, form)
    return Samples(
        masks,
        rule50,
        wdl,
        deep_q.astype(np.float32),
        np.full(len(batch), np.nan, np.float32),
        np.ones(len(batch), np.float32),
        np.ones(len(batch), np.float32),
        _places(moves, cuts, best),
        scrambled(batch.key),
        cuts,
        indices.astype(np.uint16),
        np.zeros(len(indices), np.float32),
    )


def _places(moves: Moves, cuts: Index, best: Moves | None) -> NDArray[np.int32]:
    """int32[n]: which of its legal moves each row's `best` is, -1 where it is none of them."""
    found = np.full(len(cuts) - 1, -1, np.int32)
    if best is not None:
        row = np.repeat(np.arange(len(found)), np.diff(cuts))
        at = np.flatnonzero(moves == best[row])
        found[row[at]] = at - cuts[row[at]]
    return found
