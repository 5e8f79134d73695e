"""The leaf of a visit, as kernels: the end of the game by rule, its moves, one ply of look-ahead, its priors."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from valuerepair.board.bits import popcount
from valuerepair.board.jit import inlined_kernel, kernel
from valuerepair.board.make import clock, insufficient_material, make, mark_repetition
from valuerepair.board.movegen import checkers, count_legal, legal
from valuerepair.board.rows import CLOCK_SHIFT, REPETITION, RIGHTS, SIXTEEN_BITS, STATE, THEM, US, Boards
from valuerepair.mcts.fastmath import NO_PRIOR, rough_exp, stored_prior
from valuerepair.mcts.lc0_order import order_as_generated, sort_as_lc0
from valuerepair.mcts.tree import (
    ARRANGED,
    COUNT,
    DRAW,
    EDGE,
    ENDED,
    FIRST,
    FIRST_ROW,
    FORCED,
    KIND,
    LEFT,
    LOWER,
    OPEN,
    PARENT,
    ROOT_ROW,
    TWO_FOLD,
    UNPROVEN,
    UPPER,
    USED_EDGES,
    WL,
    Rules,
    Trees,
)

ZERO = np.uint64(0)


@inlined_kernel
def draw_by_rule(rows: Boards, r: int, depth: int, two_fold: bool) -> int:
    """The kind of a node whose position, `depth` > 0 plies from the root, has legal moves (lc0's ExtendNode)."""
    if insufficient_material(rows, r) or clock(rows, r) >= 100:
        return ENDED
    seen = np.int64(rows[r, REPETITION] & SIXTEEN_BITS)
    if seen >= 2:
        return ENDED
    # A first repetition counts only where both occurrences lie inside the search.
    if seen == 1 and two_fold and depth >= 4 and depth >= np.int64(rows[r, REPETITION] >> CLOCK_SHIFT):
        return TWO_FOLD
    return OPEN


@inlined_kernel
def settle(trees: Trees, node: int, kind: int, wl: int, left: np.float32) -> None:
    """Gives a node a final value (lc0's MakeTerminal): `wl` is -1, 0 or 1, seen by the player who moved there.

    A move proven lost loses its prior, so that it draws no visits any more.
    """
    trees.nodes[node, KIND] = kind
    trees.means[node, WL], trees.means[node, DRAW] = np.float64(wl), 1.0 if wl == 0 else 0.0
    trees.means[node, LEFT] = np.float64(left)
    edge, parent = trees.nodes[node, EDGE], trees.nodes[node, PARENT]
    if kind != TWO_FOLD:
        trees.nodes[node, LOWER], trees.nodes[node, UPPER] = wl, wl
        if parent >= 0 and len(trees.certain):
            trees.certain[edge] = wl
    if wl < 0 and parent >= 0:
        trees.prior[edge] = NO_PRIOR


@inlined_kernel
def write_moves(trees: Trees, rules: Rules, tree: int, node: int, row: int) -> int:
    """Writes the legal moves of the position in `row` as edges of a node; returns how many there are."""
    first = tree * rules.edge_room + trees.slots[tree, USED_EDGES]
    count = legal(trees.rows, row, trees.move, first) - first
    if rules.lc0_floats:
        order_as_generated(trees, row, first, count)
    trees.nodes[node, FIRST], trees.nodes[node, COUNT] = first, count
    trees.slots[tree, USED_EDGES] += count
    if len(trees.certain):
        for edge in range(first, first + count):
            trees.certain[edge] = UNPROVEN
    return int(count)


@inlined_kernel
def extend(trees: Trees, rules: Rules, tree: int, node: int, depth: int) -> None:
    """Writes the moves of a node that is visited for the first time, or settles it where the game is over.

    Its position is in the row `depth` after the root's; there must be room for `MAX_MOVES` edges and one more row.
    """
    row = trees.slots[tree, ROOT_ROW] + depth
    count = write_moves(trees, rules, tree, node, row)
    if count == 0:
        settle(trees, node, ENDED, 1 if checkers(trees.rows, row) else 0, np.float32(0))
        return
    if depth > 0:
        kind = draw_by_rule(trees.rows, row, depth, rules.two_fold)
        if kind != OPEN:
            trees.slots[tree, USED_EDGES] -= count
            trees.nodes[node, COUNT] = 0
            left = np.int64(trees.rows[row, REPETITION] >> CLOCK_SHIFT) if kind == TWO_FOLD else 0
            settle(trees, node, kind, 0, np.float32(left))
            return
    if rules.lookahead:
        look_ahead(trees, rules, tree, node, depth)


@kernel
def look_ahead(trees: Trees, rules: Rules, tree: int, node: int, depth: int) -> None:
    """Finds the moves of a node that end the game, before any of them is visited; a mate settles the node."""
    row, first = trees.slots[tree, ROOT_ROW] + depth, trees.nodes[node, FIRST]
    lower, upper = -1, -1
    for edge in range(first, first + trees.nodes[node, COUNT]):
        make(trees.rows, row, row + 1, np.int64(trees.move[edge]))
        if count_legal(trees.rows, row + 1) == 0:
            trees.certain[edge] = 1 if checkers(trees.rows, row + 1) else 0
        else:
            mark_repetition(trees.rows, trees.slots[tree, FIRST_ROW], row + 1)
            if draw_by_rule(trees.rows, row + 1, depth + 1, False) == ENDED:
                trees.certain[edge] = 0
        proven = trees.certain[edge]
        lower = max(lower, -1 if proven == UNPROVEN else proven)
        upper = max(upper, 1 if proven == UNPROVEN else proven)
    if depth == 0:
        return
    if lower == upper:
        for edge in range(first, first + trees.nodes[node, COUNT]):
            trees.prior[edge] = np.float32(0)  # it gets none from the net
        settle(trees, node, ENDED, -upper, np.float32(1))
    else:
        trees.nodes[node, LOWER], trees.nodes[node, UPPER] = -upper, -lower


@inlined_kernel
def wants_probe(trees: Trees, rules: Rules, tree: int, depth: int) -> bool:
    """The position is one that tablebases know: few men, no castling rights, right after a capture or pawn move."""
    if rules.tablebase_men == 0 or depth == 0:
        return False
    rows, row = trees.rows, trees.slots[tree, ROOT_ROW] + depth
    if clock(rows, row) != 0 or rows[row, STATE] & RIGHTS:
        return False
    return bool(popcount(rows[row, US] | rows[row, THEM]) <= rules.tablebase_men)


@inlined_kernel
def set_priors(trees: Trees, rules: Rules, node: int, logits: NDArray[np.float32], offset: int) -> None:
    """softmax(logits / T) of the legal moves; logits[offset:] are in the order of the edges."""
    first, count = trees.nodes[node, FIRST], trees.nodes[node, COUNT]
    highest = logits[offset]
    for i in range(1, count):
        highest = max(highest, logits[offset + i])
    total, scale = np.float32(0), np.float32(1) / rules.temperature
    for i in range(count):
        power = (logits[offset + i] - highest) * scale
        p = rough_exp(power) if rules.lc0_floats else np.float32(math.exp(power))
        trees.prior[first + i] = p
        total += p
    scale = np.float32(1) / total if total > np.float32(0) else np.float32(1)
    for i in range(count):
        p = trees.prior[first + i] * scale
        trees.prior[first + i] = stored_prior(p) if rules.lc0_floats else p
    if rules.lc0_floats:
        sort_as_lc0(trees, first, count)
    trees.nodes[node, ARRANGED] = 0


@kernel
def force(trees: Trees, node: int) -> None:
    """Makes a node with a single move a link of a chain: it has no evaluation of its own."""
    trees.nodes[node, FORCED] = 1
    trees.nodes[node, ARRANGED] = 1
    trees.prior[trees.nodes[node, FIRST]] = np.float32(1)
