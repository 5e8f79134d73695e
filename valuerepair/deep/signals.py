"""What the net alone says of how sure its value of a position is: the first, nearly free rung of the ladder."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from valuerepair.board import in_check, parse_fens
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.net_evaluator import NetEvaluator
from valuerepair.mcts.params import SearchParams
from valuerepair.nets import Net, NetValues
from valuerepair.positions import PositionBatch, encode_move

Floats = NDArray[np.float64]

# Columns of signals. Values are from the side to move of the position itself, NaN where there is none.
#   q, d, entropy, best_p, best_move   the net's value, draw probability, entropy of the policy (nats), its first choice
#   before, before_2, after            its value one and two plies earlier in the game, and after the move played there
#   search                             the root's Q of a small search with the net
#   pieces, ply, check                 men on the board, half-moves since move 1, 1 where the side to move is in check
#   runners                            pawns of both sides that are one or two moves from promotion
SIGNALS = (
    *("q", "d", "entropy", "best_p", "best_move", "before", "before_2", "after", "search"),
    *("pieces", "ply", "check", "runners"),
)
COLUMN = {name: i for i, name in enumerate(SIGNALS)}


class Evaluating(Protocol):
    """A net, or what stands in for one."""

    def evaluate(self, batch: PositionBatch) -> NetValues: ...


class SignalReader:
    """Reads the signals of batches; for one thread."""

    def __init__(self, net: Evaluating, search_nodes: int = 0) -> None:
        """With `search_nodes` every position gets a search of so many visits, all of a batch together.

        It is made by `Net.searching`, which may be of less precision: values never are.
        """
        self._net, self._nodes = net, search_nodes
        self._forest: Forest | None = None
        if search_nodes:
            assert isinstance(net, Net)
            searching = net.searching
            evaluator = NetEvaluator(searching)
            params = SearchParams(history_fill=net.history_fill)
            self._forest = Forest(
                evaluator, params, input_format=evaluator.input_format, trees=searching.batch_size, nodes=search_nodes
            )

    def read(self, batch: PositionBatch, values: NetValues) -> Floats:
        """[n, len(SIGNALS)] signals of positions with these values."""
        found = np.full((len(batch), len(SIGNALS)), np.nan)
        for name, column in (
            ("q", values.q),
            ("d", values.wdl[:, 1]),
            ("entropy", values.entropy),
            ("best_p", values.best_p),
            ("best_move", values.best_move),
            ("ply", batch.ply),
            ("pieces", [sum(map(str.isalpha, fen.split(" ", 1)[0])) for fen in batch.fen]),
            ("check", in_check(parse_fens(batch.fen))),
            ("runners", [runners(fen) for fen in batch.fen]),
        ):
            found[:, COLUMN[name]] = column
        for name, plies in (("before", -1), ("before_2", -2), ("after", 1)):
            rows, near = neighbours(batch, plies)
            if len(rows):
                sign = 1 if plies % 2 == 0 else -1
                found[rows, COLUMN[name]] = sign * self._net.evaluate(near).q.astype(np.float64)
        if self._forest is not None:
            for i, result in self._forest.search(batch, self._nodes):
                found[i, COLUMN["search"]] = result.root_q
        return found


def runners(fen: str) -> int:
    """Pawns of both sides that are one or two moves from promotion."""
    ranks = fen.split(" ", 1)[0].split("/")
    return ranks[1].count("P") + ranks[2].count("P") + ranks[5].count("p") + ranks[6].count("p")


def neighbours(batch: PositionBatch, plies: int) -> tuple[NDArray[np.int64], PositionBatch]:
    """The rows that have a neighbour so many plies before (negative) or one after them in their game, and these.

    The `fen` of a neighbour is that of its row: only a net's value is to be asked of it, which needs moves only.
    """
    lengths = np.diff(batch.offsets)
    if plies < 0:
        rows = np.flatnonzero(lengths >= -plies)
        near = batch.take(rows)
        kept = np.ones(len(near.moves), np.bool_)
        for back in range(1, 1 - plies):
            kept[near.offsets[1:] - back] = False
        return rows, _with_moves(near, near.moves[kept], lengths[rows] + plies)
    played = [origin.played for origin in batch.origin]
    rows = np.array([i for i, move in enumerate(played) if move], np.int64)
    near = batch.take(rows)
    last = np.array([encode_move(played[i] or "") for i in rows.tolist()], np.uint16)
    return rows, _with_moves(near, np.insert(near.moves, near.offsets[1:], last), lengths[rows] + 1)


def _with_moves(batch: PositionBatch, moves: NDArray[np.uint16], lengths: NDArray[np.int64]) -> PositionBatch:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return PositionBatch(
        batch.fen,
        batch.start_fen,
        np.ascontiguousarray(moves, np.uint16),
        offsets,
        batch.ply,
        batch.key,
        batch.history_known,
        batch.origin,
    )
