"""The invariants of a forest, checked at every node after every round of a search with `self_check`."""

from __future__ import annotations

import numpy as np

from valuerepair.board.make import black_to_move
from valuerepair.mcts.tree import (
    COUNT,
    DRAW,
    EDGE,
    FIRST,
    FORCED,
    FREE,
    KIND,
    LOWER,
    OPEN,
    OPENED,
    OWN,
    PARENT,
    PENDING,
    ROOT_ROW,
    STATE,
    TWO_FOLD,
    UNPROVEN,
    UPPER,
    USED_EDGES,
    USED_NODES,
    VISITS,
    WL,
    Rules,
    Trees,
)


class BrokenTree(AssertionError):
    """A tree that no search can make: a defect of this program."""


def check_trees(trees: Trees, rules: Rules) -> None:
    """Raises BrokenTree at the first node that breaks an invariant. No leaf may be waiting for its evaluation."""
    for tree in np.flatnonzero(trees.slots[:, STATE] != FREE).tolist():
        first = tree * rules.node_room
        used = int(trees.slots[tree, USED_NODES])
        if used < 1 or used > rules.node_room or trees.slots[tree, USED_EDGES] > rules.edge_room:
            raise BrokenTree(f"tree {tree}: {used} nodes in a room of {rules.node_room}")
        for node in range(first, first + used):
            if trees.nodes[node, VISITS] or node > first:
                _check_node(trees, rules, tree, node)


def _draw_score(trees: Trees, rules: Rules, tree: int, node: int) -> float:
    """What a draw is worth to the player who moved to a node."""
    black = black_to_move(trees.rows, trees.slots[tree, ROOT_ROW])
    while trees.nodes[node, PARENT] >= 0:
        node, black = int(trees.nodes[node, PARENT]), not black
    return float(rules.draw_score) if black else -float(rules.draw_score)


def _check_node(trees: Trees, rules: Rules, tree: int, node: int) -> None:
    root = tree * rules.node_room
    row = trees.nodes[node].tolist()
    first, count, opened, visits = row[FIRST], row[COUNT], row[OPENED], row[VISITS]
    kind, lower, upper = row[KIND], row[LOWER], row[UPPER]
    wl, draw = trees.means[node, [WL, DRAW]].tolist()
    edges = range(first, first + opened)

    def must(holds: bool, what: str) -> None:
        if not holds:
            raise BrokenTree(f"tree {tree}, node {node - root}: {what}; {dict(enumerate(row))}, {wl=}, {draw=}")

    must(0 <= opened <= count, "opened edges")
    must(row[PENDING] == 0, "virtual visits left")
    must(-1 <= lower <= upper <= 1, "bounds")
    must(abs(wl) <= 1 + 1e-5 and -1e-5 <= draw <= 1 + 1e-5 and abs(wl) + draw <= 1 + 1e-4, "value")
    if node > root:
        parent, edge = row[PARENT], row[EDGE]
        must(root <= parent < node, "parent")
        must(trees.nodes[parent, FIRST] <= edge < trees.nodes[parent, FIRST] + trees.nodes[parent, OPENED], "own edge")
        must(int(trees.child[edge]) == node and int(trees.visits[edge]) == visits, "own edge's child or visits")
        worth = wl + _draw_score(trees, rules, tree, node) * draw
        must(visits == 0 or abs(float(trees.q[edge]) - worth) < 1e-5, "own edge's value")
        if len(trees.certain):
            proof = UNPROVEN if kind in (OPEN, TWO_FOLD) else round(wl)
            must(int(trees.certain[edge]) == proof or visits == 0, "own edge's proof")
    if kind != OPEN:
        must(kind == TWO_FOLD or lower == upper == round(wl), "bounds of a settled node")
        must(wl in (-1.0, 0.0, 1.0) and draw == float(wl == 0), "value of a settled node")
        must(node != root, "the root is settled")
        return
    below = int(sum(trees.visits[first:][:opened].tolist())) if opened else 0
    own = 0 if row[FORCED] else 1
    must(visits == 0 or visits == below + own, f"visits: {below} below")
    priors = trees.prior[first : first + opened]
    unproven = [p for e, p in zip(edges, priors.tolist(), strict=True) if trees.nodes[trees.child[e], KIND] == OPEN]
    must(unproven == sorted(unproven, reverse=True), "order of the opened edges")
    children = [int(trees.child[e]) for e in edges]
    best_lower = max((int(trees.nodes[c, LOWER]) for c in children), default=-1)
    must(not rules.sticky or node == root or -upper >= best_lower or lower == upper, "bound below that of a move")
    if visits and (row[FORCED] or not np.isnan(trees.means[node, OWN])):
        total = 0.0 if row[FORCED] else trees.means[node, OWN]
        mean = (total - sum(trees.means[c, WL] * trees.nodes[c, VISITS] for c in children)) / visits
        if rules.certainty:
            mean = min(max(mean, lower), upper)
        must(abs(mean - wl) < 1e-3, f"mean of the values below: {mean}")
