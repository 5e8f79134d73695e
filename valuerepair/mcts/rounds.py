"""One round of a forest, as kernels: every tree requests the evaluation of a leaf, then receives it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.jit import inlined_kernel, kernel
from valuerepair.chess.movegen import MAX_MOVES
from valuerepair.mcts import layout
from valuerepair.mcts.backup import F1, back_up, begin_visit
from valuerepair.mcts.evaluator import Evaluations
from valuerepair.mcts.expand import extend, force, set_priors
from valuerepair.mcts.layout import SearchRules, Trees
from valuerepair.mcts.select import ALL_PROVEN, NO_NODES, NO_ROWS, descend, new_node, step_down
from valuerepair.nets.planes import CANONICAL, PLANES, canonical_transform, write_masks
from valuerepair.nets.policy import policy_index

LONGEST_CHAIN = 32  # forced moves in a row that are one state


class RoundLeaves(NamedTuple):
    """The leaves of a round: `Leaves` with room for n rows, and int64[n, 3] of tree, node and depth."""

    masks: NDArray[np.uint64]
    rule50: NDArray[np.float32]
    indices: NDArray[np.uint16]
    offsets: NDArray[np.int64]
    leaf: NDArray[np.int64]


def empty_round(rows: int) -> RoundLeaves:
    """Memory for the leaves of a round."""
    return RoundLeaves(
        np.zeros((rows, PLANES), np.uint64),
        np.zeros(rows, np.float32),
        np.zeros(rows * MAX_MOVES, np.uint16),
        np.zeros(rows + 1, np.int64),
        np.zeros((rows, 3), np.int64),
    )


@inlined_kernel
def write_leaf(trees: Trees, rules: SearchRules, tree: int, node: int, depth: int, leaves: RoundLeaves, n: int) -> None:
    """Writes a leaf, whose moves are written already, as row n of the round."""
    row = trees.slots[tree, layout.ROOT_ROW] + depth
    first_row, initial = trees.slots[tree, layout.FIRST_ROW], trees.slots[tree, layout.INITIAL] != 0
    leaves.rule50[n] = write_masks(trees.rows, first_row, row, initial, rules.form, leaves.masks, n)
    transform = canonical_transform(trees.rows, row) if rules.form >= CANONICAL else 0
    first, begin = trees.nodes[node, layout.FIRST], leaves.offsets[n]
    for i in range(trees.nodes[node, layout.COUNT]):
        leaves.indices[begin + i] = policy_index(trees.rows, row, np.int64(trees.move[first + i]), transform)
    leaves.offsets[n + 1] = begin + trees.nodes[node, layout.COUNT]
    trees.slots[tree, layout.REQUESTED] += 1
    leaves.leaf[n, 0], leaves.leaf[n, 1], leaves.leaf[n, 2] = tree, node, depth
    if rules.batch > 1:
        begin_visit(trees, node)


@inlined_kernel
def lacks_room(trees: Trees, rules: SearchRules, tree: int) -> bool:
    """Whether a tree has no room for the moves of one more leaf, or for a chain of forced moves; sets its state."""
    chain = LONGEST_CHAIN if rules.auto_extend else 0
    if trees.slots[tree, layout.USED_EDGES] + MAX_MOVES + chain > rules.edge_room:
        trees.slots[tree, layout.STATE] = layout.NEEDS_EDGES
        return True
    if chain and trees.slots[tree, layout.USED_NODES] + 1 + chain > rules.node_room:
        trees.slots[tree, layout.STATE] = layout.NEEDS_NODES
        return True
    return False


@inlined_kernel
def wants_visit(trees: Trees, rules: SearchRules, tree: int) -> bool:
    """The tree needs one more visit than those in flight."""
    root = tree * rules.node_room
    pending = trees.nodes[root, layout.PENDING]
    if trees.slots[tree, layout.STATE] != layout.SEARCHING:
        return False
    return bool(pending == 0 or trees.nodes[root, layout.VISITS] + pending < trees.slots[tree, layout.LIMIT])


@kernel
def extend_chain(trees: Trees, rules: SearchRules, tree: int, node: int, depth: int) -> tuple[int, int]:
    """Follows single legal moves from an extended leaf to the first position with a choice; returns its node and depth.

    A chain also ends where the game ends.
    """
    for _ in range(LONGEST_CHAIN):
        if trees.nodes[node, layout.KIND] != layout.OPEN or trees.nodes[node, layout.COUNT] != 1 or depth == 0:
            break
        edge = np.int64(trees.nodes[node, layout.FIRST])
        force(trees, node)
        step_down(trees, tree, edge, trees.slots[tree, layout.ROOT_ROW] + depth)
        node, depth = new_node(trees, rules, tree, node, edge), depth + 1
        extend(trees, rules, tree, node, depth)
    return node, depth


@inlined_kernel
def pick_leaf(trees: Trees, rules: SearchRules, tree: int, leaves: RoundLeaves, n: int) -> bool:
    """Visits a tree until a leaf needs the net, and writes it as row n; False if no leaf does (the state says why).

    Visits that end in settled nodes are counted on the way.
    """
    while wants_visit(trees, rules, tree) and not lacks_room(trees, rules, tree):
        node, depth = descend(trees, rules, tree)
        # With visits in flight the moves may only seem proven: the bounds of these visits are not spread yet.
        if node == ALL_PROVEN and trees.nodes[tree * rules.node_room, layout.PENDING] == 0:
            trees.slots[tree, layout.STATE] = layout.DONE
        elif node == NO_NODES:
            trees.slots[tree, layout.STATE] = layout.NEEDS_NODES
        elif node == NO_ROWS:
            trees.slots[tree, layout.STATE] = layout.NEEDS_ROWS
        if node < 0:
            return False
        if trees.nodes[node, layout.KIND] == layout.OPEN:
            extend(trees, rules, tree, node, depth)
            if rules.auto_extend:
                node, depth = extend_chain(trees, rules, tree, node, depth)
        if trees.nodes[node, layout.KIND] == layout.OPEN:
            write_leaf(trees, rules, tree, node, depth, leaves, n)
            return True
        visit_settled(trees, rules, tree, node, depth)
    return False


@inlined_kernel
def visit_settled(trees: Trees, rules: SearchRules, tree: int, node: int, depth: int) -> None:
    """Counts a visit that ends in a settled node."""
    if rules.batch > 1:
        begin_visit(trees, node)
    means = trees.means
    value = (
        np.float32(means[node, layout.WL]),
        np.float32(means[node, layout.DRAW]),
        np.float32(means[node, layout.LEFT]),
    )
    back_up(trees, rules, tree, node, depth, value)


@kernel
def gather(trees: Trees, rules: SearchRules, leaves: RoundLeaves, n: int) -> tuple[int, bool]:
    """Adds a leaf (several with virtual visits) of every tree without one in this round as rows n, n + 1, ...

    Returns the new n, and whether a tree needs something first (its state says what). The round begins with n = 0.
    """
    lacking, begins = False, n == 0
    for tree in range(len(trees.slots)):
        if begins:
            trees.slots[tree, layout.REQUESTED] = 0
        while trees.slots[tree, layout.REQUESTED] < rules.batch and pick_leaf(trees, rules, tree, leaves, n):
            n += 1
        if trees.slots[tree, layout.STATE] >= layout.NEEDS_NODES:
            lacking = True
        else:
            trees.slots[tree, layout.REQUESTED] = rules.batch  # no more leaves, even if other trees need another call
    return n, lacking


@kernel
def set_own_value(trees: Trees, node: int, own: float, draw: np.float32, plies_left: np.float32) -> None:
    """Stores the net's value of a node, which is also that of the chain of forced moves that leads there."""
    drawn, plies = (
        np.int64(draw * np.float64(layout.DRAW_UNIT)),
        min(np.float64(plies_left), np.float64(layout.MOST_LEFT)),
    )
    while True:
        trees.means[node, layout.OWN], trees.nodes[node, layout.OWN_DRAW] = own, drawn
        trees.nodes[node, layout.OWN_LEFT] = np.int64(plies * layout.LEFT_UNIT)
        node = np.int64(trees.nodes[node, layout.PARENT])
        if node < 0 or not trees.nodes[node, layout.FORCED]:
            break
        own, plies = -own, min(plies + 1, np.float64(layout.MOST_LEFT))


@inlined_kernel
def keep_policy(trees: Trees, tree: int, root: int) -> None:
    """Stores the net's priors of a root, before noise and proofs change them."""
    first, count = trees.nodes[root, layout.FIRST], trees.nodes[root, layout.COUNT]
    for i in range(count):
        trees.policy[tree, i], trees.policy_move[tree, i] = trees.prior[first + i], trees.move[first + i]
    trees.slots[tree, layout.POLICY] = count


@inlined_kernel
def scaled(rules: SearchRules, q: np.float32, draw: np.float32) -> tuple[np.float32, np.float32]:
    """The net's Q and share of draws on the scale of the search; the share of draws is at most 1 - |Q|."""
    if rules.q_scale == F1:
        return q, draw
    q = min(max(q * rules.q_scale, -F1), F1)
    return q, min(draw, F1 - abs(q))


@kernel
def absorb(trees: Trees, rules: SearchRules, leaves: RoundLeaves, n: int, answers: Evaluations) -> bool:
    """Gives the n leaves of a round their evaluations and backs them up in their trees; True if a tree is done."""
    q, d, m, logits = answers
    for i in range(n):
        tree, node, depth = leaves.leaf[i, 0], leaves.leaf[i, 1], leaves.leaf[i, 2]
        set_priors(trees, rules, node, logits, leaves.offsets[i])
        value, draw = scaled(rules, q[i], d[i])
        set_own_value(trees, node, -np.float64(value), draw, m[i])
        if depth == 0:
            keep_policy(trees, tree, node)
        trees.slots[tree, layout.EVALUATIONS] += 1
        back_up(trees, rules, tree, node, depth, (-value, draw, m[i]))
    done = False
    for tree in range(len(trees.slots)):
        done = done or trees.slots[tree, layout.STATE] == layout.DONE
    return done
