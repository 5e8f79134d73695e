"""Positions beside games that a net would look at (`archives.off_game`): by its policy, and by short searches."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.off_game import OF_NET, NetLines
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.select import U64
from valuerepair.arrays import Moves
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.forest import Forest, warm_up
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import Evaluator, Net, Priors

# The first and last rank of the policy's moves that are taken, and the most visits of the root of a short search.
BEST, WORST = 3, 6
NODES = 30
_TREES = 256  # searched at once by each stream
_NO_MOVES: Moves = np.empty(0, np.uint16)


@runtime_checkable
class SearchingNet(Protocol):
    """A net on other machines (a cluster) that runs the short searches there."""

    def priors(self, batch: PositionBatch) -> Priors: ...

    def search_lines(self, batch: PositionBatch, draws: U64) -> list[Moves]:
        """As `searched_lines`."""


def lines_of(net: Evaluator, options: SampleOptions) -> NetLines | None:
    """The lines of the net, if the options ask for kinds of positions that need them; else None."""
    if not any(kind in options.shares_beside for kind in OF_NET):
        return None
    assert isinstance(net, (Net, SearchingNet))
    return LinesOfNet(net)


class LinesOfNet:
    """The `NetLines` of a net, here or on a cluster."""

    def __init__(self, net: Net | SearchingNet) -> None:
        self._net = net

    def policy(self, batch: PositionBatch, draws: U64) -> list[Moves]:
        """[n] one of the policy's 3rd to 6th moves, by the draw; no move if there are fewer than three."""
        moves, offsets, p = self._net.priors(batch)
        chosen = list[Moves]()
        for begin, end, draw in zip(offsets[:-1].tolist(), offsets[1:].tolist(), draws.tolist(), strict=True):
            choices = min(end - begin, WORST) - BEST + 1
            if choices < 1:
                chosen.append(_NO_MOVES)
                continue
            order = np.argsort(-p[begin:end], kind="stable")
            move = begin + int(order[BEST - 1 + draw % choices])
            chosen.append(moves[move : move + 1])
        return chosen

    def search(self, batch: PositionBatch, draws: U64) -> list[Moves]:
        """[n] the moves to a node of a short search; see `searched_lines`."""
        if isinstance(self._net, Net):
            return searched_lines(self._net, batch, draws)
        return self._net.search_lines(batch, draws)


def searched_lines(net: Net, batch: PositionBatch, draws: U64) -> list[Moves]:
    """[n] the moves to a random node below the root of a search of `NODES` nodes from each position.

    The draw picks one of the nodes that the net evaluated, all with equal probability; without such a node, and for a
    position that cannot be searched, there are no moves. The search has the defaults of `vr eval`; it stops at the
    node that is drawn, halfway on average.
    """
    evaluator, params = NetEvaluator(net), SearchParams()
    warm_up(evaluator, params)
    parts = [rows for rows in np.array_split(np.arange(len(batch)), evaluator.streams) if len(rows)]
    with ThreadPoolExecutor(max(1, len(parts)), thread_name_prefix="beside") as pool:
        results = pool.map(lambda rows: _lines_of_part(evaluator, params, batch.take(rows), draws[rows]), parts)
        return [line for lines in results for line in lines]


def _lines_of_part(evaluator: NetEvaluator, params: SearchParams, batch: PositionBatch, draws: U64) -> list[Moves]:
    """`searched_lines` for the positions of one thread."""
    forest = Forest(evaluator, params, trees=min(len(batch), _TREES), nodes=NODES)
    lines, busy = [_NO_MOVES] * len(batch), dict[int, int]()  # busy: slot of the tree -> row
    orders, waiting = [_order(draw) for draw in draws.tolist()], list(range(len(batch)))[::-1]
    while waiting or busy:
        while waiting and forest.free:
            row = waiting.pop()
            try:
                busy[forest.add(batch[row], int(orders[row][0]) + 1)] = row
            except ValueRepairError:  # the position is illegal, or the game is over
                continue
        if busy:
            forest.play_round()
        for slot, row in list(busy.items()):
            if forest.is_done(slot) and (line := _line(forest, slot, orders[row])) is not None:
                lines[row] = line
                forest.release(slot)
                del busy[slot]
    return lines


def _order(draw: int) -> NDArray[np.int64]:
    """The numbers of the nodes below the root, from 1, in random order; the first that the tree has is drawn."""
    return 1 + np.random.default_rng(draw).permutation(NODES - 1)


def _line(forest: Forest, slot: int, order: Sequence[int] | NDArray[np.int64]) -> Moves | None:
    """The moves to the drawn node; empty if the finished tree has no node of `order`, None while it must grow."""
    drawn, visits = int(order[0]), forest.visits(slot)
    line = forest.evaluated_line(slot, drawn)
    if line is not None:
        return line
    evaluated = forest.evaluated(slot)
    if visits < NODES and not forest.is_proven(slot):  # some visits ended where the game does
        forest.go_on(slot, min(NODES, visits + drawn - evaluated))
        return None
    number = next((int(number) for number in order if number <= evaluated), 0)
    line = forest.evaluated_line(slot, number) if number else _NO_MOVES
    assert line is not None
    return line
