"""The leaf of a visit, as kernels: the end of the game by rule, its moves, one ply of look-ahead, its priors."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.jit import inlined_kernel, kernel
from valuerepair.chess.make import clock, insufficient_material, make, mark_repetition
from valuerepair.chess.movegen import checkers, count_legal, legal
from valuerepair.chess.rows import (
    CLOCK_SHIFT,
    KINGS,
    KNIGHTS,
    PAWNS,
    REPETITION,
    SIXTEEN_BITS,
    Boards,
)
from valuerepair.mcts import layout
from valuerepair.mcts.fastmath import NO_PRIOR, rough_exp, stored_prior
from valuerepair.mcts.layout import SearchRules, Trees

ZERO = np.uint64(0)


@inlined_kernel
def draw_by_rule(rows: Boards, r: int, depth: int, two_fold: bool) -> int:
    """The kind of a node whose position, `depth` > 0 plies from the root, has legal moves (lc0's ExtendNode)."""
    if insufficient_material(rows, r) or clock(rows, r) >= 100:
        return layout.ENDED
    repetitions = np.int64(rows[r, REPETITION] & SIXTEEN_BITS)
    if repetitions >= 2:
        return layout.ENDED
    # A first repetition counts only where both occurrences lie inside the search.
    if repetitions == 1 and two_fold and depth >= 4 and depth >= np.int64(rows[r, REPETITION] >> CLOCK_SHIFT):
        return layout.TWO_FOLD
    return layout.OPEN


@inlined_kernel
def settle(trees: Trees, node: int, kind: int, wl: int, plies_left: np.float32) -> None:
    """Gives a node a final value (lc0's MakeTerminal): `wl` is -1, 0 or 1, seen by the player who moved there.

    A move that is proven to lose gets no prior, so that it gets no more visits.
    """
    trees.nodes[node, layout.KIND] = kind
    trees.means[node, layout.WL], trees.means[node, layout.DRAW] = np.float64(wl), 1.0 if wl == 0 else 0.0
    trees.means[node, layout.LEFT] = np.float64(plies_left)
    edge, parent = trees.nodes[node, layout.EDGE], trees.nodes[node, layout.PARENT]
    if kind != layout.TWO_FOLD:
        trees.nodes[node, layout.LOWER], trees.nodes[node, layout.UPPER] = wl, wl
        if parent >= 0 and len(trees.certain):
            trees.certain[edge] = wl
    if wl < 0 and parent >= 0:
        trees.prior[edge] = NO_PRIOR


@inlined_kernel
def write_moves(trees: Trees, rules: SearchRules, tree: int, node: int, row: int) -> int:
    """Writes the legal moves of the position in `row` as edges of a node; returns how many there are."""
    first = tree * rules.edge_room + trees.slots[tree, layout.USED_EDGES]
    count = legal(trees.rows, row, trees.move, first) - first
    if rules.lc0_floats:
        order_as_generated(trees, row, first, count)
    trees.nodes[node, layout.FIRST], trees.nodes[node, layout.COUNT] = first, count
    trees.slots[tree, layout.USED_EDGES] += count
    if len(trees.certain):
        for edge in range(first, first + count):
            trees.certain[edge] = layout.UNPROVEN
    return int(count)


@inlined_kernel
def extend(trees: Trees, rules: SearchRules, tree: int, node: int, depth: int) -> None:
    """Writes the moves of a node that is visited for the first time, or settles it where the game is over.

    Its position is in the row `depth` after the root's; there must be room for `MAX_MOVES` edges and one more row.
    """
    row = trees.slots[tree, layout.ROOT_ROW] + depth
    count = write_moves(trees, rules, tree, node, row)
    if count == 0:
        settle(trees, node, layout.ENDED, 1 if checkers(trees.rows, row) else 0, np.float32(0))
        return
    if depth > 0:
        kind = draw_by_rule(trees.rows, row, depth, rules.two_fold)
        if kind != layout.OPEN:
            trees.slots[tree, layout.USED_EDGES] -= count
            trees.nodes[node, layout.COUNT] = 0
            plies_left = np.int64(trees.rows[row, REPETITION] >> CLOCK_SHIFT) if kind == layout.TWO_FOLD else 0
            settle(trees, node, kind, 0, np.float32(plies_left))
            return
    if rules.lookahead:
        look_ahead(trees, tree, node, depth)


@kernel
def look_ahead(trees: Trees, tree: int, node: int, depth: int) -> None:
    """Finds the moves of a node that end the game, before any of them is visited; a mate settles the node."""
    row, first = trees.slots[tree, layout.ROOT_ROW] + depth, trees.nodes[node, layout.FIRST]
    lower, upper = -1, -1
    for edge in range(first, first + trees.nodes[node, layout.COUNT]):
        make(trees.rows, row, row + 1, np.int64(trees.move[edge]))
        if count_legal(trees.rows, row + 1) == 0:
            trees.certain[edge] = 1 if checkers(trees.rows, row + 1) else 0
        else:
            mark_repetition(trees.rows, trees.slots[tree, layout.FIRST_ROW], row + 1)
            if draw_by_rule(trees.rows, row + 1, depth + 1, False) == layout.ENDED:
                trees.certain[edge] = 0
        proven = trees.certain[edge]
        lower = max(lower, -1 if proven == layout.UNPROVEN else proven)
        upper = max(upper, 1 if proven == layout.UNPROVEN else proven)
    if depth == 0:
        return
    if lower == upper:
        for edge in range(first, first + trees.nodes[node, layout.COUNT]):
            trees.prior[edge] = np.float32(0)  # the net gives it no prior
        settle(trees, node, layout.ENDED, -upper, np.float32(1))
    else:
        trees.nodes[node, layout.LOWER], trees.nodes[node, layout.UPPER] = -upper, -lower


@inlined_kernel
def set_priors(trees: Trees, rules: SearchRules, node: int, logits: NDArray[np.float32], offset: int) -> None:
    """softmax(logits / T) of the legal moves; logits[offset:] are in the order of the edges."""
    first, count = trees.nodes[node, layout.FIRST], trees.nodes[node, layout.COUNT]
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
    trees.nodes[node, layout.ARRANGED] = 0


@kernel
def force(trees: Trees, node: int) -> None:
    """Makes a node with a single move a link of a chain, which the net does not evaluate."""
    trees.nodes[node, layout.FORCED] = 1
    trees.nodes[node, layout.ARRANGED] = 1
    trees.prior[trees.nodes[node, layout.FIRST]] = np.float32(1)


ONE = np.uint64(1)
SMALL = 16  # std::sort leaves segments up to this long to the insertion sort at its end


@kernel
def generation_rank(rows: Boards, r: int, move: int) -> int:
    """When lc0's GeneratePseudolegalMoves (chess/board.cc) generates a legal move of row r; lower is earlier."""
    origin, target = move & 63, move >> 6 & 63
    piece, step = ONE << np.uint64(origin), target - origin
    place = target
    if piece & rows[r, KINGS]:
        if step == 2 or step == -2:  # castling comes last, queenside first
            place = 64 + (step > 0)
    elif piece & rows[r, PAWNS]:
        promotion = move >> 12
        sideways = (target & 7) - (origin & 7)
        place = 0 if sideways == 0 else 8 if sideways < 0 else 16
        place += 4 - promotion if promotion else (step == 16)
    elif not piece & rows[r, KNIGHTS] and step & 7 and origin >> 3 != target >> 3:
        place = 64 + target  # a queen's moves as a bishop come after those as a rook
    return (origin << 8) + place


@kernel
def order_as_generated(trees: Trees, row: int, first: int, count: int) -> None:
    """Brings the moves of new edges into the order in which lc0 generates them."""
    for i in range(first + 1, first + count):
        move, edge = trees.move[i], i
        rank = generation_rank(trees.rows, row, np.int64(move))
        while edge > first and generation_rank(trees.rows, row, np.int64(trees.move[edge - 1])) > rank:
            trees.move[edge] = trees.move[edge - 1]
            edge -= 1
        trees.move[edge] = move


@kernel
def swap(trees: Trees, a: int, b: int) -> None:
    """Exchanges two new edges."""
    trees.move[a], trees.move[b] = trees.move[b], trees.move[a]
    trees.prior[a], trees.prior[b] = trees.prior[b], trees.prior[a]
    if len(trees.certain):
        trees.certain[a], trees.certain[b] = trees.certain[b], trees.certain[a]


@kernel
def partition(trees: Trees, first: int, last: int) -> int:
    """libstdc++'s __unguarded_partition_pivot by descending prior; returns where the second part begins."""
    prior = trees.prior
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    if prior[a] > prior[b]:
        median = b if prior[b] > prior[c] else (c if prior[a] > prior[c] else a)
    else:
        median = a if prior[a] > prior[c] else (c if prior[b] > prior[c] else b)
    swap(trees, first, median)
    pivot, low, high = prior[first], first + 1, last
    while True:
        while prior[low] > pivot:
            low += 1
        high -= 1
        while pivot > prior[high]:
            high -= 1
        if low >= high:
            return low
        swap(trees, low, high)
        low += 1


@kernel
def sort_as_lc0(trees: Trees, first: int, count: int) -> None:
    """Sorts new edges by descending prior as libstdc++'s std::sort does, which lc0 calls and which is not stable.

    Unlike std::sort it never switches to heap sort after too many unlucky partitions: no position's moves need that.
    """
    # The column of children, which new edges do not have, holds the ends of the segments to sort.
    begin, level = first, 0
    trees.child[first] = first + count
    while level >= 0:
        end = np.int64(trees.child[first + level])
        if end - begin > SMALL:
            level += 1
            trees.child[first + level] = partition(trees, begin, end)
        else:
            begin, level = end, level - 1
    for i in range(first + 1, first + count):
        edge = i
        while edge > first and trees.prior[edge] > trees.prior[edge - 1]:
            swap(trees, edge, edge - 1)
            edge -= 1
