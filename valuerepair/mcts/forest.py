"""Many positions searched at once: each tree gives one leaf a round, so the net always has a full batch.

Every tree gets exactly the visits that it would get alone: trees share only the calls of the evaluator.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice

import numpy as np

from valuerepair.arrays import Moves
from valuerepair.chess.board import in_check, keys, legal_moves, parse_fens, replay, status_error
from valuerepair.chess.jit import CACHE_FOLDER
from valuerepair.chess.position_text import read_position
from valuerepair.chess.positions import STARTPOS_FEN, Position, encode_moves
from valuerepair.chess.rows import Boards
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts import layout
from valuerepair.mcts.backup import solved
from valuerepair.mcts.evaluator import LeafEvaluator, Leaves
from valuerepair.mcts.layout import SearchRules, Trees
from valuerepair.mcts.outcome import evaluated_nodes, read_evaluated_line, read_result
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import SearchResult
from valuerepair.mcts.roots import plant_root, play_game, put_game, start_search
from valuerepair.mcts.rounds import LONGEST_CHAIN, absorb, empty_round, gather
from valuerepair.mcts.select import random_word
from valuerepair.nets.planes import is_initial

log = logging.getLogger(__name__)

_MOST_EDGES = 2**31  # indices have 32 bits


class Forest:
    """Trees searched together by one thread. Not to be shared between threads; several forests may share a net.

    `evaluator` is called once a round. `nodes` is the number of visits a tree has room for at first; a tree that needs
    more (or has positions of many moves) makes all of them grow. `lines` root moves of a result get a principal line.
    """

    def __init__(
        self,
        evaluator: LeafEvaluator,
        params: SearchParams | None = None,
        *,
        trees: int = 64,
        nodes: int = 1000,
        lines: int = 1,
    ) -> None:
        """Raises UsageError for parameters or numbers of trees or nodes that make no sense or do not fit in memory."""
        self.params = params or SearchParams()
        self.params.check()
        if trees < 1 or nodes < 1:
            raise UsageError(f"{nodes} nodes in {trees} trees: both must be at least 1")
        self._evaluator = evaluator
        self._rules = layout.make_rules(self.params, nodes, evaluator.input_format, moves_left=evaluator.moves_left)
        check_memory(trees, self._rules)
        self._trees = layout.plant(trees, self._rules)
        self._leaves = empty_round(trees * self.params.minibatch_size)
        self._lines = lines
        self._tags: list[object] = [None] * trees
        self._free = list(range(trees - 1, -1, -1))

    @property
    def free(self) -> int:
        """The number of trees that `add` can still begin."""
        return len(self._free)

    @property
    def busy(self) -> int:
        """The number of trees being searched."""
        return len(self._tags) - len(self._free)

    def add(self, position: Position, nodes: int, tag: object = None, *, seed: int = 0) -> int:
        """Begins the search of a position up to `nodes` visits of its root, 1 being the net's value; returns its slot.

        Random choices depend on the position, on the seed of the parameters and on `seed`.
        Raises ValueRepairError for an illegal or finished position, UsageError for less than one node.
        """
        game, initial = play(position)
        self._make_room_for(nodes)
        slot = self._free.pop()
        put_game(self._trees, self._rules, slot, game, initial)
        plant_root(self._trees, self._rules, slot, nodes, seed_of(self.params.seed ^ seed, game))
        self._tags[slot] = tag
        return slot

    def go_on(self, slot: int, nodes: int) -> None:
        """Searches the tree of a slot, not freed yet, until its root has `nodes` visits in all."""
        self._make_room_for(nodes)
        start_search(self._trees, slot, nodes, int(self._trees.slots[slot, layout.RANDOM]))

    def step(self) -> list[tuple[object, SearchResult]]:
        """One round: a leaf of every busy tree, one call of the evaluator. Returns tag and result of finished trees."""
        finished: list[tuple[object, SearchResult]] = []
        if not self.play_round():
            return finished
        for slot in np.flatnonzero(self._trees.slots[:, layout.STATE] == layout.DONE).tolist():
            finished.append((self._tags[slot], self.result(slot, self._lines)))
            self.release(slot)
        return finished

    def play_round(self) -> bool:
        """`step` without freeing the trees that finish; False if certainly no tree has finished."""
        filled = self._gather()
        return self._evaluate(filled) if filled else True

    def is_done(self, slot: int) -> bool:
        """The tree has its visits, or is proven."""
        return bool(self._trees.slots[slot, layout.STATE] == layout.DONE)

    def is_proven(self, slot: int) -> bool:
        """A tree that is done ended because its root is proven."""
        if self._trees.slots[slot, layout.LIMIT] > self.visits(slot):
            return True
        return self._rules.certainty and bool(solved(self._trees, slot * self._rules.node_room))

    def visits(self, slot: int) -> int:
        """Visits of the root so far."""
        return int(self._trees.nodes[slot * self._rules.node_room, layout.VISITS])

    def result(self, slot: int, lines: int = 1) -> SearchResult:
        """The result so far of a tree whose root has a visit; the first `lines` moves get a principal line."""
        return read_result(self._trees, self._rules, slot, lines)

    def evaluated_line(self, slot: int, number: int) -> Moves | None:
        """The moves to the `number`-th position (from 1) below the root that the net evaluated; None without it."""
        return read_evaluated_line(self._trees, self._rules, slot, number)

    def evaluated(self, slot: int) -> int:
        """How many positions below the root the net has evaluated."""
        return len(evaluated_nodes(self._trees, self._rules, slot))

    def release(self, slot: int) -> None:
        """Frees the tree of a slot."""
        self._trees.slots[slot, layout.STATE], self._tags[slot] = layout.FREE, None
        self._free.append(slot)

    def search(self, positions: Iterable[Position], nodes: int) -> Iterator[tuple[int, SearchResult]]:
        """Searches all positions; yields the index and result of each as it finishes.

        It takes positions as trees become free, so that all trees are busy until the end.
        """
        numbered = enumerate(positions)
        while True:
            for index, position in islice(numbered, self.free):
                self.add(position, nodes, index)
            if not self.busy:
                return
            for tag, result in self.step():
                assert isinstance(tag, int)
                yield tag, result

    def search_one(
        self,
        position: Position,
        nodes: int,
        *,
        seconds: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        on_info: Callable[[SearchResult], None] | None = None,
        info_seconds: float = 1.0,
    ) -> SearchResult:
        """Searches one position until its root has `nodes` visits, `seconds` passed, or `stop` returns True.

        There is always one evaluation; the tree's memory grows with its visits. `on_info` gets a result every
        `info_seconds`. Raises ValueRepairError as `add` does.
        """
        slot = self.add(position, min(nodes, self._rules.node_room - 1))
        self._trees.slots[slot, layout.LIMIT] = nodes
        started = last_info = time.monotonic()
        while not self.is_done(slot):
            self.play_round()
            now = time.monotonic()
            if stop() or (seconds is not None and now - started >= seconds):
                break
            if on_info is not None and now - last_info >= info_seconds:
                last_info = now
                on_info(self.result(slot, self._lines))
        result = self.result(slot, self._lines)
        self.release(slot)
        return result

    def _gather(self) -> int:
        """Gathers the leaves of this round; grows the forest as trees need it."""
        filled, lacking = gather(self._trees, self._rules, self._leaves, 0)
        while lacking:
            self._make_room()
            filled, lacking = gather(self._trees, self._rules, self._leaves, filled)
        return filled

    def _evaluate(self, n: int) -> bool:
        leaves = self._leaves
        batch = Leaves(
            leaves.masks[:n], leaves.rule50[:n], leaves.indices[: leaves.offsets[n]], leaves.offsets[: n + 1]
        )
        done: bool = absorb(self._trees, self._rules, leaves, n, self._evaluator(batch))
        if self.params.noise_epsilon > 0:
            for slot, node, _ in leaves.leaf[:n][leaves.leaf[:n, 2] == 0].tolist():
                add_noise(self._trees, slot, node, self.params)
        return done

    def _make_room_for(self, nodes: int) -> None:
        if nodes < 1:
            raise UsageError(f"{nodes} nodes: must be at least 1")
        if nodes >= self._rules.node_room:
            self._grow(*layout.room_for(nodes), self._rules.row_room)

    def _make_room(self) -> None:
        """Makes room for the nodes, edges or rows that trees wait for, and lets these trees search again."""
        states = self._trees.slots[:, layout.STATE]
        nodes, edges, rows = self._rules.node_room, self._rules.edge_room, self._rules.row_room
        if (states == layout.NEEDS_NODES).any():
            nodes += nodes // 2 + LONGEST_CHAIN
        if (states == layout.NEEDS_EDGES).any():
            edges += edges // 2
        if (states == layout.NEEDS_ROWS).any():
            rows += rows // 2
        if (nodes, edges, rows) != (self._rules.node_room, self._rules.edge_room, self._rules.row_room):
            self._grow(nodes, edges, rows)
            states = self._trees.slots[:, layout.STATE]
            states[states >= layout.NEEDS_NODES] = layout.SEARCHING

    def _grow(self, nodes: int, edges: int, rows: int) -> None:
        larger = self._rules._replace(
            node_room=nodes, edge_room=max(edges, self._rules.edge_room), row_room=max(rows, self._rules.row_room)
        )
        check_memory(len(self._tags), larger)
        leaf = self._leaves.leaf  # the leaves that wait for their evaluation in this round move, too
        leaf[:, 1] += leaf[:, 0] * (nodes - self._rules.node_room)
        self._trees, self._rules = layout.grown(self._trees, self._rules, larger), larger


def forest_bytes(trees: int, nodes: int, params: SearchParams | None = None) -> int:
    """Memory in bytes of a forest whose trees have room for `nodes` visits each."""
    return trees * layout.tree_bytes(layout.make_rules(params or SearchParams(), nodes))


def check_memory(trees: int, rules: SearchRules) -> None:
    """Raises UsageError when a forest does not fit in memory or in the indices of 32 bits."""
    needed, memory = trees * layout.tree_bytes(rules), _memory()
    if (memory is not None and needed > memory) or trees * rules.edge_room >= _MOST_EDGES:
        by_memory = memory / needed if memory is not None else math.inf
        most = min(by_memory, _MOST_EDGES / (trees * rules.edge_room)) * (rules.node_room - 1)
        available = f"this machine has {memory / 2**30:.1f}: " if memory is not None else ""
        raise UsageError(
            f"{rules.node_room - 1:,} nodes in {trees} trees need {needed / 2**30:.1f} GiB of memory; {available}"
            f"at most about {int(0.9 * most):,} nodes"
        )


def _memory() -> int | None:
    """This machine's memory in bytes; None where the system does not say (Windows)."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None


def play(position: Position) -> tuple[Boards, bool]:
    """The game of a position as boards with repetitions marked, and whether it begins with the initial position.

    Raises ValueRepairError for an illegal position or move, and where the game is over.
    """
    error = position.start_fen != STARTPOS_FEN and status_error(position.start_fen)
    if error:
        raise ValueRepairError(f"{position.start_fen}: {error}")
    start = parse_fens([position.start_fen])
    try:
        moves = encode_moves(position.moves)
        last = replay(start, moves, np.array([0, len(moves)], np.int64))
    except ValueError as illegal:
        raise ValueRepairError(f"{position.uci}: {illegal}") from None
    choices = len(legal_moves(last)[0])
    if choices == 0:
        ending = "checkmate" if in_check(last)[0] else "stalemate"
        raise ValueRepairError(f"{position.fen}: the game is over: {ending}")
    if choices > layout.MOST_MOVES:
        raise ValueRepairError(
            f"{position.fen}: {choices} legal moves; no position of a game has more than {layout.MOST_MOVES}"
        )
    return play_game(start, moves), bool(is_initial(start)[0])


def seed_of(seed: int, game: Boards) -> int:
    """The seed of a tree: it depends on the search's seed and the position, not on the forest's other trees."""
    word = np.uint64(seed) ^ keys(game[-1:])[0]
    return int(np.uint64(random_word(word)).astype(np.int64))


def add_noise(trees: Trees, tree: int, root: int, params: SearchParams) -> None:
    """P = (1 - epsilon) P + epsilon * Dir(alpha) for an expanded root without visited moves.

    Seeded by the tree's own random state, which depends on the search's seed and the position only.
    """
    first, count = trees.nodes[root, [layout.FIRST, layout.COUNT]].tolist()
    draws = np.random.default_rng(abs(int(trees.slots[tree, layout.RANDOM]))).gamma(params.noise_alpha, 1.0, count)
    total = draws.sum()
    if total < np.finfo(np.float32).tiny:
        return
    priors = trees.prior[first : first + count]
    priors[:] = priors * (1 - params.noise_epsilon) + params.noise_epsilon * draws / total
    trees.nodes[root, layout.ARRANGED] = 0


def warm_up(evaluator: LeafEvaluator, params: SearchParams) -> None:
    """Compiles or loads all kernels that searches need; logs if it has to compile them.

    An empty file beside the compiled kernels records that they exist.
    """
    mark = None if CACHE_FOLDER is None else CACHE_FOLDER / f"searched-{sys.implementation.cache_tag}"
    if mark is None or not mark.exists():
        again = "; there is no cache folder, so every start does it again" if mark is None else ", only this once"
        log.info(f"compiling the search for this machine, which takes about a minute{again}")
    _call_kernels(evaluator, params)
    if mark is not None:
        with suppress(OSError):
            mark.touch()


def _call_kernels(evaluator: LeafEvaluator, params: SearchParams) -> None:
    """Calls every kernel that a search can call: any other kernel would be compiled in the middle of a game."""
    forest = Forest(evaluator, params, trees=1, nodes=2)
    slot = forest.add(read_position("startpos moves e2e4"), 2)
    while not forest.is_done(slot):
        forest.play_round()
    forest.result(slot)
    forest.go_on(slot, 2)
    solved(forest._trees, 0)  # after proofs
