"""Walks from the root to a leaf, as kernels: PUCT as in lc0's classic search, search-contempt, virtual visits."""

from __future__ import annotations

import math

import numpy as np

from valuerepair.chess.jit import inlined_kernel, kernel
from valuerepair.chess.make import black_to_move, make, mark_repetition
from valuerepair.mcts import layout
from valuerepair.mcts.fastmath import rough_log
from valuerepair.mcts.layout import SearchRules, Trees

ALL_PROVEN, IN_FLIGHT, NO_NODES, NO_ROWS = -1, -2, -3, -4

LOWEST = np.float32(-3.4e38)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@kernel
def random_word(state: np.uint64) -> np.uint64:
    """splitmix64: the random number that belongs to a state; the next state is `state` + `GOLDEN`."""
    word = (state ^ state >> np.uint64(30)) * MIX_1
    word = (word ^ word >> np.uint64(27)) * MIX_2
    result: np.uint64 = word ^ word >> np.uint64(31)
    return result


@inlined_kernel
def cpuct(rules: SearchRules, visits: int, at_root: bool) -> np.float32:
    """lc0's ComputeCpuct: init + factor * ln((N + base) / base)."""
    init, base, factor = rules.cpuct, rules.cpuct_base, rules.cpuct_factor
    if at_root:
        init, base, factor = rules.root_cpuct, rules.root_cpuct_base, rules.root_cpuct_factor
    if factor == np.float32(0):
        return init
    ratio = (np.float32(visits) + base) / base
    log = rough_log(ratio) if rules.lc0_floats else np.float32(math.log(ratio))
    result: np.float32 = np.float32(init + factor * log)
    return result


@inlined_kernel
def closed(trees: Trees, rules: SearchRules, edge: int, at_root: bool) -> bool:
    """Whether an edge is proven, so that no visit goes there. At the root a draw stays open: its visits count."""
    if not rules.certainty:
        return False
    proven = trees.certain[edge]
    return bool(proven != layout.UNPROVEN and not (at_root and proven == 0))


@inlined_kernel
def arrange(trees: Trees, rules: SearchRules, node: int, at_root: bool) -> bool:
    """Moves the unopened edge of the highest prior right behind the opened ones; False if no edge can be opened."""
    first, count, opened = (
        trees.nodes[node, layout.FIRST],
        trees.nodes[node, layout.COUNT],
        trees.nodes[node, layout.OPENED],
    )
    if trees.nodes[node, layout.ARRANGED] > opened:
        return True
    begin, best, highest = first + opened, -1, np.float32(-1)
    for edge in range(begin, first + count):
        if trees.prior[edge] > highest and not closed(trees, rules, edge, at_root):
            best, highest = edge, trees.prior[edge]
    if best < 0:
        return False
    # A move, not a swap: equal priors stay in the order in which the moves were generated.
    move = trees.move[best]
    for edge in range(best, begin, -1):
        trees.move[edge], trees.prior[edge] = trees.move[edge - 1], trees.prior[edge - 1]
    trees.move[begin], trees.prior[begin] = move, highest
    if len(trees.certain):
        proven = trees.certain[best]
        for edge in range(best, begin, -1):
            trees.certain[edge] = trees.certain[edge - 1]
        trees.certain[begin] = proven
    trees.nodes[node, layout.ARRANGED] = opened + 1
    return True


@inlined_kernel
def first_play_urgency(
    trees: Trees, rules: SearchRules, node: int, draw_score: np.float32, at_root: bool, visited: np.float32
) -> np.float32:
    """The value of a move without visits (lc0's GetFpu); `visited` is the sum of the priors of moves with visits."""
    value, absolute = rules.fpu, rules.fpu_absolute
    if at_root:
        value, absolute = rules.root_fpu, rules.root_fpu_absolute
    if absolute:
        return value
    own = np.float32(
        trees.means[node, layout.WL] + np.float64(np.float32(-draw_score * np.float32(trees.means[node, layout.DRAW])))
    )
    result: np.float32 = np.float32(-own - value * np.float32(math.sqrt(visited)))
    return result


@inlined_kernel
def moves_left_utility(trees: Trees, rules: SearchRules, node: int, child: int, q: np.float32) -> np.float32:
    """What a shorter win or a longer loss adds to the Q of a move with visits (lc0's MEvaluator)."""
    longer = rules.left_slope * (
        np.float32(trees.means[child, layout.LEFT]) - np.float32(trees.means[node, layout.LEFT])
    )
    longer = min(max(longer, -rules.left_effect), rules.left_effect) * np.float32(math.copysign(1.0, -q))
    size, threshold = abs(q), rules.left_threshold
    if np.float32(0) < threshold < np.float32(1):
        size = max(np.float32(0), size - threshold) / (np.float32(1) - threshold)
    constant, linear, square = rules.left_factors
    result: np.float32 = np.float32(longer * (constant + linear * size + square * size * size))
    return result


@inlined_kernel
def puct(trees: Trees, rules: SearchRules, node: int, draw_score: np.float32, at_root: bool) -> int:
    """The edge of the highest Q + U; -1 if all are proven. Ties go to the edge of the higher prior, as in lc0.

    `draw_score` is what a draw is worth to the player to move. With certainty and a proven draw it skips moves that
    can no longer win (Cazenave & Saffidine, Score Bounded Monte-Carlo Tree Search, 2010).
    """
    first, opened = trees.nodes[node, layout.FIRST], trees.nodes[node, layout.OPENED]
    visits = trees.nodes[node, layout.VISITS]
    mult = np.float32(np.float64(cpuct(rules, visits, at_root)) * math.sqrt(np.float64(max(visits - 1, 1))))
    visited = np.float32(0)
    for edge in range(first, first + opened):
        if trees.visits[edge] > 0:
            visited += trees.prior[edge]
    fpu = first_play_urgency(trees, rules, node, draw_score, at_root, visited)
    drawn = rules.certainty and not at_root and trees.nodes[node, layout.UPPER] <= 0
    hurried = rules.moves_left and abs(np.float32(trees.means[node, layout.WL])) > rules.left_threshold
    best, highest = -1, LOWEST
    for edge in range(first, first + opened):
        if closed(trees, rules, edge, at_root) or (drawn and trees.nodes[trees.child[edge], layout.UPPER] <= 0):
            continue
        started = trees.visits[edge]
        value = trees.q[edge] if started > 0 else fpu
        if hurried and started > 0:
            value += moves_left_utility(trees, rules, node, trees.child[edge], value)
        if rules.batch > 1:
            started += trees.nodes[trees.child[edge], layout.PENDING]
        score = trees.prior[edge] * mult / np.float32(1 + started) + value
        if score > highest:
            best, highest = edge, score
    if opened < trees.nodes[node, layout.COUNT] and arrange(trees, rules, node, at_root):
        edge = first + opened
        if trees.prior[edge] * mult + fpu > highest:
            best = edge
    return best


@kernel
def freeze(trees: Trees, node: int) -> None:
    """Stores how the visits of a node are spread over its moves."""
    first = trees.nodes[node, layout.FIRST]
    for edge in range(first, first + trees.nodes[node, layout.OPENED]):
        trees.frozen[edge] = trees.visits[edge]
    trees.nodes[node, layout.FROZEN] = trees.nodes[node, layout.OPENED]


@kernel
def sampled(trees: Trees, rules: SearchRules, tree: int, node: int) -> int:
    """An edge that is drawn by the frozen visits; -1 if all edges with such visits are proven."""
    first, total = trees.nodes[node, layout.FIRST], 0
    last = first + trees.nodes[node, layout.FROZEN]
    for edge in range(first, last):
        if not closed(trees, rules, edge, False):
            total += trees.frozen[edge]
    if total == 0:
        return -1
    state = np.uint64(trees.slots[tree, layout.RANDOM]) + GOLDEN
    trees.slots[tree, layout.RANDOM] = np.int64(state)
    remaining = np.int64((random_word(state) >> np.uint64(11)) % np.uint64(total))
    for edge in range(first, last):
        if not closed(trees, rules, edge, False):
            remaining -= trees.frozen[edge]
            if remaining < 0:
                return edge
    return -1


@inlined_kernel
def choose_edge(trees: Trees, rules: SearchRules, tree: int, node: int, depth: int, draw_score: np.float32) -> int:
    """The edge that the next visit takes; -1 if all are proven.

    With search-contempt (arXiv 2504.07757) an opponent's node, at odd depth, is frozen after n_scl visits to its moves.
    """
    if rules.n_scl > 0 and depth & 1 and trees.nodes[node, layout.VISITS] > rules.n_scl:
        if not trees.nodes[node, layout.FROZEN]:
            freeze(trees, node)
        edge = sampled(trees, rules, tree, node)
        if edge >= 0:
            return edge
    return puct(trees, rules, node, draw_score, depth == 0)


@inlined_kernel
def new_node(trees: Trees, rules: SearchRules, tree: int, parent: int, edge: int) -> int:
    """Makes the node behind the first unopened edge of `parent`; with parent -1 the root. The tree must have room."""
    node: int = tree * rules.node_room + trees.slots[tree, layout.USED_NODES]
    trees.slots[tree, layout.USED_NODES] += 1
    for column in range(layout.FROZEN + 1):
        trees.nodes[node, column] = 0
    trees.nodes[node, layout.PARENT], trees.nodes[node, layout.EDGE] = parent, edge
    trees.nodes[node, layout.LOWER], trees.nodes[node, layout.UPPER] = -1, 1
    trees.means[node, layout.WL], trees.means[node, layout.DRAW], trees.means[node, layout.LEFT] = 0.0, 0.0, 0.0
    trees.means[node, layout.OWN] = np.nan
    if parent >= 0:
        trees.nodes[parent, layout.OPENED] += 1
        trees.child[edge], trees.visits[edge], trees.q[edge] = node, 0, np.float32(0)
        if len(trees.frozen):
            trees.frozen[edge] = 0
    return node


@inlined_kernel
def step_down(trees: Trees, tree: int, edge: int, row: int) -> None:
    """Plays the move of an edge from the position in row `row` to the next row."""
    make(trees.rows, row, row + 1, np.int64(trees.move[edge]))
    mark_repetition(trees.rows, trees.slots[tree, layout.FIRST_ROW], row + 1)


@inlined_kernel
def descend(trees: Trees, rules: SearchRules, tree: int) -> tuple[int, int]:
    """Walks to the node of the next visit, making it if needed; returns it and its depth.

    The positions of the line are then in the rows after the root's. Instead of a node it returns `ALL_PROVEN` when
    all moves are proven, `IN_FLIGHT` when the leaf is already being evaluated (virtual visits), and `NO_NODES` or
    `NO_ROWS` when the tree has no room; in that case only rows have changed.
    """
    random = trees.slots[tree, layout.RANDOM]
    node, depth, row = tree * rules.node_room, 0, trees.slots[tree, layout.ROOT_ROW]
    if trees.nodes[node, layout.VISITS] == 0:
        return (node if trees.nodes[node, layout.PENDING] == 0 else IN_FLIGHT), 0
    draw_score = -rules.draw_score if black_to_move(trees.rows, row) else rules.draw_score
    last_row = (tree + 1) * rules.row_room - 1 - layout.SPARE_ROWS
    while True:
        if row == last_row:
            trees.slots[tree, layout.RANDOM] = random
            return NO_ROWS, depth
        edge = choose_edge(trees, rules, tree, node, depth, draw_score)
        if edge < 0:
            return ALL_PROVEN, depth
        step_down(trees, tree, edge, row)
        row, depth, draw_score = row + 1, depth + 1, np.float32(-draw_score)
        if edge >= trees.nodes[node, layout.FIRST] + trees.nodes[node, layout.OPENED]:
            if trees.slots[tree, layout.USED_NODES] == rules.node_room:
                trees.slots[tree, layout.RANDOM] = random
                return NO_NODES, depth
            return new_node(trees, rules, tree, node, edge), depth
        node = np.int64(trees.child[edge])
        if trees.nodes[node, layout.KIND] != layout.OPEN:
            return node, depth
        if trees.nodes[node, layout.VISITS] == 0 and not trees.nodes[node, layout.FORCED]:
            return (node if trees.nodes[node, layout.PENDING] == 0 else IN_FLIGHT), depth
