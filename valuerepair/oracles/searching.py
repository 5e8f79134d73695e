"""Searches whose results people read: one position by nodes or by the clock, many together as a forest."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from valuerepair.chess.positions import Position
from valuerepair.mcts.evaluator import NetEvaluator, SplitEvaluator
from valuerepair.mcts.forest import Forest, forest_bytes, most_nodes, warm_up
from valuerepair.mcts.layout import MOST_MOVES
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.pool import ForestPool
from valuerepair.mcts.result import SearchResult
from valuerepair.mcts.search import Search
from valuerepair.mcts.snapshot import Snapshot
from valuerepair.nets.net import Net, NetIdentity
from valuerepair.oracles import search_table
from valuerepair.oracles.mcts_oracle import available_memory, cannot_be_searched
from valuerepair.oracles.oracle import finished

log = logging.getLogger(__name__)

_TREES_BYTES = 1 << 31
# The nodes that a search by the clock always has room for, and the share of the free memory that it may take: a tree
# of positions with many moves grows, and for a moment there are two copies of it.
_LEAST_ROOM = 100_000
_SHARE_OF_MEMORY = 1 / 3


@dataclass(frozen=True)
class Searched:
    """A position with the result of its search, or the `reason` why it has none; `seconds` is its share of the time.

    `tree` is set if the caller wanted nodes of the tree.
    """

    position: Position
    net: NetIdentity
    result: SearchResult | None
    reason: str = ""
    seconds: float = math.nan
    tree: Snapshot | None = None

    def lines(self) -> list[str]:
        """Root and moves for a terminal, and an empty line."""
        return search_table.table(self).split("\n")

    def as_json(self) -> dict[str, Any]:
        """The position, the root and every legal move; values of moves without visits are None."""
        return search_table.row(self)


def search_positions(
    net: Net,
    params: SearchParams,
    positions: Iterable[Position],
    *,
    nodes: int | None,
    seconds: float | None = None,
    tree_nodes: int = 0,
) -> Iterator[Searched]:
    """Searches positions, in their order; each up to `nodes` visits of its root or for some seconds.

    With `seconds` or `tree_nodes` (how many nodes of its tree each result keeps), or for a single position, they run
    one after the other; otherwise many at once. Positions are read when needed. Raises ValueRepairError and UsageError.
    """
    remaining = iter(positions)
    first_two = list(islice(remaining, 2))
    all_positions = chain(first_two, remaining)
    evaluator = NetEvaluator(net)
    warm_up(evaluator, params)
    if seconds is not None or tree_nodes or len(first_two) < 2:
        yield from _one_by_one(net, evaluator, params, all_positions, nodes, seconds, tree_nodes)
    else:
        assert nodes is not None
        yield from _many_at_once(net, evaluator, params, all_positions, nodes)


def _one_by_one(
    net: Net,
    evaluator: NetEvaluator,
    params: SearchParams,
    positions: Iterable[Position],
    nodes: int | None,
    seconds: float | None,
    tree_nodes: int,
) -> Iterator[Searched]:
    room = nodes or _room(params)
    with closing(SplitEvaluator(evaluator, evaluator.streams if net.session.on_cpu else 1)) as split:
        for position in positions:
            if reason := cannot_be_searched(position):
                yield Searched(position, net.identity, None, reason)
                continue
            search = Search(split, params, nodes=room)
            search.set_position(position)
            begun = time.perf_counter()
            result = search.run(nodes=nodes, seconds=seconds, lines=MOST_MOVES)
            spent = time.perf_counter() - begun
            if nodes is None and result.nodes >= room:
                log.info(f"{position.fen}: ended at {room:,} nodes, after {spent:.1f} s: there is no memory for more")
            tree = search.snapshot(tree_nodes) if tree_nodes else None
            yield Searched(position, net.identity, result, seconds=spent, tree=tree)


def _room(params: SearchParams) -> int:
    """The visits that a search by the clock has room for. The tree takes memory only as it grows."""
    return max(_LEAST_ROOM, most_nodes(_SHARE_OF_MEMORY * (available_memory() or 4 << 30), params))


def _many_at_once(
    net: Net, evaluator: NetEvaluator, params: SearchParams, positions: Iterable[Position], nodes: int
) -> Iterator[Searched]:
    trees = max(1, min(net.batch_size, _TREES_BYTES // evaluator.streams // forest_bytes(1, nodes, params)))
    forests = [Forest(evaluator, params, trees=trees, nodes=nodes, lines=MOST_MOVES) for _ in range(evaluator.streams)]
    pool = ForestPool(forests)
    ahead: deque[Future[Searched]] = deque()
    is_complete = False
    try:
        for position in positions:
            ahead.append(_submit(pool, net.identity, position, nodes))
            # A few more positions than trees, so that no tree waits for the oldest position.
            while len(ahead) > 3 * trees * len(forests) or (ahead and ahead[0].done()):
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
        is_complete = True
    finally:
        pool.close(cancel=not is_complete)


def _submit(pool: ForestPool, net: NetIdentity, position: Position, nodes: int) -> Future[Searched]:
    if reason := cannot_be_searched(position):
        return finished(Searched(position, net, None, reason))
    return pool.submit(
        position,
        nodes,
        lambda result, seconds: Searched(position, net, result, seconds=seconds),
        lambda reason: Searched(position, net, None, reason),
    )
