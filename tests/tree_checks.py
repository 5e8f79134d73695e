"""What holds in every tree of a search, whatever its options: checked node by node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from valuerepair.chess.make import black_to_move
from valuerepair.mcts import layout
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.layout import SearchRules, Trees


@contextmanager
def checked_rounds() -> Iterator[None]:
    """Forests check all their trees after every round."""
    play_round = Forest.play_round

    def checked(forest: Forest) -> bool:
        done = play_round(forest)
        check_trees(forest._trees, forest._rules)
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Forest, "play_round", checked)
        yield


class BrokenTree(AssertionError):
    """A tree that no search can make: a defect of this program."""


def check_trees(trees: Trees, rules: SearchRules) -> None:
    """Raises BrokenTree at the first node that breaks an invariant. No leaf may be waiting for its evaluation."""
    for tree in np.flatnonzero(trees.slots[:, layout.STATE] != layout.FREE).tolist():
        first = tree * rules.node_room
        used = int(trees.slots[tree, layout.USED_NODES])
        if used < 1 or used > rules.node_room or trees.slots[tree, layout.USED_EDGES] > rules.edge_room:
            raise BrokenTree(f"tree {tree}: {used} nodes in a room of {rules.node_room}")
        for node in range(first, first + used):
            if trees.nodes[node, layout.VISITS] or node > first:
                _check_node(trees, rules, tree, node)


def _draw_score(trees: Trees, rules: SearchRules, tree: int, node: int) -> float:
    """What a draw is worth to the player who moved to a node."""
    black = black_to_move(trees.rows, trees.slots[tree, layout.ROOT_ROW])
    while trees.nodes[node, layout.PARENT] >= 0:
        node, black = int(trees.nodes[node, layout.PARENT]), not black
    return float(rules.draw_score) if black else -float(rules.draw_score)


def _check_node(trees: Trees, rules: SearchRules, tree: int, node: int) -> None:
    root = tree * rules.node_room
    row = trees.nodes[node].tolist()
    first, count, opened, visits = row[layout.FIRST], row[layout.COUNT], row[layout.OPENED], row[layout.VISITS]
    kind, lower, upper = row[layout.KIND], row[layout.LOWER], row[layout.UPPER]
    wl, draw = trees.means[node, [layout.WL, layout.DRAW]].tolist()
    edges = range(first, first + opened)

    def must(holds: bool, what: str) -> None:
        if not holds:
            raise BrokenTree(f"tree {tree}, node {node - root}: {what}; {dict(enumerate(row))}, {wl=}, {draw=}")

    must(0 <= opened <= count, "opened edges")
    must(row[layout.PENDING] == 0, "virtual visits left")
    must(-1 <= lower <= upper <= 1, "bounds")
    must(abs(wl) <= 1 + 1e-5 and -1e-5 <= draw <= 1 + 1e-5 and abs(wl) + draw <= 1 + 1e-4, "value")
    if node > root:
        parent, edge = row[layout.PARENT], row[layout.EDGE]
        must(root <= parent < node, "parent")
        must(
            trees.nodes[parent, layout.FIRST]
            <= edge
            < trees.nodes[parent, layout.FIRST] + trees.nodes[parent, layout.OPENED],
            "own edge",
        )
        must(int(trees.child[edge]) == node and int(trees.visits[edge]) == visits, "own edge's child or visits")
        worth = wl + _draw_score(trees, rules, tree, node) * draw
        must(visits == 0 or abs(float(trees.q[edge]) - worth) < 1e-5, "own edge's value")
        if len(trees.certain):
            proof = layout.UNPROVEN if kind in (layout.OPEN, layout.TWO_FOLD) else round(wl)
            must(int(trees.certain[edge]) == proof or visits == 0, "own edge's proof")
    if kind != layout.OPEN:
        must(kind == layout.TWO_FOLD or lower == upper == round(wl), "bounds of a settled node")
        must(wl in (-1.0, 0.0, 1.0) and draw == float(wl == 0), "value of a settled node")
        must(node != root, "the root is settled")
        return
    below = int(sum(trees.visits[first:][:opened].tolist())) if opened else 0
    own = 0 if row[layout.FORCED] else 1
    must(visits == 0 or visits == below + own, f"visits: {below} below")
    priors = trees.prior[first : first + opened]
    unproven = [
        p
        for e, p in zip(edges, priors.tolist(), strict=True)
        if trees.nodes[trees.child[e], layout.KIND] == layout.OPEN
    ]
    must(unproven == sorted(unproven, reverse=True), "order of the opened edges")
    children = [int(trees.child[e]) for e in edges]
    best_lower = max((int(trees.nodes[c, layout.LOWER]) for c in children), default=-1)
    must(not rules.sticky or node == root or -upper >= best_lower or lower == upper, "bound below that of a move")
    if visits and (row[layout.FORCED] or not np.isnan(trees.means[node, layout.OWN])):
        total = 0.0 if row[layout.FORCED] else trees.means[node, layout.OWN]
        mean = (total - sum(trees.means[c, layout.WL] * trees.nodes[c, layout.VISITS] for c in children)) / visits
        if rules.certainty:
            mean = min(max(mean, lower), upper)
        must(abs(mean - wl) < 1e-3, f"mean of the values below: {mean}")
