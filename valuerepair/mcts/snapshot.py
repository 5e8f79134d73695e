"""A searched tree as a list of nodes, for people and programs to look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Moves
from valuerepair.chess.make import black_to_move
from valuerepair.chess.positions import decode_move
from valuerepair.chess.rows import FLIP
from valuerepair.mcts import layout
from valuerepair.mcts.layout import SearchRules, Trees
from valuerepair.mcts.outcome import LOST, own_policy
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import NAN, Value

KINDS = {layout.OPEN: "open", layout.ENDED: "proven", layout.TABLEBASE: "tablebase", layout.TWO_FOLD: "repetition"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A position of the tree, reached by `move` (UCI) from the node `parent`, a number in the list of nodes.

    Values are seen by the player who made the move, as lc0 shows them; those of the root, which no move led to (`move`
    is empty, `parent` None), by the player to move. `visits` N; `prior` P, for a move of the root the net's own, else
    the one that the search uses, NaN where it is lost (a move proven to lose); `q` = wl + draw score * d, `wl` and `d`
    are means over all visits, the node's own value included, `m` the mean of the plies to the end. `net_q` is the net's
    own value, with the draw score, too, NaN where the net did not evaluate the node. `lower` and `upper` are proven
    bounds on the value of the game's end. `kind` is open; proven, where the bounds are equal; tablebase, where a table
    gave them; repetition, worth a draw without proof. Bounds and kind of the root are those of its moves; its means
    stay means. `forced` is a position with a single move, which the net did not evaluate (auto-extend). `sampled`:
    search-contempt froze this position, and draws its further visits; `frozen` are the visits that the move had when
    the position before it was frozen, None if it was not. `moves` is the number of moves that are searched: the legal
    ones, at the root those that tables left; 0 where the game, or the search of it, ends.
    """

    parent: int | None
    move: str
    depth: int
    visits: int = 0
    prior: float
    q: float
    wl: float
    d: float
    m: float = 0.0
    net_q: float = NAN
    lower: int
    upper: int
    kind: str
    forced: bool = False
    sampled: bool = False
    frozen: int | None
    moves: int = 0

    @property
    def wdl(self) -> tuple[float, float, float]:
        """Win, draw and loss probabilities."""
        return Value(self.q, self.wl, self.d, self.m).wdl


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The `nodes` of a tree in the order of their first visits, the root first; `size` is the number of all its nodes.

    After the nodes come those of their moves that look-ahead proved before any visit. `params` are the search's.
    """

    nodes: tuple[TreeNode, ...]
    size: int
    params: SearchParams


def read_snapshot(trees: Trees, rules: SearchRules, params: SearchParams, tree: int, most: int) -> Snapshot:
    """The most visited nodes of a tree whose root has a visit, at most `most`; of equal visits, the earlier nodes."""
    root = tree * rules.node_room
    visits = trees.nodes[root : root + int(trees.slots[tree, layout.USED_NODES]), layout.VISITS]
    # A node comes before the nodes below it and has no fewer visits: so the nodes above a chosen node are chosen, too.
    chosen = np.sort(np.argsort(-visits, kind="stable")[:most])
    chosen = root + chosen[visits[chosen] > 0]
    reader = _TreeReader(trees, rules, tree, {int(node): i for i, node in enumerate(chosen)})
    nodes = [reader.node(int(node)) for node in chosen]
    if len(trees.certain):
        nodes += [proven for i, node in enumerate(chosen) for proven in reader.looked_ahead(int(node), nodes[i].depth)]
    return Snapshot(tuple(nodes), int((visits > 0).sum()), params)


def evaluated_nodes(trees: Trees, rules: SearchRules, tree: int) -> NDArray[np.int64]:
    """The nodes below the root that the net evaluated, in the order of their first visits."""
    root = tree * rules.node_room
    used = slice(root, root + int(trees.slots[tree, layout.USED_NODES]))
    nodes, own = trees.nodes[used], trees.means[used, layout.OWN]
    evaluated = (
        (nodes[:, layout.VISITS] > 0)
        & (nodes[:, layout.OWN_LEFT] >= 0)
        & (nodes[:, layout.FORCED] == 0)
        & ~np.isnan(own)
    )
    evaluated[0] = False
    return root + np.flatnonzero(evaluated)


def read_evaluated_line(trees: Trees, rules: SearchRules, tree: int, number: int) -> Moves | None:
    """The moves from the root to the `number`-th (from 1) of `evaluated_nodes`; None without it."""
    evaluated = evaluated_nodes(trees, rules, tree)
    if len(evaluated) < number:
        return None
    node, root = int(evaluated[number - 1]), tree * rules.node_room
    line = list[int]()
    while node != root:
        line.append(int(trees.move[trees.nodes[node, layout.EDGE]]))
        node = int(trees.nodes[node, layout.PARENT])
    black = int(black_to_move(trees.rows, trees.slots[tree, layout.ROOT_ROW]))
    turned = [move ^ FLIP * ((black + depth) & 1) for depth, move in enumerate(reversed(line))]
    return np.array(turned, np.uint16)


class _TreeReader:
    def __init__(self, trees: Trees, rules: SearchRules, tree: int, numbers: dict[int, int]) -> None:
        self.trees, self.numbers, self.root = trees, numbers, tree * rules.node_room
        self.black = int(black_to_move(trees.rows, trees.slots[tree, layout.ROOT_ROW]))
        self.draw_score = -float(rules.draw_score) if self.black else float(rules.draw_score)
        first, count = trees.nodes[self.root, [layout.FIRST, layout.COUNT]].tolist()
        edges = range(first, first + count)
        self.policy: dict[int, float] = dict(zip(edges, own_policy(trees, tree, np.array(edges)), strict=True))
        self.depths: dict[int, int] = {self.root: 0}

    def node(self, node: int) -> TreeNode:
        row, (wl, d, m, own) = self.trees.nodes[node].tolist(), self.trees.means[node].tolist()
        parent, edge = row[layout.PARENT], row[layout.EDGE]
        is_root = node == self.root
        depth = self.depths[node] = 0 if is_root else self.depths[parent] + 1
        if is_root:
            wl, own = -wl, -own
        lower, upper, kind = (
            self._root_bounds() if is_root else (row[layout.LOWER], row[layout.UPPER], row[layout.KIND])
        )
        evaluated = row[layout.OWN_LEFT] >= 0 and not row[layout.FORCED] and own == own
        return TreeNode(
            parent=None if is_root else self.numbers[parent],
            move="" if is_root else self._move(edge, depth),
            depth=depth,
            visits=row[layout.VISITS],
            prior=NAN if is_root else self._prior(edge),
            q=wl + self._worth_of_draw(depth) * d,
            wl=wl,
            d=d,
            m=m,
            net_q=own + self._worth_of_draw(depth) * row[layout.OWN_DRAW] / layout.DRAW_UNIT if evaluated else NAN,
            lower=lower,
            upper=upper,
            kind=KINDS[kind],
            forced=bool(row[layout.FORCED]),
            sampled=row[layout.FROZEN] > 0,
            frozen=None if is_root else self._frozen(parent, edge),
            moves=row[layout.COUNT],
        )

    def looked_ahead(self, node: int, depth: int) -> Iterator[TreeNode]:
        """The moves of a node of this depth that are proven and have no visit."""
        first, count, opened = self.trees.nodes[node, [layout.FIRST, layout.COUNT, layout.OPENED]].tolist()
        for edge in range(first, first + count):
            value, visited = int(self.trees.certain[edge]), edge < first + opened and self.trees.visits[edge] > 0
            if visited or value == layout.UNPROVEN:
                continue
            d = float(value == 0)
            yield TreeNode(
                parent=self.numbers[node],
                move=self._move(edge, depth + 1),
                depth=depth + 1,
                prior=self._prior(edge),
                q=value + self._worth_of_draw(depth + 1) * d,
                wl=float(value),
                d=d,
                lower=value,
                upper=value,
                kind=KINDS[layout.ENDED],
                frozen=self._frozen(node, edge),
            )

    def _root_bounds(self) -> tuple[int, int, int]:
        """Bounds and kind of the root from its moves, as the search itself never settles the root."""
        trees = self.trees
        first, count, opened = trees.nodes[self.root, [layout.FIRST, layout.COUNT, layout.OPENED]].tolist()
        moves = []
        for edge in range(first, first + count):
            proven = int(trees.certain[edge]) if len(trees.certain) else layout.UNPROVEN
            if edge < first + opened and trees.visits[edge] > 0:
                moves.append(trees.nodes[trees.child[edge], [layout.LOWER, layout.UPPER, layout.KIND]].tolist())
            else:
                moves.append([-1, 1, layout.OPEN] if proven == layout.UNPROVEN else [proven, proven, layout.ENDED])
        lower, upper = max(low for low, _, _ in moves), max(high for _, high, _ in moves)
        if lower < upper:
            return lower, upper, layout.OPEN
        return lower, upper, layout.ENDED if [lower, upper, layout.ENDED] in moves else layout.TABLEBASE

    def _worth_of_draw(self, depth: int) -> float:
        """What a draw is worth to the player who moved to a node of this depth; at the root to the player to move."""
        return self.draw_score if depth == 0 or depth & 1 else -self.draw_score

    def _move(self, edge: int, depth: int) -> str:
        """A move that leads to a node of this depth, on the squares of the board."""
        turn = FLIP * ((self.black + depth - 1) & 1)
        return decode_move(int(self.trees.move[edge]) ^ turn)

    def _prior(self, edge: int) -> float:
        if edge in self.policy:
            return self.policy[edge]
        prior = float(self.trees.prior[edge])
        return prior if prior > LOST else NAN

    def _frozen(self, parent: int, edge: int) -> int | None:
        first, frozen = self.trees.nodes[parent, [layout.FIRST, layout.FROZEN]].tolist()
        if not frozen:
            return None
        return int(self.trees.frozen[edge]) if edge < first + frozen else 0
