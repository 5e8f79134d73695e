"""Backs up the value of a leaf to the root, as kernels: running means, and bounds that spread by minimax."""

from __future__ import annotations

import numpy as np

from valuerepair.chess.jit import inlined_kernel, kernel
from valuerepair.chess.make import black_to_move
from valuerepair.mcts import layout
from valuerepair.mcts.expand import settle
from valuerepair.mcts.layout import SearchRules, Trees

F0, F1 = np.float32(0), np.float32(1)
# W - L, seen by the player who moved to the leaf; share of draws; plies to the end.
LeafValue = tuple[np.float32, np.float32, np.float32]


@kernel
def begin_visit(trees: Trees, node: int) -> None:
    """Counts a pending visit in a node and in all nodes above it."""
    while node >= 0:
        trees.nodes[node, layout.PENDING] += 1
        node = np.int64(trees.nodes[node, layout.PARENT])


@kernel
def end_visit(trees: Trees, node: int) -> None:
    """Takes back the pending visit of `begin_visit`, when its value has arrived."""
    while node >= 0:
        trees.nodes[node, layout.PENDING] -= 1
        node = np.int64(trees.nodes[node, layout.PARENT])


@inlined_kernel
def worth_of_draw(trees: Trees, rules: SearchRules, tree: int, depth: int) -> np.float32:
    """What a draw is worth to the player who moved to a node of this depth."""
    black_moved = bool(black_to_move(trees.rows, trees.slots[tree, layout.ROOT_ROW])) != bool(depth & 1 == 0)
    result: np.float32 = -rules.draw_score if black_moved else rules.draw_score
    return result


@inlined_kernel
def has_bounds(trees: Trees, node: int) -> bool:
    """The node's value is final or has bounds, so that its parent's bounds may change."""
    return bool(
        trees.nodes[node, layout.KIND] != layout.OPEN
        or trees.nodes[node, layout.LOWER] > -1
        or trees.nodes[node, layout.UPPER] < 1
    )


@inlined_kernel
def add_visit(trees: Trees, node: int, wl: np.float32, draw: np.float32, plies_left: np.float32) -> None:
    """Adds a visit to the running means (lc0's FinalizeScoreUpdate)."""
    visits = trees.nodes[node, layout.VISITS] + 1
    trees.means[node, layout.WL] += (np.float64(wl) - trees.means[node, layout.WL]) / np.float64(visits)
    before = np.float32(trees.means[node, layout.DRAW])
    trees.means[node, layout.DRAW] = np.float32(before + (draw - before) / np.float32(visits))
    before = np.float32(trees.means[node, layout.LEFT])
    trees.means[node, layout.LEFT] = np.float32(before + (plies_left - before) / np.float32(visits))
    trees.nodes[node, layout.VISITS] = visits


@inlined_kernel
def revalue(trees: Trees, node: int, wl: np.float32, draw: np.float32, plies_left: np.float32, visits: int) -> None:
    """Corrects the means for `visits` visits below, whose values changed by these amounts (lc0's AdjustForTerminal)."""
    total, n = trees.nodes[node, layout.VISITS], np.float32(visits)
    trees.means[node, layout.WL] += np.float64(n * wl / np.float32(total))
    trees.means[node, layout.DRAW] = np.float32(
        np.float32(trees.means[node, layout.DRAW]) + n * draw / np.float32(total)
    )
    trees.means[node, layout.LEFT] = np.float32(
        np.float32(trees.means[node, layout.LEFT]) + n * plies_left / np.float32(total)
    )


@inlined_kernel
def refresh_edge(trees: Trees, node: int, draw_score: np.float32) -> None:
    """Updates visits and Q of the edge to a node; `draw_score` is that of the player who moved there."""
    edge = trees.nodes[node, layout.EDGE]
    drawn = np.float32(draw_score * np.float32(trees.means[node, layout.DRAW]))
    trees.visits[edge] = trees.nodes[node, layout.VISITS]
    trees.q[edge] = np.float32(trees.means[node, layout.WL] + np.float64(drawn))


@inlined_kernel
def spread_bounds(trees: Trees, node: int, plies_left: np.float32) -> tuple[bool, bool]:
    """Sets the bounds of a node from those of its moves (lc0's MaybeSetBounds).

    Returns whether the node now has bounds, and whether they settle it. `plies_left` counts the plies to the end after
    the move that was just proven.
    """
    lower, upper, longest = -1, -1, F0
    first, opened, count = (
        trees.nodes[node, layout.FIRST],
        trees.nodes[node, layout.OPENED],
        trees.nodes[node, layout.COUNT],
    )
    for edge in range(first, first + opened):
        child = trees.child[edge]
        low, high = trees.nodes[child, layout.LOWER], trees.nodes[child, layout.UPPER]
        lower, upper = max(lower, low), max(upper, high)
        if low == 1:
            break
        if high == -1:
            longest = max(longest, np.float32(trees.means[child, layout.LEFT]))
    if lower < 1 and len(trees.certain):
        for edge in range(first + opened, first + count):
            proven = trees.certain[edge]
            lower = max(lower, -1 if proven == layout.UNPROVEN else proven)
            upper = max(upper, 1 if proven == layout.UNPROVEN else proven)
    elif lower < 1 and count > opened:
        upper = 1
    if lower == -1 and upper == 1:
        return False, False
    if lower == 1:
        upper = 1
    if lower == upper:
        plies = max(longest, plies_left) if upper == -1 else plies_left
        settle(trees, node, layout.ENDED, -upper, plies + F1)
        return True, True
    trees.nodes[node, layout.LOWER], trees.nodes[node, layout.UPPER] = -upper, -lower
    return True, False


@kernel
def recompute_mean(trees: Trees, node: int) -> None:
    """Recomputes the visits of a node and its mean, within its bounds, from its own value and its moves."""
    wl, draw, visits = 0.0, 0.0, 0
    if not trees.nodes[node, layout.FORCED]:
        wl, draw, visits = trees.means[node, layout.OWN], trees.nodes[node, layout.OWN_DRAW] / layout.DRAW_UNIT, 1
    first = np.int64(trees.nodes[node, layout.FIRST])
    for edge in range(first, first + trees.nodes[node, layout.OPENED]):
        child, n = np.int64(trees.child[edge]), np.int64(trees.visits[edge])
        wl, draw, visits = (
            wl - n * trees.means[child, layout.WL],
            draw + n * trees.means[child, layout.DRAW],
            visits + n,
        )
    trees.nodes[node, layout.VISITS] = visits
    trees.means[node, layout.WL], trees.means[node, layout.DRAW] = wl / max(visits, 1), draw / max(visits, 1)
    clamp_mean(trees, node)


@inlined_kernel
def clamp_mean(trees: Trees, node: int) -> None:
    """Brings the mean of a node into its bounds; a mean beyond a bound becomes that result."""
    wl = trees.means[node, layout.WL]
    bound = min(max(wl, np.float64(trees.nodes[node, layout.LOWER])), np.float64(trees.nodes[node, layout.UPPER]))
    if bound != wl:
        trees.means[node, layout.WL], trees.means[node, layout.DRAW] = bound, 1.0 - abs(bound)


@inlined_kernel
def solved(trees: Trees, root: int) -> bool:
    """A move of the root is proven a win, or all of them are proven."""
    first, all_proven = trees.nodes[root, layout.FIRST], True
    for edge in range(first, first + trees.nodes[root, layout.COUNT]):
        if trees.certain[edge] == 1:
            return True
        all_proven = all_proven and trees.certain[edge] != layout.UNPROVEN
    return all_proven


@inlined_kernel
def back_up_means(trees: Trees, rules: SearchRules, tree: int, leaf: int, depth: int, value: LeafValue) -> None:
    """Updates the means of a leaf and of all nodes above it, as lc0 does (DoBackupUpdateSingleNode).

    The first visit of a proven node spreads bounds upwards; a node that they settle gets its earlier visits revalued in
    every node above.
    """
    root, node, (wl, draw, plies_left) = tree * rules.node_room, leaf, value
    spreading = rules.sticky and trees.nodes[leaf, layout.VISITS] == 0 and has_bounds(trees, leaf)
    draw_score = worth_of_draw(trees, rules, tree, depth)
    revalued, wl_change, draw_change, left_change = 0, F0, F0, F0  # the number of earlier visits, and their changes
    while True:
        if trees.nodes[node, layout.KIND] != layout.OPEN:
            wl, draw = np.float32(trees.means[node, layout.WL]), np.float32(trees.means[node, layout.DRAW])
            plies_left = np.float32(trees.means[node, layout.LEFT])
        add_visit(trees, node, wl, draw, plies_left)
        if revalued > 0 and trees.nodes[node, layout.KIND] == layout.OPEN:
            revalue(trees, node, wl_change, draw_change, left_change, revalued)
        parent = trees.nodes[node, layout.PARENT]
        if parent < 0:
            break
        refresh_edge(trees, node, draw_score)
        if trees.nodes[parent, layout.KIND] != layout.OPEN:
            revalued = 0
        if spreading and parent != root and trees.nodes[parent, layout.KIND] == layout.OPEN:
            before = trees.nodes[parent, layout.VISITS]
            old_wl, old_draw = np.float32(trees.means[parent, layout.WL]), np.float32(trees.means[parent, layout.DRAW])
            old_left = np.float32(trees.means[parent, layout.LEFT])
            spreading, settled = spread_bounds(trees, parent, plies_left)
            if settled:
                revalued = before
                wl_change = -np.float32(trees.means[parent, layout.WL] - np.float64(old_wl))
                draw_change = np.float32(trees.means[parent, layout.DRAW]) - old_draw
                left_change = np.float32(trees.means[parent, layout.LEFT]) - old_left
        else:
            spreading = False
        node, wl, wl_change, draw_score = np.int64(parent), -wl, -wl_change, np.float32(-draw_score)
        plies_left += F1


@kernel
def back_up_certain(trees: Trees, rules: SearchRules, tree: int, leaf: int, depth: int, value: LeafValue) -> None:
    """Updates the means of a leaf and of all nodes above it, with certainty.

    A node's mean is the average of its own value and of its moves' means, weighted by visits and clamped to its bounds.
    So a proof counts at once in every node above, also for all earlier visits.
    """
    root, node, parent = tree * rules.node_room, np.int64(leaf), np.int64(trees.nodes[leaf, layout.PARENT])
    wl, draw, plies_left = value
    visits, plies = trees.nodes[leaf, layout.VISITS], np.float64(plies_left)
    draw_score = worth_of_draw(trees, rules, tree, depth)
    spreading = visits == 0 and has_bounds(trees, leaf)
    wl_sum, draw_sum = visits * trees.means[leaf, layout.WL], visits * trees.means[leaf, layout.DRAW]
    trees.nodes[leaf, layout.VISITS] = visits + 1
    if trees.nodes[leaf, layout.KIND] == layout.OPEN:
        trees.means[leaf, layout.WL], trees.means[leaf, layout.DRAW] = np.float64(wl), np.float64(draw)
        trees.means[leaf, layout.LEFT] = plies
        clamp_mean(trees, node)
    while parent >= 0:
        refresh_edge(trees, node, draw_score)
        visits = trees.nodes[node, layout.VISITS]
        wl_change, draw_change = (
            visits * trees.means[node, layout.WL] - wl_sum,
            visits * trees.means[node, layout.DRAW] - draw_sum,
        )
        if trees.nodes[node, layout.KIND] != layout.OPEN:
            plies = trees.means[node, layout.LEFT]
        node, visits, draw_score = parent, trees.nodes[parent, layout.VISITS], np.float32(-draw_score)
        wl_sum, draw_sum = visits * trees.means[node, layout.WL], visits * trees.means[node, layout.DRAW]
        spreading = spreading and node != root and trees.nodes[node, layout.KIND] == layout.OPEN
        if spreading:
            spreading, _ = spread_bounds(trees, node, np.float32(plies))
        trees.nodes[node, layout.VISITS] = visits + 1
        plies += 1.0
        if trees.nodes[node, layout.KIND] == layout.OPEN:
            trees.means[node, layout.LEFT] += (plies - trees.means[node, layout.LEFT]) / (visits + 1)
            if has_bounds(trees, node):
                recompute_mean(trees, node)  # clamped means do not give the sum of the values
            else:
                trees.means[node, layout.WL] = (wl_sum - wl_change) / (visits + 1)
                trees.means[node, layout.DRAW] = (draw_sum + draw_change) / (visits + 1)
        parent = np.int64(trees.nodes[node, layout.PARENT])


@inlined_kernel
def back_up(trees: Trees, rules: SearchRules, tree: int, leaf: int, depth: int, value: LeafValue) -> None:
    """Adds a visit with this value to a leaf and all nodes above it.

    The tree is `DONE` when its root has reached its limit of visits, or with certainty when its value is proven.
    """
    root, proven = tree * rules.node_room, False
    if rules.batch > 1:
        end_visit(trees, leaf)
    if rules.certainty:
        back_up_certain(trees, rules, tree, leaf, depth, value)
        proven = solved(trees, root)
    else:
        back_up_means(trees, rules, tree, leaf, depth, value)
    count_leaf(trees, tree, depth)
    if proven or trees.nodes[root, layout.VISITS] >= trees.slots[tree, layout.LIMIT]:
        trees.slots[tree, layout.STATE] = layout.DONE


@inlined_kernel
def count_leaf(trees: Trees, tree: int, depth: int) -> None:
    """Adds a leaf to the number and depths of the leaves of this search."""
    trees.slots[tree, layout.LEAVES] += 1
    trees.slots[tree, layout.DEPTHS] += depth
    trees.slots[tree, layout.DEEPEST] = max(trees.slots[tree, layout.DEEPEST], depth)
