"""The way back from a leaf to the root, as kernels: means of values, and bounds that spread by minimax."""

from __future__ import annotations

import numpy as np

from valuerepair.board.jit import inlined_kernel
from valuerepair.board.make import black_to_move
from valuerepair.mcts.expand import settle
from valuerepair.mcts.tree import (
    COUNT,
    DEEPEST,
    DEPTHS,
    DONE,
    DRAW,
    EDGE,
    ENDED,
    FIRST,
    KIND,
    LEAVES,
    LEFT,
    LIMIT,
    LOWER,
    OPEN,
    OPENED,
    PARENT,
    PENDING,
    ROOT_ROW,
    STATE,
    TABLEBASE,
    UNPROVEN,
    UPPER,
    VISITS,
    WL,
    Rules,
    Trees,
)

F0, F1 = np.float32(0), np.float32(1)


@inlined_kernel
def add_visit(trees: Trees, node: int, wl: np.float32, draw: np.float32, left: np.float32) -> None:
    """One more visit in the running means (lc0's FinalizeScoreUpdate)."""
    visits = trees.nodes[node, VISITS] + 1
    trees.means[node, WL] += (np.float64(wl) - trees.means[node, WL]) / np.float64(visits)
    before = np.float32(trees.means[node, DRAW])
    trees.means[node, DRAW] = np.float32(before + (draw - before) / np.float32(visits))
    before = np.float32(trees.means[node, LEFT])
    trees.means[node, LEFT] = np.float32(before + (left - before) / np.float32(visits))
    trees.nodes[node, VISITS] = visits


@inlined_kernel
def revalue(trees: Trees, node: int, wl: np.float32, draw: np.float32, left: np.float32, visits: int) -> None:
    """Corrects the means for `visits` visits below whose value has changed by so much (lc0's AdjustForTerminal)."""
    total, n = trees.nodes[node, VISITS], np.float32(visits)
    trees.means[node, WL] += np.float64(n * wl / np.float32(total))
    trees.means[node, DRAW] = np.float32(np.float32(trees.means[node, DRAW]) + n * draw / np.float32(total))
    trees.means[node, LEFT] = np.float32(np.float32(trees.means[node, LEFT]) + n * left / np.float32(total))


@inlined_kernel
def refresh_edge(trees: Trees, node: int, draw_score: np.float32) -> None:
    """Brings what the edge to a node says up to date; `draw_score` is that of the player who moved there."""
    edge = trees.nodes[node, EDGE]
    drawn = np.float32(draw_score * np.float32(trees.means[node, DRAW]))
    trees.visits[edge] = trees.nodes[node, VISITS]
    trees.q[edge] = np.float32(trees.means[node, WL] + np.float64(drawn))


@inlined_kernel
def spread_bounds(trees: Trees, rules: Rules, node: int, left: np.float32) -> tuple[bool, bool]:
    """Bounds of a node from those of its moves (lc0's MaybeSetBounds).

    Returns whether they say anything, and whether they settled the node. `left` are the plies to the end after the move
    that was just proven.
    """
    lower, upper, longest, by_tables = -1, -1, F0, False
    first, opened, count = trees.nodes[node, FIRST], trees.nodes[node, OPENED], trees.nodes[node, COUNT]
    for edge in range(first, first + opened):
        child = trees.child[edge]
        kind, low, high = trees.nodes[child, KIND], trees.nodes[child, LOWER], trees.nodes[child, UPPER]
        lower, upper = max(lower, low), max(upper, high)
        if low == 1 and kind != TABLEBASE:
            by_tables = False
            break
        if high == -1:
            longest = max(longest, np.float32(trees.means[child, LEFT]))
        by_tables = by_tables or kind == TABLEBASE
    if lower < 1 and len(trees.certain):
        for edge in range(first + opened, first + count):
            proven = trees.certain[edge]
            lower = max(lower, -1 if proven == UNPROVEN else proven)
            upper = max(upper, 1 if proven == UNPROVEN else proven)
    elif lower < 1 and count > opened:
        upper = 1
    if lower == -1 and upper == 1:
        return False, False
    if lower == 1:
        upper = 1
    if lower == upper:
        plies = max(longest, left) if upper == -1 else left
        settle(trees, node, TABLEBASE if by_tables else ENDED, -upper, plies + F1)
        return True, True
    trees.nodes[node, LOWER], trees.nodes[node, UPPER] = -upper, -lower
    return True, False


@inlined_kernel
def solved(trees: Trees, root: int) -> bool:
    """A move of the root is proven a win, or all of them are proven."""
    first, all_proven = trees.nodes[root, FIRST], True
    for edge in range(first, first + trees.nodes[root, COUNT]):
        if trees.certain[edge] == 1:
            return True
        all_proven = all_proven and trees.certain[edge] != UNPROVEN
    return all_proven


@inlined_kernel
def back_up(
    trees: Trees, rules: Rules, tree: int, leaf: int, depth: int, wl: np.float32, draw: np.float32, left: np.float32
) -> None:
    """Adds a visit with this value to a leaf and all nodes above it (lc0's DoBackupUpdateSingleNode).

    `wl` is seen by the player who moved to the leaf. The first visit of a proven node spreads bounds upwards; a node
    that they settle has its earlier visits valued anew in every node above. The tree is `DONE` when its root has the
    visits it may have, or with certainty when its value is proven.
    """
    root, node = tree * rules.node_room, leaf
    bounded = trees.nodes[leaf, KIND] != OPEN or trees.nodes[leaf, LOWER] > -1 or trees.nodes[leaf, UPPER] < 1
    spreading = rules.sticky and trees.nodes[leaf, VISITS] == 0 and bounded
    black_moved = bool(black_to_move(trees.rows, trees.slots[tree, ROOT_ROW])) != bool(depth & 1 == 0)
    draw_score = -rules.draw_score if black_moved else rules.draw_score
    fix, wl_change, draw_change, left_change = 0, F0, F0, F0
    while True:
        if trees.nodes[node, KIND] != OPEN:
            wl, draw = np.float32(trees.means[node, WL]), np.float32(trees.means[node, DRAW])
            left = np.float32(trees.means[node, LEFT])
        elif rules.certainty and (wl < trees.nodes[node, LOWER] or wl > trees.nodes[node, UPPER]):
            wl = np.float32(min(max(wl, np.float32(trees.nodes[node, LOWER])), np.float32(trees.nodes[node, UPPER])))
            draw = F1 - abs(wl)
        add_visit(trees, node, wl, draw, left)
        if fix > 0 and trees.nodes[node, KIND] == OPEN:
            revalue(trees, node, wl_change, draw_change, left_change, fix)
        parent = trees.nodes[node, PARENT]
        if rules.batch > 1:
            trees.nodes[node, PENDING] = max(trees.nodes[node, PENDING] - 1, 0)
        if parent < 0:
            break
        refresh_edge(trees, node, draw_score)
        if trees.nodes[parent, KIND] != OPEN:
            fix = 0
        if spreading and parent != root and trees.nodes[parent, KIND] == OPEN:
            before = trees.nodes[parent, VISITS]
            old_wl, old_draw = np.float32(trees.means[parent, WL]), np.float32(trees.means[parent, DRAW])
            old_left = np.float32(trees.means[parent, LEFT])
            spreading, settled = spread_bounds(trees, rules, parent, left)
            if settled:
                fix = before
                wl_change = -np.float32(trees.means[parent, WL] - np.float64(old_wl))
                draw_change = np.float32(trees.means[parent, DRAW]) - old_draw
                left_change = np.float32(trees.means[parent, LEFT]) - old_left
        else:
            spreading = False
        node, wl, wl_change, draw_score = np.int64(parent), -wl, -wl_change, np.float32(-draw_score)
        left += F1
    count_leaf(trees, tree, depth)
    if trees.nodes[root, VISITS] >= trees.slots[tree, LIMIT] or (rules.certainty and solved(trees, root)):
        trees.slots[tree, STATE] = DONE


@inlined_kernel
def count_leaf(trees: Trees, tree: int, depth: int) -> None:
    """Keeps the depths of the leaves of this search."""
    trees.slots[tree, LEAVES] += 1
    trees.slots[tree, DEPTHS] += depth
    trees.slots[tree, DEEPEST] = max(trees.slots[tree, DEEPEST], depth)
